//! 95 % confidence intervals of means and shares, by batches where values depend on each other.
//!
//! Both are ratios of a sum to a number of values. With S_b the sum over the n_b values of batch b,
//! and r the ratio, the sum's deviation is `√(m/(m−1)·Σ(S_b − r·n_b)²)`, as of a quantile's rank in
//! [`super::interval`]; and as there, no interval is narrower than independent values would make
//! it. That of a share is Clopper and Pearson's (*Biometrika* 26, 1934), which holds for any number
//! of errors, one among them: Wilson's (*JASA* 22, 1927) lies above the truth too often there.
//! Where values depend on each other it is taken of as many independent ones as would leave the sum
//! as uncertain, by Student's t (Korn and Graubard, *Survey Methodology* 24, 1998).

use hdrhistogram::Histogram;

use super::interval::{BATCHES_MAX, BATCHES_MIN, NORMAL_5_PERCENT, groups};
use super::statistics::{beta_point, chi_squared_point, normal_point, student_t_point};
use crate::stats::distribution::Distribution;

/// The fewest values whose mean is taken as normally distributed.
pub(crate) const MEAN_VALUES_MIN: u64 = 30;

/// The interval of the mean of a distribution, µs, which the batches hold by pieces of the run;
/// `None` below [`MEAN_VALUES_MIN`] values, and with values beyond the histogram's range, whose
/// spread is unknown.
pub(crate) fn mean_interval(
    distribution: &Distribution,
    mean_us: f64,
    batches: &[Histogram<u64>],
) -> Option<[f64; 2]> {
    let count = distribution.count();
    if count < MEAN_VALUES_MIN || 0 < distribution.overflow() {
        return None;
    }
    let n = count as f64;
    let (sum, squares) = moments(distribution.histogram());
    let variance = (squares - sum * sum / n) / (n - 1.0);
    let independent = NORMAL_5_PERCENT * (variance.max(0.0) * n).sqrt();
    let pieces: Vec<(f64, f64)> = groups(batches)
        .map(|group| {
            let sum = group.iter().map(|batch| moments(batch).0).sum();
            (sum, group.iter().map(Histogram::len).sum::<u64>() as f64)
        })
        .collect();
    let half_us = half_of_sum(&pieces, 0.025).unwrap_or(0.0).max(independent) / n / 1e3;
    Some([(mean_us - half_us).max(0.0), mean_us + half_us])
}

/// The interval of `part` of `whole`, of which the pieces of the run hold these parts and wholes;
/// `None` of nothing.
pub fn share_interval(part: u64, whole: u64, pieces: &[(u64, u64)]) -> Option<[f64; 2]> {
    share_interval_with(part, whole, pieces, 0.025, NORMAL_5_PERCENT)
}

/// The same, each end wrong with a probability of `tail`.
pub(super) fn share_interval_at(
    part: u64,
    whole: u64,
    pieces: &[(u64, u64)],
    tail: f64,
) -> Option<[f64; 2]> {
    share_interval_with(part, whole, pieces, tail, normal_point(tail))
}

/// The same; `normal` is the normal distribution's point of the tail.
fn share_interval_with(
    part: u64,
    whole: u64,
    pieces: &[(u64, u64)],
    tail: f64,
    normal: f64,
) -> Option<[f64; 2]> {
    if whole == 0 {
        return None;
    }
    let joined = pieces.chunks(pieces.len().div_ceil(BATCHES_MAX).max(1));
    let pieces: Vec<(f64, f64)> = joined
        .map(|group| {
            let sum = |of: fn(&(u64, u64)) -> u64| group.iter().map(of).sum::<u64>() as f64;
            (sum(|piece| piece.0), sum(|piece| piece.1))
        })
        .collect();
    let (n, share) = (whole as f64, part as f64 / whole as f64);
    // By how much wider the interval is than that of independent values. It grows towards the tail,
    // where Student's t leaves the normal distribution behind.
    let independent = normal * (n * share * (1.0 - share)).sqrt();
    let wider = match half_of_sum(&pieces, tail) {
        Some(half) if 0.0 < independent => (half / independent).max(1.0),
        _ => 1.0,
    };
    let values = n / wider.powi(2);
    let (inside, outside) = (share * values, (1.0 - share) * values);
    let low = if part == 0 { 0.0 } else { beta_point(inside, outside + 1.0, tail) };
    let high = if part == whole { 1.0 } else { beta_point(inside + 1.0, outside, 1.0 - tail) };
    Some([low, high])
}

/// The interval that holds what `count` is on average, if what is counted happens independently of
/// each other, except with this probability (Garwood, *Biometrika* 28, 1936).
pub fn count_interval(count: u64, error: f64) -> [f64; 2] {
    let low = if count == 0 { 0.0 } else { chi_squared_point(2 * count, error / 2.0) / 2.0 };
    [low, chi_squared_point(2 * count + 2, 1.0 - error / 2.0) / 2.0]
}

