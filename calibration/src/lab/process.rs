//! Processes that an experiment starts: servers, agents, runs and other programs. Each is in a
//! process group of its own, so that it gets a terminal's interrupt only from here, and none
//! outlives its value.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::error::LabError;

/// How often a process is checked.
const LOOK: Duration = Duration::from_millis(20);
/// The longest that a server may take to listen, and to end after a request to.
const SERVER_MAX: Duration = Duration::from_secs(20);

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    /// Its command line.
    command: String,
    child: Child,
    stdout: Output,
    stderr: Output,
}

/// The output of a process that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// On standard output.
    pub stdout: String,
    /// On standard error.
    pub stderr: String,
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
}

impl Process {
    /// Starts a command, which is shown as `shown`.
    ///
    /// # Errors
    /// It can't be started.
    pub(super) fn start(mut command: Command, shown: &str) -> Result<Process, LabError> {
        let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = pipes.process_group(0).spawn();
        let mut child = started.map_err(|error| LabError::ended(shown, error))?;
        let stdout = Output::of(child.stdout.take().expect("it is piped"));
        let stderr = Output::of(child.stderr.take().expect("it is piped"));
        Ok(Process { command: shown.to_owned(), child, stdout, stderr })
    }

    /// The first line of its output.
    ///
    /// # Errors
    /// It ends before, or takes too long.
    pub(super) fn first_line(&mut self) -> Result<String, LabError> {
        let started = Instant::now();
        loop {
            let ended = self.status()?;
            if let Some((line, _)) = self.stdout.text().split_once('\n') {
                return Ok(line.to_owned());
            }
            if ended.is_some() || SERVER_MAX < started.elapsed() {
                let said = self.stderr.text();
                return Err(LabError::ended(&self.command, format!("it doesn't listen: {said}")));
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits for its end, for at most this long. If `asked` returns true, it is interrupted as by a
    /// user.
    ///
    /// # Errors
    /// It takes longer, or was interrupted.
    pub(super) fn wait(
        mut self,
        longest: Duration,
        asked: impl Fn() -> bool,
    ) -> Result<Said, LabError> {
        let started = Instant::now();
        let mut interrupted = false;
        while self.status()?.is_none() {
            if asked() && !interrupted {
                interrupted = true;
                self.signal(Signal::INT);
            }
            if longest < started.elapsed() {
                let problem = format!("it still runs after {longest:?}");
                return Err(LabError::ended(&self.command, problem));
            }
            thread::sleep(LOOK);
        }
        if interrupted { Err(LabError::Interrupted) } else { self.said() }
    }

    /// Asks a server to end, and waits until it has.
    ///
    /// # Errors
    /// It doesn't end, or fails.
    pub(super) fn end(mut self) -> Result<Said, LabError> {
        self.signal(Signal::TERM);
        let command = self.command.clone();
        let started = Instant::now();
        while self.status()?.is_none() {
            if SERVER_MAX < started.elapsed() {
                return Err(LabError::ended(&command, "it doesn't end"));
            }
            thread::sleep(LOOK);
        }
        let said = self.said()?;
        match said.code {
            Some(0) => Ok(said),
            code => Err(LabError::ended(&command, format!("exit code {code:?}: {}", said.stderr))),
        }
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, LabError> {
        self.child.try_wait().map_err(|error| LabError::ended(&self.command, error))
    }

    fn signal(&self, signal: Signal) {
        // A process that has already ended gets none.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Its output, once it has ended.
    fn said(&mut self) -> Result<Said, LabError> {
        let status = self.child.wait().map_err(|error| LabError::ended(&self.command, error))?;
        self.stdout.end();
        self.stderr.end();
        let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
        Ok(Said { stdout, stderr, code: status.code() })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has already ended can't be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output from a pipe, read by a thread of its own.
#[derive(Debug)]
struct Output {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Output {
    fn of(mut pipe: impl Read + Send + 'static) -> Output {
        let text = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]);
                written.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
            }
        });
        Output { text, reader: Some(reader) }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until everything is read: the process has ended.
    fn end(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
