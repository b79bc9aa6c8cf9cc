//! The case on arrivals: spaced as the tool says.

use super::rate::prompt;
use super::{Case, Finding, Judged, at_a_rate};
use crate::tool::{Arrivals, Load};
use crate::truth::{Band, dispersion};

/// Windows of counts, ms.
const WINDOWS_MS: [usize; 2] = [10, 100];
/// What is left out at the beginning, while connections open, ms.
const FIRST_MS: usize = 500;
/// The highest dispersion of constant arrivals in windows of 10 ms and of 100 ms. Only requests that
/// cross the edge of a window count: at 400/s, one in four of those of a window of 10 ms may do so,
/// and one in twenty of 100 ms.
const CONSTANT_MAX: [f64; 2] = [0.25, 0.05];

/// Arrivals are spaced as claimed.
pub(super) const ARRIVALS: Case = Case {
    name: "arrivals",
    holds: "Requests reach the target as they are said to be spaced, at 400 per second.",
    truth: "the index of dispersion (variance / mean) of the ledger's arrivals, in windows of 10 ms \
            and 100 ms: 1 for Poisson, 0 for constant; and the rate in the first second",
    tolerance: "Poisson: 4·√(2/(m−1)) for m windows; constant: 0.25 and 0.05, for requests that \
                cross the edge of a window. In the first second, half of a burst as all connections \
                open",
    reply: "Requests are paced by each connection for itself, and the sum of them is not even.",
    load: Load::at(400.0, 64, 6),
    mode: |tool| match tool.arrivals {
        Some(_) => at_a_rate(tool),
        None => Err("it doesn't say how arrivals are spaced".to_owned()),
    },
    target: prompt,
    judge: |of| [first_second(of)].into_iter().chain(dispersed(of)).collect(),
    ..Case::NONE
};

/// The requests of the first second: a burst as the connections open would show in them.
fn first_second(of: &Judged) -> Finding {
    let reach = match of.tool.arrivals {
        Some(Arrivals::Poisson) => 4.0 * of.load.rate.sqrt(),
        Some(Arrivals::Constant) | None => f64::from(of.load.connections) / 2.0,
    };
    of.in_second(0, of.load.rate, reach)
}

fn dispersed(of: &Judged) -> Vec<Finding> {
    let counts = &of.ledger.arrivals_per_ms.counts;
    let first = counts.iter().position(|count| 0 < *count).unwrap_or_default() + FIRST_MS;
    let last = counts.iter().rposition(|count| 0 < *count).unwrap_or_default();
    let counts = counts.get(first..last).unwrap_or_default();
    let find = |(window_ms, constant_max): (usize, f64)| {
        let (found, windows) = dispersion(counts, window_ms);
        if windows < 2 {
            return None;
        }
        let band = match of.tool.arrivals? {
            Arrivals::Constant => Band { low: 0.0, truth: 0.0, high: constant_max },
            Arrivals::Poisson => {
                let reach = 4.0 * (2.0 / (windows as f64 - 1.0)).sqrt();
                Band { low: 1.0 - reach, truth: 1.0, high: 1.0 + reach }
            }
        };
        let figure = format!("dispersion, {window_ms} ms");
        // A machine that is late by a window now and then moves a few requests to the next, which
        // doesn't make them less even than random ones; one that others use may do anything.
        let moved_ms = if found <= 1.0 { window_ms as f64 } else { f64::INFINITY };
        let excused_ms = (band.high < found).then_some(moved_ms);
        Some(Finding { excused_ms, ..Finding::count(&figure, found, band) })
    };
    WINDOWS_MS.into_iter().zip(CONSTANT_MAX).filter_map(find).collect()
}
