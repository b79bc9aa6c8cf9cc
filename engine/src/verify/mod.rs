//! Checks a report against itself, and against the raw samples of its run.
//!
//! Nothing is taken from the report that can be computed again: percentiles, intervals and stationarity from its
//! histograms, sums from their parts, the schedule and the proof of what was intended from the plan, the verdict from all of it;
//! and with samples whatever a shard makes of the stamps of its requests, by the very code that a shard uses. A check is
//! a [`Finding`]; the caller shows them. What the checks read of a report is all they demand of it: a document that was
//! tampered with, or is of no run at all, has findings and never ends the program.
//!
//! [`UNCHECKED`] names what neither a report nor its samples can show. Without samples these are not checked either: how
//! many requests ended how in one interval, beyond the sums; which requests were sent, or answered, before the end of the
//! window; and of the sends their distribution.

use std::fmt::Display;

mod compare;
mod distribution;
mod document;
mod parts;
mod planned;
mod replay;
mod sound;

pub use document::report_alone;
pub use replay::with_samples;

/// What no sample tells, and so is as the generator said it: only its sums, and its agreement with the rest, are checked.
pub const UNCHECKED: &str = "the environment and the address; what the generator and the machine said of themselves; \
    connections, connect times and the errors of idle connections; which arrivals waited; the load before the window; and \
    how many requests were in flight";

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

    /// Numbers that differ by no more than the rounding of a sum in another order.
    fn close(what: impl Into<String>, expected: f64, found: f64) -> Finding {
        Finding::new(what, expected, found, is_close(expected, found))
    }

    /// A number with a bound.
    fn at_most<T: PartialOrd + Display>(what: impl Into<String>, most: T, found: T) -> Finding {
        let ok = found <= most;
        Finding::new(what, format!("at most {most}"), found, ok)
    }
}

/// Many checks as one, and those that failed.
fn summed_up(what: &str, findings: Vec<Finding>) -> Vec<Finding> {
    let count = findings.len();
    let failed: Vec<Finding> = findings
        .into_iter()
        .filter(|finding| !finding.ok)
        .map(|finding| Finding { what: format!("{what}: {}", finding.what), ..finding })
        .collect();
    let passed = count - failed.len();
    let whole = Finding::new(
        what,
        format!("{count} checks"),
        format!("{passed} passed"),
        failed.is_empty(),
    );
    std::iter::once(whole).chain(failed).collect()
}

fn is_close(expected: f64, found: f64) -> bool {
    (expected - found).abs() <= 1e-12 * expected.abs().max(1e-3)
}

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
