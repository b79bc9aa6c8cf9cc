//! Predictions compared with figures worked out by hand.

use super::*;

const MS: u64 = 1_000_000;
const START_NS: u64 = 5_000_000_321;
/// 2,000 per second for a minute.
const COUNT: u64 = 120_000;

/// No request is late.
const PUNCTUAL: [Late; 1] = [Late { ms: 0.0, beyond: 0.0 }];

fn span(begin_ms: u64, end_ms: u64) -> Span {
    Span { begin_ns: START_NS + begin_ms * MS, end_ns: START_NS + end_ms * MS }
}

/// A stall of 50 ms each second, the first after `phase_ms`, from before the minute to after it.
fn stalls(phase_ms: u64) -> Vec<Span> {
    (0..61).map(|k| span(1_000 * k + phase_ms, 1_000 * k + phase_ms + 50)).collect()
}

fn minute() -> Span {
    span(1_000, 61_000)
}

fn check(truth: &Truth, expected: &[(f64, f64)]) {
    for (q, expected_ms) in expected {
        let quantile_ms = truth.quantile_ms(*q);
        assert!((quantile_ms - expected_ms).abs() < 0.000_6, "{q}: {quantile_ms} {expected_ms}");
    }
}

#[test]
fn a_hold_target_has_the_quantiles_of_its_formula() {
    // In the last phase, the window's edge cuts a stall in two.
    for phase_ms in [300, 0, 949, 975] {
        let truth = Truth::hold(1.0, &stalls(phase_ms), minute());
        let expected =
            [(0.5, 1.0), (0.9, 1.0), (0.95, 1.0), (0.99, 41.0), (0.999, 50.0), (1.0, 51.0)];
        check(&truth, &expected);
        assert!((truth.mean_ms() - 2.25).abs() < 1e-9, "{}", truth.mean_ms());
    }
}

#[test]
fn estimates_of_a_hold_target_deviate_as_the_formula_says() {
    let truth = Truth::hold(1.0, &stalls(300), minute());
    let close = |value: f64, expected: f64| (value - expected).abs() < 0.000_5;
    assert!(close(truth.mean_deviation_ms(COUNT), 0.018_3));
    let sample = Sample { count: COUNT, arrivals: Arrivals::Poisson };
    let band = truth.quantile_band(0.99, sample, &[Late { ms: 0.02, beyond: 0.0 }]);
    // 4 · P·√(q(1−q)/n) and a bucket to either side; the lateness upwards.
    assert!((band.low_ms - (41.0 - 1.149) * (1.0 - BUCKET)).abs() < 0.001, "{band:?}");
    assert!((band.high_ms - (41.0 + 1.149) * (1.0 + BUCKET) - 0.02).abs() < 0.001, "{band:?}");
    assert!(!band.contains(1.0), "a closed loop's figure is outside");
    // A hundredth that may be later moves the rank by as much; what is known of fewer counts.
    let late = [Late { ms: 0.0, beyond: 0.01 }, Late { ms: 1.0, beyond: 0.001 }];
    let moved = truth.quantile_band(0.95, sample, &late[..1]);
    assert!((moved.high_ms - truth.quantile_band(0.96, sample, &PUNCTUAL).high_ms).abs() < 0.5);
    assert!(close(truth.quantile_band(0.95, sample, &late).high_ms, 5.521), "{moved:?}");
    let mean = truth.mean_band(sample, 0.02);
    assert!(mean.contains(2.25) && mean.contains(2.34) && !mean.contains(2.35), "{mean:?}");
    assert!(!mean.contains(2.17), "{mean:?}");
}

#[test]
fn an_independent_tail_is_inverted() {
    let truth = Truth::hold(1.0, &stalls(300), minute()).with_tail(0.005, 200.0);
    let expected = [(0.5, 1.0), (0.9, 1.0), (0.95, 5.774), (0.99, 45.975), (0.999, 201.0)];
    check(&truth, &expected);
    assert!((truth.mean_ms() - 3.25).abs() < 1e-9);
}

