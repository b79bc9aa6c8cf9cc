//! 95 % confidence intervals of means and shares, by pieces of the run, since values depend on each
//! other.
//!
//! Both are ratios of a sum to a number of values. With S_b the sum over the n_b values of piece b,
//! and r the ratio, the piece's excess is S_b − r·n_b; [`super::pieces`] gives the uncertainty of
//! its sum over the run. No interval is narrower than for independent values. That of a share is
//! Clopper and Pearson's (*Biometrika* 26, 1934), which holds for any number of errors, even one.
//! Wilson's (*JASA* 22, 1927) lies above the truth too often there: it called one error in 170 a
//! miss of 0.1 %, which happens to one such run in six. The interval is taken for as many
//! independent values as would leave the sum as uncertain, by Student's t (Korn and Graubard,
//! *Survey Methodology* 24, 1998).

use hdrhistogram::Histogram;

use super::interval::{Missing, NORMAL_5_PERCENT, ends};
use super::pieces::{Pieces, TAIL};
use super::statistics::{beta_point, chi_squared_point, normal_point};
use crate::distribution::Distribution;

/// The fewest values whose mean is treated as normally distributed.
pub(crate) const MEAN_VALUES_MIN: u64 = 30;
/// The number of values from which the largest is informative about the tail: of this many
/// exponential values it makes up as large a part in one of forty runs.
const TAIL_VALUES_MIN: u64 = 500;
/// The part of the sum of squares that the largest of many values exceeds only if the variance may
/// be infinite: for n values it tends to 0 exactly if the variance is finite (Embrechts,
/// Klüppelberg and Mikosch, *Modelling Extremal Events*, section 6.2.6).
const LARGEST_PART_MAX: f64 = 0.1;
/// The bound's multiple of the slowest sample from which it is far from all of them.
const FAR: u64 = 10;

/// The interval of a distribution's mean, µs; the pieces hold its values in the order of the run.
///
/// # Errors
/// What the interval lacks; `None` if values are beyond the histogram's range. Their spread isn't
/// known, which no further samples and no longer window would change.
pub fn mean_interval(
    distribution: &Distribution,
    mean_us: f64,
    pieces: &Pieces<Histogram<u64>>,
) -> Result<[f64; 2], Option<Missing>> {
    if 0 < distribution.overflow() {
        return Err(None);
    }
    let count = distribution.count();
    if count < MEAN_VALUES_MIN {
        return Err(Some(Missing::Samples(MEAN_VALUES_MIN)));
    }
    let n = count as f64;
    let (sum, squares) = moments(&distribution.histogram());
    let variance = (squares - sum * sum / n) / (n - 1.0);
    let independent = NORMAL_5_PERCENT * (variance.max(0.0) * n).sqrt();
    let sums = pieces.map(|piece| (moments(piece).0, piece.len() as f64));
    let spread = beyond_share(&sums).spread().map_err(|short| Some(short.into()))?;
    let half_us = spread.half(TAIL).max(independent) / n / 1e3;
    Ok([(mean_us - half_us).max(0.0), mean_us + half_us])
}

/// True if one value makes up so much of the spread that the variance may be infinite: the interval
/// of the mean then lies below the truth too often, however many values there are, and its upper
/// end is unknown.
pub fn mean_may_lie_above(distribution: &Distribution) -> bool {
    // Values beyond the range count at its end: left out, many of them would look like few.
    let (_, squares) = moments(&distribution.clamped());
    let largest = distribution.max_ns().unwrap_or(0) as f64;
    TAIL_VALUES_MIN <= distribution.count() && LARGEST_PART_MAX * squares < largest * largest
}

/// The interval of `part` of `whole`; the pieces of the run hold their parts and wholes.
///
/// # Errors
/// What it lacks.
pub fn share_interval(
    part: u64,
    whole: u64,
    pieces: &Pieces<(u64, u64)>,
) -> Result<[f64; 2], Missing> {
    share_interval_with(part, whole, Some(pieces), TAIL, NORMAL_5_PERCENT)
}

