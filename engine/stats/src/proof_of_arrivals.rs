//! Tests P1 to P7 of the arrivals, on the schedule and on modelled sends; each has controls that
//! must fail it.
//!
//! The schedule is held against p-values at fixed seeds: at 1 % two of twenty honest seeds may be
//! beyond the critical value. The controls are what a load generator gets wrong: equal gaps, a
//! clock of whole milliseconds, one Poisson stream dealt out in turn, and a stall made up for by
//! sending at twice the rate.

use load::curve::Curve;
use load::schedule::Schedule;
use load::share::Share;
use plan::thresholds::Thresholds;
use rand::SeedableRng as _;
use rand_distr::{Distribution as _, Exp};
use rand_xoshiro::Xoshiro256PlusPlus;
use statrs::distribution::{ChiSquared, ContinuousCDF as _, Discrete as _, Poisson};

use super::arrival_proof::ArrivalProof;
use super::arrivals::ArrivalStats;
use super::distribution::Distribution;
use super::goodness_of_fit::{
    ANDERSON_DARLING_1_PERCENT, anderson_darling_exponential, ks_exponential, ks_uniform,
};
use super::milliseconds::Milliseconds;
use super::offer::Offer;
use super::statistics::{
    KOLMOGOROV_1_PERCENT, NORMAL_1_PERCENT, PairSums, dispersion_deviation, index_of_dispersion,
    kolmogorov_p,
};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;
const SHARDS: usize = 4;
/// Arrivals that each test of the schedule takes.
const N: usize = 100_000;
const RATE_PER_SECOND: f64 = 20_000.0;
const MILLISECOND_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000 * MILLISECOND_NS;

/// A constant rate.
fn rate(text: &str) -> Curve {
    Curve::constant(text.parse().expect("a rate"))
}

/// The first [`N`] arrivals that a shard owns.
fn shard_arrivals(seed: u64, shard: usize, shards: usize) -> Vec<u64> {
    let share = Share::equal(shard, shards);
    let schedule =
        Schedule::new(rate("20k"), plan::Arrivals::Poisson, seed, 3_600 * SECOND_NS, share);
    let arrivals: Vec<u64> = schedule.times_ns().take(N).collect();
    assert_eq!(arrivals.len(), N);
    arrivals
}

/// A stream and its rate per ns: every shard's own, and the union of all.
fn streams(seed: u64) -> Vec<(String, Vec<u64>, f64)> {
    let shard_rate = RATE_PER_SECOND / 1e9 / SHARDS as f64;
    let parts: Vec<Vec<u64>> =
        (0..SHARDS).map(|shard| shard_arrivals(seed, shard, SHARDS)).collect();
    // Up to the earliest end of the parts the union is whole.
    let whole_ns = parts.iter().map(|part| part[N - 1]).min().expect("shards");
    let mut merged: Vec<u64> =
        parts.concat().into_iter().filter(|at_ns| *at_ns <= whole_ns).collect();
    merged.sort_unstable();
    merged.truncate(N);
    assert_eq!(merged.len(), N);
    let mut streams = vec![("merged".to_owned(), merged, RATE_PER_SECOND / 1e9)];
    for (shard, part) in parts.into_iter().enumerate() {
        streams.push((format!("shard {shard}"), part, shard_rate));
    }
    streams
}

/// The figures of P1, P2, P3 and P6 for one stream, with their 1 % points.
struct Tested {
    /// P1: √n·D against the exponential distribution of the known rate, and its p.
    gaps: f64,
    gaps_p: f64,
    /// P2: A² with the scale estimated.
    anderson_darling: f64,
    /// P3: √n·D of the arrivals against the uniform distribution.
    uniform: f64,
    /// P6: |r|·√n; without bound when all gaps are the same.
    lag1: f64,
}

