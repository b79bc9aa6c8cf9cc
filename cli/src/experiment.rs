//! The command `experiment`: one of the experiments about measuring latency, or all.

use std::env;
use std::fs;
use std::process::ExitCode;

use calibration::experiments;
use calibration::judgement::Judgement;
use calibration::lab::{self, LabError, Setup, findings};

use crate::args::ExperimentArgs;
use crate::failure::{EXIT_INTERRUPTED, Failure, judged};
use crate::output::say;
use crate::signals::StopRequest;
use crate::text::experiment as text;

/// Performs each, prints what was judged as it ends, and writes the page of all results.
pub(crate) fn experiment(args: &ExperimentArgs) -> Result<ExitCode, Failure> {
    let stop = StopRequest::listen()?;
    fs::create_dir_all(&args.out).map_err(|error| {
        Failure::Usage(format!(
            "--out {}: can't be created ({error}); name a folder where you may write",
            args.out.display()
        ))
    })?;
    let folder = fs::canonicalize(&args.out).map_err(could_not_run)?;
    let setup = Setup {
        program: env::current_exe().map_err(could_not_run)?,
        folder: folder.clone(),
        quick: args.quick,
        asked: &|| stop.asked(),
        tell: &|command| {
            if !args.quiet {
                // What the experiment finds is said at its end; a lost line of its commands is not.
                let _ = say(&text::command(command));
            }
        },
    };
    let mut worst = Judgement::Passed;
    let mut interrupted = false;
    for experiment in experiments::ALL.iter().filter(|one| ["all", one.name].contains(&&*args.name))
    {
        match lab::perform(experiment, &setup) {
            Ok(result) => {
                worst = worst.max(result.judgement);
                say(&text::result(&result))?;
            }
            Err(LabError::Interrupted) => {
                interrupted = true;
                break;
            }
            Err(error) => return Err(could_not_run(format!("{}: {error}", experiment.name))),
        }
    }
    findings::publish(&folder).map_err(could_not_run)?;
    say(&text::end(&args.out.join(findings::FILE), interrupted))?;
    Ok(if interrupted { ExitCode::from(EXIT_INTERRUPTED) } else { judged(worst) })
}

fn could_not_run(error: impl ToString) -> Failure {
    Failure::CouldNotRun(error.to_string())
}
