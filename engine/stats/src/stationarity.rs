//! Stationarity: whether latency drifted between the first and the last quarter of a run.
//!
//! It is tested only while the rate stays the same: latency follows the rate, so the quarters of a
//! ramp differ with any target. A plan with several rates is judged by the constant-rate stage that
//! drifted most (`report/steady.rs`).

use std::ops::RangeInclusive;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distribution::Distribution;
use super::interval::{Interval, interval, pooled};
use super::pieces::Pieces;
use super::statistics::{KOLMOGOROV_1_PERCENT, NORMAL_1_PERCENT};

/// How far apart two latencies must be to differ for a user, as a share: if most are equal, a few
/// microseconds of jitter move them all.
const APART: f64 = 0.05;
/// The ratio of two quarters' p99, in either direction, that counts as a change: less may come from
/// one stall more or less.
const P99_RATIO_MAX: f64 = 1.5;
/// The fewest slices of a window, so that each is shorter than twice that share of it: short
/// compared with a drift, and long compared with most stalls, so that neighbours vary
/// independently.
const SLICES_MIN: usize = 32;

/// The first and the last quarter of a window, or of a stage, compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stationarity {
    /// The stage that was compared, from 1; `None` for the whole window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<usize>,
    /// Kolmogorov–Smirnov distance of the two quarters' distributions; latencies within 5 % of each
    /// other count as equal.
    pub distance: f64,
    /// The largest distance that doesn't count as drift: the plan's `drift` plus what chance
    /// exceeds once in 100 runs, by the number of latencies or by the differences of neighbouring
    /// slices of the window, whichever is more.
    pub distance_max: f64,
    /// How far the first quarter is from the most similar stretch that begins at least three
    /// eighths of the window later, or the last from the most similar one that begins as much
    /// earlier, whichever is farther: small if the window repeats itself. `None` if the distance of
    /// the two is within its bound.
    pub distance_recurring: Option<f64>,
    /// p99 of the first quarter, in whole seconds or intervals, ns.
    pub p99_first_ns: u64,
    /// p99 of the last quarter, likewise.
    pub p99_last_ns: u64,
    /// p99 of the last quarter over that of the first.
    pub p99_ratio: f64,
    /// True if the run was stationary: the distance is within its bound or recurs, and the p99 is
    /// off by at most 1.5 times, or by no more than the uncertainty of the two, or recurs.
    pub stationary: bool,
}

/// Compares the quarters of a window, given its pieces in order. `None` below four seconds or
/// without samples in both quarters.
///
/// Successive latencies depend on each other: a stall makes hundreds slow at once, and quarters of
/// a stationary window differ by more than independent samples would. So the distance has to exceed
/// what chance gives slices of the window that vary as these do, and the quarters have to stay
/// apart: with a target that stalls every few seconds each quarter looks like another one, only at
/// another time. Rejected: permuting slices, which a step at half time passes; and shifting the
/// window as a circle, in which a step has a second one at the seam.
///
/// A p99 has changed if it is off by the factor, the intervals of the two don't overlap, **and** it
/// doesn't come back: one stall more in one quarter moves a p99 twentyfold and means nothing. So a
/// window whose quarters are shorter than 5 s is judged by its distance alone.
pub fn stationarity(pieces: &Pieces<Histogram<u64>>, drift: f64) -> Option<Stationarity> {
    let seconds = pieces.by_second();
    if seconds.len() < 4 {
        return None;
    }
    let slices = slices(&pieces.iter().collect::<Vec<_>>());
    let quarter = slices.len() / 4;
    let of = |start: usize| pooled(slices[start..start + quarter].iter());
    let (one, other) = (of(0), of(slices.len() - quarter));
    let Farthest { distance, edge_ns } = farthest(&one, &other)?;
    // Smirnov's two-sample point at 1 %.
    let (m, n) = (one.count() as f64, other.count() as f64);
    let independent = KOLMOGOROV_1_PERCENT * ((m + n) / (m * n)).sqrt();
    let deviation = (variance(&slices, edge_ns) * quarter as f64).sqrt() * (m.hypot(n) / (m * n));
    let distance_max = drift + independent.max(NORMAL_1_PERCENT * deviation);
    let distance_recurring = (distance_max < distance).then(|| {
        let from = |(start, stretches): (usize, RangeInclusive<usize>)| {
            let own = of(start);
            let distances = stretches.filter_map(|start| farthest(&own, &of(start)));
            distances.map(|found| found.distance).fold(distance, f64::min)
        };
        recurrences(slices.len(), quarter).map(from).into_iter().fold(0.0, f64::max)
    });
    let (p99_first_ns, p99_last_ns, changed) = p99(pieces, &seconds)?;
    Some(Stationarity {
        stage: None,
        distance,
        distance_max,
        distance_recurring,
        p99_first_ns,
        p99_last_ns,
        p99_ratio: ratio(p99_first_ns, p99_last_ns),
        stationary: distance_recurring.unwrap_or(distance) <= distance_max && !changed,
    })
}

