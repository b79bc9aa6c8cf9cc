//! The profile of a run: its file is opened before the run, it is sampled during the window, and
//! written after the run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::plan::Plan;
use engine::report::Report;
use engine::run::Run;
use profile::{Format, Profiler, Recording};

use crate::failure::{Failure, complain};
use crate::output::OutputFile;
use crate::signals::StopRequest;
use crate::sink::{Content, EndedRun, Sink, Sinks};

/// A profile to take, with its file.
pub(crate) struct Flamegraph {
    file: OutputFile,
    format: Format,
    profiler: Option<Profiler>,
    recorded: Result<Recording, String>,
}

impl Flamegraph {
    /// The profile of a run without other results, in this file.
    ///
    /// # Errors
    /// A path that can't be written, as a usage error.
    pub(crate) fn alone(path: &Path, stop: &StopRequest) -> Result<Sinks, Failure> {
        let file = ("--flamegraph".to_owned(), path.to_owned(), Content::OfRun(Flamegraph::sink));
        Sinks::open([file].into_iter(), stop)
    }

    /// A profile in this file, whose name decides its format.
    pub(crate) fn sink(file: OutputFile) -> Box<dyn Sink> {
        let format = Format::of(file.shown()).expect("other names are refused with the flags");
        let recorded = Err("the run did not begin".to_owned());
        Box::new(Flamegraph { file, format, profiler: None, recorded })
    }

    fn failure(&self, why: &str) -> Failure {
        let file = self.file.shown().display();
        Failure::CouldNotRun(format!("--flamegraph {file}: no profile: {why}"))
    }

    fn write(self, report: &Report) -> Result<PathBuf, Failure> {
        match &self.recorded {
            Err(why) => Err(self.failure(why)),
            Ok(recording) => {
                self.file.finish(|writer| recording.write(report, self.format, writer))
            }
        }
    }
}

impl Sink for Flamegraph {
    fn prepare(&mut self, plan: &Plan) -> Result<(), Failure> {
        self.profiler = Some(Profiler::new(plan).map_err(|why| self.failure(&why))?);
        Ok(())
    }

    fn follow(&mut self, run: &Run, pause: Duration) -> Duration {
        self.profiler.as_mut().map_or(pause, |profiler| profiler.follow(run.window(), pause))
    }

    fn add_to(&mut self, report: &mut Report) {
        let Some(profiler) = self.profiler.take() else { return };
        self.recorded = profiler.finish();
        if let Ok(recording) = &self.recorded {
            recording.add_to(report);
        }
    }

    fn finish(self: Box<Self>, ended: &EndedRun<'_>) -> Result<Option<PathBuf>, Failure> {
        let report = &ended.finished.report;
        match self.write(report) {
            // An interrupted run may have nothing to profile, and has an exit code of its own.
            Err(failure) if report.interrupted => {
                complain(&failure.to_string());
                Ok(None)
            }
            written => written.map(Some),
        }
    }
}
