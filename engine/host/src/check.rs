//! A check of this machine: the finding, its severity, cause and cure.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    /// Nothing to do.
    Good,
    /// It couldn't be looked at.
    Unknown,
    /// A run can start; its numbers may suffer.
    Warning,
    /// A run can't start.
    Missing,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// What was found.
    pub found: String,
    /// Why it is a problem, or may cost time although it is good; `None` if neither.
    pub cause: Option<String>,
    /// What changes it; `None` if nothing is to be done.
    pub cure: Option<String>,
}

/// The name of the check for open files.
pub(super) const OPEN_FILES: &str = "open files";

impl Check {
    /// True if something may, or must, be done about it.
    pub fn is_problem(&self) -> bool {
        matches!(self.severity, Severity::Warning | Severity::Missing)
    }

    /// True if the limit of open files is too low.
    pub fn lacks_files(&self) -> bool {
        self.severity == Severity::Missing && self.name == OPEN_FILES
    }

    pub(super) fn good(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, severity: Severity::Good, found: found.into(), cause: None, cure: None }
    }

    pub(super) fn unknown(name: &'static str, found: impl Into<String>) -> Check {
        Check { severity: Severity::Unknown, ..Check::good(name, found) }
    }

    pub(super) fn bad(
        name: &'static str,
        severity: Severity,
        found: impl Into<String>,
        cause: impl Into<String>,
        cure: impl Into<String>,
    ) -> Check {
        Check {
            name,
            severity,
            found: found.into(),
            cause: Some(cause.into()),
            cure: Some(cure.into()),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = if self.severity == Severity::Unknown { "unknown, " } else { "" };
        write!(f, "{}: {unknown}{}", self.name, self.found)?;
        if let Some(cause) = &self.cause {
            write!(f, "; {cause}")?;
        }
        if let Some(cure) = &self.cure {
            write!(f, "; {cure}")?;
        }
        Ok(())
    }
}

/// A number of cores, with its noun.
pub(super) fn cores(count: usize) -> String {
    format!("{count} core{}", if count == 1 { "" } else { "s" })
}
