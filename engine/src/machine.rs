//! What the machine did to the run: processor time stolen or throttled, ports in use. Watched from a thread of its own.
//!
//! A shard can't see why it got no processor time; the kernel's accounts of the machine can. They are read at the window's
//! begin and at its end; ports, which come and go, in between as well.

use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::host::cgroup::{Quotas, Throttled};
use crate::placement::leave_cores;
use crate::shard::Signals;
use crate::units::SECOND_NS;

/// What the machine did to the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The stretch that `steal` and `throttled_s` cover, seconds: the window, as far as the watch was awake at its begin and
    /// at its end. 0 when it wasn't; then neither is known.
    pub observed_s: f64,
    /// Share of the used cores' time that the hypervisor gave to others, in that stretch.
    pub steal: Option<f64>,
    /// Time for which a control group around this process was held back for having used up its quota, in that stretch,
    /// seconds, summed over cores. Of several groups the one held back longest counts. `None` where the kernel doesn't say.
    pub throttled_s: Option<f64>,
    /// Ports of this machine.
    pub ports: Ports,
}

/// Local ports, which connections use up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// Ports that the kernel may choose from, for each source address.
    pub range: u64,
    /// Source addresses to connect from.
    pub sources: u64,
    /// Most TCP sockets in use at once, those of all processes of this network namespace.
    pub in_use_max: u64,
    /// Most TCP sockets in TIME_WAIT at once, those of all processes of this network namespace.
    pub time_wait_max: u64,
    /// Ports left when the most were taken, in the worst case that all sockets were of this run.
    pub headroom: u64,
}

/// The ports are looked at this often in the window, ns.
const PORTS_EVERY_NS: u64 = 500_000_000;
/// The watch sleeps this long at most before the epoch is set: it is to be awake at the epoch, which is set 20 ms ahead.
const NAP_BEFORE_NS: u64 = 5_000_000;
/// The watch sleeps this long at most afterwards: a stop is set 100 ms ahead, and the watch is to end soon after the shards.
const NAP_NS: u64 = 50_000_000;

/// The kernel's accounts at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
struct Accounts {
    steal: u64,
    total: u64,
    throttled: Throttled,
}

/// A thread that watches the machine until all shards have ended.
#[derive(Debug)]
pub struct Watch {
    thread: JoinHandle<Machine>,
}

/// What to watch.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Cores that carry shards.
    pub cores: Vec<usize>,
    /// Start of the window, ns since the epoch.
    pub window_ns: u64,
    /// End of the window, ns since the epoch.
    pub end_ns: u64,
    /// Source addresses to connect from.
    pub sources: u64,
}

impl Watch {
    /// Begins to watch; ends by itself with the last of `shards` shards, or when the run is called off.
    pub fn begin(watched: Watched, signals: Arc<Signals>, shards: usize) -> Watch {
        let thread = thread::Builder::new()
            .name("truetail-watch".to_owned())
            .spawn(move || watch(&watched, &signals, shards))
            .expect("a process with shards may have one more thread");
        Watch { thread }
    }

    /// What was seen.
    pub fn finish(self) -> Machine {
        self.thread.join().expect("watching can't fail")
    }
}

fn watch(watched: &Watched, signals: &Signals, shards: usize) -> Machine {
    leave_cores(&watched.cores);
    let quotas = Quotas::of_this_process();
    let (mut edges, mut rounds) = (Edges::default(), Rounds::default());
    let mut ports = Ports::default();
    loop {
        // Asked before the clock: when all shards have ended, the window is over by then.
        let ended = shards <= signals.ended.load(Ordering::Relaxed);
        let epoch_ns = signals.epoch_ns.load(Ordering::Acquire);
        let now_ns = clock::now_ns();
        let mut wake_ns = now_ns + if epoch_ns == 0 { NAP_BEFORE_NS } else { NAP_NS };
        if epoch_ns != 0 && epoch_ns != u64::MAX {
            let stop_ns = match signals.stop_ns.load(Ordering::Relaxed) {
                _ if ended => now_ns,
                0 => u64::MAX,
                stop_ns => stop_ns,
            };
            let end_ns = (epoch_ns + watched.end_ns).min(stop_ns);
            let window = epoch_ns + watched.window_ns..end_ns;
            edges.look(now_ns, &window, || Accounts::read(&watched.cores, &quotas));
            if rounds.is_due(now_ns, &window) {
                ports.look();
                rounds.done(clock::now_ns(), &window);
            }
            for next_ns in [window.start, window.end, rounds.next_ns] {
                wake_ns = if now_ns < next_ns { wake_ns.min(next_ns) } else { wake_ns };
            }
        }
        if ended || epoch_ns == u64::MAX {
            break;
        }
        thread::sleep(Duration::from_nanos(wake_ns.saturating_sub(clock::now_ns())));
    }
    ports.count(watched.sources);
    Machine { ports, ..edges.machine() }
}

