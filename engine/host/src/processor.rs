//! CPU details: model, mitigations, SMT, siblings and memory node, frequency and governor, and
//! whether this is a virtual machine.

use std::collections::BTreeMap;
use std::fs;

use report::environment::{Core, Virtualisation};
use sys::kernel_files::read;
use sys::topology::Topology;
use units::CoreList;

use super::check::{Check, Severity};

/// The text of `/proc/cpuinfo`.
pub(super) struct CpuInfo(String);

impl CpuInfo {
    /// Reads it now.
    pub(super) fn read() -> CpuInfo {
        CpuInfo(fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    /// The model's name.
    pub(super) fn model(&self) -> Option<String> {
        self.values("model name").next().map(str::to_owned)
    }

    /// True if the processor has the flag that hypervisors set. Only x86 has flags.
    fn is_virtual(&self) -> Option<bool> {
        let flags = self.values("flags").next()?;
        Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
    }

    /// The frequency of a core, MHz.
    fn frequency_mhz(&self, core: usize) -> Option<f64> {
        let core = core.to_string();
        let block = self.0.split("\n\n").find(|block| {
            block.lines().find_map(|line| value(line, "processor")) == Some(core.as_str())
        })?;
        block.lines().find_map(|line| value(line, "cpu MHz"))?.parse().ok()
    }

    /// The values of a name, one for each core.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.lines().filter_map(move |line| value(line, name))
    }
}

/// The value of the line `name : value`; `None` for another name or an empty value.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = line.split_once(':')?;
    Some(value.trim()).filter(|value| key.trim() == name && !value.is_empty())
}

/// The cores that ran shards.
pub(super) fn cores(numbers: &[usize], info: &CpuInfo, topology: &Topology) -> Vec<Core> {
    let of = |core: usize| Core {
        core,
        siblings: topology.siblings(core).map(<[usize]>::to_vec),
        node: topology.node(core),
        governor: governor(core),
        frequency_mhz: read(in_folder(core, "cpufreq/scaling_cur_freq"))
            .and_then(|text| mhz_of_khz(&text))
            .or_else(|| info.frequency_mhz(core)),
    };
    numbers.iter().map(|core| of(*core)).collect()
}

/// A core's frequency governor; `None` if the kernel doesn't control the frequency.
pub(super) fn governor(core: usize) -> Option<String> {
    read(in_folder(core, "cpufreq/scaling_governor"))
}

/// Checks that no core's frequency follows the load.
pub(super) fn check_governor(cores: &[usize]) -> Check {
    let mut cores_by_governor: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for core in cores {
        if let Some(governor) = governor(*core) {
            cores_by_governor.entry(governor).or_default().push(*core);
        }
    }
    governor_check(cores_by_governor)
}

/// The check of the cores under each governor.
fn governor_check(mut cores_by_governor: BTreeMap<String, Vec<usize>>) -> Check {
    let name = "frequency governor";
    let steady = "performance";
    let is_steady = cores_by_governor.remove(steady).is_some();
    if cores_by_governor.is_empty() {
        let none = "none: the hypervisor or the hardware sets the frequency";
        return Check::good(name, if is_steady { steady } else { none });
    }
    let entry = |(governor, cores)| format!("{governor} on cores {}", CoreList::new(cores));
    Check::bad(
        name,
        Severity::Warning,
        cores_by_governor.into_iter().map(entry).collect::<Vec<_>>().join(", "),
        "the CPU frequency follows the load, and so do latencies",
        "set it: cpupower frequency-set -g performance",
    )
}

fn in_folder(core: usize, file: &str) -> String {
    format!("/sys/devices/system/cpu/cpu{core}/{file}")
}

fn mhz_of_khz(text: &str) -> Option<f64> {
    text.parse::<u64>().ok().map(|khz| khz as f64 / 1e3)
}

/// The kernel's setting of simultaneous multithreading: `on`, `off`, `forceoff`, `notsupported` or
/// `notimplemented`.
pub(super) fn smt() -> Option<String> {
    read("/sys/devices/system/cpu/smt/control")
}

/// The kernel's mitigation of each CPU vulnerability it knows, by the vulnerability's name.
pub(super) fn mitigations() -> BTreeMap<String, String> {
    let folder = "/sys/devices/system/cpu/vulnerabilities";
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| read(format!("{folder}/{name}")).map(|text| (name, text))).collect()
}

/// Whether this is a virtual machine, and its vendor.
pub(super) fn virtualisation(info: &CpuInfo) -> Virtualisation {
    Virtualisation {
        virtual_machine: info.is_virtual(),
        hypervisor: read("/sys/hypervisor/type"),
        system_vendor: read("/sys/class/dmi/id/sys_vendor"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(text: &str) -> CpuInfo {
        CpuInfo(text.to_owned())
    }

    #[test]
    fn cpuinfo_is_read_core_by_core() {
        let info = info(
            "processor\t: 0\nmodel name\t: Some(R) CPU @ 2.1GHz: x\ncpu MHz\t\t: 2100.5\nflags\t\t: fpu hypervisor lahf_lm\n\n\
             processor\t: 10\nmodel name\t: Some(R) CPU @ 2.1GHz: x\ncpu MHz\t\t: 900.000\nflags\t\t: fpu hypervisor lahf_lm\n\n",
        );
        assert_eq!(info.model().as_deref(), Some("Some(R) CPU @ 2.1GHz: x"));
        assert_eq!(info.is_virtual(), Some(true));
        assert_eq!(info.frequency_mhz(0), Some(2_100.5));
        assert_eq!(info.frequency_mhz(10), Some(900.0));
        assert_eq!(info.frequency_mhz(1), None, "core 1 is not core 10");
    }

    #[test]
    fn values_missing_from_cpuinfo_are_unknown() {
        let arm = info("processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\nmodel name\t:\n");
        assert_eq!((arm.model(), arm.is_virtual(), arm.frequency_mhz(0)), (None, None, None));
        assert_eq!(info("flags : fpu nohypervisor\n").is_virtual(), Some(false));
    }

    #[test]
    fn a_frequency_in_khz_is_converted_to_mhz() {
        assert_eq!(mhz_of_khz("2300500"), Some(2_300.5));
        assert_eq!(mhz_of_khz("<unknown>"), None);
    }

    #[test]
    fn the_governor_of_every_core_counts() {
        let found = |governors: &[(&str, &[usize])]| {
            let of =
                |(governor, cores): &(&str, &[usize])| ((*governor).to_owned(), cores.to_vec());
            let check = governor_check(governors.iter().map(of).collect());
            (check.severity, check.found)
        };
        let good = |text: &str| (Severity::Good, text.to_owned());
        assert_eq!(found(&[("performance", &[0, 1])]), good("performance"));
        assert_eq!(found(&[]), good("none: the hypervisor or the hardware sets the frequency"));
        assert_eq!(
            found(&[("performance", &[0]), ("powersave", &[1, 2, 3])]),
            (Severity::Warning, "powersave on cores 1-3".to_owned()),
            "a run leaves core 0 free"
        );
    }
}
