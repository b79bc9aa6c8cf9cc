//! Coverage of intervals for a few services and lengths of the window; `make coverage` has all of
//! them.

use calibration::coverage::{Process, cell};

use crate::support::alone;

/// The number of missed intervals may not exceed what chance makes of 5 % once in 1,000 times.
const RUNS: u64 = 60;
const WRONG_MAX: f64 = 9.0 / RUNS as f64;

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
fn a_long_window_states_an_interval_that_a_short_one_cannot() {
    let _cores = alone();
    let process = Process::Correlated { over_s: 0.3, by: 0.3 };
    let stated = |window_s| cell(process, window_s, 20).figures[0].stated;
    assert!(stated(5) < stated(60), "{} of 20, {} of 20", stated(5), stated(60));
    assert!(18 <= stated(60), "{} of 20", stated(60));
}
