//! The environment of a run: kernel, CPU, limits and network.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The environment when the report was made. What the kernel doesn't report is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// The machine's host name.
    pub host: String,
    /// This program's version.
    pub tool_version: String,
    /// Kernel name and release.
    pub kernel: String,
    /// The parameters that the kernel was booted with: values that may be secret are replaced by
    /// their hashes, and those for init are left out.
    pub kernel_command_line: Option<String>,
    /// The kernel's mitigation of each CPU vulnerability it knows, by the vulnerability's name.
    pub mitigations: BTreeMap<String, String>,
    /// The processor's model name.
    pub cpu: Option<String>,
    /// Cores of the machine.
    pub cores_online: usize,
    /// Cores that this process may use.
    pub cores_allowed: Vec<usize>,
    /// Cores that ran a shard.
    pub cores_used: Vec<usize>,
    /// Details of each of these.
    pub cores: Vec<Core>,
    /// The kernel's setting of simultaneous multithreading.
    pub smt: Option<String>,
    /// Whether this is a virtual machine.
    pub virtualisation: Virtualisation,
    /// The limits of this process's control group.
    pub control_group: ControlGroup,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// The route to the target.
    pub network: Network,
    /// Files that this process may have open.
    pub open_files: Limit<u64>,
    /// Memory that this process may lock, bytes.
    pub locked_memory_bytes: Limit<u64>,
    /// The io_uring features in use.
    pub ring_features: Vec<String>,
    /// Why the kernel stamped no response of a run without `--stamps`; `None` if it did.
    #[serde(default)]
    pub unstamped: Option<String>,
    /// The core of an agent's control plane; `None` for a run without agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_core: Option<ControlCore>,
}

/// The core of an agent's control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControlCore {
    /// Its number.
    pub core: usize,
    /// Whether a shard ran there too.
    pub shared: bool,
}

/// A core that ran a shard; `None` where the kernel doesn't report a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Core {
    /// Its number.
    pub core: usize,
    /// The hardware threads of the same physical core, including this one.
    pub siblings: Option<Vec<usize>>,
    /// Its memory node. The shard's memory is there too: the pinned shard allocates and first
    /// touches it.
    pub node: Option<usize>,
    /// Its frequency governor.
    pub governor: Option<String>,
    /// Its frequency when the report was made, MHz.
    pub frequency_mhz: Option<f64>,
}

/// Whether this is a virtual machine, and its vendor; `None` where the kernel doesn't report it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Virtualisation {
    /// True if the processor reports a hypervisor.
    pub virtual_machine: Option<bool>,
    /// The hypervisor's name, if the kernel knows it.
    pub hypervisor: Option<String>,
    /// The machine's vendor; for a virtual machine its hypervisor or cloud.
    pub system_vendor: Option<String>,
}

/// Limits of a control group; `None` where the kernel doesn't report one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlGroup {
    /// CPU time, in cores: the quota over its period (`cpu.max`; `cpu.cfs_quota_us` of version 1).
    pub cpu: Option<Limit<f64>>,
    /// Cores that its processes may run on (`cpuset.cpus.effective`; `cpuset.effective_cpus` of
    /// version 1).
    pub cpuset: Option<Vec<usize>>,
    /// Memory, bytes (`memory.max`; `memory.limit_in_bytes` of version 1).
    pub memory_bytes: Option<Limit<u64>>,
}

/// The route to the target; `None` where the kernel doesn't report a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// True if the target's address belongs to this machine, so that both share its cores. A tunnel
    /// or a proxy that listens here counts as here; a target in another network namespace of this
    /// machine doesn't.
    pub target_on_this_host: Option<bool>,
    /// The interface for packets to it.
    pub interface: Option<String>,
    /// True if that is the loopback interface: no cable, no card and no driver.
    pub loopback: Option<bool>,
    /// The interface's driver; interfaces without a device have none.
    pub driver: Option<String>,
    /// Its receive queues.
    pub receive_queues: Option<usize>,
    /// Its send queues.
    pub send_queues: Option<usize>,
    /// The memory node that its device is attached to.
    pub node: Option<usize>,
    /// The cores that serve its device's interrupts.
    pub interrupt_cores: Option<Vec<usize>>,
    /// Congestion control algorithm of new connections.
    pub congestion_control: Option<String>,
    /// The first and last ephemeral port.
    pub port_range: Option<[u64; 2]>,
    /// Whether a new connection may reuse a port in TIME_WAIT: 0 no, 1 yes, 2 on loopback only.
    pub tcp_tw_reuse: Option<u64>,
}

/// A limit on a resource.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Limit<T> {
    /// No more than this.
    AtMost(T),
    /// Unlimited.
    #[default]
    Unlimited,
}
