//! Compares two sides that were measured in turn: the ratio of a figure with one value per side in
//! every pair, and the difference of a share.
//!
//! The members of a pair were measured one right after the other, so drift of the machine affects
//! both and cancels in their ratio. With d_i the logarithm of the second value of pair i over the
//! first, d̄ their mean and s their standard deviation, the interval of the ratio is Student's
//! (*Biometrika* 6, 1908): exp(d̄ ± t·s/√n), t with n−1 degrees of freedom. For a difference of
//! shares it is the same of the differences themselves, but never narrower than for independent
//! requests: pairs without an error have no scatter, and errors may come all the same.
//!
//! If nothing changed, either member of a pair may be the larger one: the d_i are symmetric about
//! 0, whatever the distribution of latencies. Student's interval then leaves 0 out hardly more
//! often than stated, and less often if outliers are frequent (Efron, *JASA* 64, 1969). Rejected:
//! Wilcoxon's signed ranks, which need only that symmetry, but can't show anything with ten pairs
//! at the confidence that eight simultaneous figures take.

use super::comparison::{POWER, Part, Ratio, ShareDifference, share_difference};
use super::statistics::student_t_point;

/// The ratio of values in pairs, with an interval that is wrong with probability `error`; `None`
/// without a pair, or if a value isn't above 0.
pub fn paired_ratio(pairs: &[[f64; 2]], error: f64) -> Option<Ratio> {
    if pairs.is_empty() || pairs.iter().flatten().any(|value| *value <= 0.0) {
        return None;
    }
    let n = pairs.len() as f64;
    let mean_log = |side: usize| pairs.iter().map(|pair| pair[side].ln()).sum::<f64>() / n;
    let (a, b) = (mean_log(0), mean_log(1));
    let step = b - a;
    let degrees = pairs.len() as u64 - 1;
    let deviation = (0 < degrees).then(|| {
        let squares: f64 = pairs.iter().map(|[a, b]| ((b / a).ln() - step).powi(2)).sum();
        (squares / degrees as f64 / n).sqrt()
    });
    let beyond = |p: f64| student_t_point(degrees, p);
    Some(Ratio {
        values: [a.exp(), b.exp()],
        ratio: step.exp(),
        interval: [-1.0, 1.0].map(|way| {
            let deviation = deviation?;
            Some((step + way * beyond(error / 2.0) * deviation).exp())
        }),
        shows: deviation
            .map(|deviation| ((beyond(error / 2.0) + beyond(1.0 - POWER)) * deviation).exp()),
        needed_s: None,
    })
}

/// The difference of shares in pairs, each a part and a whole, with an interval that is wrong with
/// probability `error`. Each pair has the same weight: the shares are the means over the pairs.
/// `None` with fewer than two pairs, or if a whole is 0.
pub fn paired_difference(pairs: &[[(u64, u64); 2]], error: f64) -> Option<ShareDifference> {
    if pairs.len() < 2 {
        return None;
    }
    let sum =
        |side: usize, of: fn(&(u64, u64)) -> u64| pairs.iter().map(|pair| of(&pair[side])).sum();
    let pooled = |side: usize| Part {
        part: sum(side, |one| one.0),
        whole: sum(side, |one| one.1),
        pieces: None,
    };
    let independent = share_difference(pooled(0), pooled(1), error)?;
    let share = |(part, whole): (u64, u64)| (0 < whole).then(|| part as f64 / whole as f64);
    let shares: Option<Vec<[f64; 2]>> =
        pairs.iter().map(|[a, b]| Some([share(*a)?, share(*b)?])).collect();
    let shares = shares?;
    let n = shares.len() as f64;
    let [a, b] = [0, 1].map(|side| shares.iter().map(|pair| pair[side]).sum::<f64>() / n);
    let difference = b - a;
    let squares: f64 = shares.iter().map(|[a, b]| (b - a - difference).powi(2)).sum();
    let degrees = shares.len() as u64 - 1;
    let half = student_t_point(degrees, error / 2.0) * (squares / degrees as f64 / n).sqrt();
    let [low, high] = independent.interval;
    let (down, up) = (independent.difference - low, high - independent.difference);
    let interval = [difference - half.max(down), difference + half.max(up)];
    Some(ShareDifference { shares: [a, b], difference, interval })
}

