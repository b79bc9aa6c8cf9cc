//! The limits of this process's control group (version 2): processor time, cores and memory.
//!
//! A group is bound by the limits of all groups around it, so the tightest counts. Groups of version 1 are not read.

use std::fs;

use serde::{Deserialize, Serialize};

use super::limits::Limit;
use super::{cores_in, read};

/// Limits of a control group; `None` where the kernel doesn't say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlGroup {
    /// Processor time, in cores: the quota over its period (`cpu.max`).
    pub cpu: Option<Limit<f64>>,
    /// Cores that its processes may run on (`cpuset.cpus.effective`).
    pub cpuset: Option<Vec<usize>>,
    /// Memory, bytes (`memory.max`).
    pub memory_bytes: Option<Limit<u64>>,
}

/// The limits of this process's group.
pub fn control_group() -> ControlGroup {
    let folders = folders(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default());
    let texts = |name: &str| -> Vec<String> {
        folders.iter().filter_map(|folder| read(&format!("{folder}/{name}"))).collect()
    };
    ControlGroup {
        cpu: tightest(texts("cpu.max").iter().filter_map(|text| cpu_limit(text))),
        cpuset: texts("cpuset.cpus.effective").first().and_then(|text| cores_in(text)),
        memory_bytes: tightest(texts("memory.max").iter().filter_map(|text| memory_limit(text))),
    }
}

/// The folders of the group and of all around it, the innermost first, from `/proc/self/cgroup`.
fn folders(own: &str) -> Vec<String> {
    let Some(path) = own.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return Vec::new();
    };
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    (0..=names.len())
        .rev()
        .map(|depth| {
            let inner: String = names[..depth].iter().map(|name| format!("/{name}")).collect();
            format!("/sys/fs/cgroup{inner}")
        })
        .collect()
}

fn tightest<T: PartialOrd>(limits: impl Iterator<Item = Limit<T>>) -> Option<Limit<T>> {
    limits.reduce(|least, limit| if limit < least { limit } else { least })
}

/// `cpu.max`: quota and period in microseconds, `max` for no quota.
fn cpu_limit(text: &str) -> Option<Limit<f64>> {
    let (quota, period) = text.split_once(' ')?;
    if quota == "max" {
        return Some(Limit::Unlimited);
    }
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (0 < period).then(|| Limit::AtMost(quota as f64 / period as f64))
}

/// `memory.max`: bytes, or `max`.
fn memory_limit(text: &str) -> Option<Limit<u64>> {
    match text {
        "max" => Some(Limit::Unlimited),
        bytes => bytes.parse().ok().map(Limit::AtMost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_bound_by_all_around_it() {
        let own = "9:name=systemd:/x\n0::/user.slice/run.scope\n";
        assert_eq!(
            folders(own),
            ["/sys/fs/cgroup/user.slice/run.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"]
        );
        assert_eq!(folders("0::/\n"), ["/sys/fs/cgroup"]);
        assert!(folders("4:memory:/x\n").is_empty(), "no group of version 2");
        let limits = [Limit::Unlimited, Limit::AtMost(2.0), Limit::AtMost(3.0)];
        assert_eq!(tightest(limits.into_iter()), Some(Limit::AtMost(2.0)));
        assert_eq!(tightest([Limit::<u64>::Unlimited].into_iter()), Some(Limit::Unlimited));
        assert_eq!(tightest([].into_iter()), None::<Limit<u64>>);
    }

    #[test]
    fn the_files_of_a_group_are_read() {
        assert_eq!(cpu_limit("max 100000"), Some(Limit::Unlimited));
        assert_eq!(cpu_limit("150000 100000"), Some(Limit::AtMost(1.5)));
        assert_eq!(cpu_limit("150000 0"), None);
        assert_eq!(cpu_limit("150000"), None);
        assert_eq!(memory_limit("max"), Some(Limit::Unlimited));
        assert_eq!(memory_limit("4194304"), Some(Limit::AtMost(4_194_304)));
        assert_eq!(memory_limit("4M"), None);
    }
}
