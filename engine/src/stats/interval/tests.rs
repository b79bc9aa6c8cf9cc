//! The intervals: sample sizes, ranks, and how often they cover the truth, with independent and
//! with dependent samples.

use super::*;
use crate::stats::distribution::{INTERVAL_DIGITS, interval_histogram};
use crate::sys::units::SECOND_NS;
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Exp, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

#[test]
fn sample_sizes_are_those_of_the_definition() {
    for (p, expected) in
        [(0.99, 563), (0.999, 5_662), (0.9999, 56_647), (0.9, 53), (0.5, 8), (0.1, 53), (0.01, 563)]
    {
        assert_eq!(needed(p), expected, "{p}");
        let ranks_exist = |n: u64| {
            let (np, half) = (n as f64 * p, 1.96 * (n as f64 * p * (1.0 - p)).sqrt());
            1.0 <= (np - half).floor() && (np + 1.0 + half).ceil() <= n as f64
        };
        assert!(ranks_exist(expected) && !ranks_exist(expected - 1), "{p}");
    }
}

#[test]
fn ranks_of_a_thousand_known_values() {
    let mut pooled = Distribution::new();
    (1..=1_000).for_each(|value| pooled.record(value));
    // 500 ± 1.96·√250 is 469.01 and 530.99, the upper one rank higher and both rounded outwards.
    let method = Method::OrderStatistics;
    assert_eq!(interval(&pooled, &[], 0.5), Ok(Interval { low_ns: 469, high_ns: 532, method }));
    // 990 ± 1.96·√9.9 is 983.83 and 996.17.
    assert_eq!(interval(&pooled, &[], 0.99), Ok(Interval { low_ns: 983, high_ns: 998, method }));
    let refused = interval(&pooled, &[], 0.999);
    assert_eq!(refused, Err(TooFewSamples { count: 1_000, needed: 5_662 }));
    assert_eq!(refused.expect_err("too few").to_string(), "n = 1000, need 5662");
    assert!(interval(&Distribution::new(), &[], 0.5).is_err());
}

#[test]
fn ranks_beyond_the_range_are_bounded_by_its_end_and_the_maximum() {
    let mut pooled = Distribution::new();
    pooled.record_n(1_000, 980);
    pooled.record_n(VALUE_MAX_NS * 3, 20);
    let found = interval(&pooled, &[], 0.99).expect("enough samples");
    assert_eq!((found.low_ns, found.high_ns), (VALUE_MAX_NS, VALUE_MAX_NS * 3));
}

/// One simulated run: the samples of its seconds as a series keeps them, and all of them pooled.
struct Simulated {
    pooled: Distribution,
    seconds: Vec<Histogram<u64>>,
}

impl Simulated {
    fn new(seconds: usize) -> Simulated {
        Simulated {
            pooled: Distribution::new(),
            seconds: vec![interval_histogram(INTERVAL_DIGITS); seconds],
        }
    }

    fn record(&mut self, second: usize, value_ns: u64) {
        self.pooled.record(value_ns);
        self.seconds[second].record(value_ns).expect("within the bounds");
    }

    fn by_batches(&self, p: f64) -> Result<Interval, TooFewSamples> {
        interval(&self.pooled, &self.seconds, p)
    }

    fn covers(&self, batches: bool, p: f64, truth_ns: f64) -> bool {
        let batches = if batches { self.seconds.clone() } else { Vec::new() };
        let found = interval(&self.pooled, &batches, p).expect("enough samples");
        found.low_ns as f64 <= truth_ns && truth_ns <= found.high_ns as f64
    }
}

const SECONDS: usize = 60;
const PER_SECOND: u64 = 500;
const STALL_NS: f64 = 100e6;
const BETWEEN_STALLS_NS: f64 = 1.9e9;
const BASE_NS: f64 = 1e6;

