//! The statistics against values computed by hand or published, and by their properties.

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::goodness_of_fit::{anderson_darling_exponential, ks_exponential, ks_uniform};
use crate::offer::mean_rate_per_ns;

fn near(value: Option<f64>, expected: f64, tolerance: f64) {
    let value = value.expect("a value");
    assert!((value - expected).abs() <= tolerance, "{value}, expected {expected} ± {tolerance}");
}

fn exponential(seed: u64, n: usize) -> Vec<f64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..n).map(|_| Exp1.sample(&mut random)).collect()
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn histogram(values: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds");
    values.iter().for_each(|value| histogram.record(*value).expect("within the bounds"));
    histogram
}

#[test]
fn distances_computed_by_hand() {
    // The steps of three values at 0.1, 0.2 and 0.9 against F(x) = x: after the second, 2/3 − 0.2.
    near(ks_uniform(&[0.1, 0.2, 0.9], 0.0, 1.0), 2.0 / 3.0 - 0.2, 1e-12);
    near(ks_uniform(&[3.0], 2.0, 4.0), 0.5, 1e-12);
    // The median of the exponential alone: half a step on either side.
    near(ks_exponential(&[2.0_f64.ln() / 5.0], 5.0), 0.5, 1e-12);
    // A constant stream has all its gaps at the mean, where F = 1 − 1/e.
    near(ks_exponential(&[0.25; 1_000], 4.0), 1.0 - (-1.0_f64).exp(), 1e-12);
    assert_eq!(ks_uniform(&[], 0.0, 1.0), None);
}

/// Kolmogorov's limit, as tabulated by Smirnov (1948): L(0.5), L(1), L(1.36), L(1.63). With n =
/// 10¹⁴ the correction is below 10⁻⁷.
#[test]
fn the_limit_is_smirnovs_table() {
    for (lambda, below) in
        [(0.5, 0.036_055), (1.0, 0.730_000), (1.36, 0.950_512), (1.63, 0.990_154)]
    {
        near(Some(1.0 - kolmogorov_p(lambda / 1e7, 100_000_000_000_000)), below, 3e-6);
    }
    near(Some(kolmogorov_p(KOLMOGOROV_1_PERCENT / 1e7, 100_000_000_000_000)), 0.01, 3e-5);
}

/// Critical values of D for finite n (Miller 1956, table 1).
#[test]
fn the_correction_meets_the_exact_critical_values() {
    for (n, at_5, at_1) in [
        (10, 0.40925, 0.48893),
        (20, 0.29408, 0.35241),
        (50, 0.18841, 0.22604),
        (100, 0.13403, 0.16081),
    ] {
        near(Some(kolmogorov_p(at_5, n)), 0.05, 0.001);
        near(Some(kolmogorov_p(at_1, n)), 0.01, 0.001);
    }
}

#[test]
fn both_forms_of_the_limit_meet() {
    let n = 1_000_000;
    let (below, above) = (kolmogorov_p(1.179_8e-3, n), kolmogorov_p(1.179_9e-3, n));
    assert!(above < below && below - above < 1e-4, "{below} {above}");
    assert_eq!((kolmogorov_p(0.0, n), kolmogorov_p(1.0, n)), (1.0, 0.0));
}

#[test]
fn anderson_darling_computed_by_hand() {
    // One value equals its mean: A² = −1 − ln(1 − 1/e) + 1.
    near(anderson_darling_exponential(&[7.0]), -(1.0 - (-1.0_f64).exp()).ln() * 1.6, 1e-12);
    // With F = 1 − e^(−x/2) of 1, 2, 3 the sum over i = 1, 2, 3 is
    // (ln F₁ − 1.5) + 3·(ln F₂ − 1) + 5·(ln F₃ − 0.5).
    let log = |x: f64| (1.0 - (-x / 2.0).exp()).ln();
    let sum = (log(1.0) - 1.5) + 3.0 * (log(2.0) - 1.0) + 5.0 * (log(3.0) - 0.5);
    near(anderson_darling_exponential(&[1.0, 2.0, 3.0]), (-3.0 - sum / 3.0) * 1.2, 1e-12);
    assert_eq!(anderson_darling_exponential(&[]), None);
}

/// Points of the modified A² at 15, 10, 5, 2.5 and 1 % (D'Agostino and Stephens 1986, table 4.14),
/// against how often exponential samples exceed them.
#[test]
fn anderson_darling_exceeds_its_published_points_as_often_as_published() {
    let trials = 6_000;
    let values: Vec<f64> = (0..trials)
        .map(|seed| anderson_darling_exponential(&sorted(exponential(seed, 40))).expect("values"))
        .collect();
    for (point, share) in
        [(0.922, 0.15), (1.078, 0.1), (1.341, 0.05), (1.606, 0.025), (1.957, 0.01)]
    {
        let exceeded = values.iter().filter(|value| point < **value).count() as f64 / trials as f64;
        let deviation = (share * (1.0 - share) / trials as f64).sqrt();
        assert!((exceeded - share).abs() < 3.5 * deviation, "{point}: {exceeded}, not {share}");
    }
}

