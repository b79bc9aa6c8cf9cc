//! The error of a plan that can't be run: the flag, its value and the cure.

use std::fmt;

use thiserror::Error;

/// A value of the plan that can't be run, with the cure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{flag} {value}: {problem}; {cure}")]
pub struct PlanError {
    /// The flag, with its dashes: `--rate`.
    pub flag: &'static str,
    /// The value as given or chosen; only the part that can be shown if it may hold a secret.
    pub value: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to do about it.
    pub cure: String,
}

impl PlanError {
    /// An error about `flag`'s `value`; an empty value is shown as quotes.
    pub fn new(
        flag: &'static str,
        value: impl fmt::Display,
        problem: impl Into<String>,
        cure: impl Into<String>,
    ) -> PlanError {
        let value = match value.to_string() {
            empty if empty.is_empty() => "''".to_owned(),
            value => value,
        };
        PlanError { flag, value, problem: problem.into(), cure: cure.into() }
    }

    /// The same error, which concerns the request of this name.
    pub fn of_request(self, name: &str) -> PlanError {
        PlanError { problem: format!("in {name}: {}", self.problem), ..self }
    }
}
