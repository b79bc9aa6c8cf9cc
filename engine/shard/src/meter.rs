//! Measures a shard while it runs: CPU time, turns and the gaps between them.
//!
//! Turns are counted as they happen; the thread's times are read from the kernel only at the edges
//! of the window. Polling isn't work: a shard's busy share is its thread's CPU time minus the time
//! it polled with nothing due.

use std::fs;
use std::ops::Range;

use record::counts::Counts;
use record::shard_stats::ShardStats;
use rustix::thread::gettid;
use rustix::time::ClockId;
use sys::clock;
use sys::stat::{Stat, TICK_NS};
use units::SECOND_NS;

/// How a shard's thread has spent its time, up to a given time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardTime {
    /// That time, ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// The part of it spent polling with nothing due, ns.
    pub polling_ns: u64,
    /// Stalls of more than 10 ms in the window, ns.
    pub stopped_ns: u64,
}

/// Measures a shard while it runs.
#[derive(Clone, Debug)]
pub struct ShardMeter {
    core: usize,
    turns: u64,
    polling_ns: u64,
    longest_gap_ns: u64,
    stopped_ns: u64,
    /// The window, ns since the epoch: gaps are counted only inside it.
    window_ns: Range<u64>,
    /// When the shard last returned from waiting.
    back_ns: u64,
    begin: Option<Edge>,
    end: Option<Edge>,
    /// When the first request was due and when it was sent, ns since the epoch.
    first: Option<(u64, u64)>,
    /// Receives that ended because no buffer was free and the ring had none to add.
    pub buffers_exhausted: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Time the setup spent opening connections, ns.
    pub opening_ns: u64,
    /// Time spent closing connections at the end, ns.
    pub closing_ns: u64,
}

/// The counters at one edge of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Edge {
    at_ns: u64,
    thread: ThreadTimes,
    turns: u64,
    polling_ns: u64,
    received_bytes: u64,
    sent_bytes: u64,
}

/// A gap above this is a stall, ns: longer than the turns of a busy shard, shorter than the time
/// slices of competing processes together.
const STOP_NS: u64 = 10_000_000;

impl ShardMeter {
    /// An empty meter for a window, on this core.
    pub fn new(core: usize, window_ns: Range<u64>) -> ShardMeter {
        ShardMeter {
            core,
            window_ns,
            turns: 0,
            polling_ns: 0,
            longest_gap_ns: 0,
            stopped_ns: 0,
            back_ns: 0,
            begin: None,
            end: None,
            first: None,
            buffers_exhausted: 0,
            received_bytes: 0,
            sent_bytes: 0,
            opening_ns: 0,
            closing_ns: 0,
        }
    }

    /// A request of the load was sent.
    #[inline]
    pub fn sent(&mut self, intended_ns: u64, sent_ns: u64) {
        if self.first.is_none() {
            self.first = Some((intended_ns, sent_ns));
        }
    }

    /// A turn begins.
    #[inline]
    pub fn turn(&mut self) {
        self.turns += 1;
    }

    /// The shard went to sleep at `from_ns`, to be woken at `until_ns` at the latest, and was awake
    /// at `now_ns`.
    #[inline]
    pub fn slept(&mut self, from_ns: u64, until_ns: u64, now_ns: u64) {
        self.gap(self.back_ns, from_ns);
        self.gap(until_ns, now_ns);
        self.back_ns = now_ns;
    }

    /// The shard has worked until `now_ns`, and continues without waiting.
    #[inline]
    pub fn worked(&mut self, now_ns: u64) {
        self.gap(self.back_ns, now_ns);
        self.back_ns = now_ns;
    }

    /// The clock was read at these two consecutive times while polling.
    #[inline]
    pub fn spun_past(&mut self, from_ns: u64, now_ns: u64) {
        self.gap(from_ns, now_ns);
    }