/// p99 of the first and of the last quarter, ns, and whether it has changed for good.
fn p99(pieces: &Pieces<Histogram<u64>>, seconds: &[Histogram<u64>]) -> Option<(u64, u64, bool)> {
    let quarter = seconds.len() / 4;
    let last = seconds.len() - quarter;
    let of = |start: usize| pooled(seconds[start..start + quarter].iter());
    let p99_ns = |start: usize| of(start).quantile_ns(0.99);
    let (first_ns, last_ns) = (p99_ns(0)?, p99_ns(last)?);
    let interval_between = |start: f64, end: f64| {
        let quarter = pieces.between(start, end);
        interval(&pooled(quarter.iter()), &quarter, 0.99).ok()
    };
    let intervals = || interval_between(0.0, 0.25).zip(interval_between(0.75, 1.0));
    let differ = |one_ns: u64, other_ns: u64| {
        !(1.0 / P99_RATIO_MAX..=P99_RATIO_MAX).contains(&ratio(one_ns, other_ns))
    };
    let comes_back = |(start, mut stretches): (usize, RangeInclusive<usize>)| {
        let own_ns = p99_ns(start);
        stretches.any(|start| own_ns.zip(p99_ns(start)).is_some_and(|(own, it)| !differ(own, it)))
    };
    let changed = differ(first_ns, last_ns)
        && intervals().is_some_and(|(one, other)| !meet(&one, &other))
        && !recurrences(seconds.len(), quarter).into_iter().all(comes_back);
    Some((first_ns, last_ns, changed))
}

fn ratio(first_ns: u64, last_ns: u64) -> f64 {
    last_ns as f64 / first_ns.max(1) as f64
}

/// The window in slices of equal length: at least [`SLICES_MIN`], if it has that many intervals.
fn slices(intervals: &[&Histogram<u64>]) -> Vec<Histogram<u64>> {
    let together = (intervals.len() / SLICES_MIN).max(1);
    let slice = |chunk: &[&Histogram<u64>]| {
        let mut slice = chunk[0].clone();
        for interval in &chunk[1..] {
            slice.add(*interval).expect("all intervals have the same bounds");
        }
        slice
    };
    intervals.chunks(together).map(slice).collect()
}

/// Where the first and the last quarter recur if the window repeats itself: the start of each, and
/// the starts of the stretches to compare it with.
///
/// If the window repeats itself at least twice, the first quarter recurs at a multiple of the
/// period between three eighths and three quarters of the window, and the last one as much earlier.
/// After a step or during a drift at least one of them doesn't: half of the most similar stretch
/// belongs to the other state. The price is that a step at half time has to move twice as many
/// latencies as the bound allows.
fn recurrences(pieces: usize, quarter: usize) -> [(usize, RangeInclusive<usize>); 2] {
    let (last, least) = (pieces - quarter, 3 * pieces / 8);
    [(0, least..=last), (last, 0..=last - least)]
}

/// Variance of the number of a slice's latencies up to an edge, beyond what follows from its number
/// of latencies; from the differences of neighbours, to which a drift adds little (von Neumann,
/// *Annals of Mathematical Statistics* 12, 1941).
fn variance(slices: &[Histogram<u64>], edge_ns: u64) -> f64 {
    let below: Vec<f64> =
        slices.iter().map(|slice| slice.count_between(0, edge_ns) as f64).collect();
    let counts = slices.iter().map(|slice| slice.len() as f64);
    let share = below.iter().sum::<f64>() / counts.clone().sum::<f64>();
    let excess: Vec<f64> =
        std::iter::zip(below, counts).map(|(below, count)| below - share * count).collect();
    let squares: f64 = excess.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    squares / (2.0 * (excess.len() - 1) as f64)
}

/// The Kolmogorov–Smirnov distance of two distributions, and the latency at which they are farthest
/// apart, ns.
struct Farthest {
    distance: f64,
    edge_ns: u64,
}

/// The distance of two distributions, in either direction. `None` if either is empty.
fn farthest(one: &Distribution, other: &Distribution) -> Option<Farthest> {
    let (one, other) = (one.histogram(), other.histogram());
    let (low, high) = (below(&one, &other)?, below(&other, &one)?);
    Some(if low.distance < high.distance { high } else { low })
}

