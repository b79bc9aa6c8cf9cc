//! `perf record` as a child process that samples the stacks of this process.
//!
//! It is started before the run, which takes 0.2 s, with its events disabled, and gets a command
//! over its standard input when the window begins and when it ends. It answers on its standard
//! error and writes to a file without a name, so nothing is left behind however the program ends:
//! perf ends with the process that it watches.
//!
//! Stacks are unwound by the tables that every build has (`--call-graph dwarf`), so the profiled
//! build is the normal one. By frame pointers, which it doesn't keep, 1,196 of 1,390 stacks ended
//! in libc's `syscall`. 8 KiB of stack are enough for a shard's own calls; the frame that holds the
//! shard itself is larger, so graphs begin there, all in the same function.
//!
//! `perf_event_open` in the process would be no gain: the kernel takes the samples either way, but
//! perf unwinds and names them, and it runs on another core.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use engine::sys::placement::allowed_cores;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CapabilitySet, CpuSet, capabilities, sched_setaffinity};

/// Bytes of the stack in a sample, to be unwound by the tables that every build has: frame pointers
/// would cost each request a register, and libc has none. A shard's own calls take 2 KiB, above the
/// future that it runs in, which is larger than this: stacks begin there.
const STACK: &str = "dwarf,8192";
/// The longest wait for an answer of perf: 0.2 s when idle.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The longest time to unwind and name the stacks: 0.4 s for 5,000 samples.
const SCRIPT_MAX: Duration = Duration::from_secs(60);

/// A recording in progress.
pub(crate) struct Perf {
    child: Child,
    control: ChildStdin,
    said: Receiver<String>,
    samples: File,
}

