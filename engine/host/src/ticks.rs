//! The kernel's account of each core's time: busy, idle, interrupts, stolen by the hypervisor.

use std::collections::BTreeMap;
use std::fs;

use derive_more::AddAssign;

/// A core's time so far, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, AddAssign)]
pub(super) struct Ticks {
    pub(super) total: u64,
    pub(super) idle: u64,
    pub(super) interrupts: u64,
    pub(super) soft_interrupts: u64,
    pub(super) steal: u64,
}

impl Ticks {
    pub(super) fn since(&self, before: &Ticks) -> Ticks {
        Ticks {
            total: self.total.saturating_sub(before.total),
            idle: self.idle.saturating_sub(before.idle),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            soft_interrupts: self.soft_interrupts.saturating_sub(before.soft_interrupts),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    /// The share of a part; `None` for a stretch shorter than a tick, which shows nothing.
    pub(super) fn share(&self, part: u64) -> Option<f64> {
        (0 < self.total).then(|| part as f64 / self.total as f64)
    }
}

/// The ticks of each core so far; empty if the kernel doesn't report them.
pub(super) fn now() -> BTreeMap<usize, Ticks> {
    ticks(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// The ticks of each core in `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn ticks(stat: &str) -> BTreeMap<usize, Ticks> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let core = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let ticks: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
        let nth = |at: usize| ticks.get(at).copied().unwrap_or(0);
        let ticks = Ticks {
            total: ticks.iter().sum(),
            idle: nth(3) + nth(4),
            interrupts: nth(5) + nth(6),
            soft_interrupts: nth(6),
            steal: nth(7),
        };
        Some((core, ticks))
    };
    stat.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_accounts_are_read() {
        let stat = "cpu  1 1 1 1 1 1 1 99 0 0\ncpu0 10 0 5 80 0 0 1 4 0 0\ncpu1 1 0 0 8 0 0 0 1 0 0\nintr 5\n";
        let first = Ticks { total: 100, idle: 80, interrupts: 1, soft_interrupts: 1, steal: 4 };
        let second = Ticks { total: 10, idle: 8, steal: 1, ..Ticks::default() };
        assert_eq!(ticks(stat), BTreeMap::from([(0, first), (1, second)]));
        let mut sum = first;
        sum += second;
        let both = Ticks { total: 110, idle: 88, interrupts: 1, soft_interrupts: 1, steal: 5 };
        assert_eq!(sum, both);
    }
}
