//! Checks a report against itself, and against the raw samples of its run.
//!
//! Nothing is taken from the report that can be computed again: percentiles from its histograms, sums from their parts,
//! the schedule from the plan, and with samples every number from the requests themselves. A check is a [`Finding`];
//! the caller shows them. What the checks read of a report is all they demand of it.

use std::fmt::Display;

mod distribution;
mod document;
mod parts;
mod replay;

pub use document::report_alone;
pub use replay::with_samples;

/// One check: what was compared, and with what result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub what: String,
    /// What it must be, computed here.
    pub expected: String,
    /// What it is.
    pub found: String,
    /// Whether these agree.
    pub ok: bool,
}

impl Finding {
    fn new(
        what: impl Into<String>,
        expected: impl Display,
        found: impl Display,
        ok: bool,
    ) -> Finding {
        Finding { what: what.into(), expected: expected.to_string(), found: found.to_string(), ok }
    }

    fn equal<T: PartialEq + Display>(what: impl Into<String>, expected: T, found: T) -> Finding {
        let ok = expected == found;
        Finding::new(what, expected, found, ok)
    }

    /// Numbers that differ by no more than the document's decimal digits lose.
    fn close(what: impl Into<String>, expected: f64, found: f64) -> Finding {
        Finding::new(what, expected, found, is_close(expected, found))
    }
}

fn is_close(expected: f64, found: f64) -> bool {
    (expected - found).abs() <= 1e-12 * expected.abs().max(1e-3)
}

/// The percentiles that a report states, with their names.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999)];

/// A document's time, whole ns in microseconds, back in ns.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates: what is no time becomes one that no check accepts"
)]
fn to_ns(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

/// A document's moment, seconds since the epoch, in ns. A double holds every ns of a hundred days.
fn seconds_to_ns(seconds: f64) -> u64 {
    to_ns(seconds * 1e6)
}
