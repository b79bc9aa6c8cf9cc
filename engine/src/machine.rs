//! What the machine did to the run: processor time stolen or throttled, ports in use. Watched from a thread of its own.
//!
//! A shard can't see why it got no processor time; the kernel's accounts of the machine can. They are read at the edges of
//! the window; ports, which come and go, twice a second.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::host::cgroup::{Quotas, Throttled};
use crate::shard::Signals;
use crate::units::SECOND_NS;

/// What the machine did to the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Share of the used cores' time that the hypervisor gave to others, in the window.
    pub steal: f64,
    /// Time for which a control group around this process was held back for having used up its quota, in the window,
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

/// Looks at the machine this often.
const INTERVAL: Duration = Duration::from_millis(500);

/// The kernel's accounts at one moment.
#[derive(Clone, Debug, Default)]
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
    let mut machine = Machine::default();
    let quotas = Quotas::of_this_process();
    let mut edges: [Option<Accounts>; 2] = [None, None];
    let ended = |ended: &AtomicUsize| shards <= ended.load(Ordering::Relaxed);
    while !ended(&signals.ended) {
        let epoch_ns = signals.epoch_ns.load(Ordering::Acquire);
        if epoch_ns == u64::MAX {
            break;
        }
        machine.ports.look();
        let now_ns = if epoch_ns == 0 { 0 } else { clock::now_ns().saturating_sub(epoch_ns) };
        let started = epoch_ns != 0 && watched.window_ns <= now_ns;
        if started && edges[0].is_none() {
            edges[0] = Some(Accounts::read(&watched.cores, &quotas));
        }
        if started && watched.end_ns <= now_ns && edges[1].is_none() {
            edges[1] = Some(Accounts::read(&watched.cores, &quotas));
        }
        // Parked in short stretches, so that it ends soon after the shards.
        for _ in 0..10 {
            if !ended(&signals.ended) {
                thread::sleep(INTERVAL / 10);
            }
        }
    }
    machine.ports.look();
    let [first, last] = edges;
    let last = last.unwrap_or_else(|| Accounts::read(&watched.cores, &quotas));
    if let Some(first) = first {
        let total = last.total.saturating_sub(first.total);
        machine.steal = if total == 0 {
            0.0
        } else {
            last.steal.saturating_sub(first.steal) as f64 / total as f64
        };
        machine.throttled_s =
            last.throttled.longest_since(&first.throttled).map(|ns| ns as f64 / SECOND_NS as f64);
    }
    machine.ports.count(watched.sources);
    machine
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

    #[test]
    fn ports_are_counted_against_all_sources() {
        let mut ports = Ports { in_use_max: 10, time_wait_max: 90, ..Ports::default() };
        ports.count(2);
        assert_eq!(ports.headroom, ports.range * 2 - 100);
    }
}
