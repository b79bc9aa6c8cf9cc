//! A file of a run's results: opened before the run, shown the run as it goes on, and written after
//! it.
//!
//! The table of flags has each beside the flag that names it, with what fills it: at the end
//! (`Content::OfEnd`) or as the run goes on (`Content::OfRun`). No command names the formats, so a
//! new one is its file and a row.

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
    /// What it measured.
    pub(crate) finished: &'a Finished,
    /// The wall-clock time of its epoch.
    pub(crate) began: SystemTime,
    /// What it passes or fails by.
    pub(crate) gate: &'a Gate,
}

/// What fills a file of results.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    /// This, once the run has ended.
    OfEnd(WriteEnd),
    /// What this makes of the file, which sees the run as it goes on.
    OfRun(fn(OutputFile) -> Box<dyn Sink>),
}

/// Writes the results of a run.
type WriteEnd = fn(&EndedRun<'_>, &mut dyn Write) -> io::Result<()>;

/// A file of results that is open.
pub(crate) trait Sink {
    /// Gets ready for a run of this completed plan, which has not begun.
    ///
    /// # Errors
    /// What it needs isn't there.
    fn prepare(&mut self, _plan: &Plan) -> Result<(), Failure> {
        Ok(())
    }

    /// Looks at the run as it goes on.
    fn look(&mut self, _now: &RunProgress) {}

    /// Looks at it for the last time.
    fn look_last(&mut self, _now: &RunProgress) {}

    /// Follows the window of a run on this machine. Returns how long the caller may sleep, at most
    /// `pause`.
    fn follow(&mut self, _run: &Run, pause: Duration) -> Duration {
        pause
    }

    /// Adds what it has to the report of the run, which has ended.
    fn add_to(&mut self, _report: &mut Report) {}

    /// Writes what is missing, and returns the path of the file, if there is one.
    ///
    /// # Errors
    /// Why it can't be written.
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
    /// One that can't be written.
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

    /// Gets all ready for a run of this completed plan.
    ///
    /// # Errors
    /// What one of them needs isn't there.
    pub(crate) fn prepare(&mut self, plan: &Plan) -> Result<(), Failure> {
        self.0.iter_mut().try_for_each(|sink| sink.prepare(plan))
    }

    /// Shows them the run as it goes on.
    pub(crate) fn look(&mut self, now: &RunProgress) {
        self.0.iter_mut().for_each(|sink| sink.look(now));
    }

    /// Shows it for the last time.
    pub(crate) fn look_last(&mut self, now: &RunProgress) {
        self.0.iter_mut().for_each(|sink| sink.look_last(now));
    }

    /// Has them follow the window of a run on this machine. Returns how long the caller may sleep,
    /// at most `pause`.
    pub(crate) fn follow(&mut self, run: &Run, pause: Duration) -> Duration {
        self.0.iter_mut().fold(pause, |pause, sink| sink.follow(run, pause))
    }

    /// Has them add what they have to the report of the run, which has ended.
    pub(crate) fn add_to(&mut self, report: &mut Report) {
        self.0.iter_mut().for_each(|sink| sink.add_to(report));
    }

    /// Writes them: one that fails takes no other with it.
    pub(crate) fn finish(self, ended: &EndedRun<'_>, results: &mut Results) {
        for sink in self.0 {
            match sink.finish(ended) {
                Ok(path) => results.written.extend(path.map(|path| path.display().to_string())),
                Err(failure) => results.failures.push(failure),
            }
        }
    }
}
