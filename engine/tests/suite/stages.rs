//! Runs whose rate rises and falls: each stage has the requests of its stretch of the curve and its
//! own results that add up, and drift is only found where the rate is constant.

use engine::load::curve::Curve;
use engine::plan::{Arrivals, Plan};
use engine::record::outcome::Outcome;
use engine::record::stamps::{Ending, Stamps};
use engine::report::{Report, StageLoad};
use engine::sys::units::Nanos;
use engine::verify::{report_alone, with_samples};
use serde_json::Value;

use crate::made_up;
use crate::sample_run::{self, SampledRun, wrong};
use crate::support::{always_ok, codes, plan, run, serve};

/// A plan with these stages.
fn staged(plan: Plan, text: &str) -> Plan {
    let stage = text.split(',').map(|stage| stage.parse().expect(stage)).collect();
    Plan { rate: None, stage, duration: Plan::default().duration, ..plan }
}

/// The same for made-up runs, completed.
fn made(text: &str) -> Plan {
    let plan = Plan { slo: None, ..sample_run::plan("1") };
    staged(Plan { model: None, ..plan }, text).complete(&[0, 1]).expect("a plan that runs")
}

/// Intended requests of each part.
fn intended(report: &Report) -> Vec<u64> {
    report.whole.parts.iter().map(|part| part.counts.intended).collect()
}

#[test]
fn each_stage_of_a_run_has_the_requests_of_its_stretch_of_the_curve() {
    let address = serve(always_ok);
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("raw");
    let plan = Plan { warmup: Nanos(200_000_000), settle: Nanos(1_000_000), ..plan(address) };
    let plan = staged(plan, "100:300ms,100..400:400ms,400:200ms");
    let plan = Plan { raw: Some(raw.clone()), arrivals: Arrivals::Constant, ..plan };
    let report = run(plan).report;
    assert_eq!(intended(&report), [30, 100, 80]);
    let planned: Vec<f64> = report.whole.parts.iter().map(|part| part.planned).collect();
    for (planned, share) in planned.iter().zip([30.0, 100.0, 80.0]) {
        assert!((planned - share / 210.0).abs() < 1e-9, "{planned:?}");
    }
    let spans: Vec<_> =
        report.whole.parts.iter().map(|part| part.stage.clone().expect("one")).collect();
    assert_eq!((spans[1].number, spans[1].load), (2, StageLoad::Rates { from: 100.0, to: 400.0 }));
    assert_eq!((spans[1].start, spans[1].duration, spans[2].start), (0.3, 0.4, 0.7));
    let name = &report.whole.parts[0].name;
    assert_eq!(name, "GET /");
    for rate in [report.whole.rate.target.expect("open"), report.whole.rate.intended] {
        assert!((rate - 210.0 / 0.9).abs() < 1e-6, "{rate}");
    }
    let is_off = |evidence: &str| evidence.contains("/s were planned");
    assert!(!report.verdict.reasons.iter().any(|reason| is_off(&reason.evidence)));
    assert_eq!(wrong(report_alone(&report)), []);
    assert_eq!(wrong(with_samples(&report, &[&raw])), []);
}

#[test]
fn stages_of_poisson_arrivals_have_as_many_on_average() {
    let plan = made("1k:2s,1000..5000:3s,500:1500ms");
    let curve = Curve::of_plan(&plan).expect("open");
    let run = SampledRun::new(plan.clone());
    for ((_, span), found) in plan.stages().zip(intended(&run.report)) {
        let expected = curve.expected(span.start, span.end);
        let off = (found as f64 - expected).abs();
        assert!(off <= 4.0 * expected.sqrt(), "{found} of {expected}");
    }
    assert_eq!(intended(&run.report).iter().sum::<u64>(), run.report.whole.counts.intended);
    assert_eq!(wrong(report_alone(&run.report)), []);
    assert_eq!(wrong(with_samples(&run.report, &[&run.path()])), []);
}

#[test]
fn verify_rescales_the_times_of_a_ramp() {
    for (arrivals, checks) in [
        (Arrivals::Poisson, &["gaps, √n·D from exponential", "times, √n·D from uniform"][..]),
        (Arrivals::Constant, &["arrivals off the rate"]),
    ] {
        let run = SampledRun::new(Plan { arrivals, ..made("200:2s,200..600:2s,0..300:1s") });
        let findings = report_alone(&run.report);
        for check in checks {
            let what = format!("schedule: {check}");
            let found = findings.iter().find(|finding| finding.what == what);
            assert!(found.is_some_and(|found| found.ok), "{what}: {found:?}");
        }
    }
}

