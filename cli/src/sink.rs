//! A file of a run's results: opened before the run, updated during it, and written after it.
//!
//! The table of flags has each with the source of its content: at the end (`Content::OfEnd`) or
//! during the run (`Content::OfRun`). No command names the formats, so a new one is its file and a
//! row.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use engine::plan::Plan;
use engine::report::Report;
use engine::run::{Finished, Run, RunProgress};

use crate::failure::Failure;
use crate::gate::Gate;
use crate::output::{OutputFile, Results};
use crate::signals::StopRequest;

/// A run that has ended.
pub(crate) struct EndedRun<'a> {
    /// Its results.
    pub(crate) finished: &'a Finished,
    /// The wall-clock time of its epoch.
    pub(crate) began: SystemTime,
    /// The conditions that fail it.
    pub(crate) gate: &'a Gate,
}

/// The content of a file of results.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    /// Written by this function once the run has ended.
    OfEnd(WriteEnd),
    /// A sink that this function makes of the file, and that follows the run.
    OfRun(fn(OutputFile) -> Box<dyn Sink>),
}

/// Writes the results of a run.
type WriteEnd = fn(&EndedRun<'_>, &mut dyn Write) -> io::Result<()>;

/// A file of results that is open.
pub(crate) trait Sink {
    /// Prepares for a run of this completed plan, which has not begun.
    ///
    /// # Errors
    /// Something that it needs is missing.
    fn prepare(&mut self, _plan: &Plan) -> Result<(), Failure> {
        Ok(())
    }

    /// Takes a snapshot of the run.
    fn look(&mut self, _now: &RunProgress) {}

    /// Takes the last snapshot.
    fn look_last(&mut self, _now: &RunProgress) {}

    /// Follows the window of a run on this machine. Returns how long the caller may sleep, at most
    /// `pause`.
    fn follow(&mut self, _run: &Run, pause: Duration) -> Duration {
        pause
    }

    /// Adds its part to the report of the run, which has ended.
    fn add_to(&mut self, _report: &mut Report) {}

    /// Writes the rest, and returns the path of the file, if there is one.
    ///
    /// # Errors
    /// It can't be written.
    fn finish(self: Box<Self>, ended: &EndedRun<'_>) -> Result<Option<PathBuf>, Failure>;
}

/// A file that is written once the run has ended.
struct OfEnd {
    file: OutputFile,
    write: WriteEnd,
}

impl Sink for OfEnd {
    fn finish(self: Box<Self>, ended: &EndedRun<'_>) -> Result<Option<PathBuf>, Failure> {
        let OfEnd { file, write } = *self;
        file.finish(|writer| write(ended, writer)).map(Some)
    }
}

/// The files of a run's results.
#[derive(Default)]
pub(crate) struct Sinks(Vec<Box<dyn Sink>>);

impl Sinks {
    /// Opens these, each with the flag that names it.
    ///
    /// # Errors
    /// One can't be written.
    pub(crate) fn open(
        files: impl Iterator<Item = (String, PathBuf, Content)>,
        stop: &StopRequest,
    ) -> Result<Sinks, Failure> {
        let mut sinks = Sinks::default();
        for (flag, path, content) in files {
            let file = OutputFile::open(&flag, &path, stop)?;
            sinks.0.push(match content {
                Content::OfEnd(write) => Box::new(OfEnd { file, write }),
                Content::OfRun(sink) => sink(file),
            });
        }
        Ok(sinks)
    }

    /// Prepares all for a run of this completed plan.
    ///
    /// # Errors
    /// Something that one needs is missing.
    pub(crate) fn prepare(&mut self, plan: &Plan) -> Result<(), Failure> {
        self.0.iter_mut().try_for_each(|sink| sink.prepare(plan))
    }

    /// Gives them a snapshot of the run.
    pub(crate) fn look(&mut self, now: &RunProgress) {
        self.0.iter_mut().for_each(|sink| sink.look(now));
    }

    /// Gives them the last snapshot.
    pub(crate) fn look_last(&mut self, now: &RunProgress) {
        self.0.iter_mut().for_each(|sink| sink.look_last(now));
    }

    /// Lets them follow the window of a run on this machine. Returns how long the caller may sleep,
    /// at most `pause`.
    pub(crate) fn follow(&mut self, run: &Run, pause: Duration) -> Duration {
        self.0.iter_mut().fold(pause, |pause, sink| sink.follow(run, pause))
    }

    /// Lets them add their parts to the report of the run, which has ended.
    pub(crate) fn add_to(&mut self, report: &mut Report) {
        self.0.iter_mut().for_each(|sink| sink.add_to(report));
    }

    /// Writes them: one that fails doesn't affect the others.
    pub(crate) fn finish(self, ended: &EndedRun<'_>, results: &mut Results) {
        for sink in self.0 {
            match sink.finish(ended) {
                Ok(path) => results.written.extend(path.map(|path| path.display().to_string())),
                Err(failure) => results.failures.push(failure),
            }
        }
    }
}