/// The interval of the share of samples beyond a bound, ns, by which quantile `p` is judged: there
/// are `beyond` of them, and the pieces hold theirs and all. Few of them show little: in a short
/// window of a busy queue they are all in one long busy period, or there is none. So the upper end
/// is 1 unless that of the quantile is known, or all samples are far below the bound.
///
/// # Errors
/// What it lacks.
pub fn beyond_interval(
    (beyond, pieces): (u64, &Pieces<(u64, u64)>),
    (pooled, latencies): (&Distribution, &Pieces<Histogram<u64>>),
    (p, bound_ns): (f64, u64),
) -> Result<[f64; 2], Missing> {
    let [low, high] = share_interval(beyond, pooled.count(), pieces)?;
    let is_far = pooled.max_ns().is_some_and(|max_ns| max_ns.saturating_mul(FAR) <= bound_ns);
    let is_known = is_far || ends(pooled, latencies, p).high_ns.is_some();
    Ok([low, if is_known { high } else { 1.0 }])
}

/// The same as `share_interval`, each end wrong with probability `tail`; without pieces, for
/// independent events.
///
/// # Errors
/// What it lacks.
pub(super) fn share_interval_at(
    part: u64,
    whole: u64,
    pieces: Option<&Pieces<(u64, u64)>>,
    tail: f64,
) -> Result<[f64; 2], Missing> {
    share_interval_with(part, whole, pieces, tail, normal_point(tail))
}

/// The same; `normal` is the normal distribution's point for the tail.
fn share_interval_with(
    part: u64,
    whole: u64,
    pieces: Option<&Pieces<(u64, u64)>>,
    tail: f64,
    normal: f64,
) -> Result<[f64; 2], Missing> {
    if whole == 0 {
        return Err(Missing::Samples(1));
    }
    let spread = pieces.map(|pieces| {
        beyond_share(&pieces.map(|(part, whole)| (*part as f64, *whole as f64))).spread()
    });
    let half = spread.transpose()?.map_or(0.0, |spread| spread.half(tail));
    let (n, share) = (whole as f64, part as f64 / whole as f64);
    // The factor by which the interval is wider than for independent values. It grows towards the
    // tail, where Student's t departs from the normal distribution.
    let independent = normal * (n * share * (1.0 - share)).sqrt();
    let wider = if 0.0 < independent { (half / independent).max(1.0) } else { 1.0 };
    let values = n / wider.powi(2);
    let (inside, outside) = (share * values, (1.0 - share) * values);
    let low = if part == 0 { 0.0 } else { beta_point(inside, outside + 1.0, tail) };
    let high = if part == whole { 1.0 } else { beta_point(inside + 1.0, outside, 1.0 - tail) };
    Ok([low, high])
}

/// The excess of each piece's sum over its share of the whole, by its number of values.
fn beyond_share(pieces: &Pieces<(f64, f64)>) -> Pieces<f64> {
    let sum: f64 = pieces.iter().map(|piece| piece.0).sum();
    let count: f64 = pieces.iter().map(|piece| piece.1).sum();
    let ratio = if count == 0.0 { 0.0 } else { sum / count };
    pieces.map(|(part, values)| part - ratio * values)
}

