//! Coverage of intervals for a few services and lengths of the window; `make coverage` has all of
//! them.

#[path = "../../examples/coverage/process.rs"]
mod process;
#[path = "../../examples/coverage/study.rs"]
mod study;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use process::Process;
use study::{Cell, FIGURES, PROCESSES, TIMES_MIN, truth};

use crate::support::alone;

/// Length of the runs that give a service's true figures, s: exact enough for windows of up to a
/// minute.
const TRUTH_S: u64 = 6_000;

/// The number of missed intervals may not exceed what chance makes of 5 % once in 1,000 times.
const RUNS: u64 = 60;
const WRONG_RUNS_MAX: u64 = 9;
const WRONG_MAX: f64 = WRONG_RUNS_MAX as f64 / RUNS as f64;

fn cell(process: Process, window_s: u64, runs: u64) -> Cell {
    static TRUTHS: Mutex<BTreeMap<String, [f64; FIGURES.len()]>> = Mutex::new(BTreeMap::new());
    let of = *TRUTHS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(process.to_string())
        .or_insert_with(|| truth(process, TRUTH_S));
    study::cell(process, window_s, runs, of)
}

#[test]
fn intervals_of_independent_requests_hold_and_are_stated() {
    let _cores = alone();
    let found = cell(Process::Independent, 10, RUNS);
    for (figure, least) in found.figures.iter().zip([0.9, 0.9, 0.7, 0.0, 0.9, 0.9]) {
        assert!(figure.wrong() <= WRONG_MAX, "{found:?}");
        assert!(least * RUNS as f64 <= figure.stated as f64, "{found:?}");
    }
    assert_eq!(found.called, 0, "{found:?}");
}

#[test]
fn windows_below_five_seconds_state_no_interval_and_call_nothing() {
    let _cores = alone();
    for process in [Process::Independent, Process::Queue { load: 0.9 }] {
        let found = cell(process, 3, 20);
        assert!(found.figures.iter().all(|figure| figure.stated == 0), "{process}: {found:?}");
        assert_eq!(found.called, 0, "{process}: {found:?}");
    }
}

#[test]
fn queues_stalls_and_correlation_over_seconds_are_covered_or_refused() {
    let _cores = alone();
    for process in [
        Process::Queue { load: 0.8 },
        Process::Queue { load: 0.95 },
        Process::Correlated { over_s: 0.3, by: 0.3 },
        Process::Correlated { over_s: 2.0, by: 0.3 },
        Process::Correlated { over_s: 5.0, by: 0.3 },
        Process::Stalls { every_s: 2.0, long_s: 0.1 },
    ] {
        let found = cell(process, 30, RUNS);
        let [p50, p90, p99, ..] = found.figures;
        for figure in [p50, p90, p99] {
            assert!(figure.wrong() <= WRONG_MAX, "{process}: {found:?}");
        }
        assert!(found.called <= 1, "{process}: {found:?}");
    }
}

#[test]
fn means_and_error_shares_hold_for_events_that_occur_ten_times() {
    let _cores = alone();
    for process in [
        Process::Independent,
        Process::Pareto { tail: 2.5 },
        Process::Queue { load: 0.8 },
        Process::Correlated { over_s: 0.1, by: 0.3 },
        Process::Stalls { every_s: 2.0, long_s: 0.1 },
    ] {
        let found = cell(process, 30, RUNS);
        for at in [4, 5] {
            assert!(TIMES_MIN <= process.times(FIGURES[at], 30), "{process}: {}", FIGURES[at]);
            let of = found.figures[at];
            assert!(of.wrong() <= WRONG_MAX, "{process}: {}: {of:?}", FIGURES[at]);
            assert!(0.5 <= of.stated_share(), "{process}: {}: {of:?}", FIGURES[at]);
        }
    }
}

#[test]
fn the_mean_of_a_tail_without_a_variance_has_no_upper_end() {
    let _cores = alone();
    let [.., mean, _] = cell(Process::Pareto { tail: 1.5 }, 10, RUNS).figures;
    assert!(mean.stated_share() <= 0.2, "{mean:?}");
}

#[test]
fn a_longer_window_states_no_less_of_events_that_occur_ten_times_in_a_shorter_one() {
    // A short window can't refuse what it can't see: with rare stalls, or a level that wanders over
    // most of it, a longer one may state less.
    let _cores = alone();
    let windows_s = [5, 10, 20];
    for process in PROCESSES {
        let happens = |figure, window_s| TIMES_MIN <= process.times(figure, window_s);
        if !FIGURES.iter().any(|figure| happens(figure, windows_s[1])) {
            continue;
        }
        // Whether they hold the truth doesn't matter here.
        let unknown = [0.0; FIGURES.len()];
        let cells = windows_s.map(|window_s| study::cell(process, window_s, 40, unknown));
        for (window_s, cells) in windows_s.iter().zip(cells.windows(2)) {
            for (at, figure) in FIGURES.iter().enumerate() {
                let [short, long] = [0, 1].map(|of| cells[of].figures[at]);
                assert!(
                    !happens(figure, *window_s) || !short.states_more_than(long),
                    "{process}: {figure} in {window_s} s: {short:?}, in twice that: {long:?}"
                );
            }
        }
    }
}

#[test]
fn false_objectives_are_rarely_met_and_drift_is_rarely_found() {
    let _cores = alone();
    for (process, window_s) in [
        (Process::Independent, 10),
        (Process::Queue { load: 0.8 }, 60),
        (Process::Correlated { over_s: 0.3, by: 0.3 }, 30),
        (Process::Stalls { every_s: 2.0, long_s: 0.1 }, 30),
    ] {
        let found = cell(process, window_s, RUNS);
        assert!(found.met.into_iter().all(|met| met <= WRONG_RUNS_MAX), "{process}: {found:?}");
        assert!(found.drifts <= WRONG_RUNS_MAX, "{process}: {found:?}");
    }
}

#[test]
fn a_window_too_short_for_a_percentile_meets_no_objective_for_it() {
    let _cores = alone();
    // In most of these windows fewer than 1 % of the requests take as long as the 99th percentile.
    for (process, window_s) in
        [(Process::Queue { load: 0.95 }, 5), (Process::Queue { load: 0.9 }, 10)]
    {
        let found = cell(process, window_s, RUNS);
        assert!(found.met.into_iter().all(|met| met <= WRONG_RUNS_MAX), "{process}: {found:?}");
    }
}

#[test]
fn a_long_window_states_an_interval_that_a_short_one_cannot() {
    let _cores = alone();
    let process = Process::Correlated { over_s: 0.3, by: 0.3 };
    let stated = |window_s| cell(process, window_s, 20).figures[0].stated;
    assert!(stated(5) < stated(60), "{} of 20, {} of 20", stated(5), stated(60));
    assert!(18 <= stated(60), "{} of 20", stated(60));
}