/// Equal arrivals at a service that answers after 1 ms, but holds whoever comes during a stall
/// until its end; stalls of 100 ms, exponential pauses of 1.9 s on average between them.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times below one minute"
)]
fn stalling_run(seed: u64) -> Simulated {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let pause = Exp::new(1.0 / BETWEEN_STALLS_NS).expect("a rate");
    let mut run = Simulated::new(SECONDS);
    // The stationary process: with probability 1/20 the run begins within a stall.
    let mut stall_start_ns = if random.random_bool(0.05) {
        -random.random::<f64>() * STALL_NS
    } else {
        pause.sample(&mut random)
    };
    for k in 0..SECONDS as u64 * PER_SECOND {
        let at_ns = k as f64 * 1e9 / PER_SECOND as f64;
        while stall_start_ns + STALL_NS <= at_ns {
            stall_start_ns += STALL_NS + pause.sample(&mut random);
        }
        let held_ns = if stall_start_ns <= at_ns { stall_start_ns + STALL_NS - at_ns } else { 0.0 };
        let noise: f64 = Exp1.sample(&mut random);
        run.record((k / PER_SECOND) as usize, (BASE_NS + held_ns + 1e4 * noise) as u64);
    }
    run
}

#[test]
fn batches_cover_the_truth_where_samples_depend_on_each_other() {
    let runs = 200;
    // Of all arrivals 1/20 fall into a stall and wait for what is left of it, uniform over its
    // length: the slowest 1/100 wait for more than 4/5 of it.
    let truth_ns = BASE_NS + 0.8 * STALL_NS;
    let mut covered = [0, 0];
    for seed in 0..runs {
        let run = stalling_run(seed);
        covered[0] += u32::from(run.covers(true, 0.99, truth_ns));
        covered[1] += u32::from(run.covers(false, 0.99, truth_ns));
    }
    let [by_batches, as_independent] = covered.map(|count| f64::from(count) / runs as f64);
    println!("covered by batches {by_batches}, as if independent {as_independent}");
    assert!(0.9 <= by_batches, "{by_batches}");
    assert!(as_independent < 0.6, "{as_independent}");
}

#[test]
fn both_methods_cover_the_truth_of_independent_samples() {
    let runs = 200;
    let quantiles = [0.5, 0.9, 0.99];
    let mut covered = [[0_u32; 2]; 3];
    for seed in 0..runs {
        let run = independent_run(seed);
        for (p, covered) in quantiles.iter().zip(&mut covered) {
            let truth_ns = -(1.0_f64 - p).ln() * 1e6;
            covered[0] += u32::from(run.covers(true, *p, truth_ns));
            covered[1] += u32::from(run.covers(false, *p, truth_ns));
        }
    }
    println!("of {runs}, by batches and as independent, for {quantiles:?}: {covered:?}");
    // 95 % of 200 has a standard deviation of 1.5 %; ranks are rounded outwards.
    let enough = |count: &u32| 0.91 <= f64::from(*count) / runs as f64;
    assert!(covered.as_flattened().iter().all(enough), "{covered:?}");
}

#[test]
fn stalls_show_as_dependence_and_chance_does_not() {
    let runs = 200;
    let found = |run: Simulated| dependent(&run.seconds).expect("enough seconds");
    let stalling = (0..runs).filter(|seed| found(stalling_run(*seed))).count();
    let independent = (0..runs).filter(|seed| found(independent_run(*seed))).count();
    println!(
        "of {runs} found dependent: {stalling} with stalls, {independent} of independent samples"
    );
    assert!(198 <= stalling, "{stalling}");
    // Once in 100 runs, and three standard deviations more.
    assert!(independent <= 7, "{independent}");
    let few = steady(4, 2_000, |k| 1_000_000 + k);
    assert_eq!(dependent(&few.seconds), None, "four seconds");
    assert_eq!(dependent(&steady(7, 1, |k| k).seconds), None, "seven samples");
    assert_eq!(dependent(&[]), None);
}

/// Twenty seconds of independent exponential values, 1 ms on average.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "about 10⁶ ns")]
fn independent_run(seed: u64) -> Simulated {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut run = Simulated::new(20);
    for k in 0..20 * 200 {
        let value: f64 = Exp1.sample(&mut random);
        run.record(k / 200, (value * 1e6) as u64);
    }
    run
}

#[test]
fn chance_is_called_dependence_once_in_a_hundred_runs() {
    let called = |seed: &u64| dependent(&independent_run(*seed).seconds) == Some(true);
    let called = (0..1_000).filter(called).count();
    // 10 are expected; 20 are three standard deviations more.
    assert!(called <= 20, "{called} of 1,000 runs of independent samples");
}

#[test]
fn one_answer_time_is_known_exactly() {
    let mut run = Simulated::new(10);
    for second in 0..10 {
        (0..200).for_each(|_| run.record(second, 5_000_000));
    }
    let found = run.by_batches(0.99).expect("enough samples");
    assert_eq!(
        (found.low_ns, found.high_ns, found.method),
        (5_000_000, 5_000_000, Method::Batches)
    );
}

