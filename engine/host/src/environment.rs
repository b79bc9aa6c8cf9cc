//! The environment of a run for its report: kernel, CPU, limits and network.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use plan::redact::hash;
use rustix::system::uname;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sys::kernel_files::read;
use sys::placement;
use sys::topology::Topology;

use super::cgroup::{self, ControlGroup};
use super::kernel::{clock_source, kernel_release};
use super::limits::{self, Limit};
use super::network::{self, Network};
use super::processor::{self, Core, CpuInfo, Virtualisation};

/// The environment when the report was made. What the kernel doesn't say is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// The machine's own name.
    pub host: String,
    /// This program's version.
    pub tool_version: String,
    /// Kernel name and release.
    pub kernel: String,
    /// The parameters that the kernel was booted with: the values of those that can hold a secret
    /// are replaced by their hashes, and those for init are left out.
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
    /// Each of these in detail.
    pub cores: Vec<Core>,
    /// The kernel's word for simultaneous multithreading.
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
    /// Why the kernel stamped no response of a run that didn't name `--stamps`; `None` if it did.
    #[serde(default)]
    pub unstamped: Option<String>,
    /// The core of an agent's control plane; `None` of a run without agents.
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

/// The environment of a run on these cores against `target`, for its report; `None` is a socket of
/// this machine.
pub fn environment(
    cores_used: &[usize],
    ring_features: Vec<String>,
    target: Option<SocketAddr>,
) -> Environment {
    Environment {
        cores: processor::cores(cores_used, &CpuInfo::read(), &Topology::here()),
        cores_used: cores_used.to_vec(),
        network: match target {
            Some(target) => network::network(target),
            None => Network { target_on_this_host: Some(true), ..Network::default() },
        },
        ring_features,
        ..of_controller()
    }
}

/// The environment of a process that offers no load itself, for the report of those that do.
pub fn of_controller() -> Environment {
    let info = CpuInfo::read();
    Environment {
        host: host_name(),
        tool_version: tool_version(),
        kernel: kernel_name(),
        kernel_command_line: read("/proc/cmdline").and_then(|text| kernel_parameters(&text)),
        mitigations: processor::mitigations(),
        cpu: info.model(),
        cores_online: placement::online_cores().len(),
        cores_allowed: placement::allowed_cores(),
        smt: processor::smt(),
        virtualisation: processor::virtualisation(&info),
        control_group: cgroup::control_group(),
        clock_source: clock_source(),
        open_files: limits::open_files(),
        locked_memory_bytes: limits::locked_memory_bytes(),
        ..Environment::default()
    }
}

/// The machine's own name.
pub fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

/// This program's version.
pub fn tool_version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Kernel name and release.
pub fn kernel_name() -> String {
    format!("{} {}", uname().sysname().to_string_lossy(), kernel_release())
}

/// The processor's model name, where the kernel says it.
pub fn cpu_model() -> Option<String> {
    CpuInfo::read().model()
}

/// The parameters whose values are shown: they change how fast the machine is, or how steadily.
/// No list knows every name that secrets go by, as of headers.
const SHOWN: [&str; 58] = [
    "acpi",
    "amd_iommu",
    "amd_pstate",
    "apparmor",
    "audit",
    "clocksource",
    "console",
    "cpufreq.default_governor",
    "cpuidle.off",
    "default_hugepagesz",
    "highres",
    "hpet",
    "hugepages",
    "hugepagesz",
    "idle",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "irqaffinity",
    "isolcpus",
    "kthread_cpus",
    "l1tf",
    "lockdown",
    "maxcpus",
    "mds",
    "mitigations",
    "net.ifnames",
    "nmi_watchdog",
    "no-kvmclock",
    "nohz",
    "nohz_full",
    "nopti",
    "nosmt",
    "nosoftlockup",
    "nowatchdog",
    "nr_cpus",
    "numa_balancing",
    "pci",
    "pcie_aspm",
    "preempt",
    "processor.max_cstate",
    "pti",
    "quiet",
    "rcu_nocbs",
    "ro",
    "rw",
    "selinux",
    "skew_tick",
    "spec_store_bypass_disable",
    "spectre_v2",
    "threadirqs",
    "transparent_hugepage",
    "tsc",
    "tsx",
    "workqueue.power_efficient",
];

/// The kernel's own parameters on its command line, secrets hashed. What follows `--` is for init
/// and affects no number.
fn kernel_parameters(command_line: &str) -> Option<String> {
    let words = command_line.split_whitespace().take_while(|word| *word != "--");
    let own: Vec<String> = words.map(redacted_parameter).collect();
    (!own.is_empty()).then(|| own.join(" "))
}

fn redacted_parameter(word: &str) -> String {
    match word.split_once('=') {
        _ if SHOWN.contains(&word) => word.to_owned(),
        Some((name, _)) if SHOWN.contains(&name) => word.to_owned(),
        Some((name, value)) => format!("{name}={}", hash(value.as_bytes())),
        // It may be the rest of a quoted value.
        None => hash(word.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_first_process_keeps_its_own_words() {
        let words = "isolcpus=1 mitigations=auto,nosmt quiet -- --name x";
        assert_eq!(
            kernel_parameters(words).as_deref(),
            Some("isolcpus=1 mitigations=auto,nosmt quiet")
        );
        assert_eq!(
            kernel_parameters("nosmt--tsc=1 --").map(|own| own.contains("--tsc")),
            Some(true)
        );
        assert_eq!(kernel_parameters("-- secret"), None);
    }

    #[test]
    fn what_may_be_a_secret_of_the_kernel_command_line_is_hashed() {
        let words = "ro key=abc token=\"open sesame\" nosmt=force";
        let shown = kernel_parameters(words).expect("parameters");
        assert!(shown.starts_with("ro key=sha256:ba7816bf8f01cfea token=sha256:"), "{shown}");
        assert!(shown.ends_with(" nosmt=force"), "{shown}");
        assert!(!shown.contains("sesame") && !shown.contains("open"), "{shown}");
    }

    fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::String(text) => found.push(text),
            Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
            Value::Object(map) => map.values().for_each(|value| texts(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    #[test]
    fn what_is_not_known_is_null_and_never_an_empty_text() {
        let cores = placement::allowed_cores();
        let target = "127.0.0.1:80".parse().expect("an address");
        let environment = environment(&cores, vec!["x".to_owned()], Some(target));
        let document = serde_json::to_value(&environment).expect("a document");
        let mut found = Vec::new();
        texts(&document, &mut found);
        assert!(found.iter().all(|text| !text.trim().is_empty()), "{document:#}");
        assert_eq!(environment.cores.len(), cores.len());
        let back: Environment = serde_json::from_value(document).expect("comes back");
        assert_eq!(back.mitigations, environment.mitigations);
        assert_eq!(back.network, environment.network);
        assert_eq!(back.open_files, environment.open_files);
    }
}
