//! The command `experiment`: one of the experiments on measuring latency, all of them, or the page
//! of their results.

use std::env;
use std::fs;
use std::io::Write as _;
use std::process::ExitCode;

use calibration::experiments;
use calibration::findings::{self, Findings};
use calibration::judgement::Judgement;
use calibration::lab::{LabError, Setup};

use crate::args::{ALL_EXPERIMENTS, ExperimentArgs, PAGE};
use crate::failure::{EXIT_INTERRUPTED, Failure, judged};
use crate::output::{OutputFile, say};
use crate::signals::StopRequest;
use crate::text::experiment as text;

/// Performs each, prints its judgements as it ends, and writes the page of all results and the
/// READMEs beside them.
pub(crate) fn experiment(args: &ExperimentArgs) -> Result<ExitCode, Failure> {
    let stop = StopRequest::listen()?;
    if args.name == PAGE {
        require_results(args)?;
    }
    fs::create_dir_all(&args.out).map_err(|error| {
        Failure::Usage(format!(
            "--out {}: can't be created ({error}); name a folder where you may write",
            args.out.display()
        ))
    })?;
    if !findings::can_take_readme(&args.out) {
        return Err(Failure::Usage(format!(
            "--out {}: has a README.md of its own, which the results' would replace; name another \
             folder",
            args.out.display()
        )));
    }
    let page = args.page.clone().unwrap_or_else(|| args.out.join(findings::FILE));
    let file = OutputFile::open("--page", &page, &stop)?;
    let setup = Setup {
        program: env::current_exe().map_err(could_not_run)?,
        folder: fs::canonicalize(&args.out).map_err(could_not_run)?,
        quick: args.quick,
        asked: &|| stop.asked(),
        tell: &|command| {
            if !args.quiet {
                // A line that can't be printed is no loss: result.json has all commands.
                let _ = say(&text::command(command));
            }
        },
    };
    if args.name == PAGE {
        findings::judge_anew(&setup.folder).map_err(could_not_run)?;
    }
    let performed = perform(&args.name, &setup);
    // Results before a failed experiment are written as well.
    let found = Findings::of_folder(&setup.folder, &page).map_err(could_not_run)?;
    found.store_readmes(&setup.folder).map_err(could_not_run)?;
    let page = file.finish(|file| file.write_all(found.page.as_bytes()))?;
    let performed = performed?;
    say(&text::end(&page, performed.is_none()))?;
    Ok(performed.map_or(ExitCode::from(EXIT_INTERRUPTED), judged))
}

/// Performs the experiment of this name, or all, or none; returns the worst judgement, or `None` if
/// the user asked to stop.
fn perform(name: &str, setup: &Setup) -> Result<Option<Judgement>, Failure> {
    let mut worst = Judgement::Passed;
    for experiment in
        experiments::ALL.iter().filter(|one| [ALL_EXPERIMENTS, one.name].contains(&name))
    {
        match experiment.perform(setup) {
            Ok(result) => {
                worst = worst.max(result.judgement);
                say(&text::result(&result))?;
            }
            Err(LabError::Interrupted) => return Ok(None),
            Err(error) => return Err(could_not_run(format!("{}: {error}", experiment.name))),
        }
    }
    Ok(Some(worst))
}

/// Fails unless there are results for a page, and no flag that a page can't use.
fn require_results(args: &ExperimentArgs) -> Result<(), Failure> {
    if args.quick {
        return Err(Failure::Usage(format!("--quick: `{PAGE}` runs nothing; omit --quick")));
    }
    if findings::results(&args.out).map_err(could_not_run)?.is_empty() {
        return Err(Failure::Usage(format!(
            "--out {}: no experiment has a result there; run one first, e.g. \
             `truetail experiment merge --quick`",
            args.out.display()
        )));
    }
    Ok(())
}

fn could_not_run(error: impl ToString) -> Failure {
    Failure::CouldNotRun(error.to_string())
}