#[test]
fn dispersion_computed_by_hand() {
    let counted = index_of_dispersion([1, 3]).expect("two windows");
    assert_eq!(counted, Dispersion { windows: 2, index: 1.0 });
    assert_eq!(index_of_dispersion([4; 9]).expect("nine windows").index, 0.0);
    near(index_of_dispersion([0, 0, 6]).map(|d| d.index), 6.0, 1e-12);
    assert_eq!(index_of_dispersion([5]), None);
    assert_eq!(index_of_dispersion([0, 0]), None);
}

/// Points as tables print them: of the normal distribution, of Student's t at 2.5 %, of χ².
#[test]
fn points_are_those_of_the_tables() {
    for (p, expected) in [(0.5, 0.0), (0.05, 1.644_854), (0.005, 2.575_829), (0.000_05, 3.890_592)]
    {
        near(Some(normal_point(p)), expected, 1e-6);
    }
    for (degrees, expected) in [(4, 2.776), (9, 2.262), (29, 2.045), (120, 1.980)] {
        near(Some(student_t_point(degrees, 0.025)), expected, 5e-4);
    }
    for (degrees, p, expected) in
        [(4, 0.99, 13.277), (29, 0.99, 49.588), (29, 0.01, 14.256), (100, 0.999, 149.449)]
    {
        near(Some(chi_squared_point(degrees, p)), expected, 5e-4);
    }
}

#[test]
fn autocorrelation_computed_by_hand() {
    let correlation = |values: &[u64]| {
        let mut sums = PairSums::default();
        values.windows(2).for_each(|pair| sums.add(pair[0], pair[1]));
        sums.correlation()
    };
    near(correlation(&[1, 5, 1, 5, 1]), -1.0, 1e-12);
    near(correlation(&[1, 2, 3, 4]), 1.0, 1e-12);
    // Pairs (0, 0), (0, 1), (1, 1), (1, 0): the mean product is the product of the means.
    near(correlation(&[0, 0, 1, 1, 0]), 0.0, 1e-12);
    assert_eq!(correlation(&[3, 3, 3]), None);
    assert_eq!(correlation(&[3]), None);
}

#[test]
fn histograms_at_a_known_distance() {
    let one = histogram(&[10, 20, 30, 40]);
    assert_eq!(ks_between(&one, &one), Some(0.0));
    assert_eq!(ks_between(&one, &histogram(&[100, 200])), Some(1.0));
    assert_eq!(ks_between(&one, &histogram(&[20, 20, 30, 40])), Some(0.25));
    assert_eq!(ks_between(&histogram(&[0, 0, 0, 50]), &histogram(&[50])), Some(0.75));
    assert_eq!(ks_between(&one, &histogram(&[])), None);
}

/// Poisson schedules of 10 s, each dealt to 63 shards at 60 a second: a shard has few gaps, and the
/// window cuts the long ones off.
#[test]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "gaps of about 10⁹ ns")]
fn a_window_that_cuts_gaps_off_makes_no_schedule_improbable() {
    let (window, rate) = (10e9_f64, 60.0 / 63.0 / 1e9);
    let (mut wrong, mut pairs) = (0, PairSums::default());
    for seed in 0..1_000 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut next = || -> f64 { Exp1.sample(&mut random) };
        let mut gaps = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("bounds");
        for _ in 0..63 {
            let (mut at, mut last) = (next() / rate, None);
            loop {
                let gap = next() / rate;
                at += gap;
                if window <= at {
                    break;
                }
                gaps.record(gap as u64).expect("within the bounds");
                if let Some(last) = last.replace(gap as u64) {
                    pairs.add(last, gap as u64);
                }
            }
        }
        let distance = ks_histogram_gaps(&gaps, &one(rate), window).expect("gaps");
        wrong += u32::from(kolmogorov_p(distance, gaps.len()) < 1e-4);
    }
    assert!(wrong <= 1, "{wrong} of 1,000 honest schedules");
    near(pairs.correlation(), gaps_correlation(rate * window), 0.005);
}

fn one(per_ns: f64) -> [Streams; 1] {
    [Streams { per_ns, shards: 1 }]
}

/// Shards of two rates, three of 500 a second and one of 4,000, for 2 s.
#[test]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "gaps of about 10⁶ ns")]
fn gaps_of_shards_with_different_rates_are_those_of_their_mixture() {
    let window = 2e9;
    let streams = [Streams { per_ns: 5e-7, shards: 3 }, Streams { per_ns: 4e-6, shards: 1 }];
    let mean = mean_rate_per_ns(&streams);
    let mut wrong = 0;
    for seed in 0..500 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut gaps = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("bounds");
        for stream in streams {
            for _ in 0..stream.shards {
                let mut next = || -> f64 { Exp1.sample(&mut random) };
                let mut at = next() / stream.per_ns;
                loop {
                    let gap = next() / stream.per_ns;
                    at += gap;
                    if window <= at {
                        break;
                    }
                    gaps.record(gap as u64).expect("within the bounds");
                }
            }
        }
        let p = |streams: &[Streams]| {
            kolmogorov_p(ks_histogram_gaps(&gaps, streams, window).expect("gaps"), gaps.len())
        };
        wrong += u32::from(p(&streams) < 1e-3);
        assert!(p(&one(mean)) < 1e-6, "one rate for all is noticed");
    }
    assert!(wrong <= 3, "{wrong} of 500 honest schedules, at one in 1,000");
}

