//! Was the machine quiet while a tool ran: how late this process woke from short sleeps, and how much
//! of the cores other programs took.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::process::getpid;
use serde::{Deserialize, Serialize};

use crate::children::processes;

const SLEEP: Duration = Duration::from_millis(1);
/// A request and its response wake four threads in turn: at the tool to send, at the target to read
/// and to answer, and at the tool to read.
const WAKES: f64 = 4.0;
/// From so many cores on that others take, requests queue for a core, and how late that makes them
/// has no bound. Less was seen to delay none beyond `WAKES`.
const OTHERS_MAX: f64 = 0.25;
/// The parent of the kernel's threads, whose work is as much the tool's.
const KERNEL: i32 = 2;
/// The scheduling policy of programs that run only in the time that all others leave.
const SCHED_IDLE: u64 = 5;

/// What disturbed a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// The latest that the judge itself woke from sleeps of 1 ms, ms.
    pub late_ms: f64,
    /// The cores that other programs and the hypervisor took, on average.
    pub others: f64,
}

/// Measures the noise: a thread that sleeps a millisecond at a time, and the time of all processes.
pub(crate) struct Sleeper {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
    began: Instant,
    ticks: u64,
}

impl Noise {
    /// True if a latency may be too long by so much because of it.
    pub fn may_delay(&self, by_ms: f64) -> bool {
        by_ms <= WAKES * self.late_ms || OTHERS_MAX <= self.others
    }
}

impl Sleeper {
    /// Starts it.
    pub(crate) fn start() -> io::Result<Sleeper> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut latest = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                let began = Instant::now();
                thread::sleep(SLEEP);
                latest = latest.max(began.elapsed().saturating_sub(SLEEP));
            }
            latest
        });
        Ok(Sleeper { stop, thread, began: Instant::now(), ticks: ticks_of_others()? })
    }

    /// What it measured, when all processes of the tool have ended.
    pub(crate) fn noise(self) -> io::Result<Noise> {
        let seconds = self.began.elapsed().as_secs_f64();
        let ticks = ticks_of_others()?.saturating_sub(self.ticks);
        self.stop.store(true, Ordering::Relaxed);
        let latest = self.thread.join().map_or(f64::INFINITY, |latest| latest.as_secs_f64());
        let others = ticks as f64 / clock_ticks_per_second() as f64 / seconds;
        Ok(Noise { late_ms: latest * 1e3, others })
    }
}

/// The time of all processes but this one and those that run only when no other does, with that of
/// the children they have waited for, and the time stolen by the hypervisor; clock ticks.
fn ticks_of_others() -> io::Result<u64> {
    let own = getpid().as_raw_nonzero().get();
    let others = processes()?
        .filter(|process| process.pid != own && process.parent != KERNEL)
        .filter(|process| process.policy != SCHED_IDLE)
        .map(|process| process.ticks)
        .sum::<u64>();
    let stat = fs::read_to_string("/proc/stat")?;
    let all = stat.lines().next().unwrap_or_default();
    let stolen: u64 =
        all.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).unwrap_or(0);
    Ok(others + stolen)
}