    /// The shard stopped working at `worked_ns` and polled from `from_ns` to `now_ns`.
    #[inline]
    pub fn spun(&mut self, worked_ns: u64, from_ns: u64, now_ns: u64) {
        self.gap(self.back_ns, worked_ns);
        self.polling_ns += now_ns - from_ns;
        self.back_ns = now_ns;
    }

    /// The shard stalled between the two times; the part inside the window counts.
    #[inline]
    fn gap(&mut self, from_ns: u64, to_ns: u64) {
        let gap_ns = to_ns.saturating_sub(from_ns);
        if gap_ns <= self.longest_gap_ns && gap_ns <= STOP_NS {
            return;
        }
        let (from_ns, to_ns) = (from_ns.max(self.window_ns.start), to_ns.min(self.window_ns.end));
        let within_ns = to_ns.saturating_sub(from_ns);
        self.longest_gap_ns = self.longest_gap_ns.max(within_ns);
        if STOP_NS < gap_ns {
            self.stopped_ns += within_ns;
        }
    }

    /// The clock has a new epoch, on which it is `now_ns`.
    pub fn begin_at(&mut self, now_ns: u64) {
        self.longest_gap_ns = 0;
        self.stopped_ns = 0;
        self.back_ns = now_ns;
    }

    /// The window ends early, at `end_ns`.
    pub fn stop_at(&mut self, end_ns: u64) {
        self.window_ns.end = self.window_ns.end.min(end_ns);
    }

    /// Reads the accounts at the first look in the window, and at the first after it. The shard
    /// looks at `now_ns`; `clock` gives the time when the accounts are read.
    pub fn observe(&mut self, now_ns: u64, clock: impl FnOnce() -> u64) {
        if now_ns < self.window_ns.start {
            return;
        }
        // The thread may lose its core between reading the clock and the accounts. The accounts'
        // true time lies between the two clock readings in any case, so no share of that stretch
        // exceeds 1.
        if self.begin.is_none() {
            let at_ns = clock();
            self.begin = Some(Edge { at_ns, ..self.edge() });
        } else if self.window_ns.end <= now_ns {
            self.over(clock);
        }
    }

    /// The load is over: reads the accounts, unless the window ended before.
    pub fn over(&mut self, clock: impl FnOnce() -> u64) {
        if self.begin.is_some() && self.end.is_none() {
            let edge = self.edge();
            self.end = Some(Edge { at_ns: clock(), ..edge });
        }
    }

    /// How the thread has spent its time until now, `at_ns` of CLOCK_MONOTONIC.
    pub fn time(&self, at_ns: u64) -> ShardTime {
        let ShardMeter { polling_ns, stopped_ns, .. } = *self;
        ShardTime { at_ns, cpu_ns: thread_cpu_ns(), polling_ns, stopped_ns }
    }

    /// The current accounts, without a time.
    fn edge(&self) -> Edge {
        Edge {
            at_ns: 0,
            thread: ThreadTimes::of_this_thread(),
            turns: self.turns,
            polling_ns: self.polling_ns,
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
        }
    }

