//! Objectives are judged by the confidence interval of their figure, not by the figure.

use std::collections::HashMap;

use engine::load::curve::Curve;
use engine::load::mix::Mix;
use engine::load::schedule::Schedule;
use engine::load::share::Share;
use engine::plan::Plan;
use engine::plan::scenario::{Scenario, Step};
use engine::record::outcome::{Outcome, TimeoutKind};
use engine::record::stamps::{Ending, StampedBy, Stamps};
use engine::report::Report;
use engine::report::slo::{JudgedObjective, Judgement};
use engine::sys::units::{CoreList, Nanos};
use engine::verify::report_alone;

use crate::made_up;
use crate::sample_run::{scenarios, wrong};

const MS: u64 = 1_000_000;

/// The report of 20 s at 500/s, with these objectives, of requests that take 1 to 11 ms; one in a
/// hundred, at random, is answered with a 503.
fn report(slo: &str) -> Report {
    // Independent of when it is due, and of how long it takes.
    report_of(slo, |due_ns| (engine::load::schedule::mix(due_ns) >> 32).is_multiple_of(100))
}

/// The same; `fails` picks the requests that are answered with a 503.
fn report_of(slo: &str, fails: fn(u64) -> bool) -> Report {
    let rate = Some("500".parse().expect("a rate"));
    report_by(&Plan { rate, duration: Nanos::from_secs(20), ..plan_with(slo) }, fails)
}

fn plan_with(slo: &str) -> Plan {
    Plan {
        target: "http://127.0.0.1:1/".to_owned(),
        warmup: Nanos(0),
        cores: Some(CoreList::new(vec![0])),
        slo: Some(slo.parse().expect("objectives")),
        ..Plan::default()
    }
}

fn report_by(plan: &Plan, fails: fn(u64) -> bool) -> Report {
    report_where(plan, |due_ns| {
        // Spread evenly, and independent of when it is due.
        let latency_ns = MS + engine::load::schedule::mix(due_ns) % (10 * MS);
        (latency_ns, Outcome::Answered(if fails(due_ns) { 503 } else { 200 }))
    })
}

/// The report of requests that leave when they are due; `end` gives their duration, ns, and their
/// outcome.
fn report_where(plan: &Plan, end: impl Fn(u64) -> (u64, Outcome)) -> Report {
    let plan = plan.clone().complete(&[0]).expect("a plan that runs");
    let fate = |due_ns: u64| {
        let stamps = Stamps {
            intended_ns: due_ns,
            noticed_ns: due_ns,
            sent_ns: due_ns,
            waited: false,
            step: 0,
            session: None,
        };
        let (latency_ns, outcome) = end(due_ns);
        let received_ns = due_ns + latency_ns;
        let ending = Ending { received_ns, handled_ns: received_ns, stamped_by: StampedBy::Kernel };
        (stamps, ending, outcome)
    };
    made_up::report(&plan, vec![made_up::record(&plan, (0, 1), fate, |_, _, _| {})], None)
}

#[test]
fn requests_given_up_early_are_beyond_every_bound() {
    let rate = Some("500".parse().expect("a rate"));
    let plan = plan_with("p90<1s,p99<1s,max<1s,mean<1s");
    let plan = Plan { rate, duration: Nanos::from_secs(20), ..plan };
    // One in fifty waits 100 ms in vain, the others get their answer after 1 ms.
    let report = report_where(&plan, |due_ns| {
        match (engine::load::schedule::mix(due_ns) >> 32).is_multiple_of(50) {
            true => (100 * MS, Outcome::TimedOut(TimeoutKind::Timeout)),
            false => (MS, Outcome::Answered(200)),
        }
    });
    let [p90, p99, max, mean] = judged(&report).1 else { panic!("four objectives") };
    assert_eq!(p90.judgement, Judgement::Met, "{p90:?}");
    assert_eq!(p99.judgement, Judgement::Missed, "{p99:?}");
    assert!(p99.beyond.is_some_and(|share| 0.01 < share && share < 0.03), "{p99:?}");
    for lower in [max, mean] {
        assert_eq!(lower.judgement, Judgement::Undecided, "{lower:?}");
        assert_eq!(lower.interval[1], None, "{lower:?}");
    }
}

fn judged(report: &Report) -> (Judgement, &[JudgedObjective]) {
    let slo = report.slo.as_ref().expect("objectives");
    (slo.judgement, &slo.objectives)
}

