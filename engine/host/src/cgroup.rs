//! Control group limits (CPU quota, cpuset, memory) and CPU throttling of this process, cgroup v1
//! and v2.
//!
//! A group is bound by all its ancestors, so the tightest limit counts, and throttling an ancestor
//! throttles the group. Each controller is read from its mount, in a v1 hierarchy or in the v2 one:
//! many machines have both.

use std::fs;
use std::path::{Component, Path, PathBuf};

use report::environment::{ControlGroup, Limit};
use sys::kernel_files::{cores_in, read};

/// The limits of this process's group.
pub(super) fn control_group() -> ControlGroup {
    let (cpu, cpuset, memory) = (groups("cpu"), groups("cpuset"), groups("memory"));
    ControlGroup {
        cpu: tightest(cpu.iter().filter_map(|group| quota(group))),
        cpuset: cpuset.iter().find_map(|group| cores_of(group)),
        memory_bytes: tightest(memory.iter().filter_map(|group| memory_of(group))),
    }
}

/// The groups whose quotas can throttle this process: its own and all its ancestors.
#[derive(Debug)]
pub(super) struct Quotas(Vec<PathBuf>);

/// How long each of these groups has been throttled since it was created, ns; `None` if the kernel
/// doesn't report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Throttled(Vec<Option<u64>>);

impl Quotas {
    /// The groups of this process as it is placed now.
    pub(super) fn of_this_process() -> Quotas {
        Quotas(groups("cpu"))
    }

    /// How long they have been throttled so far.
    pub(super) fn throttled(&self) -> Throttled {
        let of = |group: &PathBuf| read(group.join("cpu.stat")).map(|text| throttled_ns(&text));
        Throttled(self.0.iter().map(of).collect())
    }
}

impl Throttled {
    /// The longest that any one of the groups was throttled since `before`, ns. Not the sum:
    /// throttling an ancestor doesn't add to a group's time. `None` if no group reports it.
    pub(super) fn longest_since(&self, before: &Throttled) -> Option<u64> {
        let pairs = before.0.iter().zip(&self.0);
        pairs.filter_map(|(before, after)| Some((*after)?.saturating_sub((*before)?))).max()
    }
}

/// The folders of this process's group under a controller, and of all its ancestors, innermost
/// first.
pub(super) fn groups(controller: &str) -> Vec<PathBuf> {
    let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
    folders(controller, &text("/proc/self/cgroup"), &text("/proc/self/mountinfo"))
}

/// The same from `/proc/self/cgroup` and `/proc/self/mountinfo`; empty if the controller isn't
/// mounted.
fn folders(controller: &str, own: &str, mounts: &str) -> Vec<PathBuf> {
    let named = |names: &str| names.split(',').any(|name| name == controller);
    let lines = || own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    // A version 1 hierarchy names its controllers. A controller named by none belongs to version 2.
    let first = lines().find(|(names, _)| named(names)).map(|(_, path)| (path, true));
    let second = lines().find(|(names, _)| names.is_empty()).map(|(_, path)| (path, false));
    let Some((path, is_first)) = first.or(second) else {
        return Vec::new();
    };
    let mounted: Vec<(&str, &str)> = mounts
        .lines()
        .filter_map(|line| {
            let (place, source) = line.split_once(" - ")?;
            let mut place = place.split(' ').skip(3);
            let mut source = source.split(' ');
            let (root, point) = (place.next()?, place.next()?);
            let (kind, options) = (source.next()?, source.nth(1)?);
            let fits =
                if is_first { kind == "cgroup" && named(options) } else { kind == "cgroup2" };
            fits.then_some((root, point))
        })
        .collect();
    let inside = mounted.iter().find_map(|(root, point)| {
        let inner = Path::new(path).strip_prefix(root).ok()?;
        let is_plain = inner.components().all(|part| matches!(part, Component::Normal(_)));
        is_plain.then_some((inner, *point))
    });
    // A container may see a path that isn't below its mount: the mount is then the only group
    // visible.
    let outside = mounted.first().map(|(_, point)| (Path::new(""), *point));
    let Some((inner, point)) = inside.or(outside) else {
        return Vec::new();
    };
    inner.ancestors().map(|inner| Path::new(point).join(inner)).collect()
}

fn tightest<T: PartialOrd>(limits: impl Iterator<Item = Limit<T>>) -> Option<Limit<T>> {
    limits.reduce(|least, limit| if limit < least { limit } else { least })
}

