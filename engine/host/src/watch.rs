//! Watches the machine during a run, on its own thread: CPU steal, how busy the shards' cores and
//! their siblings were, cgroup throttling, network traffic, ephemeral ports in use.
//!
//! A shard can't see why it got no CPU time; the kernel's accounting can. It is read at the start
//! and the end of the window; ports, which come and go, in between as well.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use report::machine::{Contender, CoreTime, Machine};
use sys::clock;
use sys::control::Signals;
use sys::placement::{allowed_cores, leave_cores};
use sys::topology::Topology;
use units::SECOND_NS;

use crate::cgroup::{Quotas, Throttled};
use crate::network::interface_towards;
use crate::ports::PortCount;
use crate::processes::Processes;
use crate::ticks::{self, Ticks};
use crate::traffic::Traffic;

/// How often ports are counted in the window, ns. Counting costs the kernel 1.4 µs per TCP socket
/// and us 0.2 µs (14,000 in TIME_WAIT, Linux 6.18): 45 ms if all 28,000 ports of a source are
/// taken, less than 1 % of a core.
const PORTS_EVERY_NS: u64 = 5_000_000_000;
/// Counting takes at most 1/200 of the time, so it is done less often if other programs have many
/// sockets.
const PORTS_PAUSE: u64 = 200;
/// The longest sleep before the epoch is set: the watch has to be awake at the epoch, which is set
/// 20 ms ahead.
const NAP_BEFORE_NS: u64 = 5_000_000;
/// The longest sleep afterwards: a stop is set 100 ms ahead, and the watch has to end soon after
/// the shards.
const NAP_NS: u64 = 50_000_000;

/// The kernel's accounting at one time.
#[derive(Clone, Debug, Default, PartialEq)]
struct Accounts {
    /// The sum over the shards' cores.
    shards: Ticks,
    /// Each of these cores and each of their siblings.
    cores: BTreeMap<usize, Ticks>,
    throttled: Throttled,
    traffic: Traffic,
    processes: Processes,
}

/// A thread that watches the machine until all shards have ended.
#[derive(Debug)]
pub struct Watch {
    thread: JoinHandle<Machine>,
}

/// What to watch.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Cores that run shards.
    pub cores: Vec<usize>,
    /// Start of the window, ns since the epoch.
    pub window_ns: u64,
    /// End of the window, ns since the epoch.
    pub end_ns: u64,
    /// The target's address; `None` for a Unix-domain socket.
    pub target: Option<SocketAddr>,
    /// Source addresses to connect from; empty if the kernel chooses.
    pub sources: Vec<IpAddr>,
}

impl Watch {
    /// Starts watching; ends by itself with the last of `shards` shards, or when the run is
    /// cancelled.
    ///
    /// # Errors
    /// The kernel's refusal of the thread.
    pub fn begin(watched: Watched, signals: Arc<Signals>, shards: usize) -> io::Result<Watch> {
        let thread = thread::Builder::new()
            .name("truetail-watch".to_owned())
            .spawn(move || watch(&watched, &signals, shards))?;
        Ok(Watch { thread })
    }

    /// Returns the observations.
    pub fn finish(self) -> Machine {
        self.thread.join().expect("watching can't fail")
    }
}