    /// The statistics for the window, with the shard's counts; all zero if the window was never
    /// reached.
    pub fn report(&self, counts: &Counts, cq_overflows: u64, clock_steps: u64) -> ShardStats {
        let (begin, end) = self.begin.zip(self.end).unwrap_or_default();
        let thread = end.thread.since(&begin.thread);
        let observed_ns = end.at_ns.saturating_sub(begin.at_ns);
        let turns = end.turns - begin.turns;
        let polling_ns = end.polling_ns - begin.polling_ns;
        // Polling is measured in wall time: on a shared core, part of it was spent waiting for the
        // core.
        let awake_ns = thread.cpu_ns + thread.run_queue_ns;
        let seconds = |ns: u64| ns as f64 / SECOND_NS as f64;
        let ratio = |part: f64, whole: f64| if whole == 0.0 { 0.0 } else { part / whole };
        ShardStats {
            core: self.core,
            observed_s: seconds(observed_ns),
            busy: ratio(
                awake_ns.saturating_sub(polling_ns).min(observed_ns) as f64,
                observed_ns as f64,
            ),
            cpu_user_s: seconds(thread.cpu_ns.saturating_sub(thread.system_ns)),
            cpu_system_s: seconds(thread.system_ns),
            polling_s: seconds(polling_ns),
            turns,
            requests_per_turn: ratio(counts.sends_in_window() as f64, turns as f64),
            longest_gap_us: self.longest_gap_ns as f64 / 1e3,
            stopped_s: seconds(self.stopped_ns),
            involuntary_switches: thread.involuntary_switches,
            run_queue_delay_s: seconds(thread.run_queue_ns),
            cq_overflows,
            buffers_exhausted: self.buffers_exhausted,
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
            window_received_bytes: end.received_bytes - begin.received_bytes,
            window_sent_bytes: end.sent_bytes - begin.sent_bytes,
            clock_steps,
            stamps_clamped: counts.stamps_clamped,
            first_due_us: self.first.map(|(due_ns, _)| due_ns as f64 / 1e3),
            first_sent_us: self.first.map(|(_, sent_ns)| sent_ns as f64 / 1e3),
            opening_s: seconds(self.opening_ns),
            closing_s: seconds(self.closing_ns),
        }
    }
}

/// A thread's times so far; the difference of two is the cost of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ThreadTimes {
    /// CPU time, ns.
    cpu_ns: u64,
    /// The part of it in the kernel, ns.
    system_ns: u64,
    /// Times that the kernel took the thread off its core.
    involuntary_switches: u64,
    /// Time that it was runnable but not running, ns.
    run_queue_ns: u64,
}

impl ThreadTimes {
    /// This thread's times so far.
    fn of_this_thread() -> ThreadTimes {
        let folder = format!("/proc/self/task/{}", gettid().as_raw_nonzero());
        let read = |file: &str| fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
        ThreadTimes {
            cpu_ns: thread_cpu_ns(),
            system_ns: Stat::parse(&read("stat")).map_or(0, |stat| stat.system_ticks * TICK_NS),
            involuntary_switches: involuntary_switches(&read("status")),
            run_queue_ns: run_queue_ns(&read("schedstat")),
        }
    }

    /// The difference between two readings.
    fn since(&self, before: &ThreadTimes) -> ThreadTimes {
        ThreadTimes {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(before.involuntary_switches),
            run_queue_ns: self.run_queue_ns.saturating_sub(before.run_queue_ns),
        }
    }
}

/// CPU time of this thread so far, ns.
fn thread_cpu_ns() -> u64 {
    clock::ns_of(ClockId::ThreadCPUTime)
}

fn involuntary_switches(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:")?.trim().parse().ok())
        .unwrap_or(0)
}

