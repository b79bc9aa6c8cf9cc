//! 95 % confidence intervals of means and shares, by batches where values depend on each other.
//!
//! Both are ratios of a sum to a number of values. With S_b the sum over the n_b values of batch b,
//! and r the ratio, the sum's deviation is `√(m/(m−1)·Σ(S_b − r·n_b)²)`, as of a quantile's rank in
//! [`super::interval`]; and as there, no interval is narrower than independent values would make
//! it. That of a share is Wilson's (*JASA* 22, 1927), which holds near 0, where most shares of
//! errors are; dependence widens it.

use hdrhistogram::Histogram;

use super::interval::{BATCHES_MAX, BATCHES_MIN, NORMAL_5_PERCENT, groups};
use super::statistics::student_t_point;
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
    let half_us = half_of_sum(&pieces).unwrap_or(0.0).max(independent) / n / 1e3;
    Some([(mean_us - half_us).max(0.0), mean_us + half_us])
}

/// The interval of `part` of `whole`, of which the pieces of the run hold these parts and wholes;
/// `None` of nothing.
pub fn share_interval(part: u64, whole: u64, pieces: &[(u64, u64)]) -> Option<[f64; 2]> {
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
    let independent = (n * share * (1.0 - share)).sqrt();
    let width = match half_of_sum(&pieces) {
        Some(half) if 0.0 < independent => (half / independent).max(NORMAL_5_PERCENT),
        _ => NORMAL_5_PERCENT,
    };
    let squared = width * width / n;
    let centre = (share + squared / 2.0) / (1.0 + squared);
    let half = (share * (1.0 - share) * squared + squared * squared / 4.0).sqrt() / (1.0 + squared);
    // Rounding would leave a trace of what is exactly 0 or 1.
    let low = if part == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if part == whole { 1.0 } else { (centre + half).min(1.0) };
    Some([low, high])
}

/// Half the width of the interval of a sum, given its parts with their numbers of values; `None`
/// with too few parts to tell.
fn half_of_sum(pieces: &[(f64, f64)]) -> Option<f64> {
    let sum: f64 = pieces.iter().map(|piece| piece.0).sum();
    let count: f64 = pieces.iter().map(|piece| piece.1).sum();
    if pieces.len() < BATCHES_MIN || count == 0.0 {
        return None;
    }
    let squares: f64 =
        pieces.iter().map(|(part, values)| (part - sum / count * values).powi(2)).sum();
    let degrees = pieces.len() - 1;
    let deviation = (squares * pieces.len() as f64 / degrees as f64).sqrt();
    Some(student_t_point(degrees as u64, 0.025) * deviation)
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
    fn a_share_has_wilsons_interval() {
        let even = [(1, 100); 10];
        for (part, whole, low, high) in
            [(0, 1_000, 0.0, 0.003_83), (10, 1_000, 0.005_44, 0.018_31), (50, 100, 0.4038, 0.5962)]
        {
            let [found_low, found_high] = share_interval(part, whole, &even).expect("some");
            assert!((found_low - low).abs() < 1e-4, "{part} of {whole}: from {found_low}");
            assert!((found_high - high).abs() < 1e-4, "{part} of {whole}: to {found_high}");
        }
        assert_eq!(share_interval(0, 0, &[]), None);
        assert_eq!(share_interval(3, 3, &[]).map(|interval| interval[1]), Some(1.0));
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
