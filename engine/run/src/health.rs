//! The generator's health during a run: a preview of the verdict.
//!
//! It is judged every second, by the verdict's thresholds on the coarse figures that shards
//! publish, and isn't part of the report. These figures don't show what the generator adds to the
//! slowest requests: at p99, those that are noticed late need not be those that the target answers
//! late. So lateness is compared with latency only at the median.
//!
//! A second is measured by the shards' own stamps. A summary has the time at which it was made, and
//! may be 50 ms old when it is read: rates by the reader's clock would be off by 5 %. A shard whose
//! summary is 250 ms old counts as stalled since then.

use plan::{Model, Plan, StampSource};
use report::{GENERATOR_BOUND_MAX, STOPPED_MAX};
use shard::ShardTime;
use shard::{CoarseHistogram, Lateness};

/// The generator's health so far, or between two readings.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// The lateness that it caused itself, over all shards.
    pub lateness: Lateness,
    /// How each shard spent its time, by its core.
    pub(super) shards: Vec<(usize, ShardTime)>,
}

/// A problem with the generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// The shard on a core stalled.
    Stalled {
        /// The core.
        core: usize,
        /// The length of the stall, ns.
        for_ns: u64,
    },
    /// The shard on a core had no idle time, and users of a closed loop waited for it, or no stamp
    /// shows whether they did.
    Busy {
        /// The core.
        core: usize,
        /// Its busy share of the time.
        share: f64,
    },
    /// Half of the requests were noticed late.
    Late {
        /// The median of their pacer lateness, ns.
        ns: u64,
    },
}

/// The age of its last summary, ns, from which a shard counts as stalled: it publishes one every
/// 50 ms.
const SILENT_NS: u64 = 250_000_000;

/// The state of a shard at `now_ns`, if there is load, from its last summary: a shard that has
/// published nothing for [`SILENT_NS`] has stalled since.
pub(super) fn known_until(last: ShardTime, now_ns: Option<u64>) -> ShardTime {
    let silent_ns = now_ns.map_or(0, |now_ns| now_ns.saturating_sub(last.at_ns));
    if silent_ns < SILENT_NS || last.at_ns == 0 {
        return last;
    }
    ShardTime { at_ns: last.at_ns + silent_ns, stopped_ns: last.stopped_ns + silent_ns, ..last }
}

