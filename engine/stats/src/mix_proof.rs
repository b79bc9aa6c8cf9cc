//! The proof that a run's requests were divided among the steps of its plan as they weigh.
//!
//! The likelihood ratio against the planned shares, `G = 2·Σ O·ln(O/E)`, is nearly χ² with one
//! degree of freedom fewer than there are steps. Steps are pooled, the rarest first, until each pool
//! expects `EXPECTED_MIN` requests, and G is divided by Williams' correction (*Biometrika* 63,
//! 1976). Pearson's statistic was rejected: far out in its tail, where this test decides, it is much
//! too large for a rare step, whose count isn't nearly normal there.
//!
//! Requests drawn by weight are independent of each other and of how they end, in a closed loop too:
//! each is drawn as it is sent. Steps in turn vary less than chance, so they pass as well.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::statistics::chi_squared_tail;

/// The least p of a mix as planned: one honest run in a million has less.
pub const P_MIN: f64 = 1e-6;
/// The fewest requests that a pool of steps must expect.
const EXPECTED_MIN: f64 = 10.0;

/// How the requests of each step compare with the weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MixProof {
    /// The likelihood ratio, corrected: nearly χ² if the steps were taken as they weigh.
    pub statistic: f64,
    /// Its degrees of freedom.
    pub degrees: u64,
    /// The share of runs with these weights whose statistic is larger.
    pub p: f64,
    /// Requests of steps that weigh nothing, which a plan doesn't make.
    pub unplanned: u64,
}

impl MixProof {
    /// Compares the requests of each step with its weight; `None` if there are too few for two
    /// pools.
    pub fn new(steps: &[(u64, u32)]) -> Option<MixProof> {
        let unplanned = steps.iter().filter(|(_, weight)| *weight == 0).map(|(count, _)| count);
        let mut planned: Vec<(u64, u32)> =
            steps.iter().copied().filter(|(_, weight)| 0 < *weight).collect();
        planned.sort_by_key(|(_, weight)| *weight);
        let all: u64 = planned.iter().map(|(count, _)| count).sum();
        let total: f64 = planned.iter().map(|(_, weight)| f64::from(*weight)).sum();
        let mut pools: Vec<(f64, f64)> = Vec::new();
        let mut open = (0.0, 0.0);
        for (count, weight) in planned {
            open.0 += count as f64;
            open.1 += all as f64 * f64::from(weight) / total;
            if EXPECTED_MIN <= open.1 {
                pools.push(std::mem::take(&mut open));
            }
        }
        // Too few for a pool of their own.
        if let Some(last) = pools.last_mut() {
            *last = (last.0 + open.0, last.1 + open.1);
        }
        let degrees = pools.len().checked_sub(1).filter(|degrees| 0 < *degrees)?;
        let n = all as f64;
        let g: f64 = pools
            .iter()
            .filter(|(observed, _)| 0.0 < *observed)
            .map(|(observed, expected)| 2.0 * observed * (observed / expected).ln())
            .sum();
        let inverse: f64 = pools.iter().map(|(_, expected)| n / expected).sum();
        let correction = 1.0 + (inverse - 1.0) / (6.0 * n * degrees as f64);
        // Rounding may leave less than nothing.
        let statistic = (g / correction).max(0.0);
        let degrees = degrees as u64;
        let p = chi_squared_tail(degrees, statistic);
        Some(MixProof { statistic, degrees, p, unplanned: unplanned.sum() })
    }

    /// True if the steps were taken as they weigh, as far as their number can show.
    pub fn is_as_planned(&self) -> bool {
        self.unplanned == 0 && P_MIN <= self.p
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// The counts of so many requests, each drawn by these weights.
    fn drawn(weights: &[u32], requests: u64, seed: u64) -> Vec<(u64, u32)> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let total: u32 = weights.iter().sum();
        let mut steps: Vec<(u64, u32)> = weights.iter().map(|weight| (0, *weight)).collect();
        for _ in 0..requests {
            let mut left = random.random_range(0..total);
            let step = steps.iter_mut().find(|(_, weight)| {
                let is_taken = left < *weight;
                left = left.saturating_sub(*weight);
                is_taken
            });
            step.expect("below the total").0 += 1;
        }
        steps
    }

    #[test]
    fn few_honest_runs_exceed_their_p_and_none_fails() {
        // Even weights, one that dominates, many rare ones, and as many requests as steps.
        let many: Vec<u32> = (1..200).collect();
        for (weights, requests) in [
            (&[6, 3, 1][..], 1_000),
            (&[1_000, 1, 1, 1], 20_000),
            (&many, 30_000),
            (&[1; 100], 1_000),
            (&[1; 101], 500),
        ] {
            const RUNS: u64 = 400;
            let proofs =
                (0..RUNS).filter_map(|seed| MixProof::new(&drawn(weights, requests, seed)));
            let ps: Vec<f64> = proofs.map(|proof| proof.p).collect();
            assert_eq!(ps.len() as u64, RUNS);
            let below = |p: f64| ps.iter().filter(|found| **found < p).count();
            // Five standard deviations around 5 %: 0 to 42 of 400, and half of them below 50 %.
            assert!(below(0.05) <= 42, "{} of {RUNS} below 5 %: {weights:?}", below(0.05));
            assert!((150..=250).contains(&below(0.5)), "{} below 50 %: {weights:?}", below(0.5));
            assert_eq!(below(P_MIN), 0, "{weights:?}");
        }
    }

    #[test]
    fn another_mix_fails() {
        let fails = |steps: &[(u64, u32)]| !MixProof::new(steps).expect("enough").is_as_planned();
        for steps in [
            // One step instead of the other, a hundredth too much, none at all.
            &[(300, 6), (600, 3), (100, 1)][..],
            &[(59_000, 6), (31_000, 3), (10_000, 1)],
            &[(1_000, 1), (0, 1)],
            // One request of a step that weighs nothing.
            &[(500, 1), (500, 1), (1, 0)],
            // A rare step that came twenty times as often.
            &[(100_000, 10_000), (100_000, 10_000), (200, 1)],
        ] {
            assert!(fails(steps), "{:?}", MixProof::new(steps));
        }
        for steps in [
            &[(600, 6), (300, 3), (100, 1)][..],
            &[(59_900, 6), (30_100, 3), (10_000, 1)],
            &[(500, 1), (500, 1), (0, 0)],
            &[(100_000, 10_000), (100_000, 10_000), (20, 1)],
        ] {
            assert!(!fails(steps), "{:?}", MixProof::new(steps));
        }
    }

    #[test]
    fn a_single_request_of_a_rare_step_proves_nothing() {
        let proof = MixProof::new(&[(1_000, 1_000_000), (1_000, 1_000_000), (1, 1)]);
        assert!(proof.expect("two pools").is_as_planned());
        assert_eq!(MixProof::new(&[(19, 1), (0, 1)]), None);
        assert_eq!(MixProof::new(&[(1_000, 1)]), None);
        assert_eq!(MixProof::new(&[(0, 1), (0, 1)]), None);
    }
}
