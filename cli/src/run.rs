//! The command `run`: checks everything, drives the load, writes the results.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use engine::plan::Plan;
use engine::plan::body::SharedBody;
use engine::report::Report;
use engine::run::Finished;

use crate::args::{self, ResultArgs, RunArgs, Settings};
use crate::drive::{Extras, drive_with_extras};
use crate::failure::{Failure, complain};
use crate::gate::Gate;
use crate::output::{self, Results, say};
use crate::progress::{Announce, Progress, View};
use crate::saved::Reference;
use crate::signals::StopRequest;
use crate::sink::{EndedRun, Sinks};
use crate::text::extent::Extent;
use crate::text::slo::shown_as;
use crate::text::summary::summary;
use crate::text::verdict::coloured;
use crate::{live, planning};

/// Runs a plan and writes its results.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let (plan, wanted) = planning::plan(&["run"], args)?;
    if wanted.live {
        live::require_terminal()?;
    }
    let view = view(&wanted)?;
    let gate = Gate::new(Some(&plan), &wanted.fail_on, wanted.allow_invalid)?;
    let stop = StopRequest::listen()?;
    check_files(args.plan.as_ref(), &plan, &wanted, None)?;
    let reference = Reference::new(wanted.calibration.as_deref())?;
    let mut sinks = Sinks::open(args::result_files(&wanted), &stop)?;
    let extras = Extras { reference: Some(&reference), sinks: Some(&mut sinks) };
    let (finished, began) = drive_with_extras(plan, &SharedBody::default(), &stop, view, extras)?;
    let (report, results) = write(finished, began, &wanted, &gate, sinks);
    Ok(results.exit_code(gate.exit_code(&report)))
}

/// The display of a run.
///
/// # Errors
/// A bar where there is no terminal.
pub(crate) fn view(wanted: &ResultArgs) -> Result<View<'static>, Failure> {
    let shown = Progress::shown(wanted.progress, wanted.quiet)?;
    let announce = if wanted.quiet { Announce::Nothing } else { Announce::Run };
    Ok(View { live: wanted.live, shown, label: "", announce })
}

/// Writes the results of a run that began at this time, prints its summary, and notes the plan's
/// assumptions.
pub(crate) fn write(
    mut finished: Finished,
    began: SystemTime,
    wanted: &ResultArgs,
    gate: &Gate,
    sinks: Sinks,
) -> (Report, Results) {
    note(&mut finished.report, wanted);
    wanted.assumed.iter().for_each(|assumed| complain(assumed));
    let mut results = Results::default();
    sinks.finish(&EndedRun { finished: &finished, began, gate }, &mut results);
    let report = finished.report;
    // The run itself wrote them.
    results.written.extend(report.samples.iter().filter_map(|samples| samples.file.clone()));
    let text = summary(&report, &results.written, Extent::of(wanted.details));
    let said = say(&coloured(&text, shown_as(report.verdict.level, report.slo.as_ref())));
    results.failures.extend(said.err());
    (report, results)
}

/// Adds the user's notes on the run to the report.
pub(crate) fn note(report: &mut Report, wanted: &ResultArgs) {
    report.label = wanted.label.clone();
    report.tags = wanted.tags.clone();
}

/// Checks that no file of the run would overwrite another.
///
/// # Errors
/// The flags and the path, as a usage error.
pub(crate) fn check_files(
    plan_file: Option<&PathBuf>,
    plan: &Plan,
    wanted: &ResultArgs,
    svg: Option<&PathBuf>,
) -> Result<(), Failure> {
    let of_plan = plan.files().into_iter().map(|(flag, name)| (flag.to_owned(), name.into()));
    let of_plan: Vec<(String, PathBuf)> = of_plan.collect();
    let named = |flag: &str, file: Option<PathBuf>| file.map(|file| (flag.to_owned(), file));
    let (plan, results) = (plan.clone(), wanted.clone());
    let settings = Settings { plan, results, ..Settings::default() };
    let read = named("--plan", plan_file.cloned()).into_iter().chain(of_plan);
    let files: Vec<_> =
        read.chain(args::files(&settings)).chain(named("--svg", svg.cloned())).collect();
    output::require_distinct(&files)
}
