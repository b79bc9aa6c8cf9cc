//! Stationarity: whether latency drifted between the first and the last quarter of a run.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::interval::{Interval, Method, interval, pooled};
use super::statistics::KOLMOGOROV_1_PERCENT;
use crate::plan::thresholds::Thresholds;

/// How far apart two latencies are that differ for a user, as a share: where most of them are
/// equal, a few microseconds of jitter move them all.
const APART: f64 = 0.05;

/// The first and the last quarter of a window beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stationarity {
    /// Kolmogorov–Smirnov distance of the two quarters' distributions, where latencies within 5 % of
    /// each other count as equal.
    pub distance: f64,
    /// The largest distance that counts as none: [`Thresholds::drift`] and what chance gives
    /// independent samples once in 100 runs.
    pub distance_max: f64,
    /// p99 of the first quarter, ns.
    pub p99_first_ns: u64,
    /// p99 of the last quarter, ns.
    pub p99_last_ns: u64,
    /// p99 of the last quarter over that of the first.
    pub p99_ratio: f64,
    /// Whether the run was stationary: the distance within its bound, and the p99 not beyond
    /// [`Thresholds::drift_p99`] or the difference within the uncertainty of the two.
    pub stationary: bool,
}

/// Compares the quarters of a window given as histograms of equal pieces of it, in order. `None`
/// below four pieces or without samples in both quarters.
///
/// A p99 has changed when it is off by the factor **and** the intervals of the two, by batches,
/// don't meet: one stall more in one quarter moves a p99 twentyfold and means nothing. So a window
/// of fewer pieces than four times [`super::interval::BATCHES_MIN`] is judged by its distance
/// alone.
pub(crate) fn stationarity(
    batches: &[Histogram<u64>],
    bounds: &Thresholds,
) -> Option<Stationarity> {
    let quarter = batches.len() / 4;
    if quarter == 0 {
        return None;
    }
    let (first, last) = (&batches[..quarter], &batches[batches.len() - quarter..]);
    let (first_pool, last_pool) = (pooled(first), pooled(last));
    let (one, other) = (first_pool.histogram(), last_pool.histogram());
    let distance = below(one, other)?.max(below(other, one)?);
    let (m, n) = (first_pool.count() as f64, last_pool.count() as f64);
    // Smirnov's two-sample point at 1 %.
    let distance_max = bounds.drift + KOLMOGOROV_1_PERCENT * ((m + n) / (m * n)).sqrt();
    let (p99_first_ns, p99_last_ns) = (first_pool.quantile_ns(0.99)?, last_pool.quantile_ns(0.99)?);
    let p99_ratio = p99_last_ns as f64 / p99_first_ns.max(1) as f64;
    let apart = match (interval(&first_pool, first, 0.99), interval(&last_pool, last, 0.99)) {
        (Ok(one), Ok(other)) => {
            let by_batches = |of: &Interval| of.method == Method::Batches;
            by_batches(&one) && by_batches(&other) && !meet(&one, &other)
        }
        _ => false,
    };
    let changed = apart && !(1.0 / bounds.drift_p99..=bounds.drift_p99).contains(&p99_ratio);
    Some(Stationarity {
        distance,
        distance_max,
        p99_first_ns,
        p99_last_ns,
        p99_ratio,
        stationary: distance <= distance_max && !changed,
    })
}

/// By how much more of `low` than of `high` lies below some value, if what `high` has within
/// [`APART`] of it lies below too. `None` when either is empty.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time that the histogram holds, a little longer"
)]
fn below(low: &Histogram<u64>, high: &Histogram<u64>) -> Option<f64> {
    if low.is_empty() || high.is_empty() {
        return None;
    }
    let (mut seen, mut most) = (0, 0.0_f64);
    for bucket in low.iter_recorded() {
        seen += bucket.count_since_last_iteration();
        let edge_ns = low.highest_equivalent(bucket.value_iterated_to());
        let near_ns = (edge_ns as f64 * (1.0 + APART)) as u64;
        let near = high.count_between(0, near_ns);
        most = most.max(seen as f64 / low.len() as f64 - near as f64 / high.len() as f64);
    }
    Some(most)
}