/// The largest excess of the share of `low` below some value over that of `high`, if values of
/// `high` within [`APART`] of it count as below too. `None` if either is empty.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time that the histogram holds, a little longer"
)]
fn below(low: &Histogram<u64>, high: &Histogram<u64>) -> Option<Farthest> {
    if low.is_empty() || high.is_empty() {
        return None;
    }
    let (mut seen, mut near) = (0, 0);
    let mut nearby = high.iter_recorded().peekable();
    let mut found = Farthest { distance: 0.0, edge_ns: 0 };
    for bucket in low.iter_recorded() {
        seen += bucket.count_since_last_iteration();
        let edge_ns = low.highest_equivalent(bucket.value_iterated_to());
        let near_ns = high.highest_equivalent((edge_ns as f64 * (1.0 + APART)) as u64);
        while let Some(bucket) = nearby.next_if(|bucket| bucket.value_iterated_to() <= near_ns) {
            near += bucket.count_since_last_iteration();
        }
        let distance = seen as f64 / low.len() as f64 - near as f64 / high.len() as f64;
        if found.distance < distance {
            found = Farthest { distance, edge_ns };
        }
    }
    Some(found)
}

fn meet(one: &Interval, other: &Interval) -> bool {
    one.low_ns <= other.high_ns && other.low_ns <= one.high_ns
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::{RngExt as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::distribution::{INTERVAL_DIGITS, empty_histogram};

    /// The drift that the plan allows.
    const DRIFT: f64 = 0.1;

    /// Twenty-four seconds of 300 samples by eighths, as a series keeps them; `value_ns` gives the
    /// k-th sample of a second.
    fn seconds(value_ns: impl Fn(u64, u64) -> u64) -> Vec<Histogram<u64>> {
        (0..24 * 8)
            .map(|piece: u64| {
                let mut latency = empty_histogram(INTERVAL_DIGITS);
                // Each eighth of a second has its eighth of the values.
                (0..300).filter(|k| k % 8 == piece % 8).for_each(|k| {
                    latency += value_ns(piece / 8, k);
                });
                latency
            })
            .collect()
    }

    fn found(value_ns: impl Fn(u64, u64) -> u64) -> Stationarity {
        found_with(value_ns, DRIFT)
    }

    fn found_with(value_ns: impl Fn(u64, u64) -> u64, drift: f64) -> Stationarity {
        of_seconds(&seconds(value_ns), drift).expect("24 seconds")
    }

    fn of_seconds(seconds: &[Histogram<u64>], drift: f64) -> Option<Stationarity> {
        stationarity(&Pieces::new(seconds.to_vec(), 0.125), drift)
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
    fn a_jitter_of_microseconds_is_no_drift() {
        // Nearly all requests take 5 ms; those of the last quarter 100 µs or 300 µs more.
        let found_by =
            |more_ns: u64| found(|second, k| 5_050_000 + k + if second < 18 { 0 } else { more_ns });
        let (jitter, shift) = (found_by(100_000), found_by(300_000));
        assert!(jitter.stationary && jitter.distance == 0.0, "{jitter:?}");
        assert!(!shift.stationary && shift.distance == 1.0, "{shift:?}");
    }

    #[test]
    fn a_growing_tail_is_a_drift_although_few_samples_moved() {
        let tail_ns = |second: u64| if second < 12 { 2_000_000 } else { 20_000_000 };
        let found = found(|second, k| if k < 12 { tail_ns(second) } else { 1_000_000 });
        assert!(!found.stationary && found.distance < found.distance_max, "{found:?}");
        assert!((found.p99_ratio - 10.0).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn a_p99_that_most_samples_share_is_detected_as_growing() {
        // Each quarter has only two response times, so that the bucket of its p99 holds one sample
        // in ten.
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

    /// Ten seconds of about 1,000 requests a second at random times, as a series keeps them;
    /// `wait_ns` gives the wait at a point of the window, as a fraction of it, on top of 1 to 2 ms.
    fn ten_seconds(seed: u64, wait_ns: impl Fn(f64) -> f64) -> Stationarity {
        const EIGHTHS: u32 = 80;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut interval = |at: u32| {
            let mut latency = empty_histogram(INTERVAL_DIGITS);
            for _ in 0..random.random_range(110..140) {
                let moment = (f64::from(at) + random.random::<f64>()) / f64::from(EIGHTHS);
                let own_ns = 1e6 * (1.0 + random.random::<f64>());
                let latency_ns =
                    Duration::from_secs_f64((own_ns + wait_ns(moment)) / 1e9).as_nanos();
                latency += u64::try_from(latency_ns).expect("some seconds");
            }
            latency
        };
        let eighths = Pieces::new((0..EIGHTHS).map(&mut interval).collect(), 0.125);
        stationarity(&eighths, DRIFT).expect("ten seconds")
    }

    const WINDOW_NS: f64 = 1e10;

    /// The wait for a target that stalls for a share of each period, both as fractions of the
    /// window.
    fn periodic(period: f64, share: f64, phase: f64) -> impl Fn(f64) -> f64 {
        move |moment| {
            let since = (moment / period + phase).fract();
            (share - since).max(0.0) * period * WINDOW_NS
        }
    }

    #[test]
    fn a_target_that_stalls_periodically_is_stationary() {
        let (mut runs, mut apart) = (0, 0);
        for period in [0.05, 0.07, 0.1, 0.14, 0.2, 0.25, 0.3, 0.34, 0.38, 0.42, 0.46, 0.5] {
            for share in [0.05, 0.1, 0.2, 0.5, 0.8] {
                for eighth in 0..8 {
                    let wait_ns = periodic(period, share, f64::from(eighth) / 8.0);
                    let found = ten_seconds(runs, wait_ns);
                    runs += 1;
                    apart += u64::from(found.distance_recurring.is_some());
                    assert!(found.stationary, "{period} {share} {eighth}: {found:?}");
                }
            }
        }
        // No false alarm in 480 windows: at 95 % confidence fewer than 0.7 %.
        assert_eq!(runs, 480);
        assert!(40 < apart, "of these, {apart} quarters are unlike each other");
    }

    #[test]
    fn random_stalls_are_rarely_mistaken_for_a_drift() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for (stalls, share) in [(5, 0.02), (10, 0.02), (20, 0.02), (5, 0.05), (10, 0.05)] {
            let alarms = (0..100).filter(|seed| {
                let begins: Vec<f64> = (0..stalls).map(|_| random.random::<f64>()).collect();
                let wait_ns = |moment: f64| {
                    let left = begins
                        .iter()
                        .map(|begin| if *begin <= moment { begin + share - moment } else { 0.0 });
                    left.fold(0.0, f64::max) * WINDOW_NS
                };
                !ten_seconds(*seed, wait_ns).stationary
            });
            let alarms = alarms.count();
            assert!(alarms <= 8, "{stalls} stalls of {share} of the window: {alarms} of 100");
        }
    }

    #[test]
    fn a_step_or_a_ramp_is_found_beside_regular_stalls_too() {
        let stalls = periodic(0.1, 0.1, 0.3);
        let step_at = |at: f64, moment: f64| if moment < at { 0.0 } else { 1e6 };
        for seed in 0..20 {
            for at in [0.25, 0.4, 0.5, 0.6, 0.75] {
                let step = |moment: f64| step_at(at, moment);
                let found = ten_seconds(seed, step);
                assert!(!found.stationary, "a step at {at}: {found:?}");
                let found = ten_seconds(seed, |moment| step(moment) + stalls(moment));
                assert!(!found.stationary, "a step at {at} beside stalls: {found:?}");
            }
            // Two requests in five become slower at half time.
            let some =
                |moment: f64| if (moment * 1e9) % 5.0 < 2.0 { step_at(0.5, moment) } else { 0.0 };
            assert!(!ten_seconds(seed, some).stationary, "a step of two in five");
            let ramp = |moment: f64| 2e6 * moment;
            assert!(!ten_seconds(seed, ramp).stationary, "a ramp");
            let found = ten_seconds(seed, |moment| ramp(moment) + stalls(moment));
            assert!(!found.stationary, "a ramp beside stalls: {found:?}");
        }
    }

    #[test]
    fn a_p99_that_comes_back_has_not_changed() {
        // Quarters of six seconds with and without a slow tail, alternating, and for good.
        let p99 = |slow: fn(u64) -> bool| {
            found(|second, k| if k < 6 && slow(second) { 20_000_000 } else { 1_000_000 + k })
        };
        let (by_turns, for_good) = (p99(|second| second / 6 % 2 == 1), p99(|second| 12 <= second));
        assert!(by_turns.stationary && 10.0 < by_turns.p99_ratio, "{by_turns:?}");
        assert!(!for_good.stationary && 10.0 < for_good.p99_ratio, "{for_good:?}");
    }

    #[test]
    fn the_plan_may_allow_for_more() {
        let drift = |second: u64, k: u64| 1_000_000 + 1_000 * k + 25_000 * second;
        assert!(found_with(drift, 1.0).stationary);
    }

    #[test]
    fn quarters_without_samples_are_not_judged() {
        assert_eq!(of_seconds(&seconds(|_, k| k)[..3 * 8], DRIFT), None);
        let empty = Distribution::new().histogram();
        assert_eq!(of_seconds(&vec![empty; 8 * 8], DRIFT), None);
    }
}
