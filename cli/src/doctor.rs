//! The command `doctor`: whether this machine can run a load test, in the words with which a run
//! would refuse to start.

use std::process::ExitCode;

use engine::host::{self, check::Severity};

use crate::failure::{EXIT_COULD_NOT_RUN, Failure};
use crate::output::say;
use crate::text;

/// Prints the findings; the exit code is 1 if a run could not start.
pub(crate) fn doctor() -> Result<ExitCode, Failure> {
    let checks = host::examine();
    say(&text::doctor::findings(&checks))?;
    let missing = checks.iter().any(|check| check.severity == Severity::Missing);
    Ok(if missing { ExitCode::from(EXIT_COULD_NOT_RUN) } else { ExitCode::SUCCESS })
}