impl Tested {
    fn new(arrivals_ns: &[u64], rate_per_ns: f64) -> Tested {
        let mut neighbours = PairSums::default();
        let gaps_ns: Vec<u64> = arrivals_ns.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps_ns.windows(2).for_each(|pair| neighbours.add(pair[0], pair[1]));
        // A gap of no whole ns stands for one below ½ ns.
        let mut gaps: Vec<f64> = gaps_ns.iter().map(|gap_ns| (*gap_ns as f64).max(0.25)).collect();
        gaps.sort_by(f64::total_cmp);
        let root = (gaps.len() as f64).sqrt();
        let distance = ks_exponential(&gaps, rate_per_ns).expect("gaps");
        // Given the first and the last arrival, those between are uniform.
        let (first, last) = (arrivals_ns[0] as f64, arrivals_ns[arrivals_ns.len() - 1] as f64);
        let between: Vec<f64> =
            arrivals_ns[1..arrivals_ns.len() - 1].iter().map(|at_ns| *at_ns as f64).collect();
        Tested {
            gaps: root * distance,
            gaps_p: kolmogorov_p(distance, gaps.len() as u64),
            anderson_darling: anderson_darling_exponential(&gaps).expect("gaps"),
            uniform: root * ks_uniform(&between, first, last).expect("arrivals"),
            lag1: neighbours.correlation().map_or(f64::INFINITY, |r| r.abs() * root),
        }
    }

    fn passes(&self) -> [bool; 4] {
        [
            self.gaps <= KOLMOGOROV_1_PERCENT,
            self.anderson_darling <= ANDERSON_DARLING_1_PERCENT,
            self.uniform <= KOLMOGOROV_1_PERCENT,
            self.lag1 <= NORMAL_1_PERCENT,
        ]
    }
}

#[test]
fn p1_p2_p3_p6_the_schedule_is_poisson_per_shard_and_merged() {
    let mut passed = [[0; 4]; SHARDS + 1];
    for seed in SEEDS {
        for (stream, (name, arrivals_ns, rate_per_ns)) in streams(seed).iter().enumerate() {
            let tested = Tested::new(arrivals_ns, *rate_per_ns);
            assert!(1e-4 <= tested.gaps_p, "seed {seed}, {name}: p = {}", tested.gaps_p);
            for (count, passes) in passed[stream].iter_mut().zip(tested.passes()) {
                *count += u32::from(passes);
            }
        }
    }
    println!("of 20 seeds, merged and each shard, passed P1 P2 P3 P6: {passed:?}");
    assert!(passed.as_flattened().iter().all(|count| 18 <= *count), "{passed:?}");
}

/// Blocks of the schedule, each 1 ms long.
const BLOCKS: usize = 2_000;
/// Arrivals of a block, on average: enough for a tree of many nodes.
const PER_BLOCK: f64 = 2_000.0;
/// Deviations from its expectation that a figure at a fixed seed may have: by chance one figure in
/// 16,000 has more.
const DEVIATIONS: f64 = 4.0;

/// The arrivals of a share of those blocks.
fn part(seed: u64, share: &Share) -> Vec<u64> {
    let until_ns = BLOCKS as u64 * MILLISECOND_NS;
    let schedule =
        Schedule::new(rate("2M"), plan::Arrivals::Poisson, seed, until_ns, share.clone());
    schedule.times_ns().collect()
}

/// How many arrivals each block has.
fn per_block(arrivals_ns: &[u64]) -> Vec<u64> {
    let mut counts = vec![0; BLOCKS];
    for at_ns in arrivals_ns {
        counts[usize::try_from(at_ns / MILLISECOND_NS).expect("few blocks")] += 1;
    }
    counts
}

