//! The proof of the overhead: the generator's share of a latency that is known, and the path to the
//! target by two ways.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::disturbance::Disturbance;
use super::late::Late;
use crate::judgement::Judgement;

/// The generator's share of a latency that the overhead proof allows.
pub const SHARE_MAX: f64 = 0.05;

/// By how much the two ways of measuring the path may differ: a share of the larger, or
/// [`AGREE_US`].
pub const AGREE_SHARE: f64 = 0.5;
/// The difference that is allowed in any case, µs: each target wakes up in its own way.
pub const AGREE_US: f64 = 25.0;

/// The generator's share of a latency that is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// How long the sample target holds a request, µs.
    pub hold_us: f64,
    /// At the median and at p99.
    pub at: Vec<OverheadAt>,
    /// Whether the share is below [`SHARE_MAX`] at each. It isn't judged where others may have
    /// caused that it isn't.
    pub judgement: Judgement,
    /// The requests that were sent later than [`SHARE_MAX`] of the hold.
    pub late: Late,
    /// How others disturbed the run, by its verdict.
    pub disturbed: Vec<Disturbance>,
    /// The runs that were made: one that isn't judged is repeated. All figures are of the last.
    pub runs: usize,
    /// The path by two ways that share no code.
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
    /// What the generator added before the send by its own stamps, µs.
    pub added_us: f64,
    /// The same as a share of corrected.
    pub share: f64,
    /// How long the target held the request by its ledger, µs.
    pub held_us: f64,
    /// All that the ledger doesn't explain, the path and the target's own wake-up included, as a
    /// share of corrected.
    pub outside: f64,
}

impl Overhead {
    /// What is known of it; `None` if that is nothing.
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

    /// Whether the share is small enough, or others may have caused that it isn't: it is a mean
    /// over the requests at this percentile, of which those that were late have more.
    pub fn judgement(&self, late: &Late) -> Judgement {
        Judgement::new(self.share < SHARE_MAX, late.excuses(self.share, SHARE_MAX))
    }
}

/// The median time that a request spends outside of its target, by two ways: the latency of the
/// null target, and that of a sample target that holds nothing, less what its ledger says it held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Of the null target, µs.
    pub floor_us: f64,
    /// By the ledger, µs.
    pub ledger_us: f64,
    /// Whether they agree within [`AGREE_SHARE`] or [`AGREE_US`]. It isn't judged where others may
    /// have caused that they don't.
    pub judgement: Judgement,
    /// How others disturbed the two runs.
    pub disturbed: Vec<Disturbance>,
}

impl Path {
    pub(super) fn new(floor_us: f64, ledger_us: f64, disturbed: Vec<Disturbance>) -> Path {
        let allowed_us = (AGREE_SHARE * floor_us.max(ledger_us)).max(AGREE_US);
        let agrees = 0.0 < ledger_us && (floor_us - ledger_us).abs() <= allowed_us;
        // Nobody else makes a target hold requests for longer than they took.
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

    /// Two runs of a machine whose hypervisor takes cores, in neither of which that was 1 % of the
    /// time.
    #[test]
    fn thefts_too_small_for_a_verdict_excuse_the_p99_that_they_can_have_moved() {
        for (corrected, added, held) in
            [(7_438.335, 460.789_937_5, 5_373.951), (5_664.767, 371.853_866_67, 5_025.791)]
        {
            let run = |late| {
                let at =
                    vec![at("p50", 5_033.983, 0.919, 5_001.215), at("p99", corrected, added, held)];
                Overhead::new(HOLD, at, late, Vec::new(), 1).expect("two").judgement
            };
            // What was late can be the hypervisor's: seen, or one tick that isn't.
            assert_eq!(run(late(0.01, 20.0, false)), Judgement::NotJudged);
            assert_eq!(run(late(0.01, 1.0, true)), Judgement::NotJudged);
            // The same by a generator that is slow: nobody took anything, or far too little, or
            // nobody was ever seen to take anything.
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