#[test]
fn a_changed_value_of_a_stages_results_is_found() {
    let run = SampledRun::new(made("200:2s,200..600:2s"));
    let document = serde_json::to_value(&run.report).expect("a document");
    let part = document.pointer("/parts/1").expect("the second stage");
    let mut changes = 0;
    for (name, value) in part.as_object().expect("fields") {
        let fields = match value {
            Value::Object(fields) => fields.keys().map(|key| format!("{name}/{key}")).collect(),
            _ => vec![name.clone()],
        };
        for field in fields {
            let mut changed = document.clone();
            let place = changed.pointer_mut(&format!("/parts/1/{field}")).expect("there");
            *place = match &*place {
                Value::Number(number) => match number.as_u64() {
                    Some(count) => (count + 1).into(),
                    None => (number.as_f64().expect("a number") * 1.02 + 0.001).into(),
                },
                Value::String(text) => format!("{text}0").into(),
                _ => continue,
            };
            let Ok(report) = serde_json::from_value::<Report>(changed) else { continue };
            changes += 1;
            let found = !wrong(report_alone(&report)).is_empty()
                || !wrong(with_samples(&report, &[&run.path()])).is_empty();
            assert!(found, "{field}");
        }
    }
    assert!(25 < changes, "{changes}");
    // Requests moved from one stage to another leave all sums unchanged.
    let mut moved = run.report.clone();
    let (one, other) = (moved.whole.parts[0].clone(), moved.whole.parts[1].clone());
    moved.whole.parts[0].counts = other.counts;
    moved.whole.parts[1].counts = one.counts;
    assert!(!wrong(report_alone(&moved)).is_empty());
}

/// The report of a made-up run; `latency_s` gives a request's latency, s, from its due time in the
/// window.
fn lasting(text: &str, latency_s: impl Fn(f64) -> f64) -> Report {
    let plan = made(text);
    let recorded = made_up::record(
        &plan,
        (0, 1),
        |due_ns| {
            let at_s = (due_ns - plan.warmup.0) as f64 / 1e9;
            let noise = engine::load::schedule::mix(due_ns) as f64 / u64::MAX as f64;
            let latency_ns = latency_s(at_s) * (0.9 + 0.2 * noise) * 1e9;
            let stamps = Stamps {
                intended_ns: due_ns,
                noticed_ns: due_ns,
                sent_ns: due_ns,
                waited: false,
                step: 0,
                session: None,
            };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
            let ended_ns = due_ns + latency_ns.round() as u64;
            (stamps, Ending::at(ended_ns), Outcome::Answered(200))
        },
        |_, _, _| {},
    );
    let plan = Plan { cores: Some("0".parse().expect("a core")), raw: None, ..plan };
    made_up::report(&plan, vec![recorded], None)
}

#[test]
fn a_drift_is_found_where_the_rate_is_constant() {
    let is_drifting = |report: &Report| codes(report).contains(&"not_stationary".to_owned());
    // Each stage is twice as slow as the one before, and on the ramp latency rises.
    let steps = |at_s: f64| match at_s {
        ..8.0 => 0.001,
        8.0..16.0 => 0.001 * (1.0 + (at_s - 8.0) / 8.0),
        _ => 0.002,
    };
    let report = lasting("200:8s,200..400:8s,400:8s", steps);
    let found = report.stationarity.expect("two stages are long enough");
    assert!(found.stationary && [Some(1), Some(3)].contains(&found.stage), "{found:?}");
    assert!(!is_drifting(&report), "{:?}", report.verdict);
    assert_eq!(wrong(report_alone(&report)), []);

    // The same at one rate is a drift.
    let report = lasting("300:24s", steps);
    assert!(report.whole.parts.is_empty(), "one stage is the whole");
    assert!(report.stationarity.is_some_and(|found| !found.stationary && found.stage.is_none()));

    let report = lasting("200:8s,200..400:8s,400:8s", |at_s| {
        if at_s < 16.0 { 0.001 } else { 0.001 * (at_s - 15.0) }
    });
    let found = report.stationarity.expect("two stages are long enough");
    assert!(!found.stationary && found.stage == Some(3), "{found:?}");
    let reason = report.verdict.reasons.iter().find(|it| it.code.to_string() == "not_stationary");
    let reason = reason.expect("it drifts");
    assert!(reason.evidence.contains("in the last quarter of stage 3 differs"), "{reason:?}");
    assert_eq!(wrong(report_alone(&report)), []);

    // No constant-rate stage is four seconds long.
    assert_eq!(lasting("200:3s,200..400:8s,400:3s", steps).stationarity, None);
}