#[test]
fn a_bound_within_the_interval_decides_nothing() {
    let metrics = "p50<1s,p99<1s,mean<1s,errors<100%";
    let found = report(metrics);
    for objective in judged(&found).1 {
        let [low, high] = objective.interval.map(|end| end.expect("10,000 requests have both"));
        let figure = objective.figure.expect("10,000 requests have a figure");
        assert!(low < figure && figure < high, "{objective:?}");
        let metric = &objective.metric;
        for (bound, judgement) in [
            (low * 0.99, Judgement::Missed),
            ((low + figure) / 2.0, Judgement::Undecided),
            ((figure + high) / 2.0, Judgement::Undecided),
            (high * 1.01, Judgement::Met),
        ] {
            let bound = match metric.as_str() {
                "errors" => format!("errors<{}%", bound * 100.0),
                _ => format!("{metric}<{:.0}ns", bound * 1e3),
            };
            let found = report(&bound);
            assert_eq!(judged(&found).0, judgement, "{bound}: {:?}", found.slo);
        }
    }
}

#[test]
fn the_worst_objective_is_that_of_the_run() {
    for (slo, judgement) in [
        ("p99<1s,errors<50%", Judgement::Met),
        ("p99<1s,p99.99<1s", Judgement::Undecided),
        ("p99.99<1s,p50<1ms", Judgement::Missed),
        ("max<11ms", Judgement::Met),
        ("max<2ms", Judgement::Missed),
        ("errors<0.1%", Judgement::Missed),
    ] {
        assert_eq!(judged(&report(slo)).0, judgement, "{slo}");
    }
}

#[test]
fn too_few_samples_decide_nothing_and_the_number_needed_is_stated() {
    let found = report("p99.99<1m");
    let objective = &judged(&found).1[0];
    assert_eq!((objective.figure, objective.interval[1]), (None, None));
    assert!(objective.needed.is_some_and(|needed| 50_000 < needed), "{objective:?}");
    assert_eq!(objective.judgement, Judgement::Undecided);
    // To show that it is above 1 ms takes no upper end.
    assert_eq!(judged(&report("p99.99<1ms")).0, Judgement::Missed);
}

#[test]
fn requests_without_a_good_answer_are_errors() {
    let found = report("errors<5%");
    let counts = &found.whole.counts;
    let share = counts.unexpected_status as f64 / counts.intended as f64;
    assert!(0.0 < share);
    assert_eq!(judged(&found).1[0].figure, Some(share));
}

#[test]
fn errors_in_a_burst_prove_less() {
    let judged_of = |report: &Report| {
        let objective = judged(report).1[0].clone();
        let [low, high] = objective.interval.map(|end| end.expect("10,000 requests"));
        (objective.judgement, objective.figure.expect("requests"), low, high)
    };
    // A fifth of one second in 20, as many requests as if one in a hundred failed.
    let burst = report_of("errors<2%", |due_ns| (7_000..7_200).contains(&(due_ns / MS)));
    let (judgement, share, low, high) = judged_of(&burst);
    assert!((0.008..0.012).contains(&share), "{share}");
    assert_eq!(judgement, Judgement::Undecided, "{share} in {low} to {high}");
    assert!(low < 0.001 && 0.03 < high, "{low} to {high}");
    let (judgement, _, low, high) = judged_of(&report("errors<2%"));
    assert_eq!(judgement, Judgement::Met, "{low} to {high}");
}

#[test]
fn one_error_in_a_few_requests_misses_no_bound() {
    // The 85th of 170 requests: at 0.1 %, one such run in six has a failure.
    let plan = |slo: &str| Plan {
        rate: Some("25".parse().expect("a rate")),
        arrivals: engine::plan::Arrivals::Constant,
        duration: Nanos(6_800 * MS),
        ..plan_with(slo)
    };
    let at = |fails: fn(u64) -> bool| {
        let found = report_by(&plan("errors<0.1%"), fails);
        (found.whole.counts.unexpected_status, judged(&found).0)
    };
    assert_eq!(at(|due_ns| due_ns / (40 * MS) == 85), (1, Judgement::Undecided));
    assert_eq!(at(|due_ns| due_ns / (40 * MS) % 17 == 8), (10, Judgement::Missed));
}

