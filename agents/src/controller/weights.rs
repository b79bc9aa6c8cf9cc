//! Shares by weights: unequal agents take unequal parts of the load, which add up to all of it.
//!
//! Weights are divided by their greatest common divisor: arrivals are dealt to each agent in runs
//! as long as its weight, and the runs should be short.

use engine::load::share::Share;

/// The largest weight of an agent.
pub const WEIGHT_MAX: u32 = 1_000_000;

/// The shares of agents with these weights, each from 1 to [`WEIGHT_MAX`], in their order.
pub fn shares(weights: &[u32]) -> Vec<Share> {
    assert!(weights.iter().all(|weight| (1..=WEIGHT_MAX).contains(weight)), "{weights:?}");
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor);
    let of = weights.iter().map(|weight| weight / divisor).sum();
    let mut start = 0;
    let share = |weight: &u32| {
        let units = start..start + weight / divisor;
        start = units.end;
        Share::units(units, of)
    };
    weights.iter().map(share).collect()
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_weights_in_the_smallest_units() {
        let units = |weights: &[u32]| -> Vec<Share> { shares(weights) };
        let three = |units: [(u32, u32); 3], of: u32| -> Vec<Share> {
            units.map(|(first, end)| Share::units(first..end, of)).to_vec()
        };
        assert_eq!(units(&[1]), [Share::whole()]);
        assert_eq!(units(&[WEIGHT_MAX]), [Share::whole()]);
        assert_eq!(units(&[1, 1, 1]), three([(0, 1), (1, 2), (2, 3)], 3));
        assert_eq!(units(&[6, 6, 6]), three([(0, 1), (1, 2), (2, 3)], 3));
        assert_eq!(units(&[4, 2, 6]), three([(0, 2), (2, 3), (3, 6)], 6));
        assert_eq!(shares(&[WEIGHT_MAX; 1_000]).len(), 1_000, "as many agents as there may be");
    }
}
