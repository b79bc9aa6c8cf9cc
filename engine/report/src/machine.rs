//! The generator's machine during a run.

use record::shard_stats::ShardStats;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine during the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The time that `steal` and `throttled_s` cover, seconds: the window, if the watch ran at its
    /// start and at its end; otherwise 0, and neither is known.
    pub observed_s: f64,
    /// Share of the used cores' time that the hypervisor stole, in that time.
    pub steal: Option<f64>,
    /// Time for which this process's control group, or one of its ancestors, was throttled by its
    /// CPU quota, in that time, seconds, summed over cores; with several groups that of the longest
    /// throttled. `None` if the kernel doesn't report it.
    pub throttled_s: Option<f64>,
    /// How the shards' cores and their siblings spent that time, by core number. Empty if the
    /// kernel doesn't report it.
    #[serde(default)]
    pub cores: Vec<CoreTime>,
    /// Other processes that used the shards' cores in that time, busiest first, at most three.
    /// Empty if `/proc` doesn't show them, and if there is no other core to read it from.
    pub contenders: Vec<Contender>,
    /// Ephemeral ports used by connections to the target. `None` if the kernel doesn't report them,
    /// and for a run that never reached its window.
    pub ports: Option<Ports>,
    /// Traffic of the interface that leads to the target, in that time. `None` if the kernel
    /// doesn't report it.
    pub interface: Option<InterfaceTraffic>,
    /// TCP counters of this machine, in that time. `None` if the kernel doesn't report them.
    pub tcp: Option<TcpCounts>,
}

/// The share of its time for which a shard waited for its core while others had it: of all that it
/// waited, as much as they used of the core, where that is known. The rest is what waking the shard
/// up and its own interrupts take. 0 of a shard that observed nothing.
pub fn waited_for_others(machine: Option<&Machine>, shard: &ShardStats) -> f64 {
    if shard.observed_s <= 0.0 {
        return 0.0;
    }
    let others = machine.and_then(|machine| machine.used_by_others(shard));
    (shard.run_queue_delay_s / shard.observed_s).min(others.unwrap_or(f64::INFINITY))
}

impl Machine {
    /// The share of the time in which others used a shard's core, if that is known.
    ///
    /// They can't have made the shard wait for longer than that. The kernel's run-queue delay
    /// covers all time from a wake-up until the thread runs, so on a core that nothing else uses it
    /// is the cost of waking the core and of the network's interrupts, thousands of times a second.
    /// A process that ended in the meantime shows only in the core's time; interrupts charged to a
    /// thread hide the others there, but not in the processes' own accounts.
    pub(crate) fn used_by_others(&self, shard: &ShardStats) -> Option<f64> {
        let time = self.cores.iter().find(|time| time.core == shard.core)?;
        if shard.observed_s <= 0.0 {
            return None;
        }
        let own = (shard.cpu_user_s + shard.cpu_system_s) / shard.observed_s;
        let of_core = time.busy - time.interrupts - own;
        let contenders = self.contenders.iter().filter(|other| other.core == shard.core);
        let of_processes = contenders.map(|other| other.cpu_s).sum::<f64>() / shard.observed_s;
        Some(of_core.max(of_processes))
    }
}

/// How a core's time was spent, as shares of it. A core is one hardware thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreTime {
    /// Its number.
    pub core: usize,
    /// Neither idle nor stolen by the hypervisor. A polling shard is busy.
    pub busy: f64,
    /// Interrupts, and the kernel's work for them.
    pub interrupts: f64,
    /// Of these, soft interrupts, in which the kernel processes received packets.
    pub soft_interrupts: f64,
}

/// Another process that used the shards' cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contender {
    /// Its name in the kernel, up to 15 characters.
    pub name: String,
    /// Its process ID.
    pub pid: u32,
    /// CPU time that it used in the window, on any core, seconds.
    pub cpu_s: f64,
    /// The core, one of the shards', on which one of its threads was last seen.
    pub core: usize,
}

/// Ephemeral ports used by connections to the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ports {
    /// Ports that the kernel may choose from, for each source address.
    pub range: u64,
    /// Source addresses to connect from.
    pub sources: u64,
    /// The most ports of all sources in use at once, not counting TIME_WAIT.
    pub in_use_max: u64,
    /// The most ports of all sources in TIME_WAIT at once. `tcp_tw_reuse` in the environment shows
    /// whether the kernel may reuse one before its minute is over.
    pub time_wait_max: u64,
    /// The fewest ports that any source had left at any time; ports in TIME_WAIT count as taken.
    pub headroom: u64,
}

/// Traffic of all programs on the interface that leads to the target, while the machine was
/// watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceTraffic {
    /// The interface. On the loopback, every byte is both sent and received.
    pub name: String,
    /// Its speed, megabits per second; `None` if it has none, such as the loopback or an interface
    /// without a device, or if the kernel doesn't report it.
    pub speed_mbit: Option<u64>,
    /// Bytes received, headers included.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets dropped, in either direction.
    pub dropped: u64,
}

/// TCP counters of all programs in this network namespace, while the machine was watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpCounts {
    /// Segments sent, without retransmissions.
    pub segments_sent: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Connections that a listener on this machine had no room for.
    pub listen_overflows: u64,
    /// Connections that a listener on this machine dropped for any reason, including these.
    pub listen_drops: u64,
}
