//! The cases on counts: the rate offered, every request accounted for, failures told apart.

use std::time::Duration;

use target::TargetConfig;

use super::{Case, Finding, Judged, at_a_rate, closed_first};
use crate::tool::{Arrivals, Load};
use crate::truth::Band;

/// The rate offered, with a fraction.
pub(super) const RATE: Case = Case {
    name: "rate",
    holds: "As many requests reach the target as the rate asks for, 437.5 per second.",
    truth: "rate · duration, against the requests that the target's ledger counts",
    tolerance: "0.5 % and one request; 4·√n if the tool says that arrivals are Poisson",
    load: Load { rate: 437.5, connections: 10, seconds: 6 },
    mode: at_a_rate,
    figures: &[],
    target: prompt,
    judge: offered,
};

/// A rate below the number of threads and connections.
pub(super) const LOW_RATE: Case = Case {
    name: "low-rate",
    holds: "The same below the number of threads, at 1.5 per second.",
    load: Load { rate: 1.5, connections: 10, seconds: 8 },
    ..RATE
};

/// Every request is accounted for.
pub(super) const REQUESTS: Case = Case {
    name: "requests",
    holds: "sent = answered + failed + open: each request has an outcome, also those that are open \
            at the end because the target holds each for 0.4 s.",
    truth: "the requests that the ledger counts as received, and as answered",
    tolerance: "none for the sum; for the answered, the last answer of each connection, which may \
                still be under way",
    load: Load { rate: 80.0, connections: 40, seconds: 3 },
    mode: closed_first,
    figures: &["answered"],
    target: |config, _| TargetConfig { base_latency: Duration::from_millis(400), ..config },
    judge: |of| {
        let (ledger, figures) = (of.ledger, of.figures);
        let (received, answered) = (ledger.received as f64, ledger.answered as f64);
        let exactly = |truth| Band { low: truth, truth, high: truth };
        let last = Band { low: answered - connections(of), truth: answered, high: answered };
        let all = [
            figures.sent.map(|sent| Finding::count("sent", sent, exactly(received))),
            figures.answered.map(|found| Finding::count("answered", found, last)),
            figures
                .accounted()
                .map(|found| Finding::count("answered + failed + open", found, exactly(received))),
        ];
        all.into_iter().flatten().collect()
    },
};

/// Failures are no answers.
pub(super) const FAILURES: Case = Case {
    name: "failures",
    holds: "503s are said to be failures: the target answers each request with one, at once.",
    truth: "the responses that the ledger counts, all of them 503",
    tolerance: "the last answer of each connection, which may still be under way",
    load: Load { rate: 200.0, connections: 4, seconds: 2 },
    mode: closed_first,
    figures: &["bad", "errors"],
    target: |config, _| {
        let route = target::Route { status: 503, ..config.route("/") };
        TargetConfig { routes: vec![route], ..config }
    },
    judge: |of| {
        let found = of.figures.bad.unwrap_or(0.0) + of.figures.errors.unwrap_or(0.0);
        let truth = of.ledger.answered as f64;
        let band = Band { low: truth - connections(of), truth, high: of.ledger.received as f64 };
        vec![Finding::count("failures", found, band)]
    },
};

/// A target that answers after a millisecond.
pub(super) fn prompt(config: TargetConfig, _: f64) -> TargetConfig {
    TargetConfig { base_latency: Duration::from_millis(1), ..config }
}

fn offered(of: &Judged) -> Vec<Finding> {
    let truth = of.load.rate * f64::from(of.load.seconds);
    let reach = match of.tool.arrivals {
        Some(Arrivals::Poisson) => 4.0 * truth.sqrt(),
        Some(Arrivals::Constant) | None => 0.005 * truth + 1.0,
    };
    let band = Band { low: (truth - reach).max(0.0), truth, high: truth + reach };
    vec![Finding::count("requests at the target", of.ledger.received as f64, band)]
}

fn connections(of: &Judged) -> f64 {
    f64::from(of.load.connections)
}