fn meet(one: &Interval, other: &Interval) -> bool {
    one.low_ns <= other.high_ns && other.low_ns <= one.high_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::distribution::{Distribution, INTERVAL_DIGITS, interval_histogram};

    /// Twenty-four seconds of 300 samples as a series keeps them; `value_ns` gives the k-th sample
    /// of a second.
    fn seconds(value_ns: impl Fn(u64, u64) -> u64) -> Vec<Histogram<u64>> {
        (0..24)
            .map(|second| {
                let mut latency = interval_histogram(INTERVAL_DIGITS);
                (0..300).for_each(|k| latency += value_ns(second, k));
                latency
            })
            .collect()
    }

    fn found(value_ns: impl Fn(u64, u64) -> u64) -> Stationarity {
        found_with(value_ns, &Thresholds::default())
    }

    fn found_with(value_ns: impl Fn(u64, u64) -> u64, bounds: &Thresholds) -> Stationarity {
        stationarity(&seconds(value_ns), bounds).expect("24 seconds")
    }

    #[test]
    fn the_same_all_along_is_stationary() {
        let found = found(|_, k| 1_000_000 + 1_000 * k);
        assert_eq!((found.distance, found.p99_ratio, found.stationary), (0.0, 1.0, true));
    }

    #[test]
    fn a_drift_is_not() {
        let found = found(|second, k| 1_000_000 + 1_000 * k + 25_000 * second);
        assert!(!found.stationary && found.distance_max < found.distance, "{found:?}");
    }

    #[test]
    fn a_jitter_of_microseconds_is_none() {
        // Nearly all requests take 5 ms; those of the last quarter 100 µs more, or 300 µs more.
        let found_by =
            |more_ns: u64| found(|second, k| 5_050_000 + k + if second < 18 { 0 } else { more_ns });
        let (jitter, shift) = (found_by(100_000), found_by(300_000));
        assert!(jitter.stationary && jitter.distance == 0.0, "{jitter:?}");
        assert!(!shift.stationary && shift.distance == 1.0, "{shift:?}");
    }

    #[test]
    fn a_tail_that_grows_is_not_although_few_samples_moved() {
        let tail_ns = |second: u64| if second < 12 { 2_000_000 } else { 20_000_000 };
        let found = found(|second, k| if k < 12 { tail_ns(second) } else { 1_000_000 });
        assert!(!found.stationary && found.distance < found.distance_max, "{found:?}");
        assert!((found.p99_ratio - 10.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn a_p99_that_most_samples_share_is_seen_to_grow() {
        // Each quarter answers in two times only, so that the bucket of its p99 holds one sample of
        // ten.
        let slow_ns = |second: u64| if second < 12 { 5_017_000 } else { 50_170_000 };
        let found = found(|second, k| if k < 30 { slow_ns(second) } else { 1_003_000 });
        assert!(!found.stationary && found.distance <= found.distance_max, "{found:?}");
    }

    #[test]
    fn one_stall_in_one_quarter_is_no_trend() {
        let found =
            found(|second, k| if second == 1 && k < 20 { 50_000_000 } else { 1_000_000 + k });
        assert!(found.stationary && found.p99_ratio < 0.1, "{found:?}");
    }

    #[test]
    fn the_plan_may_allow_for_more() {
        let drift = |second: u64, k: u64| 1_000_000 + 1_000 * k + 25_000 * second;
        assert!(found_with(drift, &Thresholds { drift: 1.0, ..Thresholds::default() }).stationary);
        let tail_ns = |second: u64| if second < 12 { 2_000_000 } else { 20_000_000 };
        let tail = |second: u64, k: u64| if k < 12 { tail_ns(second) } else { 1_000_000 };
        let allowed = Thresholds { drift_p99: 11.0, ..Thresholds::default() };
        assert!(found_with(tail, &allowed).stationary);
    }

    #[test]
    fn quarters_without_samples_say_nothing() {
        let bounds = Thresholds::default();
        assert_eq!(stationarity(&seconds(|_, k| k)[..3], &bounds), None);
        let empty = Distribution::new().histogram().clone();
        assert_eq!(stationarity(&vec![empty; 8], &bounds), None);
    }
}
