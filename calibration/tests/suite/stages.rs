//! A rate that changes: what arrives at the target in each second is what the curve asks for.

use std::time::Duration;

use crate::support::{alone, check_runs, plan, sample_target};
use anyhow::ensure;
use calibration::observed::{Observed, late};
use engine::load::curve::Curve;
use engine::plan::stage::Stage;
use engine::plan::{Arrivals, Plan};
use engine::sys::units::Nanos;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Three stages of 6 s in all; the middle one is a ramp.
fn staged(arrivals: Arrivals) -> Plan {
    let stages = ["300:2s", "300..1200:3s", "100:1s"];
    let stage: Vec<Stage> = stages.map(|text| text.parse().expect("a stage")).to_vec();
    let duration = Nanos(stage.iter().map(|stage| stage.duration.0).sum());
    Plan { stage, duration, arrivals, ..plan(Duration::from_secs(6)) }
}

/// Arrivals at the target in each second of the window, which begins within a millisecond of the
/// ledger's.
fn each_second(observed: &Observed) -> Vec<u64> {
    let arrivals = &observed.ledger.arrivals_per_ms;
    let first_ms = observed.window.begin_ns / 1_000_000;
    let skipped = usize::try_from(first_ms - arrivals.first_ms).expect("it has begun");
    let seconds = arrivals.counts[skipped..].chunks(1_000).map(|ms| ms.iter().sum::<u32>());
    seconds.map(u64::from).take(6).collect()
}

fn check(arrivals: Arrivals, deviation: fn(f64) -> f64) {
    let _cores = alone();
    let plan = staged(arrivals);
    let curve = Curve::of_plan(&plan).expect("an open model");
    check_runs(&sample_target(Duration::from_millis(1)), &plan, |observed| {
        for (second, arrived) in (0..).zip(each_second(observed)) {
            let expected = curve.expected(second * SECOND_NS, (second + 1) * SECOND_NS);
            // A request on its way at a second's edge may count in the next one; so may one that
            // comes late.
            let peak = 1.2 * (2.0 + late(&observed.report)[0].ms);
            let off = (arrived as f64 - expected).abs();
            ensure!(
                off <= deviation(expected) + peak,
                "second {second}: {arrived} arrived, {expected} expected"
            );
        }
        assert_eq!(observed.ledger.received, observed.report.whole.counts.intended);
        Ok(())
    });
}

#[test]
fn poisson_arrivals_of_each_second_follow_the_curve_within_four_standard_deviations() {
    check(Arrivals::Poisson, |expected| 4.0 * expected.sqrt());
}

#[test]
fn constant_arrivals_of_each_second_follow_the_curve_within_one() {
    check(Arrivals::Constant, |_| 1.0);
}