#[cfg(test)]
mod tests {
    use load::schedule::mix;

    use super::*;
    use crate::pieces::Pieces;

    fn close(found: f64, known: f64) {
        assert!((found - known).abs() < 1e-9 * known, "{found}, not {known}");
    }

    /// A number from 0 to 1 for each seed.
    fn unit(seed: u64) -> f64 {
        mix(seed) as f64 / u64::MAX as f64
    }

    #[test]
    fn the_interval_is_students() {
        // By numerical integration of the density of t with 4 degrees of freedom: 2.776445 is
        // exceeded one time in 40, 8.121637 one in 1,600, and 0.940965 one in five.
        let pairs = [1_105.0, 1_221.0, 1_350.0, 1_222.0, 1_221.5].map(|b| [1_000.0, b]);
        let found = paired_ratio(&pairs, 0.05).expect("values");
        close(found.values[0], 1_000.0);
        close(found.ratio, 1.221_448_829_123);
        let [low, high] = found.interval.map(|end| end.expect("five pairs"));
        close(low, 1.118_651_832_992);
        close(high, 1.333_692_216_081);
        close(found.shows.expect("five pairs"), 1.124_915_838_726);
        let wider = paired_ratio(&pairs, 0.01 / 8.0).expect("values");
        let [low, high] = wider.interval.map(|end| end.expect("five pairs"));
        close(low, 0.944_474_930_883);
        close(high, 1.579_647_265_779);
        // Swapped, it is the inverse.
        let swapped = pairs.map(|[a, b]| [b, a]);
        let back = paired_ratio(&swapped, 0.05).expect("values");
        let [low, high] = back.interval.map(|end| end.expect("five pairs"));
        close(1.0 / low, 1.333_692_216_081);
        close(1.0 / high, 1.118_651_832_992);
    }

    #[test]
    fn drift_common_to_both_members_of_a_pair_cancels() {
        let pairs = [[5.0, 5.1], [5.2, 5.1], [4.9, 5.0], [5.0, 5.0], [5.1, 5.3]];
        let mut drifting = pairs;
        for (at, pair) in drifting.iter_mut().enumerate() {
            *pair = pair.map(|value| value * (1.0 + at as f64));
        }
        let (still, drifting) = (paired_ratio(&pairs, 0.05), paired_ratio(&drifting, 0.05));
        let (still, drifting) = (still.expect("values"), drifting.expect("values"));
        close(drifting.ratio, still.ratio);
        let ([low, high], [same_low, same_high]) = (
            still.interval.map(|end| end.expect("pairs")),
            drifting.interval.map(|end| end.expect("pairs")),
        );
        close(same_low, low);
        close(same_high, high);
    }

    #[test]
    fn too_few_pairs_and_values_of_nothing_have_no_interval() {
        assert_eq!(paired_ratio(&[], 0.05), None);
        assert_eq!(paired_ratio(&[[1.0, 0.0], [1.0, 1.0]], 0.05), None);
        let one = paired_ratio(&[[2.0, 3.0]], 0.05).expect("values");
        close(one.ratio, 1.5);
        assert_eq!((one.interval, one.shows), ([None; 2], None));
    }

    /// Ten pairs. The share `odd` of the values, on either side, is five times as large: slices in
    /// which something else happened.
    fn pairs(seed: u64, factor: f64, odd: f64) -> Vec<[f64; 2]> {
        let value = |at: u64| {
            let one = mix(seed) ^ at;
            let usual = 1.0 + 0.1 * (unit(one) + unit(one ^ 0x5eed) + unit(one ^ 0x7a11));
            usual * if unit(one ^ 0x0dd) < odd { 5.0 } else { 1.0 }
        };
        (0..10).map(|pair| [value(2 * pair), factor * value(2 * pair + 1)]).collect()
    }