/// Checks that a share's arrivals are Poisson of its part of the rate, within and across blocks.
fn check_poisson(what: &str, share: &Share, arrivals_ns: &[u64], per_block: &[u64]) {
    let expected = share.fraction() * PER_BLOCK * BLOCKS as f64;
    let z = (arrivals_ns.len() as f64 - expected) / expected.sqrt();
    assert!(z.abs() < DEVIATIONS, "{what}: z of the number {z}");
    let dispersion = index_of_dispersion(per_block.iter().copied()).expect("counts");
    let z = (dispersion.index - 1.0) / dispersion_deviation(dispersion.windows);
    assert!(z.abs() < DEVIATIONS, "{what}: z of the dispersion {z}");
    // Of more, the tests would see that times are whole ns.
    let first = &arrivals_ns[..arrivals_ns.len().min(N)];
    let offset = |at_ns: &u64| (at_ns % MILLISECOND_NS) as f64 + 0.5;
    let mut offsets: Vec<f64> = first.iter().map(offset).collect();
    offsets.sort_by(f64::total_cmp);
    let distance = ks_uniform(&offsets, 0.0, MILLISECOND_NS as f64).expect("arrivals");
    let p = kolmogorov_p(distance, offsets.len() as u64);
    assert!(1e-3 < p, "{what}: p of the offsets {p}");
    let tested = Tested::new(first, share.fraction() * PER_BLOCK / MILLISECOND_NS as f64);
    assert!(1e-3 < tested.gaps_p, "{what}: p of the gaps {}", tested.gaps_p);
    assert!(tested.lag1 < DEVIATIONS, "{what}: dependence of the gaps {}", tested.lag1);
}

#[test]
fn unequal_parts_are_poisson_and_independent() {
    // From 4 to 1,260 arrivals per block; the borders cut through leaves.
    let borders = [0, 2, 9, 10, 37, 370, 1_000];
    for seed in [1, 2] {
        let mut counts = Vec::new();
        for pair in borders.windows(2) {
            let share = Share::units(pair[0]..pair[1], 1_000);
            let arrivals_ns = part(seed, &share);
            let per_block = per_block(&arrivals_ns);
            check_poisson(&format!("seed {seed}, {pair:?}"), &share, &arrivals_ns, &per_block);
            counts.push(per_block);
        }
        for (at, one) in counts.iter().enumerate() {
            for (other_at, other) in counts.iter().enumerate().skip(at + 1) {
                let mut pairs = PairSums::default();
                one.iter().zip(other).for_each(|(one, other)| pairs.add(*one, *other));
                let z = pairs.correlation().expect("counts") * (BLOCKS as f64).sqrt();
                assert!(z.abs() < DEVIATIONS, "seed {seed}, {at} and {other_at}: z = {z}");
            }
        }
        let whole = Share::equal(0, 1);
        let arrivals_ns = part(seed, &whole);
        let of_all = per_block(&arrivals_ns);
        check_poisson(&format!("seed {seed}, the union"), &whole, &arrivals_ns, &of_all);
    }
}

#[test]
fn counts_of_a_small_part_have_the_poisson_distribution() {
    // The last class holds all that is above.
    const CLASSES: usize = 12;
    let share = Share::units(331..333, 1_000);
    for seed in [1, 2, 3] {
        let mut found = [0.0; CLASSES];
        for count in per_block(&part(seed, &share)) {
            found[usize::try_from(count).expect("few").min(CLASSES - 1)] += 1.0;
        }
        let poisson = Poisson::new(share.fraction() * PER_BLOCK).expect("a distribution");
        let mut expected: [f64; CLASSES] = std::array::from_fn(|k| poisson.pmf(k as u64));
        expected[CLASSES - 1] = 1.0 - expected[..CLASSES - 1].iter().sum::<f64>();
        let term = |(found, p): (&f64, &f64)| (found - p * BLOCKS as f64).powi(2) / p;
        let chi_squared = found.iter().zip(&expected).map(term).sum::<f64>() / BLOCKS as f64;
        let freedom = ChiSquared::new((CLASSES - 1) as f64).expect("a distribution");
        let p = freedom.sf(chi_squared);
        assert!(1e-3 < p, "seed {seed}: chi-squared {chi_squared}, p = {p}");
    }
}

/// Equal gaps.
fn constant(n: usize, rate_per_second: f64) -> Vec<u64> {
    (0..n).map(|k| whole_ns(k as f64 * 1e9 / rate_per_second)).collect()
}

/// Each arrival when a clock of whole milliseconds shows it.
fn quantised(arrivals_ns: &[u64]) -> Vec<u64> {
    arrivals_ns.iter().map(|at_ns| at_ns.next_multiple_of(MILLISECOND_NS)).collect()
}