#[test]
fn a_run_without_objectives_has_no_judgement() {
    let plan = Plan { rate: Some("5".parse().expect("a rate")), ..Plan::default() };
    let plan = Plan { target: "http://127.0.0.1:1/".to_owned(), ..plan };
    let plan = plan.complete(&[0]).expect("a plan that runs");
    assert_eq!(made_up::report(&plan, vec![made_up::nothing(&plan)], None).slo, None);
}

#[test]
fn a_percentile_is_judged_by_the_share_beyond_its_bound() {
    let found = report("p99<10ms,p99.9<12ms");
    let [within, all_below] = judged(&found).1 else { panic!("two objectives") };
    // A tenth takes 10 to 11 ms, and nothing takes longer.
    let share = within.beyond.expect("a share");
    assert!((0.09..0.11).contains(&share), "{share}");
    assert!(within.beyond_interval.is_some_and(|[low, high]| low < share && share < high));
    assert_eq!(within.judgement, Judgement::Missed);
    assert_eq!((all_below.beyond, all_below.judgement), (Some(0.0), Judgement::Met));
    assert_eq!(judged(&report("mean<1s")).1[0].beyond, None);
}

/// The step of each request of a plan, by its due time.
fn steps(plan: &Plan) -> HashMap<u64, u16> {
    let curve = Curve::of_plan(plan).expect("an open plan");
    let whole = Share::whole();
    let schedule = Schedule::new(curve, plan.arrivals, plan.seed, plan.end_ns(), whole);
    let mix = Mix::of_plan(plan);
    schedule.map(|arrival| (arrival.due_ns, mix.step(arrival.number))).collect()
}

/// Two routes at 500/s for 20 s: the first takes 1 to 3 ms, the second 6 to 16 ms; one in fifty of
/// the second's requests is answered with a 503.
fn of_two_routes(plan: Plan) -> Report {
    let rate = plan.stage.is_empty().then(|| "500".parse().expect("a rate"));
    let duration = if plan.stage.is_empty() { Nanos::from_secs(20) } else { plan.duration };
    let plan = Plan { rate, duration, ..plan };
    let steps = steps(&plan.clone().complete(&[0]).expect("a plan that runs"));
    report_where(&plan, |due_ns| {
        let random = engine::load::schedule::mix(due_ns);
        match steps[&due_ns] {
            0 => (MS + random % (2 * MS), Outcome::Answered(200)),
            _ => {
                let fails = (random >> 32).is_multiple_of(50);
                (6 * MS + random % (10 * MS), Outcome::Answered(if fails { 503 } else { 200 }))
            }
        }
    })
}

fn judgements(report: &Report) -> Vec<(Option<&str>, Judgement)> {
    judged(report).1.iter().map(|one| (one.of.as_deref(), one.judgement)).collect()
}

