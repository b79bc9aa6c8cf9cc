//! What the generator's machine did during a run.

use record::shard_stats::ShardStats;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the machine did during the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The time that `steal` and `throttled_s` cover, seconds: the window, if the watch was awake
    /// at its start and at its end; 0 if it wasn't, and then neither is known.
    pub observed_s: f64,
    /// Share of the used cores' time that the hypervisor stole, in that time.
    pub steal: Option<f64>,
    /// Time for which this process's control group, or one of its ancestors, was throttled by its
    /// CPU quota, in that time, seconds, summed over cores; of several groups the one throttled
    /// longest. `None` where the kernel doesn't say.
    pub throttled_s: Option<f64>,
    /// What took the time of the shards' cores and of their siblings, in that time, by their
    /// numbers. Empty where the kernel doesn't say.
    #[serde(default)]
    pub cores: Vec<CoreTime>,
    /// Other processes that used the shards' cores in that time, busiest first, at most three.
    /// Empty where `/proc` doesn't tell, and where there is no other core to ask it from.
    pub contenders: Vec<Contender>,
    /// Ephemeral ports used by connections to the target. `None` where the kernel doesn't say, and
    /// for a run that never reached its window.
    pub ports: Option<Ports>,
    /// What passed the interface that leads to the target, in that time. `None` where the kernel
    /// doesn't say.
    pub interface: Option<InterfaceTraffic>,
    /// What TCP did on this machine, in that time. `None` where the kernel doesn't say.
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
    /// They can't have made it wait for longer. The kernel's account has all the time from a
    /// wake-up to the moment when the thread runs, so on a core that nobody else uses it is what
    /// waking the core and the network's interrupts take, thousands of times a second. A process
    /// that ended meanwhile is in the core's time alone; the interrupts that a thread was charged
    /// for hide the others there, not in the accounts of processes.
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

/// What took a core's time, as shares of it. A core is one hardware thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreTime {
    /// Its number.
    pub core: usize,
    /// Neither idle nor stolen by the hypervisor. A shard that polls is busy.
    pub busy: f64,
    /// Interrupts, and what the kernel does because of them.
    pub interrupts: f64,
    /// Of these, soft interrupts: there the kernel takes in what the network brought.
    pub soft_interrupts: f64,
}

/// A process that used the shards' cores beside this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contender {
    /// Its name as the kernel keeps it, up to 15 characters.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// Processor time that it took in the window, on any core, seconds.
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
    /// The most ports of all sources in TIME_WAIT at once. Whether the kernel may use one again
    /// before its minute is over is said by `tcp_tw_reuse` in the environment.
    pub time_wait_max: u64,
    /// The fewest ports that any source had left at any time; those in TIME_WAIT count as taken.
    pub headroom: u64,
}

/// What passed the interface that leads to the target, of all programs, in the time that the
/// machine was watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceTraffic {
    /// The interface. On the loopback, every byte is both sent and received.
    pub name: String,
    /// Its speed, megabits per second; `None` where it has none, as the loopback, where no device
    /// is behind it, or where the kernel doesn't say.
    pub speed_mbit: Option<u64>,
    /// Bytes received, headers included.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets dropped, received or to be sent.
    pub dropped: u64,
}

/// What TCP did in this network namespace, of all programs, in the time that the machine was
/// watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpCounts {
    /// Segments sent, those sent again not among them.
    pub segments_sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Connections that a listener here had no room for: of a target on this machine.
    pub listen_overflows: u64,
    /// Connections that a listener here dropped for any reason, these included.
    pub listen_drops: u64,
}