    #[test]
    fn intervals_leave_one_out_as_rarely_as_stated() {
        for odd in [0.0, 0.05] {
            let called = |error: f64| {
                let calls = (0..1_000).filter(|seed| {
                    let found = paired_ratio(&pairs(*seed, 1.0, odd), error).expect("values");
                    let [low, high] = found.interval.map(|end| end.expect("ten pairs"));
                    1.0 < low || high < 1.0
                });
                calls.count()
            };
            // At most 50 are expected; more than 75 would be beyond chance (one time in 5,000). At
            // the error of one figure of eight it is 1.25, and more than 7.
            let (one, eight) = (called(0.05), called(0.01 / 8.0));
            assert!(one <= 75 && eight <= 7, "{one} and {eight} of 1,000, {odd} odd");
        }
    }

    #[test]
    fn a_detectable_change_is_found_about_four_times_in_five() {
        let error = 0.01 / 8.0;
        let shows = |seed| paired_ratio(&pairs(seed, 1.0, 0.0), error)?.shows;
        let usual = ((0..100).filter_map(shows).map(f64::ln).sum::<f64>() / 100.0).exp();
        let found = (1_000..1_500)
            .filter(|seed| {
                let found = paired_ratio(&pairs(*seed, usual, 0.0), error).expect("values");
                1.0 < found.interval[0].expect("ten pairs")
            })
            .count();
        // About 400 of 500: the sum of two points of Student's t is slightly off with few pairs.
        assert!((350..=450).contains(&found), "{found} of 500");
    }

    #[test]
    fn a_difference_of_shares_is_taken_within_pairs() {
        // 1, 2, 3, 4 and 5 % on one side, whatever drifts; two points more on the other, give or
        // take half a point. Student's, with 2.776445 as above.
        let pairs = [(1, 0), (2, 5), (3, -5), (4, 5), (5, -5)].map(|(percent, off): (u64, i64)| {
            let a = percent * 10_000;
            [
                (a, 1_000_000),
                ((a + 20_000).checked_add_signed(1_000 * off).expect("few"), 1_000_000),
            ]
        });
        let found = paired_difference(&pairs, 0.05).expect("pairs");
        close(found.shares[0], 0.03);
        close(found.difference, 0.02);
        let half = 2.776_445 * 0.005 / 5.0_f64.sqrt();
        let [low, high] = found.interval;
        assert!((low - 0.02 + half).abs() < 1e-8 && (high - 0.02 - half).abs() < 1e-8, "{found:?}");
        // As separate samples the sides overlap: 1 to 5 % and 3 to 6.5 %.
        let runs = [0, 1].map(|side| {
            let mut runs = Pieces::none();
            pairs.iter().for_each(|pair| runs.add(Pieces::new(vec![pair[side]], 2.0)));
            runs
        });
        let part = |side: usize| Part {
            part: pairs.iter().map(|pair| pair[side].0).sum(),
            whole: 5_000_000,
            pieces: Some(&runs[side]),
        };
        let apart = share_difference(part(0), part(1), 0.05).expect("shares");
        assert!(apart.interval[0] < 0.0, "{apart:?}");
    }

    #[test]
    fn pairs_without_a_difference_are_as_uncertain_as_their_requests() {
        let found = paired_difference(&[[(0, 100); 2]; 5], 0.05).expect("pairs");
        let independent = Part { part: 0, whole: 500, pieces: None };
        let known = share_difference(independent, independent, 0.05).expect("shares");
        assert_eq!(found, known);
        assert!(0.005 < found.interval[1]);
        assert_eq!(paired_difference(&[[(0, 100); 2]], 0.05), None);
        assert_eq!(paired_difference(&[[(0, 100); 2], [(0, 0); 2]], 0.05), None);
    }
}
