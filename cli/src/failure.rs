//! Why the program ends without having done its job, and the exit code that says so.

use std::fmt;
use std::process::ExitCode;

use engine::run::{PrepareError, RunError};

use crate::output::complain;

/// Exit code of a run that could not start, or whose report could not be written.
pub(crate) const EXIT_COULD_NOT_RUN: u8 = 1;
/// Exit code of a usage error: a flag or value that can't be meant.
pub(crate) const EXIT_USAGE: u8 = 2;
/// Exit code of a run that is done and whose report is invalid.
pub(crate) const EXIT_INVALID: u8 = 3;
/// Exit code of a run that was interrupted: 128 + SIGINT, as shells count it.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// Why the program ends without having done its job; each holds its one line.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked can't be meant: the flag, its value and the cure.
    Usage(String),
    /// What was asked can't be done here and now: the cause and the cure.
    CouldNotRun(String),
    /// A signal ended it before there was anything to report.
    Interrupted,
}

impl Failure {
    /// Says the line on stderr and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        complain(&self.to_string());
        ExitCode::from(match self {
            Failure::Usage(_) => EXIT_USAGE,
            Failure::CouldNotRun(_) => EXIT_COULD_NOT_RUN,
            Failure::Interrupted => EXIT_INTERRUPTED,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(line) | Failure::CouldNotRun(line) => f.write_str(line),
            Failure::Interrupted => f.write_str("interrupted before the run began"),
        }
    }
}

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Failure {
        match &error {
            PrepareError::Plan(_) | PrepareError::File(_) => Failure::Usage(error.to_string()),
            PrepareError::Host(_) | PrepareError::Target(_) => {
                Failure::CouldNotRun(error.to_string())
            }
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        Failure::CouldNotRun(error.to_string())
    }
}
