//! The cases on the rate: as many requests as were asked for, also where it has a fraction.

use std::time::Duration;

use target::TargetConfig;

use super::{Case, Finding, Judged, at_a_rate};
use crate::tool::{Arrivals, Load, Mode, Tool};
use crate::truth::Band;

/// The rate offered, with a fraction.
pub(super) const RATE: Case = Case {
    name: "rate",
    holds: "As many requests reach the target as the rate asks for, 437.5 per second.",
    truth: "rate · duration, against the requests that the target's ledger counts",
    tolerance: "0.5 % and one request; 4·√n if the tool says that arrivals are Poisson",
    reply: "Rates are whole numbers for each thread or connection, and the documentation says so.",
    load: Load::at(437.5, 10, 6),
    mode: at_a_fraction,
    target: prompt,
    judge: |of| vec![offered(of)],
    ..Case::NONE
};

/// A rate below the number of threads and connections.
pub(super) const LOW_RATE: Case = Case {
    name: "low-rate",
    holds: "The same below the number of threads, at 1.5 per second.",
    load: Load::at(1.5, 10, 8),
    ..RATE
};

/// What a target that answers soon holds each request for, and in ms.
pub(super) const BASE: Duration = Duration::from_millis(1);
pub(super) const BASE_MS: f64 = 1.0;

/// A target that answers soon.
pub(super) fn prompt(config: TargetConfig, _: f64) -> TargetConfig {
    TargetConfig { base_latency: BASE, ..config }
}

/// A rate with a fraction, if the tool can keep one.
fn at_a_fraction(tool: &Tool) -> Result<Mode, String> {
    match tool.has_whole_rates {
        true => Err("it takes only whole rates".to_owned()),
        false => at_a_rate(tool),
    }
}

/// The requests that reached the target, against the rate.
pub(super) fn offered(of: &Judged) -> Finding {
    let truth = of.load.rate * f64::from(of.load.seconds);
    let reach = match of.tool.arrivals {
        Some(Arrivals::Poisson) => 4.0 * truth.sqrt(),
        Some(Arrivals::Constant) | None => 0.005 * truth + 1.0,
    };
    let band = Band { low: (truth - reach).max(0.0), truth, high: truth + reach };
    Finding::count("requests at the target", of.ledger.received as f64, band)
}