/// Every fourth arrival of one stream: what a shard gets of a Poisson stream that is dealt out in
/// turn.
fn dealt(arrivals_ns: &[u64]) -> Vec<u64> {
    arrivals_ns.iter().step_by(SHARDS).copied().collect()
}

/// No arrival leaves during the first 200 ms of every two seconds; those held leave at twice the
/// rate until all have.
fn catching_up(arrivals_ns: &[u64], rate_per_second: f64, seed: u64) -> Vec<u64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let twice = Exp::new(2.0 * rate_per_second / 1e9).expect("a rate");
    let mut last_ns = 0;
    arrivals_ns
        .iter()
        .map(|at_ns| {
            let stall_end_ns = at_ns / (2 * SECOND_NS) * (2 * SECOND_NS) + SECOND_NS / 5;
            let free_ns = (*at_ns).max(if *at_ns < stall_end_ns { stall_end_ns } else { 0 });
            // While it is behind, the next one leaves after a gap of the doubled rate.
            last_ns = if free_ns <= last_ns || *at_ns < stall_end_ns {
                last_ns.max(stall_end_ns) + whole_ns(twice.sample(&mut random))
            } else {
                free_ns
            };
            last_ns
        })
        .collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times within an hour")]
fn whole_ns(ns: f64) -> u64 {
    ns as u64
}

#[test]
fn p1_p2_p3_p6_fail_on_their_controls() {
    for seed in [1, 2, 3] {
        let one = shard_arrivals(seed, 0, 1);
        let rate_per_ns = RATE_PER_SECOND / 1e9;
        // P3 sees only where in time the arrivals lie, so it passes what is uneven only from gap to
        // gap; P6 passes independent gaps of any distribution, such as the sums of four of a dealt
        // stream, and long stalls, whose few long gaps are nearly all of the variance.
        for (name, arrivals_ns, rate_per_ns, expected) in [
            ("constant", constant(N, RATE_PER_SECOND), rate_per_ns, [false, false, true, false]),
            ("quantised", quantised(&one), rate_per_ns, [false, false, true, false]),
            ("dealt", dealt(&one), rate_per_ns / SHARDS as f64, [false, false, true, true]),
            (
                "catching up",
                catching_up(&one, RATE_PER_SECOND, seed),
                rate_per_ns,
                [false, false, false, true],
            ),
        ] {
            let tested = Tested::new(&arrivals_ns, rate_per_ns);
            assert_eq!(tested.passes(), expected, "P1 P2 P3 P6 of a {name} stream, seed {seed}");
            assert!(tested.gaps_p < 1e-4, "{name}: p = {}", tested.gaps_p);
        }
    }
}

/// Length of the modelled windows: 600 windows of 100 ms.
const WINDOW_NS: u64 = 60 * SECOND_NS;
/// Rate of the modelled runs.
const SENT_PER_SECOND: f64 = 5_000.0;

/// The shards' schedules of one modelled run.
fn planned(arrivals: plan::Arrivals, seed: u64, shards: usize) -> Vec<Vec<u64>> {
    let part = |shard| {
        let share = Share::equal(shard, shards);
        let schedule = Schedule::new(rate("5k"), arrivals, seed, WINDOW_NS, share);
        schedule.times_ns().collect()
    };
    (0..shards).map(part).collect()
}

/// When a shard sends what is due: in turns that take 5 µs, each with all that has come due, woken
/// up late by 3 µs on average.
fn sent_by_turns(intended_ns: &[u64], seed: u64) -> Vec<u64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let late = Exp::new(1.0 / 3_000.0).expect("a rate");
    let mut turn_ns = 0;
    intended_ns
        .iter()
        .map(|at_ns| {
            if turn_ns < *at_ns {
                turn_ns =
                    turn_ns.saturating_add(5_000).max(at_ns + whole_ns(late.sample(&mut random)));
            }
            turn_ns
        })
        .collect()
}

