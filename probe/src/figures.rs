//! What a run tells of its bound, beside its latencies: the time of the generator's cores, its
//! connections, what it ran out of, and the network.

use std::collections::BTreeMap;

use engine::host::Limit;
use engine::host::ports::Ports;
use engine::host::traffic::{InterfaceTraffic, TcpCounts};
use engine::record::outcome::Cause;
use engine::report::Report;
use serde::{Deserialize, Serialize};

/// Figures of a run. Shares are of the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Good answers per second in the second half of the window, to its requests: what the whole
    /// path delivers, as far as the backlog that it began with has been worked off.
    pub throughput: f64,
    /// The shards, each with what took its core's time.
    pub shards: Vec<ShardTime>,
    /// Share of the shards' cores that the hypervisor took; `None` if unknown.
    pub steal: Option<f64>,
    /// Share for which a quota throttled the generator, summed over cores; `None` if unknown.
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
    /// Of these, those for which the generator's machine had no port, file or memory.
    pub local_resource: u64,
    /// Files that the process may open.
    pub open_files: Limit<u64>,
    /// Local ports; `None` if unknown.
    pub ports: Option<Ports>,
    /// The time that the following cover, seconds.
    pub observed_s: f64,
    /// What passed the interface to the target; `None` if unknown.
    pub interface: Option<InterfaceTraffic>,
    /// What TCP did on the machine; `None` if unknown.
    pub tcp: Option<TcpCounts>,
}

/// What took the time of a shard's core.
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
    /// It could have run, and others did.
    pub waited: f64,
    /// Its core served interrupts, by the kernel's account, soft ones included; `None` if unknown.
    pub interrupts: Option<f64>,
    /// Its core served soft interrupts.
    pub soft_interrupts: Option<f64>,
}

impl Figures {
    /// Of a report in which this share of the answers was good.
    pub(crate) fn new(report: &Report, good_share: f64) -> Figures {
        let counts = &report.whole.counts;
        // Of several agents, nothing is known of the machine under all of them.
        let machine = report.generator.machine.clone().unwrap_or_default();
        let series = &report.series;
        let half = series.intervals.len() / 2;
        let late_s = report.config.window_s() - half as f64 * series.interval_s;
        let answers: u64 = series.intervals[half..].iter().map(|slot| slot.counts.answers).sum();
        let shards = report.generator.shards.iter().map(|shard| {
            let of = |seconds: f64| share(seconds, shard.observed_s);
            let core = machine.cores.iter().find(|time| time.core == shard.core);
            ShardTime {
                core: shard.core,
                busy: shard.busy,
                user: of(shard.cpu_user_s),
                system: of(shard.cpu_system_s),
                polling: of(shard.polling_s),
                waited: of(shard.run_queue_delay_s),
                interrupts: core.map(|time| time.interrupts),
                soft_interrupts: core.map(|time| time.soft_interrupts),
            }
        });
        Figures {
            throughput: good_share * share(answers as f64, late_s),
            shards: shards.collect(),
            steal: machine.steal,
            throttled: machine.throttled_s.map(|seconds| share(seconds, machine.observed_s)),
            conns: report.config.plan.conns() as u64,
            conns_open: counts.users,
            capped: counts.capped,
            at_target: report.littles_law.at_target_mean,
            failures: counts.errors.by_name(),
            local_resource: Cause::LOCAL.map(|cause| counts.errors.of(cause)).iter().sum(),
            open_files: report.environment.open_files,
            ports: machine.ports,
            observed_s: machine.observed_s,
            interface: machine.interface,
            tcp: machine.tcp,
        }
    }

    /// The busiest shard; `None` of a run without any.
    pub(crate) fn busiest(&self) -> Option<&ShardTime> {
        self.shards.iter().max_by(|one, other| one.busy.total_cmp(&other.busy))
    }

    /// Share of a core that others took of the generator, at most: the hypervisor, other processes,
    /// or a quota.
    pub(crate) fn taken(&self) -> f64 {
        let waited = self.shards.iter().map(|shard| shard.waited).fold(0.0, f64::max);
        // A throttled shard waits for its core too.
        self.steal.unwrap_or(0.0) + waited.max(self.throttled.unwrap_or(0.0))
    }
}

/// A part of a whole; 0 of nothing.
fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}
