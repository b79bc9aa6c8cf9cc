//! A run in progress, driven to its end or to the first signal with a progress line, for every
//! command that makes runs.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::SystemTime;

use engine::load::share::Share;
use engine::plan::Plan;
use engine::plan::body::SharedBody;
use engine::report::merge;
use engine::run::{self, Finished, Prepared, Run, RunError, Targets};
use engine::samples::SampleFile;

use crate::failure::{Failure, tell};
use crate::progress::{self, Announce, ProgressLine, View};
use crate::saved::Reference;
use crate::signals::{self, StopRequest};
use crate::sink::Sinks;
use crate::text::progress::awaiting;

/// Prepares a plan and runs it to its end or to the first signal, shown as in `view`. `body` is
/// read unless an earlier run with the same body did. Also returns the wall-clock time of the run's
/// epoch.
///
/// # Errors
/// A plan can't run, a shard can't start, a file can't be written, or a signal came before the run.
pub(crate) fn drive(
    plan: Plan,
    body: &SharedBody,
    stop: &StopRequest,
    view: View<'_>,
) -> Result<(Finished, SystemTime), Failure> {
    drive_with_extras(plan, body, stop, view, Extras::default())
}

/// The extras of a run besides its plan.
#[derive(Default)]
pub(crate) struct Extras<'a> {
    /// The calibration that the report is checked against.
    pub(crate) reference: Option<&'a Reference>,
    /// The files of its results, some of which are written during the run.
    pub(crate) sinks: Option<&'a mut Sinks>,
}

/// [`drive`] with extras.
///
/// # Errors
/// Those of [`drive`]; this machine has no way to sample stacks; or the calibration is of another
/// machine or configuration.
pub(crate) fn drive_with_extras(
    plan: Plan,
    body: &SharedBody,
    stop: &StopRequest,
    view: View<'_>,
    extras: Extras<'_>,
) -> Result<(Finished, SystemTime), Failure> {
    let line = |plan: &Plan| Ok(ProgressLine::new(plan, view));
    drive_with(plan, body, stop, view.announce, line, extras)
}

/// [`drive_with_extras`] with the caller's progress line for the completed plan, which can run.
///
/// # Errors
/// Those of [`drive_with_extras`] and of `line`.
pub(crate) fn drive_with(
    plan: Plan,
    body: &SharedBody,
    stop: &StopRequest,
    announce: Announce,
    line: impl FnOnce(&Plan) -> Result<ProgressLine, Failure>,
    extras: Extras<'_>,
) -> Result<(Finished, SystemTime), Failure> {
    let Extras { reference, sinks } = extras;
    let mut none = Sinks::default();
    let sinks = sinks.unwrap_or(&mut none);
    let prepared = prepare(plan, body.clone(), stop)?;
    let calibrated = match reference {
        Some(reference) => reference.find(prepared.plan())?,
        None => None,
    };
    if stop.asked() {
        return Err(Failure::Interrupted);
    }
    let mut line = line(prepared.plan())?;
    let shards = prepared.plan().cores().len();
    let samples = prepared.plan().raw.as_ref().map(|raw| {
        stop.covering(|| {
            let file = SampleFile::create(raw, shards)?;
            let temporary = file.temporary().to_owned();
            Ok((file, Some(temporary)))
        })
    });
    let samples = samples.transpose().map_err(RunError::File)?;
    sinks.prepare(prepared.plan())?;
    let takes = announce.line(prepared.plan(), 0);
    let run = Run::start_with(prepared, samples)?;
    takes.iter().for_each(|takes| line.above(|| tell(takes)));
    let (mut stopped, mut announced) = (false, false);
    while !run.is_finished() {
        let now = run.progress();
        // Most runs end at once: only one that still waits is announced.
        if stopped && !announced && 0 < now.in_flight {
            line.say(&awaiting(now.in_flight));
            announced = true;
        }
        if stop.asked() {
            run.stop();
            line.leave_screen();
            stopped = true;
        }
        line.show(&now, || run.health());
        sinks.look(&now);
        line.pause(sinks.follow(&run, progress::INTERVAL));
    }
    line.clear();
    sinks.look_last(&run.progress());
    let mut finished = run.wait();
    sinks.add_to(&mut finished.report);
    if let Some(calibrated) = calibrated {
        merge::hold_against(&mut finished.report, calibrated);
    }
    let began = finished.began;
    Ok((finished, began))
}

/// Prepares a plan unless a signal comes first. Resolving a name or connecting to a silent target
/// takes seconds, on a thread that ends with the program.
///
/// # Errors
/// The plan can't run, or a signal came.
pub(crate) fn prepare(
    plan: Plan,
    body: SharedBody,
    stop: &StopRequest,
) -> Result<Prepared, Failure> {
    let (done, is_done) = mpsc::channel();
    let preparing = move || {
        // The receiver is gone if a signal came first.
        let _ = done.send(run::prepare_with(plan, &body, Targets::Resolve, Share::whole()));
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