#[test]
fn dependence_raises_the_samples_needed() {
    // All slow samples in one second of ten: how often such a second comes can't be told from one.
    let mut run = Simulated::new(10);
    for second in 0..10 {
        let slow = if second == 4 { 15 } else { 0 };
        (0..100).for_each(|k| run.record(second, if k < slow { 200_000_000 } else { 1_000_000 }));
    }
    assert!(interval(&run.pooled, &[], 0.99).is_ok());
    let refused = run.by_batches(0.99).expect_err("one bad second of ten");
    assert!(refused.count == 1_000 && 1_000 < refused.needed, "{refused}");
}

#[test]
fn neighbouring_batches_are_joined_when_there_are_many() {
    let mut run = Simulated::new(512);
    for second in 0..512 {
        (0..20).for_each(|k| run.record(second, 1_000_000 + 1_000 * k));
    }
    let batches = run.seconds.clone();
    let joined: Vec<Histogram<u64>> = batches
        .chunks(18)
        .map(|group| {
            let mut sum = group[0].clone();
            group[1..].iter().for_each(|batch| sum.add(batch).expect("the same bounds"));
            sum
        })
        .collect();
    assert!(joined.len() <= BATCHES_MAX);
    assert_eq!(run.by_batches(0.9), interval(&run.pooled, &joined, 0.9));
}

/// `per_second` samples in each of `seconds`, of which `value_ns` gives the value by their number
/// within the second.
fn steady(seconds: usize, per_second: u64, value_ns: impl Fn(u64) -> u64) -> Simulated {
    let mut run = Simulated::new(seconds);
    for second in 0..seconds {
        (0..per_second).for_each(|k| run.record(second, value_ns(k)));
    }
    run
}

/// The ends of the interval by batches, ms.
fn ends_ms(run: &Simulated, p: f64) -> (f64, f64) {
    let found = run.by_batches(p).unwrap_or_else(|refused| panic!("{p}: {refused}"));
    assert_eq!(found.method, Method::Batches);
    (found.low_ns as f64 / 1e6, found.high_ns as f64 / 1e6)
}

#[test]
fn a_bucket_of_the_batches_is_wider_than_one_of_the_pool() {
    // Nine of ten within half a bucket of the series, the rest from 2 to 100 ms.
    let near = |k: u64| 1_003_000 + k * 4_000 / 1_800;
    let run = steady(5, 2_000, |k| if k < 1_800 { near(k) } else { (k - 1_798) * 490_000 });
    for p in [0.5, 0.75] {
        let (low, high) = ends_ms(&run, p);
        assert!(1.003 <= low && low <= high && high <= 1.0076, "p{p}: {low} to {high} ms");
    }
    // Nearly all have the smallest value, which lies within its bucket.
    let run = steady(5, 2_000, |k| if k < 1_900 { 1_003_000 } else { 50_000_000 });
    assert_eq!(ends_ms(&run, 0.5).0, 1.003);
    assert!(ends_ms(&run, 0.5).1 < 1.004);
    let run = steady(6, 300, |k| if k < 276 { SECOND_NS } else { 2 * SECOND_NS });
    let (low, high) = ends_ms(&run, 0.5);
    assert!((1_000.0..1_001.0).contains(&low) && high < 1_001.0, "{low} to {high} ms");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_interval_holds_its_quantile(
        values in proptest::collection::vec(0_u64..100_000_000, 60..400), p in 0.1_f64..0.9, seconds in 1_usize..40,
    ) {
        let mut run = Simulated::new(seconds);
        values.iter().enumerate().for_each(|(k, value)| run.record(k * seconds / values.len(), *value));
        let quantile_ns = run.pooled.quantile_ns(p).expect("not empty");
        let independent = interval(&run.pooled, &[], p).expect("60 samples suffice");
        prop_assert!(independent.low_ns <= quantile_ns && quantile_ns <= independent.high_ns);
        if let Ok(found) = run.by_batches(p) {
            prop_assert!(found.low_ns <= independent.low_ns && independent.high_ns <= found.high_ns);
            prop_assert_eq!(found.method == Method::Batches, BATCHES_MIN <= seconds);
        }
    }
}
