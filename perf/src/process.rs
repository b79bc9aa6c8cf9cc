//! Runs programs pinned to a core and reads their CPU time from the kernel.
#![expect(unsafe_code, reason = "the standard library can't return a child's resource usage")]

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

/// Time that a client may take beyond its duration, to connect, drain and write.
const SLACK: Duration = Duration::from_secs(60);

/// How often a child's state is polled.
const POLL: Duration = Duration::from_millis(5);

/// A process that succeeded.
pub(crate) struct Finished {
    /// Its standard output.
    pub(crate) stdout: String,
    /// User and system time of all its threads, µs.
    pub(crate) cpu_us: f64,
    /// User time alone, µs.
    pub(crate) user_us: f64,
    /// The most memory that it held, MiB.
    pub(crate) memory_mib: f64,
    /// From start to end.
    pub(crate) wall: Duration,
}

/// The end of a process, by the kernel's account.
pub(crate) struct Ended {
    succeeded: bool,
    /// User and system time of all its threads, µs.
    pub(crate) cpu_us: f64,
    /// User time alone, µs.
    user_us: f64,
    /// The most memory that it held, MiB.
    memory_mib: f64,
}

/// The destination of a process's errors and progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stderr {
    /// A file, whose last line is the reason for a failure.
    File,
    /// A terminal, where a progress line is drawn.
    Terminal,
}

/// Raises the soft limit on open files to the hard limit; children inherit it.
pub(crate) fn raise_open_files() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .context("can't raise the soft limit on open files to the hard limit")
}

/// The limit on a child's open files.
pub(crate) fn files_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// True if a program is installed and starts.
pub(crate) fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("-v").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// Runs a command on one core; fails if it takes longer than `length` plus [`SLACK`].
pub(crate) fn run_pinned(
    core: usize,
    command: &[String],
    length: Duration,
    stderr: Stderr,
) -> Result<Finished> {
    let mut stdout_file = tempfile::tempfile()?;
    let mut stderr_file = tempfile::tempfile()?;
    let ((stdin_end, stderr_end), terminal) = match stderr {
        Stderr::File => ((Stdio::null(), Stdio::from(stderr_file.try_clone()?)), None),
        Stderr::Terminal => {
            let (ends, terminal) = Terminal::open()?;
            (ends, Some(terminal))
        }
    };
    let started = Instant::now();
    let mut child = Running(
        pinned(core, command)
            .stdin(stdin_end)
            .stdout(stdout_file.try_clone()?)
            .stderr(stderr_end)
            .spawn()
            .with_context(|| format!("can't start `taskset` for {}", command[0]))?,
    );
    let Ended { succeeded, cpu_us, user_us, memory_mib } = child
        .reap(length + SLACK)
        .with_context(|| format!("{} is still running {SLACK:?} after its duration", command[0]))?;
    let wall = started.elapsed();
    let errors = match terminal {
        None => whole(&mut stderr_file)?,
        Some(terminal) => terminal.text()?,
    };
    if !succeeded {
        let last = errors.lines().map(str::trim).rfind(|line| !line.is_empty());
        bail!("{}", last.unwrap_or("failed without a message"));
    }
    if stderr == Stderr::Terminal {
        ensure!(!errors.is_empty(), "{} drew nothing on its terminal", command[0]);
    }
    Ok(Finished { stdout: whole(&mut stdout_file)?, cpu_us, user_us, memory_mib, wall })
}

