//! The command `calibrate --truth`: compares this machine's measurements with arithmetic. Without
//! the flag the command does something else, see [`crate::calibrate`].

use std::process::ExitCode;

use calibration::cases::{self, Case, Outcome, Size};
use calibration::judgement::Judgement;
use calibration::observed::{ObserveError, observe_with};
use engine::plan::body::SharedBody;
use serde::Serialize;

use crate::args::CalibrateArgs;
use crate::drive::drive;
use crate::failure::{EXIT_INTERRUPTED, Failure, judged};
use crate::json;
use crate::output::{OutputFile, Results, say};
use crate::progress::{Shown, View};
use crate::signals::StopRequest;
use crate::text::truth as text;

/// The document written by `--out`.
#[derive(Debug, Serialize)]
struct Document<'a> {
    cases: &'a [Outcome],
    /// The worst of the cases.
    judgement: Judgement,
    interrupted: bool,
}

/// Runs each case against a target of its own and prints it as it ends.
pub(crate) fn truth(args: &CalibrateArgs) -> Result<ExitCode, Failure> {
    let shown = args.progress.shown()?;
    let stop = StopRequest::listen()?;
    let out = args.out.as_ref().map(|path| OutputFile::open("--out", path, &stop)).transpose()?;
    let size = if args.quick { Size::Smoke } else { Size::Full };
    let cases = cases::cases(size, args.wait);
    let mut outcomes = Vec::new();
    let mut interrupted = false;
    for case in &cases {
        match outcome(case, &stop, shown) {
            Ok(Some(outcome)) => {
                say(&text::case(&outcome))?;
                outcomes.push(outcome);
            }
            Ok(None) | Err(Failure::Interrupted) => {
                interrupted = true;
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    let worst = outcomes.iter().map(|outcome| outcome.judgement).max();
    let judgement = worst.unwrap_or(Judgement::NotJudged);
    let mut results = Results::default();
    if let Some(out) = out {
        let document = Document { cases: &outcomes, judgement, interrupted };
        results.add(out.finish(|writer| json::write(&document, writer)));
    }
    say(&text::sum(&outcomes, cases.len(), &results.written))?;
    let done = if interrupted { ExitCode::from(EXIT_INTERRUPTED) } else { judged(judgement) };
    Ok(results.exit_code(done))
}

/// Runs one case; `None` if a signal interrupted it.
fn outcome(case: &Case, stop: &StopRequest, shown: Shown) -> Result<Option<Outcome>, Failure> {
    let observed = observe_with(case.target.clone(), case.plan.clone(), |plan| {
        drive(plan, &SharedBody::default(), stop, View::of(shown)).map(|(finished, _)| finished)
    })?;
    if observed.report.interrupted {
        return Ok(None);
    }
    let outcome = case.judge(&observed).map_err(ObserveError::Ledger)?;
    Ok(Some(outcome))
}