impl Health {
    /// The health since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Health) -> Health {
        let shards = self.shards.iter().zip(&earlier.shards).map(|((core, now), (_, before))| {
            let time = ShardTime {
                at_ns: now.at_ns.saturating_sub(before.at_ns),
                cpu_ns: now.cpu_ns.saturating_sub(before.cpu_ns),
                polling_ns: now.polling_ns.saturating_sub(before.polling_ns),
                stopped_ns: now.stopped_ns.saturating_sub(before.stopped_ns),
            };
            (*core, time)
        });
        Health { lateness: self.lateness.since(&earlier.lateness), shards: shards.collect() }
    }

    /// The shards' mean publishing time, ns of CLOCK_MONOTONIC; for a difference, the mean time
    /// between the two summaries.
    pub fn as_of_ns(&self) -> u64 {
        let sum: u128 = self.shards.iter().map(|(_, time)| u128::from(time.at_ns)).sum();
        let mean = sum / self.shards.len().max(1) as u128;
        u64::try_from(mean).expect("a mean is at most the largest")
    }

    /// The worst problem of the generator between two readings, by the verdict's thresholds;
    /// `latency` holds the corrected latencies of that time. `None` without a problem.
    pub fn trouble(&self, plan: &Plan, latency: &CoarseHistogram) -> Option<Trouble> {
        self.stalled().or_else(|| self.busy(plan, latency)).or_else(|| self.late(plan, latency))
    }

    fn stalled(&self) -> Option<Trouble> {
        let (core, time) = self.shards.iter().max_by_key(|(_, time)| time.stopped_ns)?;
        (STOPPED_MAX * (time.at_ns as f64) < time.stopped_ns as f64)
            .then_some(Trouble::Stalled { core: *core, for_ns: time.stopped_ns })
    }

    fn busy(&self, plan: &Plan, latency: &CoarseHistogram) -> Option<Trouble> {
        let share = |time: &ShardTime| {
            let worked_ns = time.cpu_ns.saturating_sub(time.polling_ns);
            if time.at_ns == 0 { 0.0 } else { (worked_ns as f64 / time.at_ns as f64).min(1.0) }
        };
        let shards = self.shards.iter().map(|(core, time)| (*core, share(time)));
        let (core, share) = shards.max_by(|one, other| one.1.total_cmp(&other.1))?;
        // A full core delays an open load, which its lateness shows. A closed loop keeps a core
        // busy as long as the target answers at once: what matters is what its users wait for.
        let waits = match plan.model() {
            _ if plan.stamps() == StampSource::User => true,
            Model::Open => false,
            Model::Closed => {
                let late_ns = self.lateness.receive.quantile_ns(0.5).unwrap_or(0) as f64;
                let wait_ns = latency.quantile_ns(0.5).unwrap_or(0) as f64 + late_ns;
                GENERATOR_BOUND_MAX * wait_ns < late_ns
            }
        };
        (plan.thresholds.busy < share && waits).then_some(Trouble::Busy { core, share })
    }

    fn late(&self, plan: &Plan, latency: &CoarseHistogram) -> Option<Trouble> {
        let ns = self.lateness.pacer.known_ns(0.5)?;
        let limit_ns = plan.thresholds.client_share * latency.known_ns(0.5)? as f64;
        (limit_ns < ns as f64).then_some(Trouble::Late { ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn plan(rate: Option<&str>) -> Plan {
        let rate = rate.map(|rate| rate.parse().expect("a rate"));
        let plan = Plan { target: "http://127.0.0.1:1/".to_owned(), rate, ..Plan::default() };
        plan.complete(&[0, 1]).expect("a plan")
    }

    fn latencies(count: u64, ns: u64) -> CoarseHistogram {
        let mut histogram = CoarseHistogram::default();
        (0..count).for_each(|_| histogram.record(ns));
        histogram
    }

    /// A second in which the shards worked for these times, and `late` requests were noticed
    /// `late_ns` late.
    fn second(worked_ns: [u64; 2], late: u64, late_ns: u64) -> Health {
        let lateness = Lateness { pacer: latencies(late, late_ns), ..Lateness::default() };
        // Polling isn't work.
        let (at_ns, polling_ns) = (SECOND, 7);
        let time = |ns| ShardTime { at_ns, cpu_ns: ns + polling_ns, polling_ns, stopped_ns: 0 };
        Health { lateness, shards: vec![(3, time(worked_ns[0])), (4, time(worked_ns[1]))] }
    }

    #[test]
    fn the_worst_problem_is_named() {
        let (open, closed) = (plan(Some("1k")), plan(None));
        let usual = latencies(1_000, SECOND / 1_000);
        let fine = second([SECOND / 2, SECOND / 3], 1_000, 10_000);
        assert_eq!(fine.trouble(&open, &usual), None);

        let late = second([SECOND / 2, SECOND / 3], 1_000, 90_000);
        let Some(Trouble::Late { ns }) = late.trouble(&open, &usual) else { panic!("it was late") };
        assert!(ns.abs_diff(90_000) < 6_000, "{ns}");
        assert_eq!(late.trouble(&open, &latencies(1_000, 5_000_000)), None, "a slow target");
        assert_eq!(second([0, 0], 19, 90_000).trouble(&open, &usual), None, "too few to judge");
        assert_eq!(late.trouble(&open, &latencies(19, SECOND / 1_000)), None, "too few to judge");
        // The 1 in 50 that is noticed late need not be the one that is answered late.
        let mut some = fine.clone();
        (0..20).for_each(|_| some.lateness.pacer.record(900_000));
        assert_eq!(some.trouble(&open, &usual), None);

        let mut busy = second([SECOND / 2, SECOND / 100 * 97], 1_000, 10_000);
        assert_eq!(busy.trouble(&open, &usual), None, "it sends in time");
        let mut unstamped = open.clone();
        unstamped.stamps = Some(StampSource::User);
        let full = Some(Trouble::Busy { core: 4, share: 0.97 });
        assert_eq!(busy.trouble(&unstamped, &usual), full, "it may receive late");
        busy.lateness.pacer = CoarseHistogram::default();
        assert_eq!(busy.trouble(&closed, &usual), None, "users wait for the target");
        busy.lateness.receive = latencies(1_000, SECOND / 2_000);
        assert!(matches!(busy.trouble(&closed, &usual), Some(Trouble::Busy { core: 4, .. })));

        busy.shards[0].1.stopped_ns = SECOND / 50;
        let stalled = Trouble::Stalled { core: 3, for_ns: SECOND / 50 };
        assert_eq!(busy.trouble(&open, &usual), Some(stalled));
    }

    #[test]
    fn a_silent_shard_is_stalled_until_it_publishes_again() {
        let last = ShardTime { at_ns: 10 * SECOND, cpu_ns: 7, ..ShardTime::default() };
        for now_ns in [None, Some(0), Some(10 * SECOND + SILENT_NS - 1)] {
            assert_eq!(known_until(last, now_ns), last);
        }
        let unheard = ShardTime::default();
        assert_eq!(known_until(unheard, Some(10 * SECOND)), unheard, "nothing is known of it");

        let look = |now_ns| {
            let time = |last| known_until(last, Some(now_ns));
            let other = ShardTime { at_ns: now_ns, ..ShardTime::default() };
            let shards = vec![(3, time(last)), (4, time(other))];
            Health { shards, ..Health::default() }
        };
        let (before, after) = (look(10 * SECOND), look(11 * SECOND));
        let since = after.since(&before);
        // The other shard's state is known for the whole second.
        assert_eq!(since.as_of_ns(), SECOND);
        let stalled = Trouble::Stalled { core: 3, for_ns: SECOND };
        assert_eq!(since.trouble(&plan(Some("1k")), &latencies(1_000, 1_000)), Some(stalled));
    }

    #[test]
    fn health_over_a_stretch_is_the_difference_of_two_readings() {
        let (one, mut other) = (second([5, 6], 10, 1), second([8, 16], 30, 1));
        other.shards.iter_mut().for_each(|(_, time)| time.at_ns += 40);
        let between = other.since(&one);
        assert_eq!((between.lateness.pacer.count(), between.as_of_ns()), (20, 40));
        assert_eq!(between.shards[1].1.cpu_ns, 10);
        assert_eq!(Health::default().as_of_ns(), 0);
    }
}
