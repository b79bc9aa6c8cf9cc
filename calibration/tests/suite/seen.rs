//! The arrivals as the target saw them: counted by the witness, per ms, they vary as those of a
//! Poisson process do; those of a stream with equal gaps don't.

use std::fs;
use std::io::{Write as _, stderr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use calibration::experiment::Observed;
use engine::plan::{Arrivals, Plan};
use engine::report::Report;
use engine::report::verdict::Level;
use engine::stats::statistics::{Dispersion, dispersion_deviation, index_of_dispersion};

use crate::support::{alone, open, plan, run, succeed, witness};

const MS_NS: u64 = 1_000_000;
/// A stop: so many ms in a row without an arrival.
const STOP_MS: usize = 2;
/// How long what was due in a stop is being caught up with.
const CATCH_UP_MS: usize = 3;
/// The windows of up to 10 ms that an index is judged by.
const WINDOWS: usize = 600;
/// As many ms without stops are enough for windows of any length: they hold 150 of 100 ms.
const KEPT_MS: usize = 15_000;
/// Runs in one attempt at most.
const RUNS_MAX: u64 = 6;
/// Of these, disturbed ones.
const DISTURBED_MAX: u64 = 3;
/// Share of a run that is kept at least of an instrument that sends as planned; the rest may have
/// been the witness's stops.
const KEPT_MIN: f64 = 0.75;

/// A run was disturbed when others had the shard's core, or the witness's, for more than this share
/// of it: twice what a verdict passes of the shard's.
const AWAY_MAX: f64 = 0.02;
/// Or when the pacer's lateness p99 is beyond this, µs, and beyond this share of the median
/// latency: ten times and twice what a verdict passes.
const LATE_MAX_US: f64 = 200.0;
const LATE_MAX: f64 = 0.1;

/// Whether the machine kept the generator from its core, by what the report itself says.
fn is_disturbed(report: &Report) -> bool {
    let steal = report.generator.machine.steal.unwrap_or(0.0);
    let shards = report.generator.shards.iter();
    let away = shards.map(|shard| shard.run_queue_delay_s / shard.observed_s).fold(steal, f64::max);
    let late_us = report.whole.pacer_lateness.p99.expect("thousands of values");
    let typical_us = report.whole.corrected.p50.expect("thousands of values");
    AWAY_MAX < away || LATE_MAX_US.max(LATE_MAX * typical_us) < late_us
}

/// Runs the plan against the witness: what both saw, and for how long the witness could run and had
/// no core, by the kernel's account of its thread, s.
fn observe(plan: &Plan) -> (Observed, f64) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut delay_ns = 0;
            while !over.load(Ordering::Relaxed) {
                delay_ns = witness_delay_ns().unwrap_or(delay_ns);
                thread::sleep(Duration::from_millis(100));
            }
            delay_ns
        });
        let observed = run(&witness(Duration::ZERO), plan);
        over.store(true, Ordering::Relaxed);
        (observed, watch.join().expect("it only looks") as f64 / 1e9)
    })
}

/// The run-queue delay of the witness's thread, ns; `None` when there is none such.
fn witness_delay_ns() -> Option<u64> {
    let is_witness = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("target"))
    };
    let mut tasks = fs::read_dir("/proc/self/task").ok()?.flatten().map(|task| task.path());
    let account = fs::read_to_string(tasks.find(is_witness)?.join("schedstat")).ok()?;
    account.split(' ').nth(1)?.parse().ok()
}

/// The witness's counts per ms of runs of this length, each with other arrivals, until `kept_ms`
/// are left without stops, or the most runs have been made: several, because the witness remembers
/// the last minute, and stops take their part of it.
///
/// Runs that the machine disturbed are left out. For a share of their time the generator stood
/// still, and what was due then it sent late, whatever it is worth; or the witness did, and read
/// late. `None` when they leave too little to judge.
///
/// # Errors
/// What is left of the others, when that is too little of them.
fn seen(arrivals: Arrivals, run_ms: u64, kept_ms: usize) -> Result<Option<Vec<u32>>, String> {
    let mut kept = Vec::new();
    let (mut disturbed, mut undisturbed_ms) = (0, 0);
    for seed in 1..=RUNS_MAX {
        let plan = open("5k", plan(Duration::from_millis(run_ms)));
        let (observed, witness_away_s) = observe(&Plan { arrivals, seed, ..plan });
        let is_late = is_disturbed(&observed.report);
        if is_late {
            // This it must say itself: a clean report of such a run would be a lie.
            let verdict = &observed.report.verdict;
            assert_ne!(verdict.level, Level::Valid, "{:?}", observed.report.generator);
        }
        if is_late || AWAY_MAX * run_ms as f64 / 1e3 < witness_away_s {
            disturbed += 1;
            if disturbed == DISTURBED_MAX {
                break;
            }
            continue;
        }
        undisturbed_ms += run_ms;
        kept.extend(without_stops(counts_per_ms(&observed)));
        if kept_ms <= kept.len() {
            return Ok(Some(kept));
        }
    }
    if (kept.len() as f64) < KEPT_MIN * undisturbed_ms as f64 {
        return Err(format!("{} of {undisturbed_ms} ms without stops", kept.len()));
    }
    Ok(None)
}

