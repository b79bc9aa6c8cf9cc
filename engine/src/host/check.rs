//! One finding about this machine: what was looked at, how it bears on a run, cause and cure.

use std::fmt;

/// How a finding bears on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Good,
    /// A run can start; its numbers may suffer.
    Warning,
    /// A run can't start.
    Missing,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it bears on a run.
    pub severity: Severity,
    /// What was found.
    pub found: String,
    /// Why that is a problem; `None` when it is none.
    pub cause: Option<String>,
    /// What to do about it; `None` when there is nothing to do.
    pub cure: Option<String>,
}

impl Check {
    pub(super) fn good(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, severity: Severity::Good, found: found.into(), cause: None, cure: None }
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
        write!(f, "{}: {}", self.name, self.found)?;
        if let Some(cause) = &self.cause {
            write!(f, "; {cause}")?;
        }
        if let Some(cure) = &self.cure {
            write!(f, "; {cure}")?;
        }
        Ok(())
    }
}
