//! The command `run`: checks everything, drives the load, writes the results.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use engine::plan::Plan;
use engine::plan::body::SharedBody;
use engine::report::Report;
use engine::run::Finished;

use crate::args::{ResultArgs, RunArgs};
use crate::drive::{Beside, Results, drive_beside};
use crate::failure::{Failure, complain};
use crate::flamegraph::Flamegraph;
use crate::gate::Gate;
use crate::ndjson::Ndjson;
use crate::output::{OutputFile, say};
use crate::progress::{Announce, Progress, View};
use crate::saved::Reference;
use crate::signals::StopRequest;
use crate::text::summary::summary;
use crate::text::verdict::coloured;
use crate::{csv, hgrm, hlog, json, junit, live, output, planning, prom};

/// Runs a plan and writes its results.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let (plan, wanted) = planning::plan(args)?;
    if wanted.live {
        live::require_terminal()?;
    }
    let shown = Progress::shown(wanted.progress, wanted.quiet)?;
    let announce = if wanted.quiet { Announce::Nothing } else { Announce::Run };
    let view = View { live: wanted.live, shown, label: "", announce };
    let gate = Gate::new(&plan, &wanted)?;
    let stop = StopRequest::listen()?;
    check_files(args.plan.as_ref(), &plan, &wanted, None)?;
    let reference = Reference::new(wanted.calibration.as_deref())?;
    let mut outputs = Outputs::open(&wanted, &stop)?;
    let mut flamegraph = match &wanted.flamegraph {
        Some(path) => Some(Flamegraph::open(path, &stop)?),
        None => None,
    };
    let beside = Beside {
        flamegraph: flamegraph.as_mut(),
        reference: Some(&reference),
        ndjson: outputs.ndjson.as_mut(),
    };
    let body = SharedBody::default();
    let (mut finished, began) = drive_beside(plan, &body, &stop, view, beside)?;

    note(&mut finished.report, &wanted);
    let report = &finished.report;
    let mut results = Results::default();
    outputs.write(&finished, began, &gate, &mut results);
    if let Some(flamegraph) = flamegraph {
        match flamegraph.write(report) {
            // An interruption may leave nothing to profile, and has an exit code of its own.
            Err(failure) if report.interrupted => complain(&failure.to_string()),
            written => results.add(written),
        }
    }
    let text = summary(report, &results.written);
    let said = say(&coloured(&text, report.verdict.level));
    results.failures.extend(said.err());
    Ok(results.exit_code(gate.exit_code(report)))
}

/// Notes in the report what the user says of the run.
pub(crate) fn note(report: &mut Report, wanted: &ResultArgs) {
    report.label = wanted.label.clone();
    report.tags = wanted.tags.clone();
}

/// The files of a run's numbers, opened before it begins.
pub(crate) struct Outputs {
    out: Option<OutputFile>,
    hdr: Option<OutputFile>,
    hgrm: Option<OutputFile>,
    csv: Option<OutputFile>,
    junit: Option<OutputFile>,
    /// What is written while the run goes on.
    pub(crate) ndjson: Option<Ndjson>,
    prom: Option<OutputFile>,
    assumed: Option<String>,
}

impl Outputs {
    /// Opens those that were asked for.
    ///
    /// # Errors
    /// One that can't be written.
    pub(crate) fn open(wanted: &ResultArgs, stop: &StopRequest) -> Result<Outputs, Failure> {
        let open = |flag, path: &Option<PathBuf>| {
            path.as_ref().map(|path| OutputFile::open(flag, path, stop)).transpose()
        };
        Ok(Outputs {
            out: open("--out", &wanted.out)?,
            hdr: open("--hdr", &wanted.hdr)?,
            hgrm: open("--hdr", &beside(wanted.hdr.as_deref()))?,
            csv: open("--csv", &wanted.csv)?,
            junit: open("--junit", &wanted.junit)?,
            ndjson: open("--ndjson", &wanted.ndjson)?.map(Ndjson::new),
            prom: open("--prom", &wanted.prom)?,
            assumed: wanted.assumed.clone(),
        })
    }

