//! How many requests of a run were sent late, and how many of these others can explain.
//!
//! The verdict calls a run disturbed from a share of the time that others had the generator's
//! cores. That doesn't settle a percentile: p99 rests on one request in a hundred, and many short
//! thefts delay as many requests in a far smaller share of the time. The overhead proof failed
//! twice with 6.2 and 6.6 % at p99 in runs in which others took less than 1 % of the time, the
//! verdict's limit: a theft of 250 µs delays one request by as much, and in 4 s forty of them, 0.25
//! % of the time, are 1 % of the requests at 1,000/s.
//!
//! So the time taken bounds the number of requests that it explains, and the generator's share is
//! judged without these. It is a bound, not an estimate: further late sends by a slow generator
//! fail on any machine. The kernel reports stolen time in ticks of 10 ms, so one more is allowed
//! for, but only on a machine where others were seen.

use engine::report::machine::Machine;
use engine::report::verdict::Code;
use engine::report::{DistributionPart, Report};
use serde::{Deserialize, Serialize};

use crate::others;

/// The unit in which the kernel reports stolen time of a core, seconds.
const TICK_S: f64 = 0.01;

/// Requests that were sent late, for any reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Late {
    /// The limit: a request is late if it was sent by more than this after it was due, µs.
    pub limit_us: f64,
    /// The share of late requests.
    pub share: f64,
    /// The time that others took meanwhile.
    pub taken: Taken,
    /// The largest share of the requests that they can have delayed in that time.
    pub by_others: f64,
}

/// Processor time that others had of the generator's cores in a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// The hypervisor, seconds; `None` where the kernel doesn't report it.
    pub stolen_s: Option<f64>,
    /// Other processes or a quota, seconds: shards were runnable without a core.
    pub waited_s: f64,
    /// How much more the hypervisor may have taken, seconds. The kernel reports it in ticks, so one
    /// per core may be missing on a machine where others were seen in any run.
    pub unseen_s: f64,
}

impl Taken {
    fn new(report: &Report, is_restless: bool) -> Taken {
        let shards = &report.generator.shards;
        let cores = shards.len() as f64;
        let stolen_s = |machine: &Machine| Some(machine.steal? * machine.observed_s * cores);
        Taken {
            stolen_s: report.generator.machine.as_ref().and_then(stolen_s),
            waited_s: shards.iter().map(|shard| shard.run_queue_delay_s).sum(),
            unseen_s: if is_restless { TICK_S * cores } else { 0.0 },
        }
    }

    /// The most that it adds up to, seconds; `None` where others were seen and their time is
    /// unknown.
    pub fn most_s(&self) -> Option<f64> {
        match self.stolen_s {
            None if 0.0 < self.unseen_s => None,
            stolen_s => Some(stolen_s.unwrap_or(0.0) + self.waited_s + self.unseen_s),
        }
    }

    /// The largest share of `requests`, due at `per_second` on a core, that it can have delayed by
    /// more than `limit_us`.
    ///
    /// While others have a core for a time L, its shard wakes up for one request too late by L, and
    /// requests that fall due meanwhile wait for the rest of L: `1 + rate·(L − limit)` of them are
    /// late by more than the limit. Per second taken, the most are late when L is just the limit,
    /// one request each time, or, if several fall due within the limit, all that fall due.
    fn makes_late(&self, limit_us: f64, requests: u64, per_second: f64) -> f64 {
        let Some(most_s) = self.most_s() else { return 1.0 };
        let each_second = (1e6 / limit_us).max(per_second);
        (most_s * each_second / requests.max(1) as f64).min(1.0)
    }
}

