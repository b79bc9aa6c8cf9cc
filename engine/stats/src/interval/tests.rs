//! The intervals: sample sizes, ranks, and how often they cover the truth, with independent and
//! with dependent samples.

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Exp, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::SECOND_NS;

use super::*;
use crate::distribution::{INTERVAL_DIGITS, empty_histogram};

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
    assert_eq!(interval_by_ranks(&pooled, 0.5), Ok(Interval { low_ns: 469, high_ns: 532 }));
    // 990 ± 1.96·√9.9 is 983.83 and 996.17.
    assert_eq!(interval_by_ranks(&pooled, 0.99), Ok(Interval { low_ns: 983, high_ns: 998 }));
    assert_eq!(interval_by_ranks(&pooled, 0.999), Err(Missing::Samples(5_662)));
    assert!(interval_by_ranks(&Distribution::new(), 0.5).is_err());
    let nothing = Pieces::new(vec![empty_histogram(INTERVAL_DIGITS); 40], 0.125);
    assert_eq!(interval(&Distribution::new(), &nothing, 0.5), Err(Missing::Samples(8)));
}

#[test]
fn ranks_beyond_the_range_are_bounded_by_its_end_and_the_maximum() {
    let mut pooled = Distribution::new();
    pooled.record_n(1_000, 980);
    pooled.record_n(VALUE_MAX_NS * 3, 20);
    let found = interval_by_ranks(&pooled, 0.99).expect("enough samples");
    assert_eq!((found.low_ns, found.high_ns), (VALUE_MAX_NS, VALUE_MAX_NS * 3));
}

/// One simulated run: the samples of its pieces as a series keeps them, and all of them pooled.
struct Simulated {
    pooled: Distribution,
    pieces: Vec<Histogram<u64>>,
}

impl Simulated {
    fn new(pieces: usize) -> Simulated {
        Simulated {
            pooled: Distribution::new(),
            pieces: vec![empty_histogram(INTERVAL_DIGITS); pieces],
        }
    }

    fn record(&mut self, piece: usize, value_ns: u64) {
        self.pooled.record(value_ns);
        self.pieces[piece].record(value_ns).expect("within the bounds");
    }

    fn pieces(&self) -> Pieces<Histogram<u64>> {
        Pieces::new(self.pieces.clone(), 1.0)
    }

    fn by_pieces(&self, p: f64) -> Result<Interval, Missing> {
        interval(&self.pooled, &self.pieces(), p)
    }

    /// True if the interval contains the truth; a missing one isn't wrong.
    fn covers(&self, by_pieces: bool, p: f64, truth_ns: f64) -> bool {
        let found = if by_pieces { self.by_pieces(p) } else { interval_by_ranks(&self.pooled, p) };
        found.map_or(true, |found| {
            found.low_ns as f64 <= truth_ns && truth_ns <= found.high_ns as f64
        })
    }
}

const SECONDS: usize = 60;
const PER_SECOND: u64 = 500;
const STALL_NS: f64 = 100e6;
const BETWEEN_STALLS_NS: f64 = 1.9e9;
const BASE_NS: f64 = 1e6;

/// Equal arrivals at a service that answers after 1 ms, but holds requests during a stall until its
/// end; stalls of 100 ms, with exponential pauses of 1.9 s on average.
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
fn pieces_cover_the_truth_where_samples_depend_on_each_other() {
    let runs = 200;
    // 1/20 of all arrivals fall into a stall and wait for the rest of it, uniform over its length:
    // the slowest 1/100 wait for more than 4/5 of it.
    let truth_ns = BASE_NS + 0.8 * STALL_NS;
    let mut covered = [0, 0];
    for seed in 0..runs {
        let run = stalling_run(seed);
        covered[0] += u32::from(run.covers(true, 0.99, truth_ns));
        covered[1] += u32::from(run.covers(false, 0.99, truth_ns));
    }
    let [by_pieces, as_independent] = covered.map(|count| f64::from(count) / runs as f64);
    println!("covered by pieces {by_pieces}, as if independent {as_independent}");
    assert!(0.9 <= by_pieces, "{by_pieces}");
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
    let found = |run: Simulated| dependent(&run.pieces()).expect("long enough");
    let stalling = (0..runs).filter(|seed| found(stalling_run(*seed))).count();
    let independent = (0..runs).filter(|seed| found(independent_run(*seed))).count();
    println!(
        "of {runs} found dependent: {stalling} with stalls, {independent} of independent samples"
    );
    assert!(198 <= stalling, "{stalling}");
    // One in 100 runs, plus three standard deviations.
    assert!(independent <= 7, "{independent}");
    let few = steady(35, 2_000, |k| 1_000_000 + k);
    assert_eq!(dependent(&few.pieces()), None, "too short");
    assert_eq!(dependent(&Simulated::new(40).pieces()), None, "no sample");
    assert_eq!(dependent(&Pieces::none()), None);
}