/// A group's quota in cores: `cpu.max` holds quota and period, version 1 has a file for each.
fn quota(group: &Path) -> Option<Limit<f64>> {
    let text = read(group.join("cpu.max")).or_else(|| {
        let (quota, period) = ("cpu.cfs_quota_us", "cpu.cfs_period_us");
        Some(format!("{} {}", read(group.join(quota))?, read(group.join(period))?))
    })?;
    cpu_limit(&text)
}

/// Parses quota and period in microseconds. No quota is `max`, in version 1 -1.
fn cpu_limit(text: &str) -> Option<Limit<f64>> {
    let (quota, period) = text.split_once(' ')?;
    if quota == "max" || quota == "-1" {
        return Some(Limit::Unlimited);
    }
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (0 < period).then(|| Limit::AtMost(quota as f64 / period as f64))
}

fn cores_of(group: &Path) -> Option<Vec<usize>> {
    let text = read(group.join("cpuset.cpus.effective"))
        .or_else(|| read(group.join("cpuset.effective_cpus")))?;
    cores_in(&text)
}

fn memory_of(group: &Path) -> Option<Limit<u64>> {
    let text =
        read(group.join("memory.max")).or_else(|| read(group.join("memory.limit_in_bytes")))?;
    memory_limit(&text)
}

/// Parses bytes. No limit is `max`, in version 1 the largest number of whole pages that the kernel
/// can count.
fn memory_limit(text: &str) -> Option<Limit<u64>> {
    match text {
        "max" => Some(Limit::Unlimited),
        bytes => bytes.parse().ok().map(|bytes| {
            if NO_MEMORY_LIMIT_MIN <= bytes { Limit::Unlimited } else { Limit::AtMost(bytes) }
        }),
    }
}

/// From here on a limit counts as none, for any page size: no machine has that much memory.
const NO_MEMORY_LIMIT_MIN: u64 = 1 << 62;