impl Perf {
    /// Starts perf on this process, taking no samples yet, and off these cores if possible.
    ///
    /// # Errors
    /// Why perf can't be used, as a clause.
    pub(crate) fn start(frequency: u32, shards: &[usize]) -> Result<Perf, String> {
        if let Some(refusal) = refusal() {
            return Err(refusal);
        }
        let samples = tempfile::tempfile()
            .map_err(|error| format!("there is no room for its samples ({error})"))?;
        let output = samples.try_clone().map_err(|error| error.to_string())?;
        let mut child = Command::new("perf")
            // A user's own settings would change what is recorded.
            .env("PERF_CONFIG", "/dev/null")
            .args(["record", "--quiet", "--no-buildid-cache", "--event", event()])
            .args(["--freq", &frequency.to_string(), "--call-graph", STACK])
            .args(["--pid", &std::process::id().to_string()])
            .args(["--delay", "-1", "--control", "fd:0,2", "--output", "-"])
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(Stdio::piped())
            // The terminal's Ctrl-C is for the run, which then ends perf.
            .process_group(0)
            .spawn()
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => "perf is not installed".to_owned(),
                _ => format!("perf can't be started ({error})"),
            })?;
        keep_off(&child, shards);
        let control = child.stdin.take().expect("it is piped");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
        let (say, said) = mpsc::channel();
        let listening = thread::Builder::new().name("truetail-perf".to_owned()).spawn(move || {
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).is_ok_and(|length| 0 < length) {
                // An answer ends with a zero.
                let text = String::from_utf8_lossy(&line).trim_matches(['\0', '\n']).to_owned();
                line.clear();
                if say.send(text).is_err() {
                    break;
                }
            }
        });
        let mut perf = Perf { child, control, said, samples };
        listening.map_err(|error| error.to_string())?;
        perf.disable()?;
        Ok(perf)
    }

    /// Takes samples from now on.
    ///
    /// # Errors
    /// Why it doesn't.
    pub(crate) fn enable(&mut self) -> Result<(), String> {
        self.ask("enable\n")
    }

    /// Takes no more samples.
    ///
    /// # Errors
    /// Why it didn't answer; it may already have ended.
    pub(crate) fn disable(&mut self) -> Result<(), String> {
        self.ask("disable\n")
    }

    fn ask(&mut self, command: &str) -> Result<(), String> {
        let sent = self.control.write_all(command.as_bytes());
        let mut complaint = sent.err().map(|error| error.to_string());
        let until = Instant::now() + ANSWER_MAX;
        while let Ok(line) = self.said.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            match line.trim() {
                "ack" => return Ok(()),
                "" | "Error:" => {}
                line => drop(complaint.get_or_insert_with(|| line.to_owned())),
            }
        }
        let complaint = complaint.unwrap_or_else(|| "no answer".to_owned());
        Err(format!("perf could not be used ({complaint})"))
    }

    /// Ends perf and returns its samples as `perf script` prints them.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) fn finish(mut self) -> Result<String, String> {
        let pid = Pid::from_child(&self.child);
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::INT);
        ended(&mut self.child, ANSWER_MAX).ok_or("perf did not end")?;
        self.script()
    }

    /// The samples as text.
    fn script(&mut self) -> Result<String, String> {
        let fail = |error: std::io::Error| format!("perf script can't be run ({error})");
        let mut printed = tempfile::tempfile().map_err(fail)?;
        let mut complaints = tempfile::tempfile().map_err(fail)?;
        self.samples.rewind().map_err(fail)?;
        let mut child = Command::new("perf")
            .env("PERF_CONFIG", "/dev/null")
            .args(["script", "--input", "-", "--no-inline"])
            .args(["--fields", "comm,tid,time,event,ip,sym,dso"])
            .stdin(self.samples.try_clone().map_err(fail)?)
            .stdout(printed.try_clone().map_err(fail)?)
            .stderr(complaints.try_clone().map_err(fail)?)
            .process_group(0)
            .spawn()
            .map_err(fail)?;
        let status = ended(&mut child, SCRIPT_MAX).ok_or("perf script took too long")?;
        if !status.success() {
            let mut text = String::new();
            let _ = complaints.rewind().and_then(|()| complaints.read_to_string(&mut text));
            let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason");
            return Err(format!("perf script failed ({})", first.trim()));
        }
        let mut text = Vec::new();
        printed.rewind().and_then(|()| printed.read_to_end(&mut text)).map_err(fail)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        // It has ended unless the run didn't begin.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for the end of a child, which is killed after this long.
fn ended(child: &mut Child, most: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + most;
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Keeps perf off the shards' cores, if others are allowed.
fn keep_off(child: &Child, shards: &[usize]) {
    let shards: BTreeSet<usize> = shards.iter().copied().collect();
    let mut cores = CpuSet::new();
    let others = allowed_cores().into_iter().filter(|core| !shards.contains(core));
    others.filter(|core| *core < CpuSet::MAX_CPU).for_each(|core| cores.set(core));
    if 0 < cores.count() {
        // If that is refused, perf's work is among the other load on the run's cores.
        let _ = sched_setaffinity(Some(Pid::from_child(child)), &cores);
    }
}

/// The sampling event: cycles if the processor counts them, which shows code that runs with
/// interrupts off, else the kernel's clock.
fn event() -> &'static str {
    let devices = fs::read_dir("/sys/bus/event_source/devices");
    let counts_cycles = devices.into_iter().flatten().flatten().any(|device| {
        let name = device.file_name();
        let name = name.to_string_lossy();
        name == "cpu" || name == "cpu_core" || name.starts_with("armv8")
    });
    if counts_cycles { "cycles" } else { "cpu-clock" }
}

/// Why the kernel would not let perf see its own stacks.
fn refusal() -> Option<String> {
    let Ok(text) = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid") else {
        return Some("the kernel has no perf events".to_owned());
    };
    let level: i32 = text.trim().parse().unwrap_or(i32::MAX);
    let held = capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty());
    let may = held.intersects(CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN);
    (1 < level && !may).then(|| {
        format!(
            "kernel.perf_event_paranoid is {level}: set it to 1, or run as root or with CAP_PERFMON"
        )
    })
}

/// Why kernel functions will have no names, if so.
pub(crate) fn kernel_unnamed() -> Option<String> {
    let mut first = String::new();
    let read = File::open("/proc/kallsyms")
        .and_then(|names| BufReader::new(names).read_line(&mut first).map(drop));
    let address = first.split(' ').next().and_then(|text| u64::from_str_radix(text, 16).ok());
    let named = read.is_ok() && address.is_some_and(|address| address != 0);
    let restricted = fs::read_to_string("/proc/sys/kernel/kptr_restrict").unwrap_or_default();
    (!named).then(|| restriction(restricted.trim()))
}

/// Why the kernel's addresses are hidden at this level of `kernel.kptr_restrict`, and the cure.
fn restriction(level: &str) -> String {
    match level {
        "" | "0" => "/proc/kallsyms shows no addresses to this user: run as root".to_owned(),
        "1" => "kernel.kptr_restrict is 1: set it to 0, or run as root".to_owned(),
        // From 2 on they are hidden from root as well.
        level => format!("kernel.kptr_restrict is {level}: set it to 1 and run as root, or to 0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cure_is_one_that_works_at_that_level() {
        for (level, cure) in [
            ("", "run as root"),
            ("0", "run as root"),
            ("1", "set it to 0, or run as root"),
            ("2", "set it to 1 and run as root, or to 0"),
        ] {
            assert!(restriction(level).ends_with(&format!(": {cure}")), "{level}");
        }
    }
}