#[test]
fn a_frozen_fifo_server_clears_its_backlog() {
    let expected = [(0.5, 0.2), (0.9, 0.2), (0.95, 20.2), (0.99, 44.2), (0.999, 49.6)];
    check(&Truth::serial(0.2, 2_000.0, &stalls(300), minute()), &expected);
    let expected = [(0.5, 0.4), (0.9, 30.4), (0.95, 40.4), (0.99, 48.4), (0.999, 50.2)];
    check(&Truth::serial(0.4, 2_000.0, &stalls(300), minute()), &expected);
}

#[test]
fn the_fluid_model_is_the_server_served_one_by_one() {
    // 2,500 arrivals at equal gaps of 1 ms, a service of 0.4 ms, stalls at 100 ms and 1,100 ms,
    // each 50 ms long.
    let stalls = [span(100, 150), span(1_100, 1_150)];
    let truth = Truth::serial(0.4, 1_000.0, &stalls, span(0, 2_500));
    let mut free_ms = 0.0_f64;
    let mut latencies_ms: Vec<f64> = (0..2_500_u32)
        .map(|arrival| {
            // The half keeps every service clear of a stall's start.
            let arrival_ms = f64::from(arrival) + 0.5;
            let mut begin_ms = free_ms.max(arrival_ms);
            for (from_ms, until_ms) in [(100.0, 150.0), (1_100.0, 1_150.0)] {
                if from_ms <= begin_ms && begin_ms < until_ms {
                    begin_ms = until_ms;
                }
            }
            free_ms = begin_ms + 0.4;
            free_ms - arrival_ms
        })
        .collect();
    latencies_ms.sort_by(f64::total_cmp);
    let sample = Sample { count: 2_500, arrivals: Arrivals::Constant };
    for (at, latency_ms) in latencies_ms.iter().enumerate() {
        let band = truth.quantile_band((at + 1) as f64 / 2_500.0, sample, &PUNCTUAL);
        // The first arrival in a stall waits half a gap less than one at its very start.
        assert!(
            band.low_ms - 1e-9 <= *latency_ms && band.contains(*latency_ms),
            "{at} {latency_ms} {band:?}"
        );
    }
    let mean_ms = latencies_ms.iter().sum::<f64>() / 2_500.0;
    assert!(truth.mean_band(sample, 0.0).contains(mean_ms), "{mean_ms} {}", truth.mean_ms());
}

#[test]
fn the_published_figures_are_predicted() {
    // 450 per second at equal gaps for 30 s; requests 500, 1,000, … 13,500 take 200 ms each.
    let pauses: Vec<Span> = (1..=27_u64)
        .map(|k| (500 * k - 1) * 1_000_000_000 / 450)
        .map(|at_ns| Span { begin_ns: START_NS + at_ns, end_ns: START_NS + at_ns + 200 * MS })
        .collect();
    let truth = Truth::pausing(1.0, 450.0, &pauses, span(0, 30_000));
    let sample = Sample { count: 13_500, arrivals: Arrivals::Constant };
    for (q, published_ms) in [(0.5, 1.0), (0.9, 137.89), (0.99, 194.64), (0.999, 200.15)] {
        let band = truth.quantile_band(q, sample, &PUNCTUAL);
        assert!(band.contains(published_ms), "{q}: {published_ms} {band:?}");
        // One arrival per ramp is 1.22 ms of latency.
        assert!(band.high_ms - band.low_ms < 3.0, "{band:?}");
    }
}

#[test]
fn stalls_outside_the_window_add_nothing() {
    let truth = Truth::hold(1.0, &[span(0, 1_000), span(61_000, 61_050)], minute());
    assert_eq!((truth.quantile_ms(1.0), truth.mean_ms()), (1.0, 1.0));
}

#[test]
fn only_logged_stalls_count() {
    let logged = [span(2_000, 2_100)];
    check(&Truth::hold(1.0, &logged, span(1_000, 2_000)), &[(1.0, 1.0)]);
    // 100 of 1,100 ms are stalled: the last 1 % is 11 ms of them.
    check(&Truth::hold(1.0, &logged, span(1_000, 2_100)), &[(0.99, 90.0), (1.0, 101.0)]);
}

#[test]
#[should_panic(expected = "a backlog lasts into the next stall")]
fn a_backlog_that_never_ends_is_refused() {
    Truth::serial(0.9, 1_000.0, &[span(0, 50), span(100, 150)], span(0, 1_000));
}
