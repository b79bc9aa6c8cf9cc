//! Runs of several routes: what each expects, how long it may take, and in which order they come.

use std::io::Write;

use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Order, Plan};
use engine::record::outcome::{Cause, Outcome};
use engine::report::verdict::{Code, Level};
use engine::report::{Report, StepPart};
use engine::sys::units::Nanos;
use engine::verify::{report_alone, with_samples};

use crate::made_up;
use crate::sample_run::{self, SampledRun, fate, routes, scenarios, wrong};
use crate::support::{OK, always_ok, open, plan, run, serve};

fn part<'a>(report: &'a Report, name: &str) -> &'a StepPart {
    report.whole.parts.iter().find(|part| part.name == name).expect(name)
}

#[test]
fn a_steps_own_statuses_decide_what_is_good() {
    let mut scenario = scenarios();
    scenario[1].step[0].expect_status = "503".parse().ok();
    let plan = Plan { scenario, ..routes("500") };
    let run = SampledRun::of(plan, |due_ns| {
        let (stamps, ending, outcome) = fate(due_ns);
        let status = if engine::load::schedule::mix(due_ns).is_multiple_of(3) { 503 } else { 200 };
        match outcome {
            Outcome::Answered(_) => (stamps, ending, Outcome::Answered(status)),
            other => (stamps, ending, other),
        }
    });
    let report = &run.report;
    for (name, unexpected) in [("/a", 503), ("/b", 200)] {
        let counts = &part(report, name).counts;
        assert_eq!(counts.unexpected_status, counts.status.of(unexpected), "{name}");
        assert!(100 < counts.unexpected_status, "{name}");
    }
    let parts = report.whole.parts.iter().map(|part| part.counts.unexpected_status);
    assert_eq!(report.whole.counts.unexpected_status, parts.sum::<u64>());
    assert_eq!(wrong(report_alone(report)), []);
    assert_eq!(wrong(with_samples(report, &[&run.path()])), []);
}

#[test]
fn a_steps_own_timeout_ends_its_requests_and_no_others() {
    let step = |path: &str, timeout_ms: Option<u64>| {
        let timeout = timeout_ms.map(|ms| Nanos(ms * 1_000_000));
        let step = Step { url: Some(path.to_owned()), timeout, ..Step::default() };
        Scenario { name: path.to_owned(), weight: 1, step: vec![step], ..Scenario::default() }
    };
    // Every request takes 150 ms.
    let address = serve(|_, stream| {
        std::thread::sleep(std::time::Duration::from_millis(150));
        stream.write_all(OK).is_ok()
    });
    let scenario = vec![step("/quick", Some(40)), step("/slow", None), step("/most", Some(3_000))];
    let plan = Plan { scenario, conns: Some(200), ..open(plan(address), "200") };
    let report = run(plan).report;
    let quick = part(&report, "/quick");
    assert!(10 < quick.counts.intended, "{quick:?}");
    assert_eq!(quick.counts.errors.of(Cause::TimedOut), quick.counts.sent);
    let max = quick.naive.max.expect("some");
    assert!((40_000.0..60_000.0).contains(&max), "{max} us");
    for name in ["/slow", "/most"] {
        let counts = &part(&report, name).counts;
        assert_eq!((counts.answered, counts.timed_out), (counts.intended, 0), "{name}");
    }
    assert_eq!(wrong(report_alone(&report)), []);
}

#[test]
fn routes_in_turn_come_exactly_as_they_weigh() {
    let in_turn = |plan| Plan { scenario: scenarios(), order: Order::RoundRobin, ..plan };
    let address = serve(always_ok);
    let open = run(in_turn(Plan { requests: Some(300), ..open(plan(address), "1k") })).report;
    assert_eq!(part(&open, "/a").counts.intended, 200);
    assert_eq!(part(&open, "/b").counts.intended, 100);
    let closed = run(in_turn(Plan { conns: Some(6), ..plan(address) })).report;
    let [a, b] = ["/a", "/b"].map(|name| part(&closed, name).counts.intended);
    assert!(a.abs_diff(2 * b) <= 3 * 6, "{a} and {b}");
    for report in [&open, &closed] {
        let mix = report.mix.expect("two routes");
        assert!(mix.is_as_planned() && 0.1 < mix.p, "{mix:?}");
        assert_eq!(wrong(report_alone(report)), []);
    }
}

#[test]
fn a_mix_as_planned_is_proven_and_another_one_is_found() {
    let run = SampledRun::new(routes("500"));
    let mix = run.report.mix.expect("two routes");
    assert!(mix.is_as_planned() && mix.degrees == 1, "{mix:?}");
    let judge = |report: &Report| {
        let found = engine::report::judge(report).reasons;
        found.into_iter().find(|reason| reason.code == Code::MixNotAsPlanned)
    };
    assert_eq!(judge(&run.report), None);
    // Every fourth request takes the other route.
    let plan = routes("500");
    let recorded = made_up::record(
        &plan,
        (0, 1),
        |due_ns| {
            let (mut stamps, ending, outcome) = fate(due_ns);
            stamps.step = u16::from(engine::load::schedule::mix(due_ns).is_multiple_of(4));
            (stamps, ending, outcome)
        },
        |_, _, _| {},
    );
    let plan = Plan { cores: Some(engine::sys::units::CoreList::new(vec![0])), ..plan };
    let report = made_up::report(&plan, vec![recorded], None);
    let reason = judge(&report).expect("another mix");
    assert_eq!(reason.level, Level::Invalid);
    assert!(reason.evidence.contains("with 1 degree of freedom"), "{reason:?}");
    // A run that was cut short has fewer requests of the same mix.
    let interrupted = Plan { duration: Nanos::from_secs(1), ..sample_run::routes("500") };
    assert!(SampledRun::new(interrupted).report.mix.expect("enough").is_as_planned());
    assert_eq!(SampledRun::new(sample_run::plan("500")).report.mix, None);
}
