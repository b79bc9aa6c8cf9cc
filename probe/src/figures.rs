//! A run's figures about its bound, besides its latencies: the time of the generator's cores, its
//! connections, exhausted resources, and the network.

use std::collections::BTreeMap;

use engine::record::outcome::Cause;
use engine::record::shard_stats::ShardStats;
use engine::report::environment::Limit;
use engine::report::machine::Machine;
use engine::report::machine::Ports;
use engine::report::machine::{InterfaceTraffic, TcpCounts, waited_for_others};
use engine::report::{Generator, Report};
use serde::{Deserialize, Serialize};

/// Figures of a run. Shares are of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Good answers per second in the second half of the window, to its requests: the whole path's
    /// throughput, as far as the initial backlog has been worked off.
    pub throughput_per_s: f64,
    /// The shards, each with the use of its core's time.
    pub shards: Vec<ShardTime>,
    /// Share of the shards' cores that the hypervisor took; `None` if unknown. With several agents,
    /// the largest.
    pub steal: Option<f64>,
    /// Share for which a quota throttled the generator, summed over cores; `None` if unknown. With
    /// several agents, the largest.
    pub throttled: Option<f64>,
    /// Connections that may be open.
    pub conns: u64,
    /// Connections that were open.
    pub conns_open: u64,
    /// Arrivals that waited while all connections that may be open were busy.
    pub capped: u64,
    /// Mean number of requests at the target, by the stamps of sends and responses.
    pub at_target: f64,
    /// Requests without an answer, by cause.
    pub failures: BTreeMap<String, u64>,
    /// Those for which the generator's machine had no port, file or memory.
    pub local_resource: u64,
    /// Files that the process may open.
    pub open_files: Limit<u64>,
    /// Local ports; `None` if unknown. With several agents, those of the one with the fewest left.
    pub ports: Option<Ports>,
    /// The time that the interface was watched, seconds.
    pub observed_s: f64,
    /// The traffic of the interface to the target; `None` if unknown. With several agents, that of
    /// the one with the fullest link.
    pub interface: Option<InterfaceTraffic>,
    /// TCP's counters on the machine, or on those of all agents; `None` if unknown.
    pub tcp: Option<TcpCounts>,
}

/// The use of a shard's core's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShardTime {
    /// The core.
    pub core: usize,
    /// The shard had work: it ran, or waited for its core, and didn't poll.
    pub busy: f64,
    /// It ran in user space, polling included.
    pub user: f64,
    /// It ran in the kernel, polling included.
    pub system: f64,
    /// It polled while nothing was due.
    pub polling: f64,
    /// It was runnable, but others ran: of its waits for its core, as much as others used of the
    /// core. The rest is its wake-ups and its own interrupts.
    pub waited: f64,
    /// Its core served interrupts, by the kernel's account, soft ones included; `None` if unknown.
    pub interrupts: Option<f64>,
    /// Its core served soft interrupts.
    pub soft_interrupts: Option<f64>,
}

impl Figures {
    /// From a report with this share of good answers.
    pub(crate) fn new(report: &Report, good_share: f64) -> Figures {
        let counts = &report.whole.counts;
        let series = &report.series;
        let half = series.intervals.len() / 2;
        let late_s = report.config.window_s() - half as f64 * series.interval_s;
        let answers: u64 = series.intervals[half..].iter().map(|slot| slot.counts.answers).sum();
        // The run's own account is empty if agents made it: each has its machine.
        let agents = report.per_agent.iter().map(|agent| &agent.generator);
        let generators: Vec<&Generator> =
            if report.is_joint() { agents.collect() } else { vec![&report.generator] };
        let shards = generators.iter().flat_map(|generator| {
            let machine = generator.machine.as_ref();
            generator.shards.iter().map(move |shard| ShardTime::new(shard, machine))
        });
        let machines: Vec<&Machine> =
            generators.iter().filter_map(|generator| generator.machine.as_ref()).collect();
        let fullest = fullest(&machines);
        Figures {
            throughput_per_s: good_share * share(answers as f64, late_s),
            shards: shards.collect(),
            steal: machines.iter().filter_map(|machine| machine.steal).max_by(f64::total_cmp),
            throttled: machines
                .iter()
                .filter_map(|machine| Some(share(machine.throttled_s?, machine.observed_s)))
                .max_by(f64::total_cmp),
            conns: report.config.plan.conns() as u64,
            conns_open: counts.users,
            capped: counts.capped,
            at_target: report.littles_law.at_target_mean,
            failures: counts.errors.by_name(),
            local_resource: Cause::LOCAL.map(|cause| counts.errors.of(cause)).iter().sum(),
            open_files: report.environment.open_files,
            ports: machines
                .iter()
                .filter_map(|machine| machine.ports.clone())
                .min_by_key(|ports| ports.headroom),
            observed_s: fullest.map_or(0.0, |machine| machine.observed_s),
            interface: fullest.and_then(|machine| machine.interface.clone()),
            tcp: machines.iter().filter_map(|machine| machine.tcp).reduce(together),
        }
    }

    /// The busiest shard; `None` for a run without any.
    pub(crate) fn busiest(&self) -> Option<&ShardTime> {
        self.shards.iter().max_by(|one, other| one.busy.total_cmp(&other.busy))
    }

    /// The largest share of a core that others took from the generator: the hypervisor, other
    /// processes, or a quota.
    pub(crate) fn taken(&self) -> f64 {
        let waited = self.shards.iter().map(|shard| shard.waited).fold(0.0, f64::max);
        // A throttled shard waits for its core too.
        self.steal.unwrap_or(0.0) + waited.max(self.throttled.unwrap_or(0.0))
    }
}