#[test]
fn an_objective_for_a_scenario_is_judged_by_its_requests_alone() {
    use Judgement::{Met, Missed};
    let slo = "p99<20ms,/a: p99<5ms,/b: p99<5ms,/a: errors<1%,/b: errors<1%,/b: mean<12ms,\
        /a: max<3ms";
    let report = of_two_routes(Plan { scenario: scenarios(), ..plan_with(slo) });
    let [a, b] = [Some("/a"), Some("/b")];
    assert_eq!(
        judgements(&report),
        [(None, Met), (a, Met), (b, Missed), (a, Met), (b, Missed), (b, Met), (a, Met)]
    );
    assert_eq!(judged(&report).0, Missed);
    for part in &report.whole.parts {
        for (quantile, percentile) in part.corrected.percentiles.iter().take(3) {
            assert!(percentile.interval.is_some(), "{}: {}", part.name, quantile.label);
        }
    }
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn a_scenarios_own_objectives_are_judged_after_the_plans() {
    let mut scenario = scenarios();
    scenario[1].step[0].slo = "p50<9ms".parse().ok();
    let report = of_two_routes(Plan { scenario, ..plan_with("p99<20ms") });
    assert_eq!(judgements(&report), [(None, Judgement::Met), (Some("/b"), Judgement::Missed)]);
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn an_objective_for_a_stage_covers_all_its_scenarios_and_one_for_a_scenario_all_stages() {
    use Judgement::{Met, Missed};
    let stage = "calm=200:10s,300..900:5s,busy=900:10s".split(',');
    let slo = "calm: p99<20ms,busy: p50<1ms,busy: errors<5%,/a: p99<5ms,/b: p99<5ms";
    let plan = Plan {
        stage: stage.map(|stage| stage.parse().expect(stage)).collect(),
        scenario: scenarios(),
        duration: Plan::default().duration,
        ..plan_with(slo)
    };
    let report = of_two_routes(plan);
    let judged: Vec<Judgement> = judgements(&report).into_iter().map(|(_, it)| it).collect();
    assert_eq!(judged, [Met, Missed, Met, Met, Missed], "{:?}", report.slo);
    let names = report.whole.parts.iter().map(|part| part.stage.as_ref()?.name.as_deref());
    assert_eq!(names.take(3).collect::<Vec<_>>(), [Some("calm"), None, Some("busy")]);
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn the_only_scenario_or_stage_is_the_whole_run() {
    let step = Step { url: Some("/".to_owned()), ..Step::default() };
    let scenario = vec![Scenario {
        name: "home".to_owned(),
        weight: 1,
        step: vec![step],
        ..Scenario::default()
    }];
    let rate = Some("500".parse().expect("a rate"));
    let duration = Nanos::from_secs(20);
    let plan = Plan { scenario, rate, duration, ..plan_with("p99<20ms,home: p99<20ms") };
    let report = report_by(&plan, |_| false);
    let stage = vec!["steady=500:20s".parse().expect("a stage")];
    let slo = plan_with("p99<20ms,steady: p99<20ms").slo;
    let duration = Plan::default().duration;
    let staged = Plan { stage, scenario: scenarios(), rate: None, duration, slo, ..plan };
    for report in [report, report_by(&staged, |_| false)] {
        let [whole, named] = judged(&report).1 else { panic!("two") };
        assert_eq!(*whole, JudgedObjective { of: None, ..named.clone() });
        assert!(whole.figure.is_some(), "{whole:?}");
        assert_eq!(wrong(report_alone(&report)), []);
    }
}

#[test]
fn a_stall_of_one_route_widens_its_own_interval() {
    let rate = Some("500".parse().expect("a rate"));
    let duration = Nanos::from_secs(20);
    let plan =
        Plan { rate, duration, scenario: scenarios(), ..plan_with("/a: p99<5ms,/b: p99<5ms") };
    let steps = steps(&plan.clone().complete(&[0]).expect("a plan that runs"));
    let second = 1_000 * MS;
    // In 3 % of the time, in two bursts, the second route is slow.
    let report = report_where(&plan, |due_ns| {
        let stalls =
            [3, 14].iter().any(|at| (at * second..at * second + 300 * MS).contains(&due_ns));
        let random = engine::load::schedule::mix(due_ns) % MS;
        let latency_ns = if stalls && steps[&due_ns] == 1 { 100 * MS } else { MS };
        (latency_ns + random, Outcome::Answered(200))
    });
    let [a, b] = judged(&report).1 else { panic!("two") };
    assert_eq!(a.judgement, Judgement::Met, "{a:?}");
    // Two bursts don't show how often one comes.
    assert_eq!(b.judgement, Judgement::Undecided, "{b:?}");
    let dependent = |at: usize| report.whole.parts[at].corrected.percentiles.dependent;
    assert_eq!((dependent(0), dependent(1)), (Some(false), Some(true)));
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn a_closed_loop_meets_no_percentile_that_the_requests_it_left_out_would_miss() {
    // One user sends a request every 5 ms for 24 s, and each 600th takes 300 ms.
    let of = |slo: &str, period: Option<Nanos>| {
        let duration = Nanos::from_secs(24);
        let plan = Plan { duration, conns: Some(1), period, ..plan_with(slo) };
        let plan = plan.complete(&[0]).expect("a plan that runs");
        let took_ns = |number| if number % 600 == 300 { 300 * MS } else { 5 * MS };
        let recorded = made_up::one_after_another(&plan, 23_000 * MS, took_ns);
        let report = made_up::report(&plan, vec![recorded], None);
        report.slo.expect("objectives").judgement
    };
    assert_eq!(of("p99<100ms", None), Judgement::Undecided);
    // Users with a pace don't leave out any, and none takes as long as a second.
    assert_eq!(of("p99<100ms", Some(Nanos(5 * MS))), Judgement::Met);
    assert_eq!(of("p99<1s", None), Judgement::Met);
}
