//! Runs programs pinned to a core and reads their CPU time from the kernel.
#![expect(unsafe_code, reason = "the standard library can't return a child's resource usage")]

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use engine::report::Report;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// What is measured, and on which cores.
pub(crate) struct Bench {
    /// The `truetail` binary.
    pub(crate) truetail: PathBuf,
    /// The core of the null target.
    pub(crate) target_core: usize,
    /// The core of the client.
    pub(crate) client_core: usize,
}

/// Time that a client may take beyond its duration, to connect, drain and write.
const SLACK: Duration = Duration::from_secs(30);

/// How often a child's state is polled.
const POLL: Duration = Duration::from_millis(5);

/// A process that succeeded.
pub(crate) struct Finished {
    /// Its standard output.
    pub(crate) stdout: String,
    /// User and system time of all its threads, µs.
    pub(crate) cpu_us: f64,
    /// From start to end.
    pub(crate) wall: Duration,
}

/// Raises the soft limit on open files to the hard limit; children inherit it.
pub(crate) fn raise_open_files() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .context("can't raise the soft limit on open files to the hard limit")
}

/// The limit on a child's open files.
pub(crate) fn files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Whether a program is installed and starts.
pub(crate) fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("-v").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// Runs a command on one core; fails if it takes longer than `length` plus [`SLACK`].
pub(crate) fn run_pinned(core: usize, command: &[String], length: Duration) -> Result<Finished> {
    let started = Instant::now();
    let mut child = Running(
        pinned(core, command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("can't start `taskset` for {}", command[0]))?,
    );
    let cpu_us = loop {
        if let Some((success, cpu_us)) = child.try_reap()? {
            if !success {
                bail!("`{}` failed", command.join(" "));
            }
            break cpu_us;
        }
        if length + SLACK < started.elapsed() {
            bail!("`{}` is still running {SLACK:?} after its duration", command.join(" "));
        }
        std::thread::sleep(POLL);
    };
    let wall = started.elapsed();
    let mut stdout = String::new();
    // A summary fits in the pipe, so the child can end without a reader.
    child.0.stdout.take().expect("it is piped").read_to_string(&mut stdout)?;
    Ok(Finished { stdout, cpu_us, wall })
}

/// Pins a command to one core. `taskset` executes it in its own process, so the process ID and the
/// CPU time are the command's.
fn pinned(core: usize, command: &[String]) -> Command {
    let mut taskset = Command::new("taskset");
    taskset.arg("-c").arg(core.to_string()).args(command);
    taskset
}

impl Bench {
    /// Runs `truetail run` on the client's core with these flags; returns its report and its cost.
    pub(crate) fn run_truetail(
        &self,
        url: &str,
        flags: &[&str],
        length: Duration,
    ) -> Result<(Report, Finished)> {
        let out = std::env::temp_dir().join(format!("truetail-bench-{}.json", std::process::id()));
        let mut command =
            vec![self.truetail.display().to_string(), "run".to_owned(), url.to_owned()];
        command.extend(flags.iter().map(|&flag| flag.to_owned()));
        // A run at the ceiling measures the generator, so its verdict is invalid; here that is
        // wanted.
        command.extend([
            "--allow-invalid".to_owned(),
            "--quiet".to_owned(),
            "--out".to_owned(),
            out.display().to_string(),
        ]);
        let finished = run_pinned(self.client_core, &command, length)?;
        let text = std::fs::read_to_string(&out)
            .with_context(|| format!("can't read {}", out.display()))?;
        std::fs::remove_file(&out)?;
        let report: Report = serde_json::from_str(&text).context("can't parse the report")?;
        let counts = &report.whole.counts;
        if counts.answered == 0 || counts.failed + counts.timed_out + counts.abandoned != 0 {
            bail!("requests failed, so the run gives no figure: {counts:?}");
        }
        Ok((report, finished))
    }
}

/// A child process that is killed when dropped.
struct Running(Child);

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Whether it succeeded, and its CPU time in µs; `None` while it runs.
    fn try_reap(&mut self) -> io::Result<Option<(bool, f64)>> {
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
        Ok(Some((status == 0, us(usage.ru_utime) + us(usage.ru_stime))))
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

/// A null target in its own process.
pub(crate) struct NullTarget {
    running: Running,
    stdout: BufReader<ChildStdout>,
    /// Its URL.
    pub(crate) url: String,
}

/// What the null target answered and cost.
pub(crate) struct NullCost {
    /// Requests answered.
    pub(crate) requests: f64,
    /// User and system time, µs.
    pub(crate) cpu_us: f64,
}

impl NullTarget {
    /// Starts it on its core and waits until it listens. It has room for twice `conns` connections,
    /// because those of one client may still be closing when the next connects.
    pub(crate) fn start(bench: &Bench, conns: usize) -> Result<NullTarget> {
        let core = bench.target_core.to_string();
        let room = (2 * conns).to_string();
        let program = bench.truetail.display().to_string();
        let command = [
            &program,
            "null-target",
            "--listen",
            "127.0.0.1:0",
            "--cores",
            &core,
            "--conns",
            &room,
        ];
        let command = command.map(str::to_owned);
        let mut child = Running(
            pinned(bench.target_core, &command)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()?,
        );
        let mut stdout = BufReader::new(child.0.stdout.take().expect("it is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let url = line
            .trim()
            .strip_prefix("listening on ")
            .with_context(|| format!("the null target did not start; it printed {line:?}"))?
            .to_owned();
        Ok(NullTarget { running: child, stdout, url })
    }

    /// Stops it with SIGTERM.
    pub(crate) fn stop(mut self) -> Result<NullCost> {
        kill_process(self.running.pid(), Signal::TERM)?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        let requests = line
            .strip_prefix("answered ")
            .and_then(|rest| rest.split(' ').next())
            .and_then(|count| count.parse().ok())
            .with_context(|| format!("can't parse the null target's {line:?}"))?;
        let started = Instant::now();
        while started.elapsed() < SLACK {
            if let Some((_, cpu_us)) = self.running.try_reap()? {
                return Ok(NullCost { requests, cpu_us });
            }
            std::thread::sleep(POLL);
        }
        bail!("the null target did not end within {SLACK:?}");
    }
}