/// How long a group was held back by its own quota, ns, summed over cores; stated in microseconds
/// in version 2, in ns in version 1. A `cpu.stat` without such a line belongs to a group that can't
/// have a quota.
fn throttled_ns(cpu_stat: &str) -> u64 {
    let number = |line: &str, name: &str| line.strip_prefix(name)?.trim().parse::<u64>().ok();
    let of = |line: &str| {
        number(line, "throttled_usec ")
            .map(|us| us * 1_000)
            .or_else(|| number(line, "throttled_time "))
    };
    cpu_stat.lines().find_map(of).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 1 with one controller that shares its hierarchy, beside a version 2 without them.
    const BOTH: &str = "9:name=systemd:/x\n4:memory:/a/b\n2:cpu,cpuacct:/a/b:c\n0::/y\n";
    const BOTH_MOUNTS: &str = "\
        30 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        31 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        33 30 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const SECOND: &str =
        "31 23 0:29 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn check(controller: &str, own: &str, mounts: &str, expected: &[&str]) {
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(folders(controller, own, mounts), expected, "{controller} of {own}");
    }

    #[test]
    fn a_controller_is_found_where_it_is_mounted() {
        let cpu = "/sys/fs/cgroup/cpu,cpuacct";
        let own = [&format!("{cpu}/a/b:c"), &format!("{cpu}/a"), cpu];
        check("cpu", BOTH, BOTH_MOUNTS, &own);
        check("cpuset", BOTH, BOTH_MOUNTS, &["/sys/fs/cgroup/unified/y", "/sys/fs/cgroup/unified"]);
        check("cpu", BOTH, SECOND, &[]);
        check(
            "cpu",
            "0::/user.slice/run.scope\n",
            SECOND,
            &["/sys/fs/cgroup/user.slice/run.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"],
        );
        check("cpu", "0::/\n", SECOND, &["/sys/fs/cgroup"]);
        check("cpu", "", SECOND, &[]);
    }

    #[test]
    fn in_a_container_the_mount_is_the_group() {
        let mount = |root: &str| format!("31 23 0:29 {root} /cg rw - cgroup cgroup rw,cpu\n");
        for (path, root, expected) in [
            ("/docker/ab", "/docker/ab", &["/cg"][..]),
            ("/docker/ab/c", "/docker/ab", &["/cg/c", "/cg"]),
            ("/docker/abc", "/docker/ab", &["/cg"]),
            ("/other", "/docker/ab", &["/cg"]),
            ("/../ab", "/", &["/cg"]),
        ] {
            check("cpu", &format!("1:cpu:{path}\n"), &mount(root), expected);
        }
        // The mount that holds the group takes precedence over one that doesn't.
        let two = mount("/other") + &mount("/docker").replace("/cg", "/docker-cg");
        check("cpu", "1:cpu:/docker/ab\n", &two, &["/docker-cg/ab", "/docker-cg"]);
    }

    #[test]
    fn a_group_is_bound_by_all_its_ancestors() {
        let limits = [Limit::Unlimited, Limit::AtMost(2.0), Limit::AtMost(3.0)];
        assert_eq!(tightest(limits.into_iter()), Some(Limit::AtMost(2.0)));
        assert_eq!(tightest([Limit::<u64>::Unlimited].into_iter()), Some(Limit::Unlimited));
        assert_eq!(tightest([].into_iter()), None::<Limit<u64>>);
    }

    #[test]
    fn the_files_of_a_group_are_read() {
        assert_eq!(cpu_limit("max 100000"), Some(Limit::Unlimited));
        assert_eq!(cpu_limit("-1 100000"), Some(Limit::Unlimited));
        assert_eq!(cpu_limit("150000 100000"), Some(Limit::AtMost(1.5)));
        assert_eq!(cpu_limit("150000 0"), None);
        assert_eq!(cpu_limit("150000"), None);
        assert_eq!(memory_limit("max"), Some(Limit::Unlimited));
        assert_eq!(memory_limit("4194304"), Some(Limit::AtMost(4_194_304)));
        assert_eq!(memory_limit("9223372036854771712"), Some(Limit::Unlimited));
        assert_eq!(memory_limit("9223372036854710272"), Some(Limit::Unlimited), "pages of 64 KiB");
        assert_eq!(memory_limit("4M"), None);
    }

    #[test]
    fn limits_are_read_in_both_versions() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        assert_eq!(quota(folder.path()), None);
        write("cpu.cfs_quota_us", "30000\n");
        assert_eq!(quota(folder.path()), None, "a quota needs its period");
        write("cpu.cfs_period_us", "100000\n");
        assert_eq!(quota(folder.path()), Some(Limit::AtMost(0.3)));
        write("cpu.max", "200000 100000\n");
        assert_eq!(quota(folder.path()), Some(Limit::AtMost(2.0)));

        assert_eq!((cores_of(folder.path()), memory_of(folder.path())), (None, None));
        write("cpuset.effective_cpus", "0-1\n");
        write("memory.limit_in_bytes", "4194304\n");
        assert_eq!(cores_of(folder.path()), Some(vec![0, 1]));
        assert_eq!(memory_of(folder.path()), Some(Limit::AtMost(4_194_304)));
        write("cpuset.cpus.effective", "1\n");
        write("memory.max", "max\n");
        assert_eq!(cores_of(folder.path()), Some(vec![1]));
        assert_eq!(memory_of(folder.path()), Some(Limit::Unlimited));
    }

    #[test]
    fn throttled_time_is_read_in_both_versions() {
        let first = "nr_periods 41\nnr_throttled 40\nthrottled_time 2130705010\nnr_bursts 0\n";
        let second = "usage_usec 5\nnr_throttled 2\nthrottled_usec 1234\nnr_bursts 0\n";
        assert_eq!(throttled_ns(first), 2_130_705_010);
        assert_eq!(throttled_ns(second), 1_234_000);
        assert_eq!(throttled_ns("usage_usec 5\nuser_usec 4\n"), 0, "a group without quotas");
    }

    #[test]
    fn the_longest_of_the_groups_counts_and_unknown_is_not_nothing() {
        let throttled = |values: &[Option<u64>]| Throttled(values.to_vec());
        let before = throttled(&[Some(100), Some(5), None]);
        let after = throttled(&[Some(130), Some(75), Some(900)]);
        assert_eq!(after.longest_since(&before), Some(70), "the ancestor is held back longer");
        assert_eq!(before.longest_since(&before), Some(0));
        assert_eq!(throttled(&[None]).longest_since(&throttled(&[None])), None);
        assert_eq!(throttled(&[]).longest_since(&throttled(&[])), None);
    }
}
