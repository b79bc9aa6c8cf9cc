//! The profile of a run: its file is opened before the run, its samples are taken during the
//! window, and it is written after the run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::plan::Plan;
use engine::report::Report;
use engine::run::Run;
use profile::{Format, Profiler, Recording};

use crate::failure::Failure;
use crate::output::OutputFile;
use crate::signals::StopRequest;

/// A profile to be taken, with the file that it goes to.
pub(crate) struct Flamegraph {
    file: OutputFile,
    shown: PathBuf,
    format: Format,
    profiler: Option<Profiler>,
    recorded: Result<Recording, String>,
}

impl Flamegraph {
    /// Opens the file, whose name decides its format.
    ///
    /// # Errors
    /// A path that can't be written, as a usage error.
    pub(crate) fn open(path: &Path, stop: &StopRequest) -> Result<Flamegraph, Failure> {
        let format = Format::of(path).expect("other names are refused with the flags");
        let recorded = Err("the run did not begin".to_owned());
        let (file, shown) = (OutputFile::open("--flamegraph", path, stop)?, path.to_owned());
        Ok(Flamegraph { file, shown, format, profiler: None, recorded })
    }

    /// Gets ready to profile a run of this completed plan, which has not begun.
    ///
    /// # Errors
    /// Nothing on this machine can take samples.
    pub(crate) fn prepare(&mut self, plan: &Plan) -> Result<(), Failure> {
        self.profiler = Some(Profiler::new(plan).map_err(|why| self.failure(&why))?);
        Ok(())
    }

    /// Begins and ends with the run's window. Returns how long the caller may sleep, at most
    /// `pause`.
    pub(crate) fn follow(&mut self, run: &Run, pause: Duration) -> Duration {
        self.profiler.as_mut().map_or(pause, |profiler| profiler.follow(run.window(), pause))
    }

    /// Adds the profile to the report of the run, which has ended.
    pub(crate) fn finish(&mut self, report: &mut Report) {
        let Some(profiler) = self.profiler.take() else { return };
        self.recorded = profiler.finish();
        if let Ok(recording) = &self.recorded {
            recording.add_to(report);
        }
    }

    /// Writes the profile of this run.
    ///
    /// # Errors
    /// Why there is none, or why it can't be written; then there is no file.
    pub(crate) fn write(self, report: &Report) -> Result<PathBuf, Failure> {
        match &self.recorded {
            Err(why) => Err(self.failure(why)),
            Ok(recording) => {
                self.file.finish(|writer| recording.write(report, self.format, writer))
            }
        }
    }

    fn failure(&self, why: &str) -> Failure {
        Failure::CouldNotRun(format!("--flamegraph {}: no profile: {why}", self.shown.display()))
    }
}
