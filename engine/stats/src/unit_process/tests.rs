//! The figures against values computed by hand or published, and by their properties.

use super::*;
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

fn near(value: Option<f64>, expected: f64, tolerance: f64) {
    let value = value.expect("a value");
    assert!((value - expected).abs() <= tolerance, "{value}, expected {expected} ± {tolerance}");
}

fn gaps(seed: u64, n: usize) -> Vec<f64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..n).map(|_| Exp1.sample(&mut random)).collect()
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// A process of rate 1 over a stretch from 50 on.
fn honest(seed: u64, length: f64) -> UnitProcess {
    let stretch = 50.0..50.0 + length;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut at = stretch.start;
    let mut next = || -> f64 {
        let gap: f64 = Exp1.sample(&mut random);
        at += gap;
        at
    };
    let times = std::iter::from_fn(|| Some(next()).filter(|at| *at < stretch.end));
    UnitProcess::new(&mut times.collect::<Vec<f64>>(), &stretch)
}

#[test]
fn distances_computed_by_hand() {
    // The steps of three values at 0.1, 0.2 and 0.9 against F(x) = x: after the second, 2/3 − 0.2.
    near(ks_distance(&[0.1, 0.2, 0.9], |x| x), 2.0 / 3.0 - 0.2, 1e-12);
    // The median of the exponential alone: half a step on either side.
    near(ks_distance(&[2.0_f64.ln()], exponential), 0.5, 1e-12);
    // A constant stream has all its gaps at the mean, where F = 1 − 1/e.
    near(ks_distance(&[1.0; 1_000], exponential), 1.0 - (-1.0_f64).exp(), 1e-12);
    assert_eq!(ks_distance(&[], exponential), None);
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
/// compared with how often exponential samples exceed them.
#[test]
fn anderson_darling_exceeds_its_published_points_as_often_as_published() {
    let trials = 6_000;
    let values: Vec<f64> = (0..trials)
        .map(|seed| anderson_darling_exponential(&sorted(gaps(seed, 40))).expect("values"))
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
fn correlation_computed_by_hand() {
    let neighbours =
        |values: &[f64]| correlation(values.iter().copied().zip(values.iter().copied().skip(1)));
    near(neighbours(&[1.0, 5.0, 1.0, 5.0, 1.0]), -1.0, 1e-12);
    near(neighbours(&[1.0, 2.0, 3.0, 4.0]), 1.0, 1e-12);
    // Pairs (0, 0), (0, 1), (1, 1), (1, 0): the mean product is the product of the means.
    near(neighbours(&[0.0, 0.0, 1.0, 1.0, 0.0]), 0.0, 1e-12);
    assert_eq!(neighbours(&[3.0, 3.0, 3.0]), None);
    assert_eq!(neighbours(&[]), None);
}

/// An honest process exceeds each figure's one-in-a-hundred point about one time in a hundred, in
/// short stretches too.
#[test]
fn an_honest_process_exceeds_each_1_percent_point_one_time_in_a_hundred() {
    let trials = 4_000;
    for length in [100.0, 1_000.0] {
        let mut exceeded = [0; 5];
        for seed in 0..trials {
            let found = honest(seed, length).figures();
            for (count, (found, at)) in exceeded.iter_mut().zip(found.iter().zip(AT_1_PERCENT)) {
                *count += u32::from(at < found.1);
            }
        }
        // 40 expected, with a deviation of 6.3; D of few values is smaller than its limit.
        let ok = exceeded.iter().all(|count| (10..=66).contains(count));
        assert!(ok, "of {trials} stretches of {length}: {exceeded:?}");
    }
}

/// The points that a Poisson process exceeds one time in a hundred, by figure; A² by Stephens
/// (1974).
pub(super) const AT_1_PERCENT: [f64; 5] = [2.576, 1.628, 1.957, 1.628, 2.576];

#[test]
fn no_honest_process_is_impossible() {
    let impossible = UnitProcess::IMPOSSIBLE.figures();
    let mut worst = honest(0, 100.0);
    for seed in 1..20_000 {
        worst = worst.or_worse(&honest(seed, 100.0));
    }
    // The worst of 20,000 is as far from the bound as from the middle.
    for ((name, found), (_, bound)) in worst.figures().into_iter().zip(impossible) {
        assert!(found < 0.8 * bound, "{name}: {found} of {bound}");
    }
}

#[test]
fn a_process_without_gaps_is_refused() {
    let found = UnitProcess::new(&mut [], &(0.0..400.0));
    assert_eq!(found.number, 20.0);
    let [_, rest @ ..] = found.figures();
    assert!(rest.iter().all(|(_, figure)| figure.is_infinite()), "{found:?}");
    let at_once = UnitProcess::new(&mut [7.0; 400], &(0.0..400.0));
    let [(_, number), rest @ ..] = at_once.figures();
    let [_, beyond @ ..] = UnitProcess::IMPOSSIBLE.figures();
    assert_eq!(number, 0.0);
    assert!(rest.iter().zip(beyond).all(|(found, bound)| bound.1 < found.1), "{at_once:?}");
}

proptest! {
    #[test]
    fn distances_are_between_half_a_step_and_one(values in proptest::collection::vec(0.0_f64..5.0, 1..60)) {
        let values = sorted(values);
        let distance = ks_distance(&values, exponential).expect("values");
        prop_assert!(0.5 / values.len() as f64 <= distance + 1e-12 && distance <= 1.0);
    }

    #[test]
    fn the_shape_does_not_depend_on_the_unit(values in proptest::collection::vec(0.01_f64..5.0, 1..60), unit in 0.1_f64..1e6) {
        let values = sorted(values);
        let scaled: Vec<f64> = values.iter().map(|x| x * unit).collect();
        let (one, other) = (anderson_darling_exponential(&values), anderson_darling_exponential(&scaled));
        prop_assert!((one.expect("values") - other.expect("values")).abs() < 1e-6);
    }

    #[test]
    fn figures_do_not_depend_on_the_order(times in proptest::collection::vec(0.0_f64..100.0, 3..60)) {
        let mut reversed: Vec<f64> = times.iter().rev().copied().collect();
        let one = UnitProcess::new(&mut times.clone(), &(0.0..100.0));
        prop_assert_eq!(one, UnitProcess::new(&mut reversed, &(0.0..100.0)));
    }
}