/// What the accumulators of all shards say of a run.
fn proven(
    arrivals: plan::Arrivals,
    intended: &[Vec<u64>],
    send: impl Fn(&[u64], usize) -> Vec<u64>,
) -> (ArrivalProof, Distribution) {
    let mut whole = ArrivalStats::new(0..WINDOW_NS);
    let mut lateness = Distribution::new();
    let mut sent_in_window = 0;
    for (shard, intended_ns) in intended.iter().enumerate() {
        let mut part = ArrivalStats::new(0..WINDOW_NS);
        for (intended_ns, sent_ns) in intended_ns.iter().zip(send(intended_ns, shard)) {
            part.record(*intended_ns, sent_ns);
            lateness.record(sent_ns - intended_ns);
            sent_in_window += u64::from(sent_ns < WINDOW_NS);
        }
        whole.merge(&part);
    }
    let offer = Offer {
        curve: rate("5k"),
        from_ns: 0,
        arrivals,
        parts: vec![(Share::whole(), intended.len())],
        until_ns: WINDOW_NS,
        intended: lateness.count(),
        sent_in_window,
        unconnected: 0,
        at_the_edge: intended.len() as f64,
    };
    (whole.summary(&offer, &Thresholds::default()), lateness)
}

/// P5: the budget of the generator's lateness, 20 µs at p99 and a fifth of a millisecond at worst.
fn within_budget(lateness: &Distribution) -> bool {
    let at = |q| lateness.quantile_ns(q).expect("sends");
    at(0.5) <= 10_000 && at(0.99) <= 20_000 && at(0.999) <= 50_000 && at(1.0) <= 200_000
}

/// P4, P5 and P7 as a test at fixed seeds has them, without what a report allows on top.
fn passes_p4_p5_p7(proof: &ArrivalProof, lateness: &Distribution) -> [bool; 3] {
    let dispersed = proof.dispersion.iter().all(|dispersion| {
        let index = dispersion.sent.value.expect("sends");
        match proof.arrivals {
            plan::Arrivals::Poisson => {
                assert!(600 <= dispersion.windows);
                (index - 1.0).abs() <= 3.0 * dispersion_deviation(dispersion.windows)
            }
            plan::Arrivals::Constant => dispersion.window_ms != 10 || index <= 0.05,
        }
    });
    let sent_over_intended = proof.sent_over_intended.value.expect("sends");
    [dispersed, within_budget(lateness), (sent_over_intended - 1.0).abs() <= 0.001]
}

#[test]
fn p4_p5_p7_sends_by_turns_are_as_planned() {
    for shards in [1, 3] {
        let mut passed = [0; 3];
        for seed in SEEDS {
            let intended = planned(plan::Arrivals::Poisson, seed, shards);
            let (proof, lateness) =
                proven(plan::Arrivals::Poisson, &intended, |part, _| sent_by_turns(part, seed));
            assert!(proof.as_planned, "seed {seed} on {shards}: {}", proof.line());
            for (count, passes) in passed.iter_mut().zip(passes_p4_p5_p7(&proof, &lateness)) {
                *count += u32::from(passes);
            }
        }
        println!("{shards} shards, of 20 seeds passed P4 P5 P7: {passed:?}");
        assert!(18 <= passed[0] && passed[1] == 20 && passed[2] == 20, "{passed:?}");
        let constant = planned(plan::Arrivals::Constant, 1, shards);
        let (proof, lateness) =
            proven(plan::Arrivals::Constant, &constant, |part, _| sent_by_turns(part, 1));
        assert!(proof.as_planned, "{}", proof.line());
        assert_eq!(passes_p4_p5_p7(&proof, &lateness), [true; 3]);
    }
}