fn watch(watched: &Watched, signals: &Signals, shards: usize) -> Machine {
    leave_cores(&watched.cores);
    // Reading every process takes milliseconds, which must not cost a shard.
    let has_own_core = allowed_cores().iter().any(|core| !watched.cores.contains(core));
    let quotas = Quotas::of_this_process();
    let siblings = siblings(&watched.cores, &Topology::here());
    let interface = watched.target.and_then(interface_towards);
    let mut edges = Edges { interface: interface.clone(), ..Edges::default() };
    let mut rounds = Rounds::default();
    let mut contenders = None;
    let mut ports = watched.target.and_then(|target| PortCount::new(target, &watched.sources));
    loop {
        // Read before the clock: if all shards have ended, the window is over by then.
        let ended = shards <= signals.by_shards.ended.load(Ordering::Relaxed);
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
            edges.look(now_ns, &window, || {
                let processes = if has_own_core { Processes::read() } else { Processes::default() };
                let traffic = Traffic::read(interface.as_deref());
                let accounts = Accounts::read(&watched.cores, &siblings, &quotas);
                Accounts { processes, traffic, ..accounts }
            });
            if contenders.is_none() {
                contenders = edges.contenders(&watched.cores);
            }
            if rounds.is_due(now_ns, &window) {
                let begun_ns = clock::now_ns();
                ports.iter_mut().for_each(PortCount::look);
                rounds.done(begun_ns, clock::now_ns(), &window);
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
    Machine {
        ports: ports.and_then(PortCount::ports),
        contenders: contenders.unwrap_or_default(),
        ..edges.machine()
    }
}

/// The accounting at the window's start and end, each with the time at which it was read.
#[derive(Debug, Default)]
struct Edges {
    /// The interface whose traffic is counted.
    interface: Option<String>,
    begin: Option<(u64, Accounts)>,
    end: Option<(u64, Accounts)>,
}

impl Edges {
    /// Reads the accounting if this is the first call in the window, or the first after it. A
    /// missed start isn't made up for at the end: the two would cover nothing.
    fn look(&mut self, now_ns: u64, window: &Range<u64>, read: impl FnOnce() -> Accounts) {
        if self.begin.is_none() && window.contains(&now_ns) {
            self.begin = Some((now_ns, read()));
        } else if self.begin.is_some() && self.end.is_none() && window.end <= now_ns {
            self.end = Some((now_ns, read()));
        }
    }

    /// The processes that used these cores between the two readings; `None` before the second.
    fn contenders(&self, cores: &[usize]) -> Option<Vec<Contender>> {
        let (Some((_, begin)), Some((_, end))) = (&self.begin, &self.end) else { return None };
        Some(end.processes.busiest_since(&begin.processes, cores))
    }

    /// The difference of the two readings; unknown if one is missing.
    fn machine(&self) -> Machine {
        let (Some((begin_ns, begin)), Some((end_ns, end))) = (&self.begin, &self.end) else {
            return Machine::default();
        };
        let seconds = |ns: u64| ns as f64 / SECOND_NS as f64;
        let cores = end.cores.iter().filter_map(|(core, end)| {
            let spent = end.since(begin.cores.get(core)?);
            let busy = spent.total.saturating_sub(spent.idle + spent.steal);
            Some(CoreTime {
                core: *core,
                busy: spent.share(busy)?,
                interrupts: spent.share(spent.interrupts)?,
                soft_interrupts: spent.share(spent.soft_interrupts)?,
            })
        });
        let shards = end.shards.since(&begin.shards);
        Machine {
            observed_s: seconds(end_ns - begin_ns),
            steal: shards.share(shards.steal),
            cores: cores.collect(),
            throttled_s: end.throttled.longest_since(&begin.throttled).map(seconds),
            interface: self
                .interface
                .as_ref()
                .and_then(|name| end.traffic.interface_since(&begin.traffic, name)),
            tcp: end.traffic.tcp_since(&begin.traffic),
            ..Machine::default()
        }
    }
}

/// When to count ports: at the window's start, at intervals, and at its end.
#[derive(Debug, Default)]
struct Rounds {
    next_ns: u64,
}

impl Rounds {
    fn is_due(&self, now_ns: u64, window: &Range<u64>) -> bool {
        window.start <= now_ns && self.next_ns.min(window.end) <= now_ns && self.next_ns != u64::MAX
    }

    /// Ports were counted from `begun_ns` to `now_ns`. A count that began at or after the window's
    /// end is the last.
    fn done(&mut self, begun_ns: u64, now_ns: u64, window: &Range<u64>) {
        let pause_ns = PORTS_EVERY_NS.max((now_ns - begun_ns) * PORTS_PAUSE);
        self.next_ns = if window.end <= begun_ns { u64::MAX } else { now_ns + pause_ns };
    }
}

impl Accounts {
    /// Reads the accounting of the shards' cores and their siblings.
    fn read(shards: &[usize], siblings: &[usize], quotas: &Quotas) -> Accounts {
        let mut cores = ticks::now();
        cores.retain(|core, _| shards.contains(core) || siblings.contains(core));
        let mut sum = Ticks::default();
        shards.iter().filter_map(|core| cores.get(core)).for_each(|ticks| sum += *ticks);
        Accounts { shards: sum, cores, throttled: quotas.throttled(), ..Accounts::default() }
    }
}

/// The hardware siblings of these cores, including any that run shards.
fn siblings(cores: &[usize], topology: &Topology) -> Vec<usize> {
    cores.iter().filter_map(|core| topology.siblings(*core)).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cores_time_is_counted_between_the_edges() {
        let window = 10..20;
        let mut edges = Edges::default();
        let of = |total, idle, interrupts, steal| {
            let soft_interrupts = interrupts / 5;
            Ticks { total, idle, interrupts, soft_interrupts, steal }
        };
        // The third core was brought online in between.
        let begin = BTreeMap::from([(0, of(100, 50, 5, 0)), (1, of(100, 100, 0, 0))]);
        let end = BTreeMap::from([
            (0, of(200, 60, 25, 10)),
            (1, of(200, 200, 0, 0)),
            (2, of(7, 0, 0, 0)),
        ]);
        for (now_ns, cores) in [(10, begin), (20, end)] {
            edges.look(now_ns, &window, || Accounts { cores, ..Accounts::default() });
        }
        let time = |core, busy, interrupts, soft_interrupts| CoreTime {
            core,
            busy,
            interrupts,
            soft_interrupts,
        };
        assert_eq!(edges.machine().cores, [time(0, 0.8, 0.2, 0.04), time(1, 0.0, 0.0, 0.0)]);
        assert_eq!(edges.machine().steal, None, "nothing is known about the shards' cores");
    }

    fn accounts(steal: u64, total: u64) -> Accounts {
        let shards = Ticks { steal, total, ..Ticks::default() };
        Accounts { shards, ..Accounts::default() }
    }

    #[test]
    fn the_accounts_cover_the_window_and_the_times_at_which_they_were_read() {
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
        assert_eq!(machine.throttled_s, None, "there was no group to read");
    }

    #[test]
    fn a_window_with_a_missed_edge_has_no_accounts() {
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
    fn ports_are_counted_from_the_start_to_the_end_of_the_window() {
        let window = SECOND_NS..SECOND_NS + PORTS_EVERY_NS + 10;
        let mut rounds = Rounds::default();
        let mut looks = Vec::new();
        for now_ns in
            [0, 1, window.start, window.start + 5, window.end - 1, window.end, u64::MAX / 2]
        {
            if rounds.is_due(now_ns, &window) {
                looks.push(now_ns);
                rounds.done(now_ns, now_ns, &window);
            }
        }
        assert_eq!(looks, [window.start, window.end - 1, window.end]);
    }

    #[test]
    fn costly_counts_are_rarer() {
        let window = 0..100 * SECOND_NS;
        let mut rounds = Rounds::default();
        rounds.done(0, 10_000_000, &window);
        assert_eq!(rounds.next_ns, 10_000_000 + PORTS_EVERY_NS);
        rounds.done(0, SECOND_NS / 10, &window);
        assert_eq!(rounds.next_ns, SECOND_NS / 10 + 20 * SECOND_NS);
        rounds.done(window.end - 1, window.end + 5, &window);
        assert!(rounds.is_due(window.end + 5, &window), "the count at the end is still to come");
        rounds.done(window.end, window.end, &window);
        assert!(!rounds.is_due(u64::MAX, &window));
    }
}
