//! `verify` on a tampered report: every value is either checked or listed as uncheckable, and no
//! document makes it panic.

use engine::load::curve::Curve;
use engine::load::mix::Mix;
use engine::load::schedule::Schedule;
use engine::load::share::Share;
use engine::plan::Plan;
use engine::record::stamps::Stamps;
use engine::report::slowest::SlowRequest;
use engine::report::{DistributionPart, Report, merge};
use engine::stats::distribution::Distribution;
use engine::verify::{Finding, UNCHECKED, UNCHECKED_ALONE, report_alone, with_samples};
use serde_json::Value;

use crate::made_up;
use crate::sample_run::{SampledRun, fate, plan, routes, wrong};

/// The paths in a report's document, of values and of their containers. Only a few of many similar
/// ones are listed.
fn paths(document: &Value) -> Vec<String> {
    fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        match value {
            Value::Object(map) => {
                map.iter().for_each(|(key, value)| walk(value, &format!("{path}/{key}"), found));
            }
            Value::Array(list) => {
                let values = list.iter().enumerate();
                values.for_each(|(at, value)| walk(value, &format!("{path}/{at}"), found));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let few = |path: &str, all: &str, few: &[&str]| {
        path.strip_prefix(all).is_none_or(|rest| few.iter().any(|few| rest.starts_with(few)))
    };
    let mut found = Vec::new();
    walk(document, "", &mut found);
    found.retain(|path| {
        few(path, "/series/intervals/", &["3/", "17/"])
            && few(path, "/environment/", &["cpu"])
            && few(path, "/parts/0/series/pieces/", &["3/"])
            && few(path, "/parts/1/series/pieces/", &[])
    });
    found
}

/// A value as plausible as this one; `None` for a container.
fn another(value: &Value, path: &str) -> Option<Value> {
    let other =
        |text: &str, one: &str, other: &str| Value::from(if text == one { other } else { one });
    Some(match value {
        Value::Null => Value::from(0.5),
        Value::Bool(truth) => Value::from(!truth),
        Value::Number(number) => match number.as_u64() {
            Some(count) => Value::from(count + 1),
            None => Value::from(number.as_f64().expect("a number") * 1.02 + 0.001),
        },
        Value::String(text) if path.ends_with("/judgement") => other(text, "met", "missed"),
        Value::String(text) if path.ends_with("/level") => other(text, "valid", "suspect"),
        Value::String(text) if path.ends_with("/code") => other(text, "errors", "interrupted"),
        Value::String(text) if path.ends_with("intervals/method") => {
            other(text, "batches", "order_statistics")
        }
        Value::String(text) => Value::from(format!("{text}0")),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// The report with one value changed. `None` if the result is no longer a report.
fn changed(document: &Value, path: &str, value: &Value) -> Option<Report> {
    let mut changed = document.clone();
    *changed.pointer_mut(path)? = value.clone();
    serde_json::from_value(changed).ok()
}

/// Values that nothing in a report or in its samples contradicts, and the words by which `verify`
/// says so.
const UNCHECKED_PATHS: [(&str, &str); 15] = [
    ("/config/raw", "the samples' file"),
    ("/config/target_address", "the address"),
    ("/counts/connects", "connections"),
    ("/counts/incomplete_uploads", "bodies that weren't sent whole"),
    ("/counts/users", "users"),
    ("/counts/warmup/", "the load before the window"),
    ("/counts/waited", "which arrivals waited"),
    ("/environment/", "the environment"),
    ("/generator/machine/", "the machine"),
    ("/generator/shards/", "the figures of the generator"),
    ("/label", "label"),
    ("/samples/file", "the samples' file"),
    ("/series/intervals/", "how many requests were in flight"),
    ("/started_at", "when the run began"),
    ("/tags/", "tags"),
];
/// The same for values that only samples contradict.
const UNCHECKED_ALONE_PATHS: [(&str, &str); 5] = [
    ("/config/", "the plan's target, URLs"),
    ("/arrivals/", "how the sends were distributed"),
    ("/client_share/", "the latency that the generator added"),
    ("/series/", "of one interval"),
    ("/slowest/", "the naive latency of a slow request, and how it ended"),
];

#[test]
fn a_changed_value_of_the_report_is_found() {
    every_change_is_found(plan("500"), 569);
}

#[test]
fn a_changed_value_of_a_report_of_two_routes_is_found() {
    every_change_is_found(routes("500"), 741);
}

/// Changes each value of this plan's report, at least this many, and checks that each change is
/// found.
fn every_change_is_found(plan: Plan, least: usize) {
    let mut run = SampledRun::new(plan);
    run.report.label = Some("nightly".to_owned());
    run.report.tags = [("build".to_owned(), "7".to_owned())].into();
    let document = serde_json::to_value(&run.report).expect("a document");
    let mut reports = 0;
    let mut unseen = Vec::new();
    for path in paths(&document) {
        let value = another(document.pointer(&path).expect("a value"), &path);
        let report = value.and_then(|value| changed(&document, &path, &value));
        let Some(report) = report else { continue };
        reports += 1;
        if !wrong(report_alone(&report)).is_empty() {
            continue;
        }
        if wrong(with_samples(&report, &[&run.path()])).is_empty() {
            assert!(!path.starts_with("/series/") || path.ends_with("/in_flight"), "{path}");
            unseen.push(path);
            continue;
        }
        // Changes that only the samples show: the plan's texts, the dispersion of the sends, the
        // latency added to each request, and how the slowest ended.
        let of_interval = !path.starts_with("/series/") || path.contains("/receive_lateness_");
        let mut known = UNCHECKED_ALONE_PATHS.iter();
        let known = known.find(|(known, _)| match *known {
            "/slowest/" => path.contains(known),
            known => path.starts_with(known),
        });
        let (_, words) = known.filter(|_| of_interval).unwrap_or_else(|| panic!("{path}"));
        assert!(UNCHECKED_ALONE.contains(words), "{path}: {words}");
    }
    assert!(least <= reports, "all values: {reports}");
    for path in &unseen {
        let known = UNCHECKED_PATHS.iter().any(|(known, _)| path.starts_with(known));
        assert!(known, "{path} was not found");
    }
    for (known, words) in UNCHECKED_PATHS {
        assert!(unseen.iter().any(|path| path.starts_with(known)), "{known} is found now");
        assert!(UNCHECKED.contains(words), "{known}: {words}");
    }
}

#[test]
fn a_request_that_took_another_step_is_found() {
    let plan = routes("500");
    let curve = Curve::of_plan(&plan).expect("an open plan");
    let schedule =
        || Schedule::new(curve.clone(), plan.arrivals, plan.seed, plan.end_ns(), Share::whole());
    let mix = Mix::of_plan(&plan);
    // The first two in the window that take different steps.
    let due_ns = |step| {
        let mut window = schedule().filter(|arrival| plan.warmup.0 <= arrival.due_ns);
        window.find(|arrival| mix.step(arrival.number) == step).expect("many").due_ns
    };
    let (one_ns, other_ns) = (due_ns(0), due_ns(1));
    let found = |moved: &[u64]| {
        let run = SampledRun::of(plan.clone(), |due_ns| {
            let (stamps, ending, outcome) = fate(due_ns);
            let step = u16::from(moved.contains(&due_ns));
            (Stamps { step, ..stamps }, ending, outcome)
        });
        let names = |findings: Vec<Finding>| findings.into_iter().map(|finding| finding.what);
        let alone: Vec<String> = names(wrong(report_alone(&run.report))).collect();
        let replayed: Vec<String> =
            names(wrong(with_samples(&run.report, &[&run.path()]))).collect();
        (alone, replayed)
    };
    let (none, of_schedule): (Vec<String>, _) = (Vec::new(), "parts: intended by the schedule");
    let of_samples = vec!["samples: steps by the schedule".to_owned()];
    assert_eq!(found(&[]), (none.clone(), none.clone()));
    // Each step has the right number of requests.
    assert_eq!(found(&[one_ns, other_ns]), (none, of_samples.clone()));
    let (alone, replayed) = found(&[one_ns]);
    assert_eq!((alone[0].as_str(), replayed), (of_schedule, of_samples));
}

#[test]
fn a_slow_request_that_its_part_does_not_have_is_found() {
    let report = SampledRun::new(routes("500")).report;
    let at = report.whole.parts[0].slowest.iter().position(|slow| slow.status.is_some());
    let at = at.expect("an answer among the slowest");
    let with = |change: fn(&mut SlowRequest)| {
        let mut report = report.clone();
        change(&mut report.whole.parts[0].slowest[at]);
        wrong(report_alone(&report))
    };
    assert_eq!(with(|_| ()), []);
    assert_ne!(with(|slow| slow.status = Some(599)), []);
    assert_ne!(with(|slow| slow.naive_us = Some(1.0)), []);
    assert_ne!(with(|slow| slow.corrected_us -= 0.4 * slow.corrected_us), []);
}

#[test]
fn parts_that_differ_are_found() {
    let run = SampledRun::new(plan("500"));
    let mut report = run.report.clone();
    report.per_agent[0].part.counts.waited += 1;
    assert_ne!(wrong(report_alone(&report)), []);
    let mut report = run.report.clone();
    report.traffic.sent_bytes += 1;
    assert_ne!(wrong(report_alone(&report)), []);
    // As if there were two agents: a part that isn't the sum.
    let mut report = run.report.clone();
    report.per_agent.push(report.per_agent[0].clone());
    assert_ne!(wrong(report_alone(&report)), []);
}

#[test]
fn a_changed_text_of_the_report_is_found() {
    let run = SampledRun::new(plan("500"));
    let document = serde_json::to_value(&run.report).expect("a document");
    let other = Value::from(run.report.whole.pacer_lateness.histogram.clone());
    for (path, value) in [
        ("/naive/histogram", other),
        ("/config/schedule_version", Value::from(1)),
        ("/config/schedule_version", Value::Null),
        ("/config/schedule_digest", Value::from("00000000000000000000000000000000")),
        ("/config/arrivals", Value::from("constant")),
        ("/config/rate", Value::from("501")),
        // A percentile backed by enough samples can't be withheld, nor can the outcome of the
        // samples.
        ("/naive/p99", Value::Null),
        ("/samples", Value::Null),
        ("/stationarity", Value::Null),
        ("/arrivals", Value::Null),
        ("/arrivals_line", Value::Null),
        ("/verdict/reasons", Value::Array(Vec::new())),
    ] {
        let report = changed(&document, path, &value).expect("a report");
        assert_ne!(wrong(report_alone(&report)), [], "{path} = {value}");
    }
    let report = changed(&document, "/verdict/reasons/0/code", &Value::from("littles_law"));
    let found = wrong(report_alone(&report.expect("a report")));
    let (expected, found) = (&found[0].expected, &found[0].found);
    assert!(expected.starts_with("invalid rate_missed "), "{expected}");
    assert_eq!(*found, expected.replace("rate_missed", "littles_law"));
}

/// Values that no run has: each must be a finding, or not a report at all, but never crash the
/// program.
fn nasty(document: &Value) -> Vec<Value> {
    let other_bounds = document.pointer("/series/intervals/3/histogram").expect("a histogram");
    vec![
        Value::Null,
        Value::from(0),
        Value::from(-1),
        Value::from(1.5),
        Value::from(1e300),
        Value::from(-1e300),
        Value::from(1_u64 << 47),
        Value::from(u64::MAX),
        Value::from(""),
        Value::from("168h"),
        Value::from("5124095h"),
        Value::from("0-65535"),
        other_bounds.clone(),
        Value::from(histogram_of(1 << 62)),
        Value::Array(Vec::new()),
        Value::Array(vec![Value::from(0.0), Value::from(f64::MAX)]),
        Value::Object(serde_json::Map::new()),
        Value::Object([("1000".to_owned(), Value::from(7))].into_iter().collect()),
    ]
}

/// The text of a histogram with the bounds of a run's, and one value `count` times.
fn histogram_of(count: u64) -> String {
    let mut distribution = Distribution::new();
    distribution.record_n(1_000_000, count);
    DistributionPart::alone(&distribution, None).histogram
}

#[test]
fn no_document_makes_verify_panic() {
    let run = SampledRun::new(plan("500"));
    let document = serde_json::to_value(&run.report).expect("a document");
    let nasty = nasty(&document);
    let mut reports = 0;
    // Each value gets one of them, the next one another.
    let mut nasty = nasty.iter().cycle();
    for path in paths(&document) {
        let value = nasty.next().expect("they begin anew");
        let Some(report) = changed(&document, &path, value) else { continue };
        reports += 1;
        report_alone(&report);
        with_samples(&report, &[&run.path()]);
    }
    assert!(100 < reports, "{reports}");
    let path = "/config/thresholds/percentile";
    let report = changed(&document, path, &Value::from(1.5)).expect("a report");
    let wrong = wrong(report_alone(&report));
    assert!(wrong[0].found.starts_with("--threshold percentile=1.5: "), "{wrong:?}");
}

#[test]
fn a_changed_figure_of_a_calibration_is_found() {
    let mut report = SampledRun::new(plan("500")).report;
    let calibrated = made_up::calibrated(&report);
    merge::hold_against(&mut report, calibrated);
    assert_eq!(wrong(report_alone(&report)), []);
    let document = serde_json::to_value(&report).expect("a document");
    // The calibration's own measurements don't follow from the run.
    let words = ["/began_s", "/ceiling_open_per_s", "/ceiling_closed_per_s", "/stamps"];
    let mut found = 0;
    for path in paths(&document).into_iter().filter(|path| path.starts_with("/calibration/")) {
        let value = another(document.pointer(&path).expect("a value"), &path);
        let report = value.and_then(|value| changed(&document, &path, &value));
        let Some(report) = report else { continue };
        let is_word = words.iter().any(|word| path.ends_with(word)) || path.contains("/floors/");
        let is_wrong = !wrong(report_alone(&report)).is_empty();
        assert!(is_wrong || is_word, "{path} was not found");
        found += usize::from(is_wrong);
    }
    assert!(7 <= found, "all figures: {found}");
}

#[test]
fn a_changed_figure_of_a_profile_is_found() {
    let mut report = SampledRun::new(plan("500")).report;
    merge::add_profile(&mut report, made_up::profile());
    assert_eq!(wrong(report_alone(&report)), []);
    let document = serde_json::to_value(&report).expect("a document");
    // The number of samples in each place, and the CPU time, come from the profiler alone; so do
    // the names.
    let words =
        ["user_only", "kernel_unnamed", "event", "frequency_hz", "name", "kernel", "source"];
    let mut found = 0;
    for path in paths(&document).into_iter().filter(|path| path.starts_with("/profile/")) {
        let value = another(document.pointer(&path).expect("a value"), &path);
        let report = value.and_then(|value| changed(&document, &path, &value));
        let Some(report) = report else { continue };
        let is_word = words.iter().any(|word| path.ends_with(&format!("/{word}")));
        let is_wrong = !wrong(report_alone(&report)).is_empty();
        assert!(is_wrong || is_word, "{path} was not found");
        found += usize::from(is_wrong);
    }
    assert!(19 <= found, "all figures: {found}");
    let profile = report.profile.as_mut().expect("a profile");
    profile.frames.reverse();
    assert!(!wrong(report_alone(&report)).is_empty(), "the heaviest frame comes first");
}
