//! The intervals of a report: from the spread between pieces of the run, and none if that is
//! required but unknown. And figures that the report states twice must be the same.

use engine::plan::{Arrivals, Plan};
use engine::record::outcome::Outcome;
use engine::record::stamps::{Ending, Stamps};
use engine::report::Report;
use engine::stats::arrival_proof::ArrivalProof;
use engine::stats::interval::Method;
use engine::stats::percentiles::Percentiles;
use engine::sys::units::{CoreList, Nanos};
use engine::verify::report_alone;

use crate::made_up;

const SECOND_NS: u64 = 1_000_000_000;

fn plan(seconds: u64) -> Plan {
    lasting(Nanos::from_secs(seconds))
}

fn lasting(duration: Nanos) -> Plan {
    Plan {
        target: "http://127.0.0.1:1/".to_owned(),
        rate: Some("500".parse().expect("a rate")),
        arrivals: Arrivals::Constant,
        duration,
        warmup: Nanos(0),
        cores: Some(CoreList::new(vec![0])),
        ..Plan::default()
    }
    .complete(&[0])
    .expect("a plan that runs")
}

/// A run of this plan in which each request takes `latency_ns` of its intended time.
fn made(plan: Plan, latency_ns: impl Fn(u64) -> u64) -> Report {
    let fate = |due_ns: u64| {
        let stamps = Stamps {
            intended_ns: due_ns,
            noticed_ns: due_ns,
            sent_ns: due_ns + 100,
            waited: false,
            step: 0,
            session: None,
        };
        let outcome = Outcome::Answered(if due_ns.is_multiple_of(9) { 503 } else { 200 });
        (stamps, Ending::at(stamps.sent_ns + latency_ns(due_ns)), outcome)
    };
    let recorded = made_up::record(&plan, (0, 1), fate, |_, _, _| {});
    made_up::report(&plan, vec![recorded], None)
}

/// One second with ten stalls: requests in the last half wait for its end.
fn stalling(due_ns: u64) -> u64 {
    let within_ns = due_ns % (10 * SECOND_NS);
    if (SECOND_NS / 2..SECOND_NS).contains(&within_ns) {
        SECOND_NS - within_ns
    } else {
        even(due_ns)
    }
}

/// From 1 to 1.5 ms, independent of time.
fn even(due_ns: u64) -> u64 {
    1_000_000 + engine::load::schedule::mix(due_ns) % 500_000
}

fn others(report: &Report) -> Vec<&Percentiles> {
    let part = &report.whole;
    let successes = part.successes.as_ref().expect("some answers were no successes");
    [
        &part.naive,
        &part.pacer_lateness,
        &part.connection_wait,
        &successes.naive,
        &successes.corrected,
    ]
    .map(|distribution| &distribution.percentiles)
    .to_vec()
}

/// No intervals, and no requirements for them.
fn assert_no_intervals(percentiles: &Percentiles) {
    assert_eq!((percentiles.method, percentiles.dependent), (None, Some(true)));
    for (_, percentile) in percentiles.iter() {
        assert_eq!((percentile.interval, percentile.needed), (None, None));
    }
}

fn assert_verified(report: &Report) {
    assert_eq!(wrong(report), Vec::<String>::new());
}

/// The failed findings of `verify`.
fn wrong(report: &Report) -> Vec<String> {
    let findings = report_alone(report).into_iter().filter(|finding| !finding.ok);
    findings.map(|finding| finding.what).collect()
}

#[test]
fn only_corrected_latencies_have_intervals_if_they_depend_on_each_other() {
    let report = made(plan(30), stalling);
    let corrected = &report.whole.corrected.percentiles;
    assert_eq!((corrected.method, corrected.dependent), (Some(Method::Batches), Some(true)));
    others(&report).into_iter().for_each(assert_no_intervals);
    assert_verified(&report);
}

#[test]
fn independent_latencies_have_intervals_by_rank() {
    let report = made(plan(30), even);
    let corrected = &report.whole.corrected.percentiles;
    assert_eq!((corrected.method, corrected.dependent), (Some(Method::Batches), Some(false)));
    for intervals in others(&report) {
        assert_eq!(intervals.method, Some(Method::OrderStatistics));
        assert_eq!(intervals.dependent, Some(false));
        assert!(intervals.at(0.5).interval.is_some(), "{intervals:?}");
        assert!(intervals.at(0.99).interval.is_some(), "{intervals:?}");
    }
    assert_verified(&report);
}

#[test]
fn a_short_run_has_no_intervals_and_states_the_length_it_needs() {
    let report = made(plan(3), stalling);
    let corrected = &report.whole.corrected.percentiles;
    assert_eq!((corrected.method, corrected.dependent), (Some(Method::Batches), None));
    let median = corrected.at(0.5);
    assert_eq!((median.interval, median.needed, median.needed_s), (None, None, Some(5.0)));
    // More seconds alone would still have too few requests.
    let tail = corrected.at(0.999);
    assert_eq!((tail.interval, tail.needed, tail.needed_s), (None, Some(5_662), None));
    for intervals in others(&report) {
        assert_eq!((intervals.method, intervals.dependent), (None, None));
        assert_eq!(intervals.at(0.5).interval, None);
    }
    assert_verified(&report);
}

#[test]
fn only_the_length_decides_whether_a_window_is_long_enough() {
    for (length_ns, states) in
        [(4_600_000_000, false), (4_990_000_000, false), (5_000_000_000, true)]
    {
        let report = made(lasting(Nanos(length_ns)), even);
        let median = report.whole.corrected.percentiles.at(0.5);
        assert_eq!(median.interval.is_some(), states, "{length_ns} ns: {median:?}");
        assert_eq!(median.needed_s, (!states).then_some(5.0), "{length_ns} ns");
        assert_verified(&report);
    }
}

#[test]
fn the_method_is_named_even_if_the_median_has_no_interval() {
    // Half of the seconds take one time, half another: it takes a longer window to know where
    // between them the median is.
    let report =
        made(plan(6), |due_ns| if due_ns / SECOND_NS < 3 { 1_000_000 } else { 90_000_000 });
    let corrected = &report.whole.corrected.percentiles;
    let median = corrected.at(0.5);
    assert_eq!((median.interval, corrected.method), (None, Some(Method::Batches)));
    assert!(median.needed_s.is_some_and(|needed_s| 6.0 < needed_s), "{median:?}");
    assert_verified(&report);
}

type Change = fn(&mut Report);

#[test]
fn figures_stated_twice_are_the_same() {
    let report = made(plan(6), even);
    let changes: [(&str, Change); 5] = [
        ("naive.intervals", |report| report.whole.naive.percentiles.method = None),
        ("corrected.intervals", |report| report.whole.corrected.percentiles.dependent = None),
        ("corrected.intervals", |report| {
            report.whole.corrected.percentiles.at_mut(0.999).needed = None;
        }),
        ("arrivals: intended", |report| arrivals(report).intended += 1),
        ("arrivals: sent", |report| arrivals(report).sent -= 1),
    ];
    for (what, change) in changes {
        let mut changed = report.clone();
        change(&mut changed);
        let wrong = wrong(&changed);
        assert!(wrong.iter().any(|found| found.starts_with(what)), "{what}: {wrong:?}");
    }
}

fn arrivals(report: &mut Report) -> &mut ArrivalProof {
    report.arrivals.as_mut().expect("an open model")
}
