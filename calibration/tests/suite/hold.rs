//! On a target that stalls for 50 ms every second, naive and corrected latency of an open model
//! differ by exactly how late requests were sent, whatever the version of HTTP.

use std::time::Duration;

use crate::support::{all_hold, alone, check_runs, open, plan, sample_target};
use anyhow::ensure;
use calibration::observed::{allow_for_paths, late};
use calibration::truth::{Late, Sample, Truth};
use engine::plan::{Arrivals, Http, Plan};
use target::{Stall, TargetConfig};

fn stalling() -> TargetConfig {
    TargetConfig {
        stall: Some(Stall { every: Duration::from_secs(1), hold: Duration::from_millis(50) }),
        ..sample_target(Duration::from_millis(1))
    }
}

/// Users of the open load wait as arithmetic predicts.
fn measures_the_stalls(load: &Plan) {
    check_runs(&stalling(), &open("2k", load.clone()), |observed| {
        // Without queueing in the generator the open model needs no correction: the two latencies
        // differ by how late requests were sent, in the mean by exactly that.
        let whole = &observed.report.whole;
        let mean = |mean: Option<f64>| mean.expect("values");
        let lateness_us = mean(whole.pacer_lateness.mean) + mean(whole.connection_wait.mean);
        let between_us = mean(whole.corrected.mean) - mean(whole.naive.mean);
        assert!((between_us - lateness_us).abs() < 1e-3, "{between_us} {lateness_us}");
        let (naive_us, corrected_us) =
            (mean(whole.naive.quantile_us(0.99)), mean(whole.corrected.quantile_us(0.99)));
        assert!(naive_us <= corrected_us, "{naive_us} {corrected_us}");

        let truth = Truth::hold(1.0, &observed.ledger.stalls, observed.window);
        let sample = Sample { count: whole.counts.intended, arrivals: Arrivals::Poisson };
        // The naive latency leaves out how late the sends were.
        let low_ms =
            |late: &Late| truth.quantile_band(0.99 - late.beyond, sample, &[]).low_ms - late.ms;
        let low_ms = late(&observed.report).iter().map(low_ms).fold(0.0, f64::max);
        ensure!(low_ms <= naive_us / 1e3, "naive p99 {naive_us} us is below {low_ms} ms");
        let mut comparisons = observed.compare(&truth, &[0.5, 0.9, 0.99, 0.999])?;
        if load.http == Http::V2 {
            // 2,000/s are two in each millisecond.
            allow_for_paths(&mut comparisons, &truth, 2.0);
        }
        all_hold(observed, &comparisons)
    });
}

#[test]
fn open_load_measures_the_stalls_as_users_do() {
    let _cores = alone();
    measures_the_stalls(&plan(Duration::from_secs(8)));
}

#[test]
fn over_http_2_open_load_measures_the_stalls_and_a_closed_loop_on_one_connection_hides_them() {
    let _cores = alone();
    let over_http_2 = Plan { http: Http::V2, ..plan(Duration::from_secs(8)) };
    measures_the_stalls(&over_http_2);
    // All hundred users of the connection wait at once, each for one slow response: a hundred for
    // each stall, however many users would have come meanwhile.
    let closed = Plan { conns: Some(1), streams: Some(100), ..over_http_2 };
    check_runs(&stalling(), &closed, |observed| {
        let whole = &observed.report.whole;
        let stalls = observed.ledger.stalls.len() as u64;
        ensure!(100 * 100 * stalls < whole.counts.answered, "too slow: {:?}", whole.counts);
        let naive_us = whole.naive.quantile_us(0.99).expect("values");
        ensure!(naive_us < 20_000.0, "naive p99 {naive_us} us");
        Ok(())
    });
}
