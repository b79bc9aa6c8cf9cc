//! Runs a tool's command: without a terminal, in a session of its own, bounded in time and output,
//! with nothing left running.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;

use crate::children::Children;

/// How often a tool is looked at.
const POLL: Duration = Duration::from_millis(10);
/// The most that a tool may print.
const OUTPUT_MAX: u64 = 16 << 20;

/// One tool at a time: two would disturb each other, and what one leaves behind would be taken for
/// the other's.
static ALONE: Mutex<()> = Mutex::new(());

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Exited(ExitStatus),
    /// It was killed, because it ran for longer than this.
    TooLong(Duration),
    /// It was killed, because it printed too much.
    TooMuch,
    /// It was killed, because the user asked to stop.
    Stopped,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ran {
    /// How.
    pub ended: Ended,
    /// Its standard output; what isn't UTF-8 is replaced.
    pub stdout: String,
    /// The same of its standard error.
    pub stderr: String,
    /// Processes of its own that were still running when it had ended, and were then killed.
    pub left_running: usize,
    /// How long it was stopped, each time.
    pub stopped: Vec<Duration>,
}

/// Why a command could not be run.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// There is no such program.
    #[error("{0}: not installed, or not in PATH")]
    NotFound(String),
    /// The system refuses.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Times for which a command is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stops {
    /// From its start to the first.
    pub after: Duration,
    /// How long each lasts.
    pub hold: Duration,
    /// From one to the next; `None` for a single one.
    pub every: Option<Duration>,
}

/// What a command is run under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// It is stopped meanwhile, as by a debugger or a limit on its processor time.
    pub stops: Option<Stops>,
    /// It may open so many files.
    pub files_max: Option<u32>,
}

/// Runs a command for at most `longest`, its output going to `NAME.stdout` and `NAME.stderr` in a
/// folder. Afterwards none of its processes is left, whatever group or session they moved to.
///
/// Until it returns, no other part of this process may start processes: they would be taken for
/// the tool's and killed.
///
/// # Errors
/// If the program isn't there, or the system refuses.
pub fn run(
    words: &[String],
    stdin: &str,
    longest: Duration,
    (folder, name): (&Path, &str),
    conditions: Conditions,
    asked: &dyn Fn() -> bool,
) -> Result<Ran, ProcessError> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = path();
    let program = words.first().map(String::as_str).unwrap_or_default();
    if !is_there(program, &path) {
        return Err(ProcessError::NotFound(program.to_owned()));
    }
    if conditions.files_max.is_some() && !is_there("prlimit", &path) {
        return Err(ProcessError::NotFound("prlimit".to_owned()));
    }
    let [input, stdout, stderr] =
        ["stdin", "stdout", "stderr"].map(|end| folder.join(format!("{name}.{end}")));
    fs::write(&input, stdin)?;
    let before = Children::before()?;
    // setsid makes a session, which has no terminal, and becomes the program: so the child's number
    // is that of its group too. Without it, unsafe code would have to run between fork and exec.
    let limit = conditions.files_max.map(|files| ["prlimit".into(), format!("--nofile={files}")]);
    let mut child = Command::new("setsid")
        .args(limit.iter().flatten())
        .args(words)
        .env("PATH", &path)
        .env("TERM", "dumb")
        .env("NO_COLOR", "1")
        .stdin(File::open(&input)?)
        .stdout(Stdio::from(File::create(&stdout)?))
        .stderr(Stdio::from(File::create(&stderr)?))
        .spawn()?;
    let mut stopped = Vec::new();
    let ended =
        wait(&mut child, longest, [&stdout, &stderr], (conditions.stops, &mut stopped), asked);
    if !matches!(ended, Ok(Ended::Exited(_))) {
        // Not yet waited for, so the number is still its own.
        signal(&child, Signal::KILL);
        // If it failed before it had a group.
        let _ = child.kill();
        child.wait()?;
    }
    let left_running = before.end_others()?;
    let ended = ended?;
    // What was killed with its group is no surprise.
    let left_running = if matches!(ended, Ended::Exited(_)) { left_running } else { 0 };
    let (stdout, stderr) = (text_of(&stdout)?, text_of(&stderr)?);
    Ok(Ran { ended, stdout, stderr, left_running, stopped })
}

