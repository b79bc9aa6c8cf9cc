//! Which step a request takes, as a function of the seed and the request's number.
//!
//! So any number of shards and agents sends the same mix, at no cost in memory or messages. A table
//! with one step is a single request, at the same cost.

use std::sync::Arc;

use plan::Plan;

use super::schedule::mix;

/// Gives the mix random values independent of the schedule's.
const MIX_SEED: u64 = 0x6d69_7800_0000_0000;

/// How often each step is taken.
///
/// Any shard or agent that has a request's number knows its step, and so does a replay of the run:
/// it is neither stored nor sent.
#[derive(Clone, Debug)]
pub struct Mix {
    seed: u64,
    /// For each step but the last, the share of requests that take it or an earlier one, times 2⁶⁴.
    up_to: Box<[u64]>,
    /// The step of each request of a replayed log, by its number.
    of_log: Option<Arc<[u16]>>,
}

impl Mix {
    /// The mix of a completed plan.
    pub fn of_plan(plan: &Plan) -> Mix {
        Mix::new(plan.seed, &plan.weights())
    }

    /// Steps with these weights, at least one of them above 0, and at most 2¹⁶ steps.
    pub fn new(seed: u64, weights: &[u32]) -> Mix {
        assert!(weights.len() <= 1 << 16, "a step's number has 16 bits");
        let total: u64 = weights.iter().copied().map(u64::from).sum();
        assert!(0 < total, "some step is taken");
        let mut sum = 0;
        let up_to = weights[..weights.len() - 1].iter().map(|weight| {
            sum += u64::from(*weight);
            // The step that takes the rest has nothing above it.
            u64::try_from((u128::from(sum) << 64) / u128::from(total)).unwrap_or(u64::MAX)
        });
        Mix { seed: mix(seed ^ MIX_SEED), up_to: up_to.collect(), of_log: None }
    }

    /// The mix of a completed plan whose requests take these steps, by their numbers.
    pub fn of_log(plan: &Plan, steps: Arc<[u16]>) -> Mix {
        Mix { of_log: Some(steps), ..Mix::of_plan(plan) }
    }

    /// The average number of requests for each step, rounded so that the sum is preserved.
    pub fn shares(&self, requests: u64) -> impl Iterator<Item = (u16, u64)> {
        let up_to = move |bound: &u64| {
            let share = (u128::from(requests) * u128::from(*bound)) >> 64;
            u64::try_from(share).expect("a part is at most the whole")
        };
        let ends = self.up_to.iter().map(up_to).chain([requests]);
        let mut from = 0;
        (0..).zip(ends).map(move |(step, end)| {
            let share = end - from;
            from = end;
            (step, share)
        })
    }

    /// The step of request `number`, as an index into the weights.
    #[inline]
    pub fn step(&self, number: u64) -> u16 {
        if self.up_to.is_empty() {
            return 0;
        }
        if let Some(steps) = &self.of_log {
            let number = usize::try_from(number).expect("an address has 64 bits");
            return steps[number];
        }
        let value = mix(number ^ self.seed);
        let step = self.up_to.partition_point(|up_to| *up_to <= value);
        u16::try_from(step).expect("there are at most 2^16")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_as_often_as_they_weigh() {
        let weights = [1, 0, 50, 49, 0];
        let mix = Mix::new(7, &weights);
        let mut counts = [0_u32; 5];
        (0..100_000).for_each(|number| counts[usize::from(mix.step(number))] += 1);
        let expected = weights.map(|weight| f64::from(weight) * 1_000.0);
        for (count, expected) in counts.into_iter().zip(expected) {
            // Five standard deviations of a binomial count.
            assert!((f64::from(count) - expected).abs() <= 5.0 * expected.sqrt(), "{counts:?}");
        }
    }

    #[test]
    fn what_is_only_counted_is_shared_as_the_steps_weigh() {
        let shares = |mix: Mix, requests| mix.shares(requests).map(|(_, share)| share).collect();
        let of_three: Vec<u64> = shares(Mix::new(1, &[1, 0, 3]), 1_001);
        assert_eq!((of_three.iter().sum::<u64>(), &of_three[..]), (1_001, &[250, 0, 751][..]));
        let of_one: Vec<u64> = shares(Mix::new(1, &[1]), 7);
        assert_eq!(of_one, [7]);
    }

    #[test]
    fn the_same_seed_and_number_take_the_same_step() {
        let steps = |seed| {
            let mix = Mix::new(seed, &[3, 1, 6]);
            (0..12).map(|number| mix.step(number)).collect::<Vec<u16>>()
        };
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
        assert!((0..1_000).all(|number| Mix::new(1, &[1]).step(number) == 0));
    }
}