/// The witness's counts of the whole ms of the run's window.
fn counts_per_ms(observed: &Observed) -> &[u32] {
    let seen = &observed.ledger.arrivals_per_ms;
    let index = |ms: u64| usize::try_from(ms - seen.first_ms).expect("within the last minute");
    let first = index(observed.window.begin_ns.div_ceil(MS_NS));
    &seen.counts[first..index(observed.window.end_ns / MS_NS)]
}

/// The counts without the machine's stops: two ms without an arrival, whose chance is 5 in 100,000
/// at 5 arrivals a ms, up to the third ms after the next arrival, when all is sent or read that was
/// due meanwhile. How late a stop makes the sends is the report's to tell; here it would hide the
/// process between the stops.
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

/// Dispersion of counts per ms in windows of `window_ms`: the median of pieces of [`WINDOWS`]
/// windows, because what is left of one stop, such as 15 arrivals in the ms after it, would move
/// the index of the whole.
fn dispersion(per_ms: &[u32], window_ms: usize) -> Dispersion {
    let sum = |counts: &[u32]| counts.iter().map(|count| u64::from(*count)).sum::<u64>();
    let windows = WINDOWS.min(per_ms.len() / window_ms);
    let pieces = per_ms.chunks_exact(windows * window_ms).map(|piece| {
        index_of_dispersion(piece.chunks_exact(window_ms).map(sum)).expect("many windows")
    });
    let mut pieces: Vec<Dispersion> = pieces.collect();
    pieces.sort_by(|one, other| one.index.total_cmp(&other.index));
    pieces[pieces.len() / 2]
}

/// How far the index may be from 1.
fn reach(dispersion: &Dispersion) -> f64 {
    3.0 * dispersion_deviation(dispersion.windows)
}

/// Succeeds when the dispersions in windows of these lengths do as they should. A machine that
/// disturbs too many runs can't tell: that is said, and passes, for each run whose generator was
/// disturbed has said of itself that it is not valid.
fn judge(
    arrivals: Arrivals,
    run_ms: u64,
    windows_ms: &[usize],
    as_it_should: fn(&[Dispersion]) -> bool,
) {
    let kept_ms = KEPT_MS.min(WINDOWS * windows_ms.iter().max().expect("lengths"));
    succeed(|| {
        let Some(kept) = seen(arrivals, run_ms, kept_ms)? else {
            // The test's own output is kept back when it passes; this is to be seen.
            let said = "what else this machine does disturbed too many runs: nothing was judged";
            writeln!(stderr(), "{arrivals:?} arrivals: {said}").expect("stderr");
            return Ok(());
        };
        let found: Vec<Dispersion> =
            windows_ms.iter().map(|window_ms| dispersion(&kept, *window_ms)).collect();
        assert!(found.iter().all(|one| 150 <= one.windows), "{found:?}");
        if as_it_should(&found) { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

#[test]
fn a_poisson_process_reaches_the_target_as_one() {
    let _cores = alone();
    judge(Arrivals::Poisson, 20_000, &[1, 10, 100], |found| {
        found.iter().all(|one| (one.index - 1.0).abs() <= reach(one))
    });
}

#[test]
fn equal_gaps_reach_the_target_as_such_and_fail_as_a_poisson_process() {
    let _cores = alone();
    judge(Arrivals::Constant, 8_000, &[1, 10], |found| {
        found[1].index <= 0.05 && found.iter().all(|one| one.index < 1.0 - reach(one))
    });
}

#[test]
fn a_stop_is_cut_out_with_what_it_delayed_and_batches_leave_nothing_to_judge() {
    let stopped = [5, 4, 0, 0, 0, 0, 19, 6, 5, 5, 0, 7];
    assert_eq!(without_stops(&stopped), [5, 4, 5, 0, 7]);
    let batches: Vec<u32> = (0..8_000).map(|ms| if ms % 5 == 0 { 25 } else { 0 }).collect();
    assert!(without_stops(&batches).len() < WINDOWS * 10);
}