/// Sends a signal to all processes of its group.
fn signal(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

fn wait(
    child: &mut Child,
    longest: Duration,
    files: [&PathBuf; 2],
    (stops, stopped): (Option<Stops>, &mut Vec<Duration>),
    asked: &dyn Fn() -> bool,
) -> io::Result<Ended> {
    let began = Instant::now();
    let mut next = stops.map(|stops| began + stops.after);
    loop {
        if let (Some(Stops { hold, every, .. }), Some(at)) = (stops, next)
            && at <= Instant::now()
        {
            signal(child, Signal::STOP);
            // From after the one signal to before the other: it was stopped for as long at least.
            let since = Instant::now();
            thread::sleep(hold);
            stopped.push(since.elapsed());
            signal(child, Signal::CONT);
            next = every.map(|every| at + every);
        }
        if let Some(status) = child.try_wait()? {
            return Ok(Ended::Exited(status));
        }
        if asked() {
            return Ok(Ended::Stopped);
        }
        if longest < began.elapsed() {
            return Ok(Ended::TooLong(longest));
        }
        for file in files {
            if OUTPUT_MAX < fs::metadata(file)?.len() {
                return Ok(Ended::TooMuch);
            }
        }
        let rest = next.map_or(POLL, |at| at.saturating_duration_since(Instant::now()));
        thread::sleep(rest.min(POLL));
    }
}

impl Ran {
    /// True if it ended by itself: by a signal, or with an exit code other than these.
    pub fn has_failed(&self, exits: &[i32]) -> bool {
        let Ended::Exited(status) = self.ended else { return false };
        status.code().is_none_or(|code| !exits.contains(&code))
    }

    /// What is wrong with how it ended, if anything; with these exit codes nothing is.
    pub fn problem(&self, exits: &[i32]) -> Option<String> {
        let last = self.stderr.lines().rev().find(|line| !line.trim().is_empty());
        let said = last.map_or(String::new(), |line| format!(": {}", line.trim()));
        match self.ended {
            Ended::TooLong(longest) => {
                Some(format!("it didn't end within {} s and was killed", longest.as_secs()))
            }
            Ended::TooMuch => {
                Some(format!("it printed more than {} MiB and was killed", OUTPUT_MAX >> 20))
            }
            Ended::Stopped => Some("it was stopped".to_owned()),
            Ended::Exited(status) if !status.code().is_some_and(|code| exits.contains(&code)) => {
                let how = match (status.code(), status.signal()) {
                    (Some(code), _) => format!("it exited with {code}"),
                    (None, signal) => format!("signal {} ended it", signal.unwrap_or_default()),
                };
                let terminal = ["/dev/tty", "not a tty", "terminal"];
                let cure = match terminal.iter().any(|word| self.stderr.contains(word)) {
                    true => "; it may need a terminal, and the judge gives it none",
                    false => "",
                };
                Some(format!("{how}{said}{cure}"))
            }
            Ended::Exited(_) if 0 < self.left_running => {
                let processes = if self.left_running == 1 { "process" } else { "processes" };
                let count = self.left_running;
                Some(format!("it ended and left {count} {processes} running, which were killed"))
            }
            Ended::Exited(_) => None,
        }
    }
}

/// The folders of programs, this program's own first: so a `truetail` is this one.
fn path() -> OsString {
    let own = env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = own.into_iter().chain(env::split_paths(&path));
    env::join_paths(folders).unwrap_or(path)
}

fn is_there(program: &str, path: &OsString) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    !program.is_empty() && env::split_paths(path).any(|folder| folder.join(program).is_file())
}

fn text_of(file: &Path) -> io::Result<String> {
    use io::Read as _;
    let mut bytes = Vec::new();
    File::open(file)?.take(OUTPUT_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
