//! The command `run`: checks everything, drives the load, writes the results.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime};

use engine::plan::Plan;
use engine::report::verdict::Level;
use engine::run::{self, Finished, Prepared, Run, RunError};
use engine::samples::SampleFile;
use engine::sys::clock;

use crate::args::{ResultArgs, RunArgs};
use crate::failure::{EXIT_INTERRUPTED, EXIT_INVALID, Failure};
use crate::output::{OutputFile, say};
use crate::progress::{self, ProgressLine};
use crate::signals::StopRequest;
use crate::text::summary::summary;
use crate::{csv, hlog, json, output, planning, signals};

/// Runs a plan and writes its results.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let (plan, wanted) = planning::plan(args)?;
    let stop = StopRequest::listen()?;
    check_files(args.plan.as_ref(), &plan, &wanted)?;
    let open = |flag, path: &Option<PathBuf>| {
        path.as_ref().map(|path| OutputFile::open(flag, path, &stop)).transpose()
    };
    let out = open("--out", &wanted.out)?;
    let hdr = open("--hdr", &wanted.hdr)?;
    let csv = open("--csv", &wanted.csv)?;
    let (finished, began) = drive(plan, &stop, !wanted.quiet)?;

    let Finished { report, measured, .. } = &finished;
    let mut results = Results::default();
    if let Some(out) = out {
        results.add(out.finish(|writer| json::write(report, writer)));
    }
    if let Some(hdr) = hdr {
        let (begin, length) = window(&report.config.plan, report.config.schedule_until);
        let entries = hlog::entries(measured, begin, length);
        results.add(hdr.finish(|writer| hlog::write(writer, began, &entries)));
    }
    if let Some(csv) = csv {
        let window_s = report.config.window_s();
        results.add(csv.finish(|writer| csv::write(writer, &report.series, window_s)));
    }
    let said = say(&summary(report, &results.written));
    results.failures.extend(said.err());
    Ok(results.exit_code(match report.verdict.level {
        _ if report.interrupted => ExitCode::from(EXIT_INTERRUPTED),
        Level::Invalid if !wanted.allow_invalid => ExitCode::from(EXIT_INVALID),
        _ => ExitCode::SUCCESS,
    }))
}

/// Which results of a run were written: one that fails takes no other with it.
#[derive(Default)]
pub(crate) struct Results {
    /// The complete files, as they were named.
    pub(crate) written: Vec<String>,
    /// Why others are missing.
    pub(crate) failures: Vec<Failure>,
}

impl Results {
    /// Notes the result of writing one file.
    pub(crate) fn add(&mut self, written: Result<PathBuf, Failure>) {
        match written {
            Ok(path) => self.written.push(path.display().to_string()),
            Err(failure) => self.failures.push(failure),
        }
    }

    /// Reports what went wrong and returns the exit code: that of the last failure, else `done`.
    pub(crate) fn exit_code(&self, done: ExitCode) -> ExitCode {
        self.failures.iter().fold(done, |_, failure| failure.report())
    }
}

/// Checks that no file of the run would overwrite another.
///
/// # Errors
/// The flags and the path, as a usage error.
fn check_files(
    plan_file: Option<&PathBuf>,
    plan: &Plan,
    wanted: &ResultArgs,
) -> Result<(), Failure> {
    let body = plan.body.as_deref().and_then(|body| body.strip_prefix('@')).map(PathBuf::from);
    let files = [
        ("--plan", plan_file),
        ("--body", body.as_ref()),
        ("--raw", plan.raw.as_ref()),
        ("--out", wanted.out.as_ref()),
        ("--hdr", wanted.hdr.as_ref()),
        ("--csv", wanted.csv.as_ref()),
    ];
    let named = files.into_iter().filter_map(|(name, file)| Some((name, file?.clone())));
    output::require_distinct(&named.collect::<Vec<_>>())
}

/// Prepares a plan and runs it to its end or to the first signal, with a progress line. Returns
/// the wall-clock time of the run's epoch as well.
///
/// # Errors
/// A plan that can't run, a shard that can't start, a file that can't be written, or a signal
/// before the run.
pub(crate) fn drive(
    plan: Plan,
    stop: &StopRequest,
    progress: bool,
) -> Result<(Finished, SystemTime), Failure> {
    let prepared = prepare(plan, stop)?;
    let line = ProgressLine::new(prepared.plan(), progress);
    if stop.asked() {
        return Err(Failure::Interrupted);
    }
    let shards = prepared.plan().cores().len();
    let samples = prepared.plan().raw.as_ref().map(|raw| {
        stop.covering(|| {
            let file = SampleFile::create(raw, shards)?;
            let temporary = file.temporary().to_owned();
            Ok((file, Some(temporary)))
        })
    });
    let samples = samples.transpose().map_err(RunError::File)?;
    let run = Run::start_with(prepared, samples)?;
    while !run.is_finished() {
        if stop.asked() {
            run.stop();
        }
        line.show(&run.progress());
        thread::sleep(progress::INTERVAL);
    }
    line.clear();
    let finished = run.wait();
    let since = Duration::from_nanos(clock::now_ns().saturating_sub(finished.epoch_ns));
    Ok((finished, SystemTime::now() - since))
}

/// Prepares a plan unless a signal comes first. Resolving a name or connecting to a silent target
/// takes seconds, on a thread that ends with the program.
fn prepare(plan: Plan, stop: &StopRequest) -> Result<Prepared, Failure> {
    let (done, is_done) = mpsc::channel();
    let preparing = move || {
        // Nobody listens any more if a signal came first.
        let _ = done.send(run::prepare(plan));
    };
    thread::Builder::new().spawn(preparing).map_err(RunError::Thread)?;
    loop {
        if stop.asked() {
            return Err(Failure::Interrupted);
        }
        match is_done.recv_timeout(signals::POLL_INTERVAL) {
            Ok(prepared) => return Ok(prepared?),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("preparing a plan sends its result"),
        }
    }
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