/// The second field of `schedstat`; 0 if the kernel doesn't keep it.
fn run_queue_ns(schedstat: &str) -> u64 {
    schedstat.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn meter() -> ShardMeter {
        ShardMeter::new(0, 1_000 * MS_NS..3_000 * MS_NS)
    }

    const MS_NS: u64 = 1_000_000;

    #[test]
    fn a_stop_counts_from_where_the_window_begins() {
        let mut meter = meter();
        // Awake at 800 ms, then nothing until 1,300 ms: 300 ms of it in the window.
        meter.spun(800 * MS_NS, 800 * MS_NS, 800 * MS_NS);
        meter.observe(800 * MS_NS, || 800 * MS_NS);
        meter.slept(1_300 * MS_NS, 1_300 * MS_NS, 1_300 * MS_NS);
        meter.observe(1_300 * MS_NS, || 1_300 * MS_NS);
        // Woken 400 ms late, 100 ms before the window's end.
        meter.slept(1_300 * MS_NS, 2_900 * MS_NS, 3_300 * MS_NS);
        meter.observe(3_300 * MS_NS, || 3_300 * MS_NS);
        let stats = meter.report(&Counts::default(), 0, 0);
        assert_eq!((stats.longest_gap_us, stats.stopped_s), (300_000.0, 0.4));
        assert_eq!(stats.observed_s, 2.0);
    }

    #[test]
    fn a_stop_outside_the_window_is_not_counted() {
        let mut meter = meter();
        meter.slept(0, 100 * MS_NS, 900 * MS_NS);
        meter.slept(900 * MS_NS, 1_000 * MS_NS, 1_000 * MS_NS);
        meter.spun_past(3_000 * MS_NS, 3_500 * MS_NS);
        let stats = meter.report(&Counts::default(), 0, 0);
        assert_eq!((stats.longest_gap_us, stats.stopped_s), (0.0, 0.0));
    }

    #[test]
    fn turns_without_a_wait_between_them_are_no_stop() {
        let mut meter = meter();
        meter.begin_at(1_000 * MS_NS);
        for turn in 1..100 {
            meter.worked((1_000 + 5 * turn) * MS_NS);
        }
        let stats = meter.report(&Counts::default(), 0, 0);
        assert_eq!((stats.longest_gap_us, stats.stopped_s), (5_000.0, 0.0));
    }

    #[test]
    fn work_at_the_edges_is_in_the_observed_time_but_not_in_the_accounts() {
        let mut meter = meter();
        let worked_ns = Cell::new(0);
        // The thread loses 100 ms between its look and the clock reading.
        let late = |at_ns: u64| {
            worked_ns.set(worked_ns.get() + work());
            at_ns + 100 * MS_NS
        };
        meter.observe(1_000 * MS_NS, || late(1_000 * MS_NS));
        meter.observe(2_900 * MS_NS, || panic!("the window goes on"));
        meter.observe(3_000 * MS_NS, || late(3_050 * MS_NS));
        meter.over(|| panic!("it has ended"));
        let stats = meter.report(&Counts::default(), 0, 0);
        assert_eq!(stats.observed_s, 2.05);
        let cpu_s = stats.cpu_user_s + stats.cpu_system_s;
        assert!(cpu_s * 1e9 < worked_ns.get() as f64, "{cpu_s} s of {worked_ns:?} ns");
    }

    #[test]
    fn a_load_that_is_over_early_ends_the_observation() {
        let mut early = meter();
        early.observe(1_000 * MS_NS, || 1_000 * MS_NS);
        early.over(|| 1_500 * MS_NS);
        assert_eq!(early.report(&Counts::default(), 0, 0).observed_s, 0.5);
        let mut never = meter();
        never.over(|| panic!("the window was never reached"));
        let stats = never.report(&Counts::default(), 0, 0);
        assert_eq!((stats.observed_s, stats.cpu_user_s, stats.run_queue_delay_s), (0.0, 0.0, 0.0));
    }

    #[test]
    fn the_kernels_accounts_are_parsed() {
        assert_eq!(involuntary_switches("Name:\tx\nnonvoluntary_ctxt_switches:\t9\n"), 9);
        assert_eq!(run_queue_ns("12 34 5\n"), 34);
    }

    /// Works for some milliseconds, and returns the CPU time used.
    fn work() -> u64 {
        let began_ns = thread_cpu_ns();
        let mut value = 1_u64;
        for _ in 0..5_000_000 {
            value = std::hint::black_box(value.wrapping_mul(31));
        }
        thread_cpu_ns() - began_ns
    }

    #[test]
    fn the_accounts_see_this_threads_work_and_no_others() {
        let before = ThreadTimes::of_this_thread();
        let worked_ns = work();
        let own = ThreadTimes::of_this_thread().since(&before);
        assert!(0 < worked_ns && worked_ns <= own.cpu_ns, "{worked_ns} {own:?}");

        let before = ThreadTimes::of_this_thread();
        let worked_ns = std::thread::spawn(work).join().expect("it only counts");
        let waited = ThreadTimes::of_this_thread().since(&before);
        assert!(waited.cpu_ns < worked_ns, "{worked_ns} {waited:?}");
    }
}
