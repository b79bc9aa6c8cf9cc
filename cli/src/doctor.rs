//! The command `doctor`: checks whether this machine can run a load test, with the same messages as
//! a run that refuses to start.

use std::io;
use std::process::ExitCode;

use engine::host;
use engine::host::check::{Check, Severity};
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::failure::{EXIT_COULD_NOT_RUN, Failure};
use crate::output::{say, stdout_failed};
use crate::text::extent::Extent;
use crate::{json, text};

/// The findings as a document.
#[derive(Debug, Serialize)]
struct Document<'a> {
    /// True if a run could start.
    ready: bool,
    /// All checks.
    checks: Vec<Finding<'a>>,
}

/// One finding: the check, its severity, the result, why that is a problem, and the cure.
#[derive(Debug, Serialize)]
struct Finding<'a> {
    name: &'a str,
    severity: &'a str,
    found: &'a str,
    cause: Option<&'a str>,
    cure: Option<&'a str>,
}

/// Prints the findings; the exit code is 1 if a run could not start.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let mut checks = host::examine();
    checks.extend(host::check_timekeeping());
    let ready = checks.iter().all(|check| check.severity != Severity::Missing);
    if args.json {
        let document = Document { ready, checks: checks.iter().map(finding).collect() };
        json::write(&document, io::stdout().lock()).or_else(stdout_failed)?;
    } else {
        say(&text::doctor::findings(&checks, Extent::of(args.details)))?;
    }
    Ok(if ready { ExitCode::SUCCESS } else { ExitCode::from(EXIT_COULD_NOT_RUN) })
}

fn finding(check: &Check) -> Finding<'_> {
    Finding {
        name: check.name,
        severity: text::doctor::word(check.severity),
        found: &check.found,
        cause: check.cause.as_deref(),
        cure: check.cure.as_deref(),
    }
}
