//! The arrivals as the target saw them: counted by the witness, per ms, they vary as those of a Poisson process do; those of a
//! stream with equal gaps don't.

mod support;

use std::time::Duration;

use calibration::experiment::Observed;
use engine::plan::{Arrivals, Plan};
use engine::proof::statistics::{Dispersion, dispersion_deviation, index_of_dispersion};
use support::{alone, open, plan, run, succeed, witness};

const MS_NS: u64 = 1_000_000;
/// A stop: so many ms in a row without an arrival.
const STOP_MS: usize = 2;
/// How long what was due in a stop is being caught up with.
const CATCH_UP_MS: usize = 3;
/// The fewest windows of 1 ms that an index is judged by.
const PIECE_MS: usize = 600;
/// The least time to judge: 600 windows of 10 ms.
const KEPT_MIN_MS: usize = 6_000;

fn observe(arrivals: Arrivals) -> Observed {
    let plan = open("5k", plan(Duration::from_secs(8)));
    run(&witness(Duration::ZERO), &Plan { arrivals, ..plan })
}

/// The witness's counts of the whole ms of the run's window.
fn counts_per_ms(observed: &Observed) -> &[u32] {
    let seen = &observed.ledger.arrivals_per_ms;
    let index = |ms: u64| usize::try_from(ms - seen.first_ms).expect("within the last minute");
    let first = index(observed.window.begin_ns.div_ceil(MS_NS));
    &seen.counts[first..index(observed.window.end_ns / MS_NS)]
}

/// Dispersion of counts per ms in windows of `window_ms`.
fn dispersion(per_ms: &[u32], window_ms: usize) -> Dispersion {
    let sum = |counts: &[u32]| counts.iter().map(|count| u64::from(*count)).sum::<u64>();
    index_of_dispersion(per_ms.chunks_exact(window_ms).map(sum)).expect("many windows")
}

/// The counts without the machine's stops: two ms without an arrival, whose chance is 5 in 100,000 at 5 arrivals a ms, up to
/// the third ms after the next arrival, when all is sent or read that was due meanwhile. How late a stop makes the sends is the
/// report's to tell; here it would hide the process between the stops.
fn without_stops(per_ms: &[u32]) -> Vec<u32> {
    let mut kept = Vec::new();
    let (mut empty_ms, mut catch_up_ms) = (0, 0);
    for count in per_ms {
        empty_ms = if *count == 0 { empty_ms + 1 } else { 0 };
        if empty_ms == STOP_MS {
            // The ms before were taken for chance.
            while kept.last() == Some(&0) {
                kept.pop();
            }
            catch_up_ms = CATCH_UP_MS;
        }
        if STOP_MS <= empty_ms {
            continue;
        }
        if 0 < catch_up_ms {
            catch_up_ms -= 1;
        } else {
            kept.push(*count);
        }
    }
    kept
}

/// Dispersion in windows of 1 ms: the median of pieces of 600 windows, because what is left of one stop, such as 15 arrivals in the
/// ms after it, would move the index of the whole.
fn dispersion_1_ms(per_ms: &[u32]) -> Dispersion {
    let pieces = per_ms.chunks_exact(PIECE_MS).map(|piece| dispersion(piece, 1));
    let mut pieces: Vec<Dispersion> = pieces.collect();
    pieces.sort_by(|one, other| one.index.total_cmp(&other.index));
    pieces[pieces.len() / 2]
}

/// Dispersion in windows of 1, 10 and 100 ms; an error when stops leave too few of them.
fn dispersions(observed: &Observed) -> Result<[Dispersion; 3], String> {
    let kept = without_stops(counts_per_ms(observed));
    if kept.len() < KEPT_MIN_MS {
        return Err(format!("{} ms without stops", kept.len()));
    }
    Ok([dispersion_1_ms(&kept), dispersion(&kept, 10), dispersion(&kept, 100)])
}

/// How far the index may be from 1.
fn reach(dispersion: Dispersion) -> f64 {
    3.0 * dispersion_deviation(dispersion.windows)
}

#[test]
fn a_poisson_process_reaches_the_target_as_one() {
    let _cores = alone();
    succeed(|| {
        let dispersions = dispersions(&observe(Arrivals::Poisson))?;
        let near = |dispersion: &Dispersion| (dispersion.index - 1.0).abs() <= reach(*dispersion);
        if dispersions.iter().all(near) { Ok(()) } else { Err(format!("{dispersions:?}")) }
    });
}

#[test]
fn equal_gaps_reach_the_target_as_such_and_fail_as_a_poisson_process() {
    let _cores = alone();
    succeed(|| {
        let dispersions = dispersions(&observe(Arrivals::Constant))?;
        let below = |dispersion: &Dispersion| dispersion.index < 1.0 - reach(*dispersion);
        let even = dispersions[1].index <= 0.05;
        if even && dispersions.iter().all(below) { Ok(()) } else { Err(format!("{dispersions:?}")) }
    });
}

#[test]
fn a_stop_is_cut_out_with_what_it_delayed_and_batches_leave_nothing_to_judge() {
    let stopped = [5, 4, 0, 0, 0, 0, 19, 6, 5, 5, 0, 7];
    assert_eq!(without_stops(&stopped), [5, 4, 5, 0, 7]);
    let batches: Vec<u32> = (0..8_000).map(|ms| if ms % 5 == 0 { 25 } else { 0 }).collect();
    assert!(without_stops(&batches).len() < KEPT_MIN_MS);
}