    /// Writes a run that began at this moment, and says what its plan assumed.
    pub(crate) fn write(
        self,
        finished: &Finished,
        began: SystemTime,
        gate: &Gate,
        results: &mut Results,
    ) {
        let Finished { report, measured, .. } = finished;
        self.assumed.iter().for_each(|assumed| complain(assumed));
        if let Some(out) = self.out {
            results.add(out.finish(|writer| json::write(report, writer)));
        }
        if let Some(hdr) = self.hdr {
            let (begin, length) = window(&report.config.plan, report.config.schedule_until);
            let entries = hlog::entries(measured, begin, length);
            results.add(hdr.finish(|writer| hlog::write(writer, began, &entries)));
        }
        if let Some(hgrm) = self.hgrm {
            results.add(hgrm.finish(|writer| hgrm::write(writer, &measured.corrected)));
        }
        if let Some(csv) = self.csv {
            let window_s = report.config.window_s();
            results.add(csv.finish(|writer| csv::write(writer, &report.series, window_s)));
        }
        if let Some(junit) = self.junit {
            results.add(junit.finish(|writer| junit::write(writer, report, gate)));
        }
        if let Some(ndjson) = self.ndjson {
            results.add(ndjson.finish(&report.whole.counts));
        }
        if let Some(prom) = self.prom {
            results.add(prom.finish(|writer| prom::write(writer, report, began)));
        }
    }
}

/// The file of percentiles beside an interval log; a device or a pipe has none.
fn beside(hlog: Option<&Path>) -> Option<PathBuf> {
    let hlog = hlog.filter(|hlog| !output::is_written_through(hlog))?;
    Some(hlog.with_extension("hgrm"))
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
    let body = plan.body.as_deref().and_then(|body| body.strip_prefix('@')).map(PathBuf::from);
    let hgrm = beside(wanted.hdr.as_deref());
    let files = [
        ("--plan", plan_file),
        ("--body", body.as_ref()),
        ("--calibration", wanted.calibration.as_ref()),
        ("--cacert", plan.cacert.as_ref()),
        ("--cert", plan.cert.as_ref()),
        ("--key", plan.key.as_ref()),
        ("--raw", plan.raw.as_ref()),
        ("--out", wanted.out.as_ref()),
        ("--hdr", wanted.hdr.as_ref()),
        ("--hdr", hgrm.as_ref()),
        ("--csv", wanted.csv.as_ref()),
        ("--svg", svg),
        ("--junit", wanted.junit.as_ref()),
        ("--ndjson", wanted.ndjson.as_ref()),
        ("--prom", wanted.prom.as_ref()),
        ("--flamegraph", wanted.flamegraph.as_ref()),
    ];
    let named = files.into_iter().filter_map(|(name, file)| Some((name, file?.clone())));
    output::require_distinct(&named.collect::<Vec<_>>())
}

/// When the recorded window began, since the start of the run, and how long it was.
fn window(plan: &Plan, schedule_until_s: f64) -> (Duration, Duration) {
    let begin = plan.warmup.as_duration();
    let until = Duration::from_secs_f64(schedule_until_s);
    (begin, until.saturating_sub(begin))
}

#[cfg(test)]
mod tests {
    use engine::sys::units::Nanos;

    use super::*;

    #[test]
    fn the_window_begins_after_the_warm_up_and_ends_where_the_schedule_did() {
        let plan = Plan { warmup: Nanos::from_secs(5), ..Plan::default() };
        assert_eq!(window(&plan, 8.5), (Duration::from_secs(5), Duration::from_millis(3_500)));
        assert_eq!(window(&plan, 3.0), (Duration::from_secs(5), Duration::ZERO));
    }
}
