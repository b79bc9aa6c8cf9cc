//! A target that stalls for 50 ms each second: the open model's corrected latency is what a user
//! waits, the closed loop's is not.

use std::time::Duration;

use calibration::truth::{Sample, Truth};
use engine::plan::{Arrivals, Plan};
use target::{Stall, TargetConfig};

use crate::support::{alone, judge, open, plan, run, succeed, witness};

fn stalling() -> TargetConfig {
    TargetConfig {
        stall: Some(Stall { every: Duration::from_secs(1), hold: Duration::from_millis(50) }),
        ..witness(Duration::from_millis(1))
    }
}

#[test]
fn open_load_sees_the_stalls_as_its_users_do() {
    let _cores = alone();
    succeed(|| {
        let observed = run(&stalling(), &open("2k", plan(Duration::from_secs(8))));
        let truth = Truth::hold(1.0, &observed.ledger.stalls, observed.window);
        let findings = observed.findings(&truth, &[0.5, 0.9, 0.99, 0.999]).expect("a histogram");
        judge(&observed, &findings)?;

        // Without a queue of its own the open model is right before any correction: the two views
        // differ by the lateness of the sends, and in the mean by exactly that.
        let whole = &observed.report.whole;
        let mean = |mean: Option<f64>| mean.expect("values");
        let lateness_us = mean(whole.pacer_lateness.mean) + mean(whole.connection_wait.mean);
        let between_us = mean(whole.corrected.mean) - mean(whole.naive.mean);
        assert!((between_us - lateness_us).abs() < 1e-3, "{between_us} {lateness_us}");
        let (naive_us, corrected_us) = (mean(whole.naive.p99), mean(whole.corrected.p99));
        assert!(naive_us <= corrected_us, "{naive_us} {corrected_us}");
        let sample = Sample { count: whole.counts.intended, arrivals: Arrivals::Poisson };
        let band = truth.quantile_band(0.99, sample, observed.lateness_p99_ms());
        if naive_us / 1e3 < band.low_ms - observed.lateness_p99_ms() {
            return Err(format!("naive p99 {naive_us} us is below {band:?}"));
        }
        Ok(())
    });
}

#[test]
fn a_closed_loop_on_one_connection_does_not() {
    let _cores = alone();
    succeed(|| {
        let closed = Plan { conns: Some(1), ..plan(Duration::from_secs(4)) };
        let observed = run(&stalling(), &closed);
        assert!(3 <= observed.ledger.stall_count, "the target did stall");
        let truth = Truth::hold(1.0, &observed.ledger.stalls, observed.window);
        let p99_ms = observed.report.whole.naive.p99.expect("values") / 1e3;
        let sample =
            Sample { count: observed.report.whole.counts.intended, arrivals: Arrivals::Poisson };
        let band = truth.quantile_band(0.99, sample, 0.0);
        assert!(1.0 <= p99_ms, "{p99_ms} ms");
        // Where the target was late by itself, its own figure takes the place of the 1 ms that it
        // was asked for.
        let held_ms = observed.ledger.held.p99.expect("values") / 1e3;
        if held_ms + 4.0 <= p99_ms || band.contains(p99_ms) {
            return Err(format!("a closed loop reports {p99_ms} ms; its users' {band:?}"));
        }
        Ok(())
    });
}