/// Runs a control on one shard and checks which of P4, P5 and P7 it fails, and that the report says
/// which figures did.
fn check_control(
    name: &str,
    expected: [bool; 3],
    failed: &[&str],
    send: impl Fn(&[u64]) -> Vec<u64>,
) {
    for seed in [1, 2, 3] {
        let intended = planned(plan::Arrivals::Poisson, seed, 1);
        let (proof, lateness) = proven(plan::Arrivals::Poisson, &intended, |part, _| send(part));
        let passes = passes_p4_p5_p7(&proof, &lateness);
        assert_eq!(passes, expected, "P4 P5 P7 of {name}, seed {seed}: {}", proof.line());
        assert!(!proof.as_planned, "{name}: {}", proof.line());
        for figure in failed {
            assert!(
                proof.failed.iter().any(|failure| failure.starts_with(figure)),
                "{name} fails {figure}: {:?}",
                proof.failed
            );
        }
        assert!(
            proof.failed.iter().all(|failure| !failure.contains("intended gaps")),
            "{name}: {:?}",
            proof.failed
        );
    }
}

#[test]
fn p4_p5_p7_fail_on_their_controls() {
    // Windows of whole milliseconds can't see a clock of whole milliseconds; the gaps do.
    check_control("quantised sends", [true, false, true], &["KS distance of the sent"], quantised);
    let caught_up = |part: &[u64]| catching_up(part, SENT_PER_SECOND, 9);
    check_control(
        "sends that catch up",
        [false, false, true],
        &["dispersion of the sends at 1 ms", "dispersion of the sends at 100 ms"],
        caught_up,
    );
    // Smoothed sends: every arrival waits for its place in a stream of equal gaps, 300 ms behind.
    let smoothed = |part: &[u64]| {
        let places = constant(part.len(), part.len() as f64 / 60.0);
        let place = |(at_ns, place_ns): (&u64, u64)| (place_ns + 300 * MILLISECOND_NS).max(*at_ns);
        part.iter().zip(places).map(place).collect()
    };
    check_control(
        "smoothed sends",
        [false; 3],
        &[
            "KS distance of the sent",
            "dispersion of the sends at 1 ms",
            "dispersion of the sends at 100 ms",
            "sent/intended",
        ],
        smoothed,
    );
    // A stall in the last 100 ms: what is left is sent when the window is over, and the last
    // windows are empty.
    let stalled = |part: &[u64]| {
        let stall_ns = WINDOW_NS - 100 * MILLISECOND_NS;
        part.iter().map(|at_ns| if *at_ns < stall_ns { *at_ns } else { WINDOW_NS }).collect()
    };
    check_control("sends missing at the end", [false; 3], &["sent/intended"], stalled);
}

#[test]
fn a_schedule_other_than_planned_is_found_out() {
    let at_once = |part: &[u64], _: usize| part.to_vec();
    let one = planned(plan::Arrivals::Poisson, 5, 1).remove(0);
    // A Poisson stream dealt out in turn: the union is Poisson, and no shard's part is.
    let in_turn: Vec<Vec<u64>> = (0..SHARDS)
        .map(|shard| one.iter().skip(shard).step_by(SHARDS).copied().collect())
        .collect();
    let (proof, _) = proven(plan::Arrivals::Poisson, &in_turn, at_once);
    assert_eq!(proof.failed.len(), 1, "{:?}", proof.failed);
    assert!(proof.failed[0].starts_with("p of the intended gaps"), "{:?}", proof.failed);
    // P4 on one shard's part of it: sums of four gaps vary half as much, so the counts vary a
    // quarter as much.
    let mut counted = Milliseconds::new();
    in_turn[0].iter().for_each(|at_ns| counted.add(at_ns / MILLISECOND_NS));
    let part = index_of_dispersion(counted.windows(100, 60_000)).expect("600 windows");
    assert!(
        (part.index - 0.25).abs() < 3.0 * 0.25 * dispersion_deviation(part.windows),
        "{part:?}"
    );
    assert!(3.0 * dispersion_deviation(part.windows) < 1.0 - part.index, "P4 fails: {part:?}");
    let equal = planned(plan::Arrivals::Constant, 5, 1);
    let (proof, _) = proven(plan::Arrivals::Poisson, &equal, at_once);
    assert!(!proof.as_planned && 4 <= proof.failed.len(), "{:?}", proof.failed);
    let (proof, _) = proven(plan::Arrivals::Constant, &[one], at_once);
    assert!(!proof.as_planned && 2 <= proof.failed.len(), "{:?}", proof.failed);
}