impl Late {
    /// The requests of a run that were sent more than `limit_us` after they were due.
    /// `is_restless`: others were seen on this machine, in this run or in another.
    pub(super) fn new(report: &Report, limit_us: f64, is_restless: bool) -> Late {
        let (whole, shards) = (&report.whole, report.generator.shards.len().max(1));
        let late = above(&whole.pacer_lateness, limit_us) + above(&whole.connection_wait, limit_us);
        let taken = Taken::new(report, is_restless);
        let intended = whole.counts.intended;
        // A busy sibling takes no time of a core, but slows everything on it.
        let is_slowed = others::reasons(report).any(|reason| reason.code == Code::CoreShared);
        let by_others = match is_slowed {
            true => 1.0,
            false => taken.makes_late(limit_us, intended, whole.rate.intended / shards as f64),
        };
        Late { limit_us, share: late as f64 / intended.max(1) as f64, taken, by_others }
    }

    /// True if others alone can explain a mean over requests, some of them late, above this limit:
    /// without those that they can have delayed it would be below.
    pub fn excuses(&self, mean: f64, limit: f64) -> bool {
        let theirs = if self.share == 0.0 { 0.0 } else { (self.by_others / self.share).min(1.0) };
        mean * (1.0 - theirs) < limit
    }
}

/// The number of values above this, µs.
fn above(part: &DistributionPart, limit_us: f64) -> u64 {
    let histogram = part.decode_histogram().expect("a report that was just made can be read");
    let steps = histogram.iter_recorded();
    let beyond = steps.filter(|step| limit_us * 1e3 < step.value_iterated_to() as f64);
    beyond.map(|step| step.count_at_value()).sum::<u64>() + part.overflow
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Of 4,000 requests at 1,000/s, this share was sent more than 250 µs late, while others had
    /// the one core for `taken_ms`, and perhaps for a tick more.
    pub(in crate::floor) fn late(share: f64, taken_ms: f64, is_restless: bool) -> Late {
        let unseen_s = if is_restless { TICK_S } else { 0.0 };
        let taken = Taken { stolen_s: Some(taken_ms / 2e3), waited_s: taken_ms / 2e3, unseen_s };
        let by_others = taken.makes_late(250.0, 4_000, 1_000.0);
        Late { limit_us: 250.0, share, taken, by_others }
    }

    #[test]
    fn many_short_thefts_make_more_requests_late_than_their_share_of_the_time() {
        // In 4 s, forty thefts of 250 µs are 0.25 % of the time and 1 % of the requests.
        let close = |taken_ms, share: f64| {
            let found = late(0.01, taken_ms, false).by_others;
            assert!((found - share).abs() < 1e-9, "{found} {share}");
        };
        close(0.0, 0.0);
        close(10.0, 0.01);
        close(2_000.0, 1.0);
        assert!((late(0.01, 0.0, true).by_others - 0.01).abs() < 1e-9, "a tick may be missing");
        // Where eight fall due within the limit, all that fall due are late.
        let taken = Taken { stolen_s: Some(0.1), waited_s: 0.0, unseen_s: 0.0 };
        assert!((taken.makes_late(250.0, 320_000, 32_000.0) - 0.01).abs() < 1e-9);
    }

    #[test]
    fn uncounted_time_has_no_bound_where_others_were_seen() {
        let unknown = |unseen_s| Taken { stolen_s: None, waited_s: 0.001, unseen_s };
        assert_eq!(unknown(0.01).makes_late(250.0, 4_000, 1_000.0), 1.0);
        assert_eq!(unknown(0.0).makes_late(250.0, 4_000, 1_000.0), 0.001);
    }

    #[test]
    fn others_excuse_only_as_much_as_they_can_explain() {
        // 6 %, of which others explain half; then a tenth.
        assert!(late(0.02, 10.0, false).excuses(0.06, 0.05));
        assert!(!late(0.1, 10.0, false).excuses(0.06, 0.05));
        assert!(!late(0.02, 10.0, false).excuses(0.12, 0.05));
        assert!(late(0.001, 10.0, false).excuses(0.5, 0.05), "all of them can be theirs");
        assert!(!late(0.0, 10.0, false).excuses(0.06, 0.05), "nothing was late");
    }
}