/// Half the width of the interval of a sum, each end wrong with a probability of `tail`, given its
/// parts with their numbers of values; `None` with too few parts to tell.
fn half_of_sum(pieces: &[(f64, f64)], tail: f64) -> Option<f64> {
    let sum: f64 = pieces.iter().map(|piece| piece.0).sum();
    let count: f64 = pieces.iter().map(|piece| piece.1).sum();
    if pieces.len() < BATCHES_MIN || count == 0.0 {
        return None;
    }
    let squares: f64 =
        pieces.iter().map(|(part, values)| (part - sum / count * values).powi(2)).sum();
    let degrees = pieces.len() - 1;
    let deviation = (squares * pieces.len() as f64 / degrees as f64).sqrt();
    Some(student_t_point(degrees as u64, tail) * deviation)
}

/// Sum and sum of squares of a histogram's values, ns, each as the middle of its bucket.
fn moments(histogram: &Histogram<u64>) -> (f64, f64) {
    histogram.iter_recorded().fold((0.0, 0.0), |(sum, squares), bucket| {
        let value_ns = histogram.median_equivalent(bucket.value_iterated_to()) as f64;
        let count = bucket.count_since_last_iteration() as f64;
        (sum + value_ns * count, squares + value_ns * value_ns * count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::distribution::{INTERVAL_DIGITS, interval_histogram};

    /// A distribution, and its values by pieces of ten.
    fn in_tens(values_us: &[u64]) -> (Distribution, f64, Vec<Histogram<u64>>) {
        let mut whole = Distribution::new();
        let batches = values_us
            .chunks(10)
            .map(|chunk| {
                let mut batch = interval_histogram(INTERVAL_DIGITS);
                chunk.iter().for_each(|us| {
                    whole.record(us * 1_000);
                    batch.record(us * 1_000).expect("in range");
                });
                batch
            })
            .collect();
        let mean_us = whole.mean_ns().expect("values") / 1e3;
        (whole, mean_us, batches)
    }

    #[test]
    fn the_mean_of_independent_values_has_the_textbook_interval() {
        // Each piece has the same values, so only their own spread counts: 100 values of variance
        // 25·100/99.
        let values: Vec<u64> = (0..100).map(|at| if at % 2 == 0 { 95 } else { 105 }).collect();
        let (whole, mean_us, batches) = in_tens(&values);
        let [low, high] = mean_interval(&whole, mean_us, &batches).expect("enough values");
        let half = 1.96 * (25.0 * 100.0 / 99.0_f64).sqrt() / 10.0;
        assert!((low - (100.0 - half)).abs() < 0.1 && (high - (100.0 + half)).abs() < 0.1);
    }

    #[test]
    fn pieces_that_differ_widen_the_interval_of_the_mean() {
        // The same values, but each piece is all slow or all fast: ten values stand for one.
        let values: Vec<u64> = (0..100).map(|at| if at / 10 % 2 == 0 { 95 } else { 105 }).collect();
        let (whole, mean_us, batches) = in_tens(&values);
        let [low, high] = mean_interval(&whole, mean_us, &batches).expect("enough values");
        let half = 2.262 * (25.0 * 10.0 / 9.0_f64).sqrt() / 10.0_f64.sqrt();
        assert!(((high - low) / 2.0 - half).abs() < 0.1, "{low} to {high}, not ± {half}");
        let few = in_tens(&values[..29]);
        assert_eq!(mean_interval(&few.0, few.1, &few.2), None);
    }

    #[test]
    fn a_share_has_clopper_and_pearsons_interval() {
        // Both ends by sums of the binomial distribution.
        for (part, whole, low, high) in [
            (0, 1_000, 0.0, 0.003_682_083_9),
            (1, 170, 0.000_148_917_2, 0.032_337_066_1),
            (10, 1_000, 0.004_805_510_7, 0.018_313_243_1),
            (50, 100, 0.398_321_129_5, 0.601_678_870_5),
            (1_000, 1_000_000, 0.000_939_001_21, 0.001_063_918_11),
            (5, 10_000_000, 1.623_486_6e-7, 1.166_832_82e-6),
        ] {
            let [found_low, found_high] = share_interval(part, whole, &[]).expect("some");
            let close = |found: f64, known: f64| (found - known).abs() <= 1e-6 * known;
            assert!(close(found_low, low), "{part} of {whole}: from {found_low}, not {low}");
            assert!(close(found_high, high), "{part} of {whole}: to {found_high}, not {high}");
        }
        assert_eq!(share_interval(0, 0, &[]), None);
        assert_eq!(share_interval(3, 3, &[]).map(|interval| interval[1]), Some(1.0));
    }

    #[test]
    fn a_count_has_garwoods_interval() {
        for (count, error, low, high) in [
            (0, 0.05, 0.0, 3.688_9),
            (1, 0.05, 0.025_3, 5.571_6),
            (10, 0.05, 4.795_4, 18.390_4),
            (10, 0.01, 3.717_1, 21.397_8),
        ] {
            let [found_low, found_high] = count_interval(count, error);
            let close = |found: f64, known: f64| (found - known).abs() < 1e-3;
            assert!(close(found_low, low), "{count}: from {found_low}");
            assert!(close(found_high, high), "{count}: to {found_high}");
        }
    }

    #[test]
    fn few_errors_leave_the_truth_out_at_most_one_time_in_forty() {
        // Of n requests of which each fails with probability p, x fail: those x whose interval
        // lies above p, and those whose interval lies below it, are at most 2.5 % together each.
        for n in [20_u64, 170, 1_000, 30_000] {
            for expected in [0.05, 0.17, 0.5, 1.0, 2.0, 3.5, 5.0] {
                let p = expected / n as f64;
                let (mut above, mut below) = (0.0, 0.0);
                let mut probability = (n as f64 * (-p).ln_1p()).exp();
                for x in 0..=n.min(40) {
                    let [low, high] = share_interval(x, n, &[]).expect("some");
                    if p < low {
                        above += probability;
                    } else if high < p {
                        below += probability;
                    }
                    probability *= (n - x) as f64 / (x + 1) as f64 * p / (1.0 - p);
                }
                assert!(above <= 0.025 && below <= 0.025, "{n} at {p}: {above}, {below}");
            }
        }
    }

    /// The share of 400 runs of 60 s at 100 requests per second whose interval holds the true share
    /// of errors, one in ten. `lasting` is how likely it is that a second goes on like the last.
    fn coverage(lasting: f64, in_seconds: bool) -> f64 {
        const RUNS: u64 = 400;
        let share = 0.1;
        let mut seed = 0;
        let mut random = || {
            seed += 1;
            crate::load::schedule::mix(seed) as f64 / u64::MAX as f64
        };
        let mut holds = 0_u64;
        for _ in 0..RUNS {
            let mut fails = random() < share;
            let pieces: Vec<(u64, u64)> = (0..60)
                .map(|_| {
                    if lasting <= random() {
                        fails = random() < share;
                    }
                    let one = || u64::from(if in_seconds { fails } else { random() < share });
                    (std::iter::repeat_with(one).take(100).sum(), 100)
                })
                .collect();
            let part = pieces.iter().map(|piece| piece.0).sum();
            let [low, high] = share_interval(part, 6_000, &pieces).expect("some");
            holds += u64::from((low..=high).contains(&share));
        }
        holds as f64 / RUNS as f64
    }

    #[test]
    fn nineteen_intervals_in_twenty_hold_the_truth() {
        // 400 runs know a coverage of 95 % to 2.1 points (95 %), 4 points are beyond all doubt.
        let independent = coverage(0.0, false);
        assert!((0.91..=0.99).contains(&independent), "{independent}");
        // Whole seconds that fail: 6,000 requests say as much as 60, which ends of a skewed
        // distribution are only nearly normal for.
        let bursts = coverage(0.0, true);
        assert!((0.91..=0.99).contains(&bursts), "{bursts}");
    }

    #[test]
    fn few_pieces_hold_the_truth_as_often_at_a_small_tail() {
        // Five pieces of 1,000 requests, half of which fail on average: in each of them together,
        // by the mean of twelve numbers from 0 to 1. All that is left is Student's t.
        const TAIL: f64 = 0.01 / 16.0;
        let mut seed = 0x7a11;
        let mut random = || {
            seed += 1;
            crate::load::schedule::mix(seed) as f64 / u64::MAX as f64
        };
        let misses = (0..2_000)
            .filter(|_| {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few")]
                let mut piece = || {
                    let shared: f64 = std::iter::repeat_with(&mut random).take(12).sum();
                    ((1_000.0 * shared / 12.0).round() as u64, 1_000)
                };
                let pieces: Vec<(u64, u64)> = std::iter::repeat_with(&mut piece).take(5).collect();
                let part = pieces.iter().map(|piece| piece.0).sum();
                let found = share_interval_at(part, 5_000, &pieces, TAIL).expect("some");
                !(found[0]..=found[1]).contains(&0.5)
            })
            .count();
        // 2.5 are due; more than 8 would be beyond chance (one time in 900). The width of 95 %,
        // stretched as the normal distribution is, leaves the truth out 20 times.
        assert!(misses <= 8, "{misses} of 2,000");
    }

    #[test]
    fn errors_that_come_together_widen_the_interval_of_their_share() {
        let spread: Vec<(u64, u64)> = vec![(10, 100); 10];
        let mut together = vec![(0, 100); 10];
        together[4] = (100, 100);
        let width = |pieces: &[(u64, u64)]| {
            let [low, high] = share_interval(100, 1_000, pieces).expect("some");
            high - low
        };
        assert!(5.0 * width(&spread) < width(&together));
    }
}
