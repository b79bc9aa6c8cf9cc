//! The environment of a run for its report: kernel, CPU, limits and network.

use std::net::SocketAddr;

use plan::Wait;
use plan::redact::hash;
use report::calibration::CalibratedOf;
use report::environment::{Environment, Network};
use rustix::system::uname;
use sys::kernel_files::read;
use sys::placement;
use sys::topology::Topology;

use super::cgroup;
use super::kernel::{clock_source, kernel_release};
use super::limits;
use super::network;
use super::processor::{self, CpuInfo};

/// The environment of a run on these cores against `target`, for its report; `None` for a
/// Unix-domain socket.
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

/// The environment of a process that offers no load itself, for its agents' report.
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

/// The machine's host name.
pub fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

/// What a calibration has to match for runs of this program on these cores of this machine, waiting
/// like this.
pub fn calibrated_of(cores: &[usize], wait: Wait) -> CalibratedOf {
    let (kernel, cpu) = (kernel_name(), CpuInfo::read().model());
    CalibratedOf { tool_version: tool_version(), kernel, cpu, cores: cores.to_vec(), wait }
}

/// This program's version.
fn tool_version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Kernel name and release.
fn kernel_name() -> String {
    format!("{} {}", uname().sysname().to_string_lossy(), kernel_release())
}

/// The names of the parameters whose values are shown: they affect how fast or how steady the
/// machine is. As with headers, no list covers every name that secrets go by.
const SHOWN: &str = "\
    acpi amd_iommu amd_pstate apparmor audit clocksource console cpufreq.default_governor \
    cpuidle.off default_hugepagesz highres hpet hugepages hugepagesz idle init_on_alloc \
    init_on_free intel_idle.max_cstate intel_iommu intel_pstate iommu irqaffinity isolcpus \
    kthread_cpus l1tf lockdown maxcpus mds mitigations net.ifnames nmi_watchdog no-kvmclock nohz \
    nohz_full nopti nosmt nosoftlockup nowatchdog nr_cpus numa_balancing pci pcie_aspm preempt \
    processor.max_cstate pti quiet rcu_nocbs ro rw selinux skew_tick spec_store_bypass_disable \
    spectre_v2 threadirqs transparent_hugepage tsc tsx workqueue.power_efficient";

/// The kernel's own parameters on its command line, secrets hashed. Everything after `--` is for
/// init and affects no number.
fn kernel_parameters(command_line: &str) -> Option<String> {
    let words = command_line.split_whitespace().take_while(|word| *word != "--");
    let own: Vec<String> = words.map(redacted_parameter).collect();
    (!own.is_empty()).then(|| own.join(" "))
}

fn redacted_parameter(word: &str) -> String {
    let is_shown = |name: &str| SHOWN.split(' ').any(|shown| shown == name);
    match word.split_once('=') {
        _ if is_shown(word) => word.to_owned(),
        Some((name, _)) if is_shown(name) => word.to_owned(),
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
    fn parameters_for_init_are_left_out() {
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
    fn potential_secrets_on_the_kernel_command_line_are_hashed() {
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
    fn unknown_values_are_null_and_never_an_empty_text() {
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
