//! Arrival process at the target: its counts per ms have the dispersion of a Poisson process under
//! Poisson arrivals, and far less under constant arrivals.

use std::io::{Write as _, stderr};
use std::time::Duration;

use crate::support::{alone, open, plan, run, sample_target};
use calibration::observed::Observed;
use engine::plan::{Arrivals, Plan};
use engine::report::Report;
use engine::stats::{Dispersion, dispersion_deviation, index_of_dispersion};

const MS_NS: u64 = 1_000_000;
/// This many ms in a row without an arrival are a stop.
const STOP_MS: usize = 2;
/// How long it takes to catch up after a stop, ms.
const CATCH_UP_MS: usize = 3;
/// The windows that an index of dispersion is computed from.
const WINDOWS: usize = 600;
/// As many ms without stops are enough for windows of any length: they hold 150 of 100 ms.
const KEPT_MS: usize = 15_000;
/// The most attempts.
const ATTEMPTS_MAX: u64 = 3;
/// The most runs in one attempt.
const RUNS_MAX: u64 = 6;
/// The most of these that may be disturbed.
const DISTURBED_MAX: u64 = 3;
/// The least share of undisturbed runs that must be left without stops; the rest may be stops of
/// the target.
const KEPT_MIN: f64 = 0.75;

/// A run was disturbed if others had the shard's core, or the target's, for more than this share of
/// it: twice what a verdict allows for a shard.
const AWAY_MAX: f64 = 0.02;
/// It was also disturbed if pacer lateness p99 exceeds both this, µs, and the share below of the
/// median latency: ten times and twice what a verdict allows.
const LATE_MAX_US: f64 = 200.0;
const LATE_MAX: f64 = 0.1;

/// True if the machine kept the generator from its core, according to the report itself.
fn is_disturbed(report: &Report) -> bool {
    let steal = report.generator.machine.as_ref().and_then(|machine| machine.steal).unwrap_or(0.0);
    let shards = report.generator.shards.iter();
    let away = shards.map(|shard| shard.run_queue_delay_s / shard.observed_s).fold(steal, f64::max);
    let late_us = report.whole.pacer_lateness.quantile_us(0.99).expect("thousands of values");
    let typical_us = report.whole.corrected.quantile_us(0.5).expect("thousands of values");
    AWAY_MAX < away || LATE_MAX_US.max(LATE_MAX * typical_us) < late_us
}

/// Counts per ms, and their reliability.
struct Counted {
    /// The counts of undisturbed runs, without stops.
    per_ms: Vec<u32>,
    /// How the machine disturbed these runs nevertheless, according to their verdicts.
    disturbances: Vec<String>,
}

/// The target's counts per ms, from runs of this length with different seeds, until `kept_ms` are
/// left without stops: several runs, because the ledger covers only the last three minutes.
///
/// Disturbed runs are left out: for a share of them the generator stood still and then sent late,
/// or the target stood still and then read late. `None` if too little is left to judge.
///
/// # Panics
/// If much of the undisturbed runs consists of stops, though few runs were disturbed.
fn count(arrivals: Arrivals, attempt: u64, run_ms: u64, kept_ms: usize) -> Option<Counted> {
    let mut counted = Counted { per_ms: Vec::new(), disturbances: Vec::new() };
    let (mut disturbed, mut undisturbed_ms) = (0, 0);
    for seed in (1..=RUNS_MAX).map(|run| attempt * RUNS_MAX + run) {
        let plan = open("5k", plan(Duration::from_millis(run_ms)));
        let run = run(&sample_target(Duration::ZERO), &Plan { arrivals, seed, ..plan });
        let report = &run.observed.report;
        if is_disturbed(report) || AWAY_MAX * run_ms as f64 / 1e3 < run.target_delay_s {
            disturbed += 1;
            // On such a machine even a run that looks undisturbed is no evidence.
            if disturbed == DISTURBED_MAX {
                return None;
            }
            continue;
        }
        undisturbed_ms += run_ms;
        counted.disturbances.extend(run.disturbance());
        counted.per_ms.extend(without_stops(counts_per_ms(&run.observed)));
        if kept_ms <= counted.per_ms.len() {
            return Some(counted);
        }
    }
    let kept_ms = counted.per_ms.len();
    assert!(
        KEPT_MIN * undisturbed_ms as f64 <= kept_ms as f64,
        "{kept_ms} of {undisturbed_ms} undisturbed ms are without stops"
    );
    None
}