/// The interval that contains the mean of `count` for independent events, except with probability
/// `error` (Garwood, *Biometrika* 28, 1936).
pub fn count_interval(count: u64, error: f64) -> [f64; 2] {
    let low = if count == 0 { 0.0 } else { chi_squared_point(2 * count, error / 2.0) / 2.0 };
    [low, chi_squared_point(2 * count + 2, 1.0 - error / 2.0) / 2.0]
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
    use crate::distribution::{INTERVAL_DIGITS, VALUE_MAX_NS, empty_histogram};

    /// A distribution, and its values by pieces of ten.
    fn in_tens(values_us: &[u64]) -> (Distribution, f64, Pieces<Histogram<u64>>) {
        let mut whole = Distribution::new();
        let pieces = values_us.chunks(10).map(|chunk| {
            let mut piece = empty_histogram(INTERVAL_DIGITS);
            chunk.iter().for_each(|us| {
                whole.record(us * 1_000);
                piece.record(VALUE_MAX_NS.min(us * 1_000)).expect("in range");
            });
            piece
        });
        let pieces = Pieces::new(pieces.collect(), 0.125);
        let mean_us = whole.mean_ns().expect("values") / 1e3;
        (whole, mean_us, pieces)
    }

    fn mean_interval_of(values_us: &[u64]) -> Result<[f64; 2], Option<Missing>> {
        let (whole, mean_us, pieces) = in_tens(values_us);
        mean_interval(&whole, mean_us, &pieces)
    }

    #[test]
    fn the_mean_of_independent_values_has_the_textbook_interval() {
        // Each piece has the same values, so only their own spread counts: 400 values of variance
        // 25·400/399.
        let values: Vec<u64> = (0..400).map(|at| if at % 2 == 0 { 95 } else { 105 }).collect();
        let [low, high] = mean_interval_of(&values).expect("enough values");
        let half = 1.96 * (25.0 * 400.0 / 399.0_f64).sqrt() / 20.0;
        assert!((low - (100.0 - half)).abs() < 0.1 && (high - (100.0 + half)).abs() < 0.1);
    }

    #[test]
    fn pieces_that_differ_widen_the_interval_of_the_mean() {
        // The same values, but each piece is all slow or all fast: ten values are worth one.
        let values: Vec<u64> = (0..400).map(|at| if at / 10 % 2 == 0 { 95 } else { 105 }).collect();
        let [low, high] = mean_interval_of(&values).expect("enough values");
        let half = 2.023 * (25.0 * 40.0 / 39.0_f64).sqrt() / 40.0_f64.sqrt();
        assert!(((high - low) / 2.0 - half).abs() < 0.1, "{low} to {high}, not ± {half}");
        assert_eq!(mean_interval_of(&values[..29]), Err(Some(Missing::Samples(30))));
    }

    #[test]
    fn a_mean_with_values_beyond_the_range_has_no_interval_and_no_cure() {
        let fast = vec![100; 400];
        assert!(mean_interval_of(&fast).is_ok());
        for (slow, is_decided_by_few) in [(1, true), (200, false)] {
            let mut values = fast.clone();
            values[..slow].fill(VALUE_MAX_NS / 1_000 + 1);
            // Above the number from which the largest is informative.
            values.extend(&fast);
            assert_eq!(mean_interval_of(&values), Err(None), "{slow} of {}", values.len());
            assert_eq!(mean_may_lie_above(&in_tens(&values).0), is_decided_by_few, "{slow}");
        }
        assert_eq!(mean_interval_of(&[VALUE_MAX_NS; 9]), Err(None), "nor do more help");
        // A window that is too short does have a cure.
        assert_eq!(mean_interval_of(&fast[..300]), Err(Some(Missing::Seconds(5.0))));
    }

    #[test]
    fn a_share_has_clopper_and_pearsons_interval() {
        // Both ends from sums of the binomial distribution.
        for (part, whole, low, high) in [
            (0, 1_000, 0.0, 0.003_682_083_9),
            (1, 170, 0.000_148_917_2, 0.032_337_066_1),
            (10, 1_000, 0.004_805_510_7, 0.018_313_243_1),
            (50, 100, 0.398_321_129_5, 0.601_678_870_5),
            (1_000, 1_000_000, 0.000_939_001_21, 0.001_063_918_11),
            (5, 10_000_000, 1.623_486_6e-7, 1.166_832_82e-6),
        ] {
            let [found_low, found_high] = share_interval_at(part, whole, None, TAIL).expect("some");
            let close = |found: f64, known: f64| (found - known).abs() <= 1e-6 * known;
            assert!(close(found_low, low), "{part} of {whole}: from {found_low}, not {low}");
            assert!(close(found_high, high), "{part} of {whole}: to {found_high}, not {high}");
        }
        assert_eq!(share_interval_at(0, 0, None, TAIL), Err(Missing::Samples(1)));
        assert_eq!(share_interval_at(3, 3, None, TAIL).map(|interval| interval[1]), Ok(1.0));
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
    fn with_few_errors_each_end_is_wrong_at_most_one_time_in_forty() {
        // Of n requests, each failing with probability p, x fail. The probability of those x whose
        // interval lies above p is at most 2.5 %, and so is that of those whose interval lies
        // below.
        for n in [20_u64, 170, 1_000, 30_000] {
            for expected in [0.05, 0.17, 0.5, 1.0, 2.0, 3.5, 5.0] {
                let p = expected / n as f64;
                let (mut above, mut below) = (0.0, 0.0);
                let mut probability = (n as f64 * (-p).ln_1p()).exp();
                for x in 0..=n.min(40) {
                    let [low, high] = share_interval_at(x, n, None, TAIL).expect("some");
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

    /// The share of 400 runs of 60 s at 100 requests per second whose interval contains the true
    /// error share, one in ten. `lasting` is the probability that a second continues like the last.
    fn coverage(lasting: f64, in_seconds: bool) -> f64 {
        const RUNS: u64 = 400;
        let share = 0.1;
        let mut seed = 0;
        let mut random = || {
            seed += 1;
            load::schedule::mix(seed) as f64 / u64::MAX as f64
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
            // A missing interval isn't wrong.
            let found = share_interval(part, 6_000, &Pieces::new(pieces, 1.0));
            holds += u64::from(found.is_ok_and(|[low, high]| (low..=high).contains(&share)));
        }
        holds as f64 / RUNS as f64
    }

    #[test]
    fn nineteen_intervals_in_twenty_contain_the_truth() {
        // 400 runs measure a coverage of 95 % to 2.1 points (95 %); 4 points are beyond all doubt.
        let independent = coverage(0.0, false);
        assert!((0.91..=0.99).contains(&independent), "{independent}");
        // Whole seconds that fail: 6,000 requests are worth 60, for which a skewed distribution's
        // ends are only roughly normal.
        let bursts = coverage(0.0, true);
        assert!((0.91..=0.99).contains(&bursts), "{bursts}");
    }

    #[test]
    fn five_runs_contain_the_truth_as_often_as_stated_at_a_small_tail() {
        // Five runs of 1,000 requests, half of which fail on average: in each run together, by the
        // mean of twelve numbers from 0 to 1. Only Student's t is left.
        const TAIL: f64 = 0.01 / 16.0;
        let mut seed = 0x7a11;
        let mut random = || {
            seed += 1;
            load::schedule::mix(seed) as f64 / u64::MAX as f64
        };
        let misses = (0..2_000)
            .filter(|_| {
                let (mut runs, mut part) = (Pieces::none(), 0);
                for _ in 0..5 {
                    let shared: f64 = std::iter::repeat_with(&mut random).take(12).sum();
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "up to 1,000"
                    )]
                    let failed = (1_000.0 * shared / 12.0).round() as u64;
                    runs.add(Pieces::new(vec![(failed, 1_000)], 1.0));
                    part += failed;
                }
                let found = share_interval_at(part, 5_000, Some(&runs), TAIL).expect("five runs");
                !(found[0]..=found[1]).contains(&0.5)
            })
            .count();
        // 2.5 are expected; more than 8 would be beyond chance (one time in 900). The width of 95
        // %, stretched like the normal distribution, misses the truth 20 times.
        assert!(misses <= 8, "{misses} of 2,000");
    }

    #[test]
    fn errors_that_come_together_widen_the_interval_of_their_share() {
        let mut together = vec![(0, 100); 40];
        together[4] = (100, 100);
        let width = |pieces: Vec<(u64, u64)>| {
            let pieces = Pieces::new(pieces, 0.125);
            let [low, high] = share_interval(100, 4_000, &pieces).expect("long enough");
            high - low
        };
        assert!(5.0 * width([(2, 100), (3, 100)].repeat(20)) < width(together));
    }

    #[test]
    fn a_short_run_has_no_interval_and_states_the_length_it_needs() {
        let short = Pieces::new(vec![(0, 100); 24], 0.125);
        assert_eq!(share_interval(0, 2_400, &short), Err(Missing::Seconds(5.0)));
    }

    #[test]
    fn a_tail_of_infinite_variance_is_detected_and_an_exponential_one_is_not() {
        let mut seed = 0x7a11;
        let mut random = || {
            seed += 1;
            load::schedule::mix(seed) as f64 / u64::MAX as f64
        };
        let mut found = |value_us: fn(f64) -> f64| {
            let runs = (0..200).filter(|_| {
                let mut distribution = Distribution::new();
                for _ in 0..10_000 {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "saturates"
                    )]
                    distribution.record((value_us(1.0 - random()) * 1e3) as u64);
                }
                mean_may_lie_above(&distribution)
            });
            runs.count()
        };
        let pareto = found(|u| 100.0 * u.powf(-1.0 / 1.5));
        let exponential = found(|u| -100.0 * u.ln());
        println!("of 200: {pareto} of a Pareto tail of 1.5, {exponential} of an exponential");
        assert!(180 <= pareto && exponential == 0, "{pareto}, {exponential}");
    }
}
