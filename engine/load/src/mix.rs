//! Which step a request takes, as a function of the plan and the request's number.
//!
//! So any number of shards and agents sends the same mix, and no message or sample has to hold a
//! request's step. A table with one step is a single request, at the same cost.
//!
//! By weight, each request's step is drawn, independently of all others, by its number and the
//! seed. In turn, each round takes every step as often as it weighs, in the plan's order and
//! without interleaving: with weights 2, 1 the steps are 0, 0, 1, 0, 0, 1. In a closed model the
//! turn moves on by one more place after as many requests as there are users. Otherwise each of two
//! shards, which take turns at the numbers, would stay with one of two steps, and so would each of
//! two paced users; the faster step would be taken more often.
//!
//! A replayed log lists the step of each request, by its number.

use std::sync::Arc;

use plan::{Model, Order, Plan};

use super::schedule::mix;

/// Gives the mix random values independent of the schedule's.
const MIX_SEED: u64 = 0x6d69_7800_0000_0000;

/// How often each step is taken.
#[derive(Clone, Debug)]
pub struct Mix {
    place: Place,
    /// For each scenario but the last, the end of the places of it and all before it.
    up_to: Box<[u64]>,
    /// The first step of each scenario; empty if all have only one.
    firsts: Box<[u16]>,
}

/// A request's place among those of the steps.
#[derive(Clone, Debug)]
enum Place {
    /// Drawn from 2⁶⁴, by the number.
    Drawn { seed: u64 },
    /// Among those of one round, one for each unit of weight.
    InTurn { users: u64, round: u64 },
    /// None: a replayed log has the step of each request, by its number.
    Listed(Arc<[u16]>),
}

impl Mix {
    /// The mix of a completed plan.
    pub fn of_plan(plan: &Plan) -> Mix {
        let mix = match plan.order {
            Order::Weighted => Mix::new(plan.seed, &plan.weights()),
            Order::RoundRobin => {
                let is_open = plan.model() == Model::Open;
                Mix::in_turn(if is_open { 1 } else { plan.conns() as u64 }, &plan.weights())
            }
        };
        Mix { firsts: plan.scenario_firsts().into(), ..mix }
    }

    /// Steps drawn by these weights, at least one of them above 0, and at most 2¹⁶ steps.
    pub fn new(seed: u64, weights: &[u32]) -> Mix {
        let total = total(weights);
        // The step that takes the rest has nothing above it.
        let scaled =
            |sum| u64::try_from((u128::from(sum) << 64) / u128::from(total)).unwrap_or(u64::MAX);
        let place = Place::Drawn { seed: mix(seed ^ MIX_SEED) };
        Mix { place, up_to: ends(weights).map(scaled).collect(), firsts: Box::default() }
    }

    /// Steps taken in turn, each as often as it weighs, by this many users; the arrivals of an open
    /// model are those of one user. The weights are as for [`Mix::new`].
    pub fn in_turn(users: u64, weights: &[u32]) -> Mix {
        let place = Place::InTurn { users, round: total(weights) };
        Mix { place, up_to: ends(weights).collect(), firsts: Box::default() }
    }

    /// The mix of a completed plan whose requests take these steps, by their numbers.
    pub fn of_log(plan: &Plan, steps: Arc<[u16]>) -> Mix {
        Mix { place: Place::Listed(steps), ..Mix::of_plan(plan) }
    }

    /// The average number of requests for each step, rounded so that the sum is preserved.
    pub fn shares(&self, requests: u64) -> impl Iterator<Item = (u16, u64)> + '_ {
        let places = match self.place {
            Place::Drawn { .. } | Place::Listed(_) => 1 << 64,
            Place::InTurn { round, .. } => u128::from(round),
        };
        let up_to = move |bound: &u64| {
            let share = u128::from(requests) * u128::from(*bound) / places;
            u64::try_from(share).expect("a part is at most the whole")
        };
        let ends = self.up_to.iter().map(up_to).chain([requests]);
        let mut from = 0;
        (0..).zip(ends).map(move |(scenario, end)| {
            let share = end - from;
            from = end;
            (self.first(scenario), share)
        })
    }

    /// The first step of a scenario.
    fn first(&self, scenario: u16) -> u16 {
        self.firsts.get(usize::from(scenario)).copied().unwrap_or(scenario)
    }

    /// The step of request `number`; the first one of its scenario, if that has several.
    #[inline]
    pub fn step(&self, number: u64) -> u16 {
        if self.up_to.is_empty() {
            return 0;
        }
        let place = match &self.place {
            Place::Drawn { seed } => mix(number ^ seed),
            Place::InTurn { users, round } => (number / users + number % users) % round,
            Place::Listed(steps) => {
                return steps[usize::try_from(number).expect("an address has 64 bits")];
            }
        };
        let scenario = self.up_to.partition_point(|up_to| *up_to <= place);
        self.first(u16::try_from(scenario).expect("there are at most 2^16"))
    }
}

fn total(weights: &[u32]) -> u64 {
    assert!(weights.len() <= 1 << 16, "a step's number has 16 bits");
    let total = weights.iter().copied().map(u64::from).sum();
    assert!(0 < total, "some step is taken");
    total
}

/// For each step but the last, the sum of the weights of it and all before it.
fn ends(weights: &[u32]) -> impl Iterator<Item = u64> {
    weights[..weights.len() - 1].iter().scan(0, |sum, weight| {
        *sum += u64::from(*weight);
        Some(*sum)
    })
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
        let in_turn: Vec<u64> = shares(Mix::in_turn(1, &[1, 0, 3]), 1_001);
        assert_eq!(in_turn, [250, 0, 751]);
    }

    #[test]
    fn in_turn_each_round_has_every_step_as_often_as_it_weighs() {
        let steps = |users, weights: &[u32], numbers: std::ops::Range<u64>| {
            let mix = Mix::in_turn(users, weights);
            numbers.map(|number| mix.step(number)).collect::<Vec<u16>>()
        };
        assert_eq!(steps(1, &[2, 0, 1], 0..7), [0, 0, 2, 0, 0, 2, 0]);
        assert_eq!(steps(1, &[1, 1], 5..9), [1, 0, 1, 0]);
        assert_eq!(steps(1, &[1], 0..3), [0; 3]);
        // Each of as many users as there are steps takes all of them, starting with another one.
        assert_eq!(steps(3, &[1, 1, 1], 0..9), [0, 1, 2, 1, 2, 0, 2, 0, 1]);
        // So does each if there are more, or fewer: user 4's requests are 4, 11, 18, ...
        let mix = Mix::in_turn(7, &[1, 1, 1]);
        let of_user: Vec<u16> = (0..6).map(|round| mix.step(4 + 7 * round)).collect();
        assert_eq!(of_user, [1, 2, 0, 1, 2, 0]);
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
