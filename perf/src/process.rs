//! Runs programs pinned to a core, and reads what they cost: CPU time of a whole process, as the kernel counted it.
#![expect(
    unsafe_code,
    reason = "the standard library gives no resource usage of a child; every block says why it is sound"
)]

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use engine::report::Report;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// What is measured, and where.
pub(crate) struct Bench {
    /// The binary `truetail`.
    pub(crate) truetail: PathBuf,
    /// The core of the null target.
    pub(crate) target_core: usize,
    /// The core of the client.
    pub(crate) client_core: usize,
}

/// Beyond its own duration a client has this long to connect, to drain and to write.
const SLACK: Duration = Duration::from_secs(30);

/// How often a child is looked at.
const POLL: Duration = Duration::from_millis(5);

/// A process that ended well.
pub(crate) struct Finished {
    /// What it wrote to its standard output.
    pub(crate) stdout: String,
    /// User and system time of all its threads, µs.
    pub(crate) cpu_us: f64,
    /// From start to end.
    pub(crate) wall: Duration,
}

/// Raises the soft limit of open files to the hard one; children inherit it.
pub(crate) fn allow_files() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .context("raising the limit of open files to the hard one")
}

/// Open files that a child may have.
pub(crate) fn files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Whether a program can be found and started.
pub(crate) fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("-v").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// Runs a program on one core to its end, which must come within `length` and some slack.
pub(crate) fn run_pinned(core: usize, words: &[String], length: Duration) -> Result<Finished> {
    let started = Instant::now();
    let mut command = pinned(core, words);
    let mut child = Running(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting `taskset` for {}", words[0]))?,
    );
    let cpu_us = loop {
        if let Some((success, cpu_us)) = child.try_reap()? {
            if !success {
                bail!("`{}` failed", words.join(" "));
            }
            break cpu_us;
        }
        if length + SLACK < started.elapsed() {
            bail!("`{}` did not end within {SLACK:?} of its time", words.join(" "));
        }
        std::thread::sleep(POLL);
    };
    let wall = started.elapsed();
    let mut stdout = String::new();
    // A summary fits into the pipe, so that the child could end without a reader.
    child.0.stdout.take().expect("it is piped").read_to_string(&mut stdout)?;
    Ok(Finished { stdout, cpu_us, wall })
}

/// The command that runs `words` on one core: `taskset` becomes the program, so that the process is the same.
fn pinned(core: usize, words: &[String]) -> Command {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(core.to_string()).args(words);
    command
}

impl Bench {
    /// Runs `truetail run` on the client's core with these flags; gives its report and its cost.
    pub(crate) fn run_truetail(
        &self,
        url: &str,
        flags: &[&str],
        length: Duration,
    ) -> Result<(Report, Finished)> {
        let out = std::env::temp_dir().join(format!("truetail-bench-{}.json", std::process::id()));
        let mut words = vec![self.truetail.display().to_string(), "run".to_owned(), url.to_owned()];
        words.extend(flags.iter().map(|&flag| flag.to_owned()));
        // A run at the ceiling measures its own generator, and its verdict says so: here that is what is wanted.
        words.extend([
            "--allow-invalid".to_owned(),
            "--quiet".to_owned(),
            "--out".to_owned(),
            out.display().to_string(),
        ]);
        let finished = run_pinned(self.client_core, &words, length)?;
        let text =
            std::fs::read_to_string(&out).with_context(|| format!("reading {}", out.display()))?;
        std::fs::remove_file(&out)?;
        let report: Report =
            serde_json::from_str(&text).context("the report is not what it should be")?;
        let counts = &report.whole.counts;
        if counts.answered == 0 || counts.failed + counts.timed_out + counts.abandoned != 0 {
            bail!("a run that didn't go well is no figure: {counts:?}");
        }
        Ok((report, finished))
    }
}

/// A child that doesn't outlive this program's interest in it.
struct Running(Child);

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Whether it succeeded and its CPU time in µs, once it has ended.
    fn try_reap(&mut self) -> io::Result<Option<(bool, f64)>> {
        let mut status = 0;
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both pointers are to memory of the right types that lives during the call.
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
        // SAFETY: zero bytes are a valid value of this structure of integers, and the kernel has filled it.
        let usage = unsafe { usage.assume_init() };
        let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
        Ok(Some((status == 0, us(usage.ru_utime) + us(usage.ru_stime))))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What was reaped already has no process of this number that is ours, which `try_reap` then says.
        if let Ok(None) = self.try_reap() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// A null target in a process of its own.
pub(crate) struct NullTarget {
    running: Running,
    stdout: BufReader<ChildStdout>,
    /// Where it listens.
    pub(crate) url: String,
}

/// What the null target did and cost.
pub(crate) struct NullCost {
    /// Requests answered.
    pub(crate) requests: f64,
    /// User and system time, µs.
    pub(crate) cpu_us: f64,
}

impl NullTarget {
    /// Starts it on its core with room for `conns` connections twice, because those of one client may still be closing
    /// when the next one connects; waits until it listens.
    pub(crate) fn start(bench: &Bench, conns: usize) -> Result<NullTarget> {
        let core = bench.target_core.to_string();
        let room = (2 * conns).to_string();
        let program = bench.truetail.display().to_string();
        let words = [
            &program,
            "null-target",
            "--listen",
            "127.0.0.1:0",
            "--cores",
            &core,
            "--conns",
            &room,
        ];
        let words = words.map(str::to_owned);
        let mut child = Running(
            pinned(bench.target_core, &words)
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
            .with_context(|| format!("the null target did not start: {line:?}"))?
            .to_owned();
        Ok(NullTarget { running: child, stdout, url })
    }

    /// Ends it by SIGTERM.
    pub(crate) fn stop(mut self) -> Result<NullCost> {
        kill_process(self.running.pid(), Signal::TERM)?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        let requests = line
            .strip_prefix("answered ")
            .and_then(|rest| rest.split(' ').next())
            .and_then(|count| count.parse().ok())
            .with_context(|| format!("the null target said {line:?}"))?;
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