/// Forty pieces of independent exponential values, 1 ms on average.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "about 10⁶ ns")]
fn independent_run(seed: u64) -> Simulated {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut run = Simulated::new(40);
    for k in 0..40 * 100 {
        let value: f64 = Exp1.sample(&mut random);
        run.record(k / 100, (value * 1e6) as u64);
    }
    run
}

#[test]
fn chance_is_called_dependence_once_in_a_hundred_runs() {
    let called = |seed: &u64| dependent(&independent_run(*seed).pieces()) == Some(true);
    let called = (0..1_000).filter(called).count();
    // 10 are expected; 20 are three standard deviations more.
    assert!(called <= 20, "{called} of 1,000 runs of independent samples");
}

#[test]
fn one_answer_time_is_known_exactly() {
    let run = steady(40, 50, |_| 5_000_000);
    let found = run.by_pieces(0.99).expect("enough samples");
    assert_eq!((found.low_ns, found.high_ns), (5_000_000, 5_000_000));
}

#[test]
fn a_stall_that_came_once_takes_a_longer_window_and_not_more_requests() {
    // All slow samples are in one piece of forty: one such piece doesn't show how often they come.
    let mut run = Simulated::new(40);
    for piece in 0..40 {
        let slow = if piece == 4 { 60 } else { 0 };
        (0..100).for_each(|k| run.record(piece, if k < slow { 200_000_000 } else { 1_000_000 }));
    }
    assert!(interval_by_ranks(&run.pooled, 0.99).is_ok());
    let refused = run.by_pieces(0.99).expect_err("one bad piece of forty");
    assert!(matches!(refused, Missing::Seconds(needed_s) if 40.0 < needed_s), "{refused:?}");
    // If even independent samples would be too few, more are asked for.
    assert_eq!(run.by_pieces(0.999), Err(Missing::Samples(5_662)));
}

/// `each` samples in each of the pieces; `value_ns` gives the value by number within the piece.
fn steady(pieces: usize, each: u64, value_ns: impl Fn(u64) -> u64) -> Simulated {
    let mut run = Simulated::new(pieces);
    for piece in 0..pieces {
        (0..each).for_each(|k| run.record(piece, value_ns(k)));
    }
    run
}

/// The ends of the interval by pieces, ms.
fn ends_ms(run: &Simulated, p: f64) -> (f64, f64) {
    let found = run.by_pieces(p).unwrap_or_else(|missing| panic!("{p}: {missing:?}"));
    (found.low_ns as f64 / 1e6, found.high_ns as f64 / 1e6)
}

#[test]
fn a_bucket_of_the_pieces_is_wider_than_one_of_the_pool() {
    // Nine of ten within half a bucket of the series, the rest from 2 to 100 ms.
    let near = |k: u64| 1_003_000 + k * 4_000 / 1_800;
    let run = steady(40, 2_000, |k| if k < 1_800 { near(k) } else { (k - 1_798) * 490_000 });
    for p in [0.5, 0.75] {
        let (low, high) = ends_ms(&run, p);
        assert!(1.003 <= low && low <= high && high <= 1.0076, "p{p}: {low} to {high} ms");
    }
    // Nearly all have the smallest value, which lies within its bucket.
    let run = steady(40, 2_000, |k| if k < 1_900 { 1_003_000 } else { 50_000_000 });
    assert_eq!(ends_ms(&run, 0.5).0, 1.003);
    assert!(ends_ms(&run, 0.5).1 < 1.004);
    let run = steady(40, 300, |k| if k < 276 { SECOND_NS } else { 2 * SECOND_NS });
    let (low, high) = ends_ms(&run, 0.5);
    assert!((1_000.0..1_001.0).contains(&low) && high < 1_001.0, "{low} to {high} ms");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_interval_holds_its_quantile(
        values in proptest::collection::vec(0_u64..100_000_000, 60..400), p in 0.1_f64..0.9, pieces in 1_usize..80,
    ) {
        let mut run = Simulated::new(pieces);
        values.iter().enumerate().for_each(|(k, value)| run.record(k * pieces / values.len(), *value));
        let quantile_ns = run.pooled.quantile_ns(p).expect("not empty");
        let independent = interval_by_ranks(&run.pooled, p).expect("60 samples suffice");
        prop_assert!(independent.low_ns <= quantile_ns && quantile_ns <= independent.high_ns);
        if let Ok(found) = run.by_pieces(p) {
            prop_assert!(found.low_ns <= independent.low_ns && independent.high_ns <= found.high_ns);
            prop_assert!(36 <= pieces);
        }
    }
}