/// The accounts at the window's begin and at its end, each with the moment at which they were read.
#[derive(Debug, Default)]
struct Edges {
    begin: Option<(u64, Accounts)>,
    end: Option<(u64, Accounts)>,
}

impl Edges {
    /// Reads the accounts if `now_ns` is the first look in the window, or the first after it. A begin that was slept through
    /// is not made up for at the end: the two would cover nothing.
    fn look(&mut self, now_ns: u64, window: &Range<u64>, read: impl FnOnce() -> Accounts) {
        if self.begin.is_none() && window.contains(&now_ns) {
            self.begin = Some((now_ns, read()));
        } else if self.begin.is_some() && self.end.is_none() && window.end <= now_ns {
            self.end = Some((now_ns, read()));
        }
    }

    /// What came between the two; nothing is known when one is missing.
    fn machine(&self) -> Machine {
        let (Some((begin_ns, begin)), Some((end_ns, end))) = (&self.begin, &self.end) else {
            return Machine::default();
        };
        let seconds = |ns: u64| ns as f64 / SECOND_NS as f64;
        let total = end.total.saturating_sub(begin.total);
        let steal = end.steal.saturating_sub(begin.steal);
        Machine {
            observed_s: seconds(end_ns - begin_ns),
            // The kernel counts in ticks: a stretch shorter than one says nothing.
            steal: (0 < total).then(|| steal as f64 / total as f64),
            throttled_s: end.throttled.longest_since(&begin.throttled).map(seconds),
            ..Machine::default()
        }
    }
}

/// When the ports are looked at: at the window's begin, at intervals, and at its end.
#[derive(Debug, Default)]
struct Rounds {
    next_ns: u64,
}

impl Rounds {
    fn is_due(&self, now_ns: u64, window: &Range<u64>) -> bool {
        window.start <= now_ns && self.next_ns.min(window.end) <= now_ns && self.next_ns != u64::MAX
    }

    /// A look has been taken by `now_ns`.
    fn done(&mut self, now_ns: u64, window: &Range<u64>) {
        self.next_ns = if window.end <= now_ns { u64::MAX } else { now_ns + PORTS_EVERY_NS };
    }
}

impl Accounts {
    fn read(cores: &[usize], quotas: &Quotas) -> Accounts {
        let (steal, total) = steal_of(&fs::read_to_string("/proc/stat").unwrap_or_default(), cores);
        Accounts { steal, total, throttled: quotas.throttled() }
    }
}

/// Stolen and total ticks of these cores in `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn steal_of(stat: &str, cores: &[usize]) -> (u64, u64) {
    let mut sums = (0, 0);
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        let core = words.next().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
        if core.is_some_and(|core| cores.contains(&core)) {
            let ticks: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
            sums.0 += ticks.get(7).copied().unwrap_or(0);
            sums.1 += ticks.iter().sum::<u64>();
        }
    }
    sums
}

impl Ports {
    fn look(&mut self) {
        let (in_use, time_wait) =
            sockets(&fs::read_to_string("/proc/net/sockstat").unwrap_or_default());
        self.in_use_max = self.in_use_max.max(in_use);
        self.time_wait_max = self.time_wait_max.max(time_wait);
    }

