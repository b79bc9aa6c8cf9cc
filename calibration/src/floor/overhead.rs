//! The proof of the overhead: the generator's share of a known latency, and the path to the target
//! measured in two ways.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::disturbance::Disturbance;
use super::late::Late;
use crate::judgement::Judgement;

/// The largest share of a latency that the generator may have.
pub const SHARE_MAX: f64 = 0.05;

/// How much the two measurements of the path may differ: a share of the larger, or [`AGREE_US`].
pub const AGREE_SHARE: f64 = 0.5;
/// The difference that is always allowed, µs: each target wakes up in its own way.
pub const AGREE_US: f64 = 25.0;

/// The generator's share of a known latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// The sample target's hold time, µs.
    pub hold_us: f64,
    /// At the median and at p99.
    pub at: Vec<OverheadAt>,
    /// Passed if the share is below [`SHARE_MAX`] at each. Not judged where others may have caused
    /// a failure.
    pub judgement: Judgement,
    /// The requests that were sent later than [`SHARE_MAX`] of the hold.
    pub late: Late,
    /// How others disturbed the run, by its verdict.
    pub disturbed: Vec<Disturbance>,
    /// Runs of the proof: one that isn't judged is repeated. All figures are from the last.
    pub runs: usize,
    /// The path measured in two ways that share no code.
    pub path: Option<Path>,
}

/// The generator's share at one percentile. Differences of percentiles are not percentiles of
/// differences: they are exact where the target's own hold hardly varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverheadAt {
    /// The percentile's name, such as `p99`.
    pub name: String,
    /// Corrected latency, µs.
    pub corrected_us: f64,
    /// The time the generator added before the send by its own stamps, µs.
    pub added_us: f64,
    /// The same as a share of corrected latency.
    pub share: f64,
    /// The target's hold time by its ledger, µs.
    pub held_us: f64,
    /// The rest of the latency beyond the ledger's hold, with the path and the target's own
    /// wake-up, as a share of corrected.
    pub outside: f64,
}

impl Overhead {
    /// The proof from these percentiles; `None` if there are none.
    pub(super) fn new(
        hold: Duration,
        at: Vec<OverheadAt>,
        late: Late,
        disturbed: Vec<Disturbance>,
        runs: usize,
    ) -> Option<Overhead> {
        // Too few answers for p99 are others' doing only if they took much.
        let both = Judgement::new(at.len() == 2, !disturbed.is_empty());
        let judgement = at.iter().map(|at| at.judgement(&late)).fold(both, Judgement::max);
        (!at.is_empty()).then_some(Overhead {
            hold_us: hold.as_secs_f64() * 1e6,
            at,
            judgement,
            late,
            disturbed,
            runs,
            path: None,
        })
    }
}

impl OverheadAt {
    /// `None` unless all figures are known.
    pub(super) fn new(
        name: &str,
        corrected_us: Option<f64>,
        added_us: Option<f64>,
        held_us: Option<f64>,
    ) -> Option<OverheadAt> {
        let (corrected_us, added_us, held_us) = (corrected_us?, added_us?, held_us?);
        Some(OverheadAt {
            name: name.to_owned(),
            corrected_us,
            added_us,
            share: added_us / corrected_us,
            held_us,
            outside: (corrected_us - held_us) / corrected_us,
        })
    }

    /// The judgement of the share. Others may have caused a share that is too large: it is a mean
    /// over the requests at this percentile, to which late ones contribute more.
    pub fn judgement(&self, late: &Late) -> Judgement {
        Judgement::new(self.share < SHARE_MAX, late.excuses(self.share, SHARE_MAX))
    }
}

/// The median time of a request outside its target, measured in two ways: the latency of the null
/// target, and the latency of a sample target with no hold less the hold in its ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// At the null target, µs.
    pub floor_us: f64,
    /// By the ledger, µs.
    pub ledger_us: f64,
    /// Passed if they agree within [`AGREE_SHARE`] or [`AGREE_US`]. Not judged where others may
    /// have caused a difference.
    pub judgement: Judgement,
    /// How others disturbed the two runs.
    pub disturbed: Vec<Disturbance>,
}

impl Path {
    pub(super) fn new(floor_us: f64, ledger_us: f64, disturbed: Vec<Disturbance>) -> Path {
        let allowed_us = (AGREE_SHARE * floor_us.max(ledger_us)).max(AGREE_US);
        let agrees = 0.0 < ledger_us && (floor_us - ledger_us).abs() <= allowed_us;
        // Others can't make a target hold requests for longer than they took.
        let excused = 0.0 < ledger_us && !disturbed.is_empty();
        Path { floor_us, ledger_us, judgement: Judgement::new(agrees, excused), disturbed }
    }
}