/// The target's counts in the whole milliseconds of the run's window.
fn counts_per_ms(observed: &Observed) -> &[u32] {
    let seen = &observed.ledger.arrivals_per_ms;
    let index = |ms: u64| usize::try_from(ms - seen.first_ms).expect("within the ledger");
    let first = index(observed.window.begin_ns.div_ceil(MS_NS));
    &seen.counts[first..index(observed.window.end_ns / MS_NS)]
}

/// The counts without the machine's stops. A stop is two ms without an arrival, whose probability
/// is 5 in 100,000 at 5 arrivals per ms, and ends with the third ms after the next arrival, when
/// everything due meanwhile has been sent and read. The report covers how late a stop makes
/// requests; here it would hide the process between the stops.
fn without_stops(per_ms: &[u32]) -> Vec<u32> {
    let mut kept = Vec::new();
    let (mut empty_ms, mut catch_up_ms) = (0, 0);
    for count in per_ms {
        empty_ms = if *count == 0 { empty_ms + 1 } else { 0 };
        if empty_ms == STOP_MS {
            // These zeros were taken for chance.
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

/// The dispersion of counts per ms in windows of `window_ms`: the median over pieces of 600
/// windows, because the remains of one stop, such as 15 arrivals in the ms after it, would shift
/// the index of the whole.
fn dispersion(per_ms: &[u32], window_ms: usize) -> Dispersion {
    let sum = |counts: &[u32]| (counts.iter().map(|count| u64::from(*count)).sum(), 1.0);
    let windows = WINDOWS.min(per_ms.len() / window_ms);
    let pieces = per_ms.chunks_exact(windows * window_ms).map(|piece| {
        let counts: Vec<(u64, f64)> = piece.chunks_exact(window_ms).map(sum).collect();
        index_of_dispersion(&counts).expect("many windows")
    });
    let mut pieces: Vec<Dispersion> = pieces.collect();
    pieces.sort_by(|one, other| one.index.total_cmp(&other.index));
    pieces[pieces.len() / 2]
}

/// The tolerance of the index around 1.
fn reach(dispersion: &Dispersion) -> f64 {
    3.0 * dispersion_deviation(dispersion.windows)
}

/// Checks the dispersions in windows of these lengths. A failed check is final unless the verdicts
/// of its own runs blame the machine. If the machine disturbs too many runs to judge, the test
/// reports that and passes. The effect of lateness on a report's numbers is judged elsewhere.
fn check(
    arrivals: Arrivals,
    run_ms: u64,
    windows_ms: &[usize],
    is_expected: fn(&[Dispersion]) -> bool,
) {
    let kept_ms = KEPT_MS.min(WINDOWS * windows_ms.iter().max().expect("lengths"));
    let mut disturbed = Vec::new();
    for attempt in 0..ATTEMPTS_MAX {
        let Some(counted) = count(arrivals, attempt, run_ms, kept_ms) else {
            // The output of a test that passes is captured; this must be seen.
            let notice = "the machine disturbed too many runs: nothing was judged";
            writeln!(stderr(), "{arrivals:?} arrivals: {notice}").expect("stderr");
            return;
        };
        let found: Vec<Dispersion> =
            windows_ms.iter().map(|window_ms| dispersion(&counted.per_ms, *window_ms)).collect();
        assert!(found.iter().all(|one| 150 <= one.windows), "{found:?}");
        if is_expected(&found) {
            return;
        }
        assert!(!counted.disturbances.is_empty(), "on an undisturbed machine: {found:?}");
        disturbed.push((found, counted.disturbances));
    }
    panic!("each of {ATTEMPTS_MAX} attempts failed: {disturbed:#?}");
}

#[test]
fn poisson_arrivals_reach_the_target_as_a_poisson_process() {
    let _cores = alone();
    // Runs are short, so that a disturbed one costs little: three give enough.
    check(Arrivals::Poisson, 6_000, &[1, 10, 100], |found| {
        found.iter().all(|one| (one.index - 1.0).abs() <= reach(one))
    });
}

#[test]
fn constant_arrivals_reach_the_target_as_such() {
    let _cores = alone();
    check(Arrivals::Constant, 3_500, &[1, 10], |found| {
        found[1].index <= 0.05 && found.iter().all(|one| one.index < 1.0 - reach(one))
    });
}

#[test]
fn stops_are_cut_out_and_batches_leave_nothing_to_judge() {
    let stopped = [5, 4, 0, 0, 0, 0, 19, 6, 5, 5, 0, 7];
    assert_eq!(without_stops(&stopped), [5, 4, 5, 0, 7]);
    let batches: Vec<u32> = (0..8_000).map(|ms| if ms % 5 == 0 { 25 } else { 0 }).collect();
    assert!(without_stops(&batches).len() < WINDOWS * 10);
}