fn whole(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// The near end of a terminal, with a thread that reads it.
struct Terminal(JoinHandle<Vec<u8>>);

impl Terminal {
    /// A new terminal, and its far end twice, for a child.
    fn open() -> Result<((Stdio, Stdio), Terminal)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let near = openpt(flags).context("can't open a terminal")?;
        grantpt(&near)?;
        unlockpt(&near)?;
        let far = ioctl_tiocgptpeer(&near, flags)?;
        let mut near = File::from(near);
        let reader = std::thread::spawn(move || {
            let (mut text, mut buffer) = (Vec::new(), [0; 4_096]);
            // Once the last process has closed the far end, reading fails.
            while let Ok(length @ 1..) = near.read(&mut buffer) {
                text.extend_from_slice(&buffer[..length]);
            }
            text
        });
        let far_too = far.try_clone()?;
        Ok(((Stdio::from(far), Stdio::from(far_too)), Terminal(reader)))
    }

    /// All text that was written to it.
    fn text(self) -> Result<String> {
        let text = self.0.join().map_err(|_| anyhow!("the terminal's reader panicked"))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Pins a command to one core. `taskset` executes it in its own process, so the process ID and the
/// CPU time are the command's.
pub(crate) fn pinned(core: usize, command: &[String]) -> Command {
    let mut taskset = Command::new("taskset");
    taskset.arg("-c").arg(core.to_string()).args(command);
    taskset
}

/// A child process that is killed when dropped.
pub(crate) struct Running(Child);

impl Running {
    /// Starts the command.
    pub(crate) fn start(command: &mut Command) -> io::Result<Running> {
        command.spawn().map(Running)
    }

    /// Its standard output, if that is piped and wasn't taken before.
    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// Sends it SIGTERM.
    pub(crate) fn terminate(&self) -> Result<()> {
        Ok(kill_process(self.pid(), Signal::TERM)?)
    }

    /// Waits for its end, at most this long.
    pub(crate) fn reap(&mut self, longest: Duration) -> Result<Ended> {
        let started = Instant::now();
        while started.elapsed() < longest {
            if let Some(ended) = self.try_reap()? {
                return Ok(ended);
            }
            std::thread::sleep(POLL);
        }
        bail!("it did not end within {longest:?}");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Its end; `None` while it runs.
    fn try_reap(&mut self) -> io::Result<Option<Ended>> {
        let mut status = 0;
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both pointers are to live values of the right types.
        let reaped = unsafe {
            libc::wait4(
                self.pid().as_raw_nonzero().get(),
                &mut status,
                libc::WNOHANG,
                usage.as_mut_ptr(),
            )
        };
        if reaped < 0 {
            return Err(io::Error::last_os_error());
        }
        if reaped == 0 {
            return Ok(None);
        }
        // SAFETY: the structure holds only integers, was zeroed, and the kernel has filled it.
        let usage = unsafe { usage.assume_init() };
        let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
        Ok(Some(Ended {
            succeeded: status == 0,
            cpu_us: us(usage.ru_utime) + us(usage.ru_stime),
            user_us: us(usage.ru_utime),
            memory_mib: usage.ru_maxrss as f64 / 1_024.0,
        }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A reaped child isn't ours any more, so `try_reap` fails.
        if let Ok(None) = self.try_reap() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &[&str], stderr: Stderr) -> Result<Finished> {
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        let core = engine::sys::placement::allowed_cores()[0];
        run_pinned(core, &command, Duration::ZERO, stderr)
    }

    #[test]
    fn a_command_gives_its_output_and_its_cost() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo $i; echo no >&2";
        let finished = run(&["sh", "-c", script], Stderr::File).expect("it succeeds");
        assert_eq!(finished.stdout, "20000\n");
        assert!(0.0 < finished.memory_mib && finished.memory_mib < 100.0);
        assert!(0.0 < finished.cpu_us && finished.cpu_us < 1e6 * finished.wall.as_secs_f64() + 1e4);
    }

    #[test]
    fn a_failure_has_the_last_line_of_stderr() {
        for stderr in [Stderr::File, Stderr::Terminal] {
            let error = run(&["sh", "-c", "echo first >&2; echo last >&2; exit 3"], stderr);
            assert_eq!(error.err().map(|error| error.to_string()).as_deref(), Some("last"));
        }
    }

    #[test]
    fn a_terminal_is_one_and_takes_more_than_its_buffer() {
        let script = "test -t 2 && head -c 100000 /dev/zero >&2";
        assert!(run(&["sh", "-c", script], Stderr::Terminal).is_ok());
        let silent = run(&["true"], Stderr::Terminal);
        assert!(silent.is_err_and(|error| error.to_string().contains("drew nothing")));
    }
}