#[cfg(test)]
mod tests {
    use super::super::late::tests::late;
    use super::*;

    const HOLD: Duration = Duration::from_millis(5);

    fn busy() -> Disturbance {
        let (run, evidence) = ("5 ms target".to_owned(), "a shard waited for its core".to_owned());
        Disturbance { run, number: 1, evidence, times_limit: 48.0 }
    }

    fn at(name: &str, corrected: f64, added: f64, held: f64) -> OverheadAt {
        OverheadAt::new(name, Some(corrected), Some(added), Some(held)).expect("all are known")
    }

    #[test]
    fn the_share_must_be_small_at_both_percentiles() {
        let median = || at("p50", 5_040.0, 1.0, 5_010.0);
        assert!((median().outside - 30.0 / 5_040.0).abs() < 1e-9);
        let small = || vec![median(), at("p99", 5_300.0, 200.0, 5_050.0)];
        let large = || vec![median(), at("p99", 5_300.0, 300.0, 5_050.0)];
        let quiet = || late(0.012, 0.0, false);
        let of = |at, late| Overhead::new(HOLD, at, late, Vec::new(), 1).map(|of| of.judgement);
        assert_eq!(of(small(), quiet()), Some(Judgement::Passed));
        assert_eq!(of(small(), late(0.009, 500.0, true)), Some(Judgement::Passed));
        assert_eq!(of(large(), quiet()), Some(Judgement::Failed));
        assert_eq!(of(vec![median()], quiet()), Some(Judgement::Failed), "p99 is unknown");
        let few = Overhead::new(HOLD, vec![median()], quiet(), vec![busy()], 1);
        assert_eq!(few.map(|of| of.judgement), Some(Judgement::NotJudged));
        assert_eq!(of(Vec::new(), quiet()), None);
        assert_eq!(OverheadAt::new("p99", Some(5.0), None, Some(5.0)), None);
    }

    /// Two runs on a machine whose hypervisor takes cores, for less than 1 % of the time in either.
    #[test]
    fn thefts_too_small_for_a_verdict_excuse_a_p99_that_they_explain() {
        for (corrected, added, held) in
            [(7_438.335, 460.789_937_5, 5_373.951), (5_664.767, 371.853_866_67, 5_025.791)]
        {
            let run = |late| {
                let at =
                    vec![at("p50", 5_033.983, 0.919, 5_001.215), at("p99", corrected, added, held)];
                Overhead::new(HOLD, at, late, Vec::new(), 1).expect("two").judgement
            };
            // The hypervisor can explain the late ones, by seen time or one unseen tick.
            assert_eq!(run(late(0.01, 20.0, false)), Judgement::NotJudged);
            assert_eq!(run(late(0.01, 1.0, true)), Judgement::NotJudged);
            // The same from a slow generator: no time was taken, or far too little, or none was
            // ever seen to be.
            assert_eq!(run(late(0.01, 0.0, false)), Judgement::Failed);
            assert_eq!(run(late(0.01, 1.0, false)), Judgement::Failed);
            assert_eq!(run(late(0.1, 1.0, true)), Judgement::Failed);
            assert_eq!(run(late(0.6, 40.0, true)), Judgement::Failed);
        }
    }

    #[test]
    fn the_two_ways_agree_within_a_share_or_a_few_microseconds() {
        let judged = |floor, ledger| Path::new(floor, ledger, Vec::new()).judgement;
        let agrees = |floor, ledger| judged(floor, ledger) == Judgement::Passed;
        assert!(agrees(20.0, 44.0) && !agrees(20.0, 46.0));
        assert!(agrees(100.0, 51.0) && !agrees(100.0, 49.0));
        assert!(!agrees(1.0, -1.0), "a ledger that held for longer than was measured is wrong");
    }

    #[test]
    fn others_excuse_a_difference_but_no_ledger_that_held_for_too_long() {
        let judged = |floor, ledger| Path::new(floor, ledger, vec![busy()]).judgement;
        assert_eq!(judged(20.0, 44.0), Judgement::Passed);
        assert_eq!(judged(20.0, 90.0), Judgement::NotJudged);
        assert_eq!(judged(20.0, -90.0), Judgement::Failed);
    }
}
