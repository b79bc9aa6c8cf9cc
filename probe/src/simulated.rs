//! How often a ceiling or a knee is overstated, and the load that it takes to find one, in
//! simulation: one server, Poisson arrivals, the default plans of `truetail ceiling` and `truetail
//! sweep`.
//!
//! `make ceilings` prints the table of a full-size study, which `probe/README.md` holds.

use std::convert::Infallible;
use std::ops::ControlFlow;

use engine::sys::units::{Nanos, Rate};

use crate::ceiling::{Ceiling, CeilingPlan};
use crate::make_runs;
use crate::queues::Queue;
use crate::rates::{RateRange, Spacing};
use crate::search::SearchPlan;
use crate::step::Step;
use crate::sweep::{Sweep, SweepPlan};
use crate::within::Within;

/// Capacities per second.
const CAPACITIES: [f64; 4] = [50.0, 200.0, 1_000.0, 2_000.0];
/// The largest rate that passes, as a multiple of the capacity.
const BEYOND: f64 = 1.02;
/// How often that may happen.
const BEYOND_SHARE_MAX: f64 = 0.05;
/// Ceilings per target in `make test`.
const FEW: u64 = 6;

/// The number of ceilings per target.
fn size() -> u64 {
    let asked = std::env::var("TEST_CEILINGS");
    asked.map_or(FEW, |number| number.parse().expect("TEST_CEILINGS is a number"))
}

fn server(capacity: f64, exponential: bool) -> Queue {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ns")]
    let service_ns = (1e9 / capacity).round() as u64;
    Queue { service_ns, exponential, conns: 1_000, ..Queue::serial_ms() }
}

fn rate(per_second: f64) -> Rate {
    format!("{per_second}").parse().expect("a rate")
}

/// The result of a series, as multiples of the capacity, and its time.
#[derive(Clone, Copy, Debug)]
struct Found {
    passed: Option<f64>,
    failed: Option<f64>,
    took_s: f64,
    runs: usize,
}

fn ceiling(queue: &Queue, capacity: f64, seed: u64) -> Found {
    let time = Within { within: Nanos::from_secs(240), around: Nanos::from_secs(14) };
    let search = SearchPlan {
        first: rate(10.0),
        rate_max: rate(1e8),
        tolerance: 0.02,
        repeats: 1,
        steps_max: 40,
        duration: Nanos::from_secs(5),
        seed: 1_000 * seed,
        time,
    };
    let mut ceiling = Ceiling::new(CeilingPlan { search, cores: vec![0], conns_max: 1_000_000 });
    let ended = make_runs(&mut ceiling, |ask, _| {
        Ok::<_, Infallible>(ControlFlow::Continue(queue.run(ask)))
    });
    assert_eq!(ended, Ok(ControlFlow::Continue(())));
    let answer = ceiling.answer();
    let trials = answer.proof.trials.iter().flat_map(|trial| &trial.steps);
    let runs: Vec<&Step> = ceiling.steps().iter().chain(trials).collect();
    if std::env::var("TEST_CEILINGS_STEPS").is_ok() {
        for step in &runs {
            println!(
                "    {:8.1} {:5.1}s of {:5.1}s {:+.3} {:?} {:?}",
                step.rate_per_s,
                step.duration_s,
                step.took_s,
                step.backlog.growth,
                step.backlog.interval,
                step.outcome
            );
        }
        println!(
            "  {:?} {:?} {:?}",
            answer.bracket.passed_per_s,
            answer.bracket.failed_per_s,
            answer.bracket.undecided_per_s
        );
    }
    Found {
        passed: answer.bracket.passed_per_s.map(|rate| rate / capacity),
        failed: answer.bracket.failed_per_s.map(|rate| rate / capacity),
        took_s: runs.iter().map(|step| step.took_s).sum(),
        runs: runs.len(),
    }
}

fn knee(queue: &Queue, capacity: f64, seed: u64) -> Found {
    let range = RateRange { first: rate(capacity / 5.0), last: rate(capacity * 5.0) };
    let mut sweep = Sweep::new(SweepPlan {
        rates: range.spaced(12, Spacing::Geometric),
        refine_max: 4,
        duration: Nanos::from_secs(10),
        seed: 1_000 * seed,
        time: Within { within: Nanos::from_secs(240), around: Nanos::from_secs(14) },
    });
    let ended =
        make_runs(&mut sweep, |ask, _| Ok::<_, Infallible>(ControlFlow::Continue(queue.run(ask))));
    assert_eq!(ended, Ok(ControlFlow::Continue(())));
    let found = sweep.knee();
    Found {
        passed: found.from_per_s.map(|rate| rate / capacity),
        failed: found.to_per_s.map(|rate| rate / capacity),
        took_s: sweep.steps().iter().map(|step| step.took_s).sum(),
        runs: sweep.steps().len(),
    }
}

/// The value at this share of the values, which it sorts.
fn at(share: f64, values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let place = (share * (values.len() - 1) as f64).round() as usize;
    values[place]
}

/// Finds this many, prints a line of the table, and returns the share that passed beyond the
/// capacity.
fn studied(name: &str, capacity: f64, find: impl Fn(u64) -> Found) -> f64 {
    let all: Vec<Found> = (1..=size()).map(find).collect();
    let share = |count: usize| count as f64 / all.len() as f64;
    let count = |which: &dyn Fn(&&Found) -> bool| share(all.iter().filter(which).count());
    let beyond = count(&|one| one.passed.is_some_and(|passed| BEYOND < passed));
    let below = count(&|one| one.failed.is_some_and(|failed| failed < 1.0));
    let mut passed: Vec<f64> = all.iter().map(|one| one.passed.unwrap_or(0.0)).collect();
    let ends = all.iter().map(|one| one.passed.zip(one.failed));
    let mut widths: Vec<f64> = ends
        .map(|ends| ends.map_or(f64::INFINITY, |(passed, failed)| 100.0 * (failed / passed - 1.0)))
        .collect();
    let mut took: Vec<f64> = all.iter().map(|one| one.took_s).collect();
    let mut runs: Vec<f64> = all.iter().map(|one| one.runs as f64).collect();
    println!(
        "| {name} | {capacity:.0} | {:.1} % | {:.1} % | {:.3} | {:.1} % | {:.1} % | {:.0} s | {:.0} s | {:.0} |",
        100.0 * beyond,
        100.0 * below,
        at(0.5, &mut passed),
        at(0.5, &mut widths),
        at(0.9, &mut widths),
        at(0.5, &mut took),
        at(0.9, &mut took),
        at(0.5, &mut runs),
    );
    beyond
}

#[test]
fn no_more_than_one_in_twenty_ceilings_and_knees_lies_above_the_capacity() {
    println!(
        "| what | capacity | passed > 1.02 | failed < 1 | passed, median | width, median | width, p90 \
         | time, median | time, p90 | runs |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    // Among a few, one is more than one in twenty.
    let most = BEYOND_SHARE_MAX.max(1.0 / size() as f64);
    for (exponential, server_is) in [(false, "constant"), (true, "exponential")] {
        for capacity in CAPACITIES {
            let queue = server(capacity, exponential);
            for (name, beyond) in [
                (
                    "ceiling",
                    studied(&format!("ceiling, {server_is}"), capacity, |seed| {
                        ceiling(&queue, capacity, seed)
                    }),
                ),
                (
                    "knee",
                    studied(&format!("knee, {server_is}"), capacity, |seed| {
                        knee(&queue, capacity, seed)
                    }),
                ),
            ] {
                assert!(beyond <= most, "{name} of {capacity}/s, {server_is}: {beyond}");
            }
        }
    }
}