impl ShardTime {
    fn new(shard: &ShardStats, machine: Option<&Machine>) -> ShardTime {
        let of = |seconds: f64| share(seconds, shard.observed_s);
        let mut cores = machine.iter().flat_map(|machine| &machine.cores);
        let core = cores.find(|time| time.core == shard.core);
        ShardTime {
            core: shard.core,
            busy: shard.busy,
            user: of(shard.cpu_user_s),
            system: of(shard.cpu_system_s),
            polling: of(shard.polling_s),
            waited: waited_for_others(machine, shard),
            interrupts: core.map(|time| time.interrupts),
            soft_interrupts: core.map(|time| time.soft_interrupts),
        }
    }
}

/// The machine with the fullest interface by its speed, or if none has one, with the most traffic.
fn fullest<'a>(machines: &[&'a Machine]) -> Option<&'a Machine> {
    let load = |machine: &Machine| {
        let interface = machine.interface.as_ref()?;
        let bytes = interface.received_bytes.max(interface.sent_bytes);
        let per_second = share(bytes as f64, machine.observed_s);
        let of_speed = interface.speed_mbit.map_or(0.0, |mbit| per_second / mbit as f64);
        Some((of_speed, per_second))
    };
    let order = |one: &&&Machine, other: &&&Machine| {
        let [one, other] = [load(one), load(other)].map(|load| load.unwrap_or((-1.0, -1.0)));
        one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
    };
    machines.iter().max_by(order).copied()
}

/// TCP's counters of two machines, added up.
fn together(one: TcpCounts, other: TcpCounts) -> TcpCounts {
    TcpCounts {
        segments_sent: one.segments_sent + other.segments_sent,
        retransmitted: one.retransmitted + other.retransmitted,
        listen_overflows: one.listen_overflows + other.listen_overflows,
        listen_drops: one.listen_drops + other.listen_drops,
    }
}

/// A part of a whole; 0 if the whole is 0.
fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

#[cfg(test)]
mod tests {
    use engine::report::machine::CoreTime;

    use super::*;

    fn machine(speed_mbit: Option<u64>, sent_bytes: u64) -> Machine {
        let (name, received_bytes, dropped) = ("eth0".to_owned(), 0, 0);
        let interface = InterfaceTraffic { name, speed_mbit, received_bytes, sent_bytes, dropped };
        Machine { observed_s: 1.0, interface: Some(interface), ..Machine::default() }
    }

    #[test]
    fn the_fullest_link_is_that_with_the_least_room_not_the_one_that_carries_most() {
        let sent = |machines: &[&Machine]| {
            fullest(machines)?.interface.as_ref().map(|interface| interface.sent_bytes)
        };
        let (slow, quick) = (machine(Some(100), 12_000_000), machine(Some(10_000), 500_000_000));
        assert_eq!(sent(&[&slow, &quick]), Some(12_000_000));
        assert_eq!(sent(&[&quick, &slow, &Machine::default()]), Some(12_000_000));
        let (one, other) = (machine(None, 5), machine(None, 7));
        assert_eq!(sent(&[&other, &one]), Some(7));
        assert_eq!(sent(&[&Machine::default()]), None);
        assert_eq!(sent(&[]), None);
    }

    #[test]
    fn the_generators_own_network_time_is_not_taken_by_others() {
        let mut shard = ShardStats {
            core: 1,
            observed_s: 10.0,
            busy: 0.9,
            cpu_user_s: 1.0,
            cpu_system_s: 5.0,
            run_queue_delay_s: 3.0,
            polling_s: 0.0,
            turns: 1,
            requests_per_turn: 1.0,
            longest_gap_us: 0.0,
            stopped_s: 0.0,
            involuntary_switches: 0,
            cq_overflows: 0,
            buffers_exhausted: 0,
            received_bytes: 0,
            sent_bytes: 0,
            window_received_bytes: 0,
            window_sent_bytes: 0,
            clock_steps: 0,
            stamps_clamped: 0,
            first_due_us: None,
            first_sent_us: None,
            opening_s: 0.0,
            closing_s: 0.0,
        };
        // Waking up and soft interrupts made the shard wait for three of ten seconds, and another
        // process had the core for half a second of them.
        let time = CoreTime { core: 1, busy: 0.9, interrupts: 0.25, soft_interrupts: 0.25 };
        let machine = Machine { observed_s: 10.0, cores: vec![time], ..Machine::default() };
        assert!((ShardTime::new(&shard, Some(&machine)).waited - 0.05).abs() < 1e-9);
        shard.run_queue_delay_s = 0.1;
        assert!((ShardTime::new(&shard, Some(&machine)).waited - 0.01).abs() < 1e-9);
        assert!((ShardTime::new(&shard, None).waited - 0.01).abs() < 1e-9, "nothing else is known");
        // It slept through the window.
        shard.observed_s = 0.0;
        assert_eq!(ShardTime::new(&shard, Some(&machine)).waited, 0.0);
    }

    #[test]
    fn segments_of_all_machines_count() {
        let counts = |of| TcpCounts {
            segments_sent: of,
            retransmitted: of + 1,
            listen_overflows: of + 2,
            listen_drops: of + 3,
        };
        let want = TcpCounts {
            segments_sent: 30,
            retransmitted: 32,
            listen_overflows: 34,
            listen_drops: 36,
        };
        assert_eq!(together(counts(10), counts(20)), want);
    }
}