#[test]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "gaps of about 10⁵ ns")]
fn a_histogram_loses_little_of_the_distance() {
    let rate = 1e-5;
    let gaps: Vec<u64> = exponential(3, 50_000).iter().map(|x| (x / rate) as u64).collect();
    let exact = ks_exponential(&sorted(gaps.iter().map(|gap| *gap as f64 + 0.5).collect()), rate);
    near(
        ks_histogram_gaps(&histogram(&gaps), &one(rate), f64::INFINITY),
        exact.expect("gaps"),
        4e-4,
    );
    near(
        ks_histogram_gaps(&histogram(&[100_000; 50]), &one(rate), f64::INFINITY),
        1.0 - (-1.0_f64).exp(),
        4e-4,
    );
    assert_eq!(ks_histogram_gaps(&histogram(&[]), &one(rate), f64::INFINITY), None);
}

proptest! {
    #[test]
    fn distances_are_between_half_a_step_and_one(values in proptest::collection::vec(0.0_f64..5.0, 1..60)) {
        let values = sorted(values);
        let distance = ks_exponential(&values, 1.0).expect("values");
        prop_assert!(0.5 / values.len() as f64 <= distance + 1e-12 && distance <= 1.0);
    }

    #[test]
    fn probabilities_fall_with_the_distance(distance in 0.0_f64..0.5, more in 0.0_f64..0.5, n in 5_u64..10_000) {
        let (near, far) = (kolmogorov_p(distance, n), kolmogorov_p(distance + more, n));
        prop_assert!(far <= near + 1e-12 && (0.0..=1.0).contains(&far));
    }

    #[test]
    fn the_unit_does_not_matter(values in proptest::collection::vec(0.01_f64..5.0, 1..60), unit in 0.1_f64..1e6) {
        let values = sorted(values);
        let scaled: Vec<f64> = values.iter().map(|x| x * unit).collect();
        let (one, other) = (anderson_darling_exponential(&values), anderson_darling_exponential(&scaled));
        prop_assert!((one.expect("values") - other.expect("values")).abs() < 1e-6);
        let (one, other) = (ks_exponential(&values, 1.0), ks_exponential(&scaled, 1.0 / unit));
        prop_assert!((one.expect("values") - other.expect("values")).abs() < 1e-9);
    }

    #[test]
    fn correlation_is_that_of_the_definition(values in proptest::collection::vec(0_u64..1_000, 3..60)) {
        let mut sums = PairSums::default();
        values.windows(2).for_each(|pair| sums.add(pair[0], pair[1]));
        let n = (values.len() - 1) as f64;
        let (firsts, seconds) = (&values[..values.len() - 1], &values[1..]);
        let mean = |values: &[u64]| values.iter().sum::<u64>() as f64 / n;
        let (x, y) = (mean(firsts), mean(seconds));
        let square = |values: &[u64], mean: f64| values.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>();
        let both: f64 = firsts.iter().zip(seconds).map(|(a, b)| (*a as f64 - x) * (*b as f64 - y)).sum();
        let (x_squares, y_squares) = (square(firsts, x), square(seconds, y));
        if let Some(correlation) = sums.correlation() {
            // The subtraction in whole numbers is off by less than one in each sum.
            let slack = 3.0 / x_squares.min(y_squares);
            prop_assert!((correlation - both / (x_squares * y_squares).sqrt()).abs() < 1e-9 + slack);
        }
    }

    #[test]
    fn merged_sums_are_the_sums_of_all(one in proptest::collection::vec((0_u64..u64::MAX / 1_000_000, 0_u64..1_000), 0..30), cut in 0_usize..30) {
        let fill = |pairs: &[(u64, u64)]| {
            let mut sums = PairSums::default();
            pairs.iter().for_each(|(a, b)| sums.add(*a, *b));
            sums
        };
        let cut = cut.min(one.len());
        let mut merged = fill(&one[cut..]);
        merged.merge(&fill(&one[..cut]));
        prop_assert_eq!(merged, fill(&one));
    }

    #[test]
    fn the_distance_of_histograms_is_that_of_their_values(
        one in proptest::collection::vec(0_u64..2_000, 1..50), other in proptest::collection::vec(0_u64..2_000, 1..50),
    ) {
        // Below 2,048 each value has its own bucket, so nothing hides within one.
        let below = |values: &[u64], at: u64| values.iter().filter(|value| **value <= at).count() as f64 / values.len() as f64;
        let expected = (0..2_000).map(|at| (below(&one, at) - below(&other, at)).abs()).fold(0.0, f64::max);
        let distance = ks_between(&histogram(&one), &histogram(&other)).expect("values");
        prop_assert!((distance - expected).abs() < 1e-12);
    }
}