    fn count(&mut self, sources: u64) {
        self.range = port_range().map_or(0, |(first, last)| last - first + 1);
        self.sources = sources;
        self.headroom = (self.range * sources).saturating_sub(self.in_use_max + self.time_wait_max);
    }
}

/// The ports that the kernel chooses from, first and last.
pub fn port_range() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = text.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    (first <= last).then_some((first, last))
}

/// Sockets in use and in TIME_WAIT, from the line `TCP: inuse 5 orphan 0 tw 7 alloc 9 mem 1`.
fn sockets(sockstat: &str) -> (u64, u64) {
    let words: Vec<&str> = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:"))
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let after = |name: &str| {
        words
            .iter()
            .position(|word| *word == name)
            .and_then(|at| words.get(at + 1)?.parse().ok())
            .unwrap_or(0)
    };
    (after("inuse"), after("tw"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_accounts_are_read() {
        let stat = "cpu  1 1 1 1 1 1 1 99 0 0\ncpu0 10 0 5 80 0 0 1 4 0 0\ncpu1 1 0 0 8 0 0 0 1 0 0\nintr 5\n";
        assert_eq!(steal_of(stat, &[0]), (4, 100));
        assert_eq!(steal_of(stat, &[0, 1]), (5, 110));
        assert_eq!(
            sockets(
                "sockets: used 9\nTCP: inuse 5 orphan 0 tw 7 alloc 9 mem 1\nUDP: inuse 1 mem 0\n"
            ),
            (5, 7)
        );
    }

    fn accounts(steal: u64, total: u64) -> Accounts {
        Accounts { steal, total, ..Accounts::default() }
    }

    #[test]
    fn the_accounts_are_those_of_the_window_and_of_the_moments_at_which_they_were_read() {
        let window = 1_000_000_000..2_000_000_000;
        let mut edges = Edges::default();
        let mut reads = 0;
        for (now_ns, total) in [
            (0, 0),
            (999_999_999, 10),
            (1_000_000_100, 20),
            (1_500_000_000, 30),
            (2_100_000_100, 220),
            (3_000_000_000, 999),
        ] {
            edges.look(now_ns, &window, || {
                reads += 1;
                accounts(total / 4, total)
            });
        }
        assert_eq!(reads, 2, "one look at each edge");
        let machine = edges.machine();
        assert_eq!((machine.observed_s, machine.steal), (1.1, Some(0.25)));
        assert_eq!(machine.throttled_s, None, "no group was there to be asked");
    }

    #[test]
    fn a_window_of_which_an_edge_was_missed_says_nothing() {
        let window = 10..20;
        for looks in [&[][..], &[5], &[15], &[5, 20, 30]] {
            let mut edges = Edges::default();
            looks.iter().for_each(|now_ns| edges.look(*now_ns, &window, || accounts(1, *now_ns)));
            assert_eq!(edges.machine(), Machine::default(), "{looks:?}");
        }
        // A stop moves the end.
        let mut edges = Edges::default();
        edges.look(12, &window, || accounts(0, 0));
        edges.look(16, &(10..16), || accounts(2, 4));
        assert_eq!(edges.machine().steal, Some(0.5));
    }

    #[test]
    fn the_ports_are_looked_at_from_the_begin_to_the_end_of_the_window() {
        let window = SECOND_NS..SECOND_NS + PORTS_EVERY_NS + 10;
        let mut rounds = Rounds::default();
        let mut looks = Vec::new();
        for now_ns in
            [0, 1, window.start, window.start + 5, window.end - 1, window.end, u64::MAX / 2]
        {
            if rounds.is_due(now_ns, &window) {
                looks.push(now_ns);
                rounds.done(now_ns, &window);
            }
        }
        assert_eq!(looks, [window.start, window.end - 1, window.end]);
    }

    #[test]
    fn ports_are_counted_against_all_sources() {
        let mut ports = Ports { in_use_max: 10, time_wait_max: 90, ..Ports::default() };
        ports.count(2);
        assert_eq!(ports.headroom, ports.range * 2 - 100);
    }
}
