//! The result of a check, and when two numbers count as equal.

use std::fmt::Display;

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub what: String,
    /// The value that it must have, computed here.
    pub expected: String,
    /// The value that it has.
    pub found: String,
    /// True if they agree.
    pub ok: bool,
}

impl Finding {
    /// A check with this result.
    pub fn new(
        what: impl Into<String>,
        expected: impl Display,
        found: impl Display,
        ok: bool,
    ) -> Finding {
        Finding { what: what.into(), expected: expected.to_string(), found: found.to_string(), ok }
    }

    /// Compares two values that must be equal.
    pub fn equal<T: PartialEq + Display>(
        what: impl Into<String>,
        expected: T,
        found: T,
    ) -> Finding {
        let ok = expected == found;
        Finding::new(what, expected, found, ok)
    }

    /// Compares numbers that may differ by the rounding of a sum in another order.
    pub fn close(what: impl Into<String>, expected: f64, found: f64) -> Finding {
        Finding::new(what, expected, found, is_close(expected, found))
    }

    /// Checks a number against its upper bound.
    pub fn at_most<T: PartialOrd + Display>(what: impl Into<String>, most: T, found: T) -> Finding {
        let ok = found <= most;
        Finding::new(what, format!("at most {most}"), found, ok)
    }
}

/// Many checks as one finding, followed by those that failed.
pub fn summed_up(what: &str, findings: Vec<Finding>) -> Vec<Finding> {
    let count = findings.len();
    let failed: Vec<Finding> = findings
        .into_iter()
        .filter(|finding| !finding.ok)
        .map(|finding| Finding { what: format!("{what}: {}", finding.what), ..finding })
        .collect();
    let passed = count - failed.len();
    let whole = Finding::new(
        what,
        format!("all {count}"),
        format!("{passed} of {count} passed"),
        failed.is_empty(),
    );
    std::iter::once(whole).chain(failed).collect()
}

pub(super) fn is_close(expected: f64, found: f64) -> bool {
    (expected - found).abs() <= 1e-12 * expected.abs().max(1e-3)
}
