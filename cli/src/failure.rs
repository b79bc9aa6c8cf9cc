//! Why the program fails: one line on stderr, and the exit code.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use calibration::judgement::Judgement;
use calibration::observed::ObserveError;
use engine::host;
use engine::run::{PrepareError, RunError};

/// Exit code of a run that could not start, or whose report could not be written.
pub(crate) const EXIT_COULD_NOT_RUN: u8 = 1;
/// Exit code of a usage error: a bad flag or value.
pub(crate) const EXIT_USAGE: u8 = 2;
/// Exit code of a result that can't be trusted: a run with an invalid verdict, a series in which no
/// valid step decided anything, or a ceiling or a calibration that can't be judged because of other
/// load on the machine.
pub(crate) const EXIT_INVALID: u8 = 3;
/// Exit code of a run that missed an objective.
pub(crate) const EXIT_MISSED: u8 = 4;
/// Exit code of a run for which an agent could not be used.
pub(crate) const EXIT_AGENT: u8 = 5;
/// Exit code of an interrupted run: 128 + SIGINT, as shells count it.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// Why the program failed; each variant renders as one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The request makes no sense: the flag, its value and the cure.
    #[error("{0}")]
    Usage(String),
    /// The request can't be met on this machine now: the cause and the cure.
    #[error("{0}")]
    CouldNotRun(String),
    /// This machine has run out of something that a run needs.
    #[error("{1}")]
    Lacks(Lack, String),
    /// An agent can't be used: its name, the cause and the cure.
    #[error("{0}")]
    Agent(String),
    /// A signal came before there was anything to report.
    #[error("interrupted before the run began")]
    Interrupted,
}

/// The exit code of a calibration, by its judgement.
pub(crate) fn judged(judgement: Judgement) -> ExitCode {
    match judgement {
        Judgement::Passed => ExitCode::SUCCESS,
        Judgement::NotJudged => ExitCode::from(EXIT_INVALID),
        Judgement::Failed => ExitCode::from(EXIT_COULD_NOT_RUN),
    }
}

/// Resources that a machine may run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Local ports.
    Ports,
    /// Files that a process may open.
    Files,
}

impl Failure {
    /// Prints the line on stderr and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        complain(&self.to_string());
        ExitCode::from(match self {
            Failure::Usage(_) => EXIT_USAGE,
            Failure::CouldNotRun(_) | Failure::Lacks(..) => EXIT_COULD_NOT_RUN,
            Failure::Agent(_) => EXIT_AGENT,
            Failure::Interrupted => EXIT_INTERRUPTED,
        })
    }
}

/// Prints a note on stderr, in one line.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints a problem on stderr, in one line. A failure to do so can't be reported anywhere.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "truetail: {line}");
}

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Failure {
        let line = error.to_string();
        match error {
            PrepareError::Plan(_) | PrepareError::File(_) => Failure::Usage(line),
            PrepareError::NoPort(_) => Failure::Lacks(Lack::Ports, line),
            PrepareError::Host(check) if check.lacks_files() => Failure::Lacks(Lack::Files, line),
            PrepareError::Host(_) | PrepareError::Target(_) => Failure::CouldNotRun(line),
        }
    }
}

/// The failure of a server that could not start: the finding of `doctor` if there is one, else the
/// error.
pub(crate) fn refused(cores: usize, error: &dyn fmt::Display) -> Failure {
    let lacking = host::require_executor().and_then(|()| host::require(1, 0, cores));
    Failure::CouldNotRun(match lacking {
        Err(missing) => missing.to_string(),
        Ok(()) => error.to_string(),
    })
}

impl From<ObserveError> for Failure {
    fn from(error: ObserveError) -> Failure {
        match error {
            ObserveError::Prepare(error) => error.into(),
            ObserveError::Run(error) => error.into(),
            error @ (ObserveError::Target(_) | ObserveError::Ledger(_)) => {
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
