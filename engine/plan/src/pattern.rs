//! What checks and captures are written with: header names and regular expressions.

use regex::bytes::Regex;

use super::error::PlanError;

/// A regular expression.
pub(super) fn regex(pattern: &str) -> Result<Regex, NoPattern> {
    let no_regex = |error: regex::Error| {
        let error = error.to_string();
        let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let problem = format!("not a regular expression ({reason})");
        NoPattern {
            problem,
            cure: Some("mend it; backslashes stand for themselves in single quotes"),
        }
    };
    Regex::new(pattern).map_err(no_regex)
}

/// Why a text is no check, or no capture.
#[derive(Debug)]
pub(super) struct NoPattern {
    /// What is wrong.
    pub(super) problem: String,
    /// How to mend it, if not as usual.
    pub(super) cure: Option<&'static str>,
}

impl NoPattern {
    /// With the usual cure.
    pub(super) fn new(problem: impl Into<String>) -> NoPattern {
        NoPattern { problem: problem.into(), cure: None }
    }

    /// The error for this value of this flag or key.
    pub(super) fn refuse(self, flag: &'static str, value: &str, usual: &str) -> PlanError {
        PlanError::new(flag, value, self.problem, self.cure.unwrap_or(usual))
    }
}

/// A header's name.
pub(super) fn header_name(name: &str) -> Result<&str, NoPattern> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    match !name.is_empty() && name.bytes().all(is_token) {
        true => Ok(name),
        false => Err(NoPattern::new("no header has such a name")),
    }
}
