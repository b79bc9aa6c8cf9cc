//! Each bug is convicted by its cases and by no other, and the correct generator by none.

use std::env;

use judge::suite::{CaseResult, Outcome, Setup, judge, named};
use judge::{CASES, Finding, Noise, Tool};

use crate::alone;
use crate::runner::folder;

/// The cases that convict each bug. The first is its own and must; the others may, since it changes
/// their figures as well.
const CONVICTED: [(&str, &[&str]); 23] = [
    ("truncates-share", &["rate", "low-rate", "arrivals"]),
    ("truncates-rate", &["low-rate"]),
    ("batches", &["arrivals", "low-rate"]),
    ("averages-ramp", &["ramp"]),
    ("mixes-latencies", &["mix"]),
    ("skips", &["replay", "freeze", "pauses", "stopped", "rate"]),
    ("forgets-open", &["requests", "slow", "replay"]),
    ("counts-failures", &["failures"]),
    ("times-failures", &["resets"]),
    ("accepts-torn", &["torn"]),
    ("trusts-surplus", &["repeated"]),
    ("stamps-late", &["pauses", "freeze", "stopped", "quota"]),
    ("rebases", &["stopped", "freeze", "pauses"]),
    ("catches-up", &["freeze", "pauses", "stopped", "quota"]),
    (
        "over-corrects",
        &[
            "tail", "bimodal", "freeze", "pauses", "slow", "stopped", "quota", "mix", "resets",
            "repeated",
        ],
    ),
    ("averages-percentiles", &["bimodal", "tail", "freeze", "pauses", "stopped", "resets", "slow"]),
    ("rounds-to-ms", &["floor"]),
    ("drops-slow", &["slow"]),
    ("stamps-sent", &["quota", "freeze", "pauses", "stopped"]),
    ("hides-connects", &["files"]),
    ("stops-at-goaway", &["goaway"]),
    ("counts-refused", &["refused"]),
    ("ignores-limit", &["one-stream", "mix"]),
];

/// How often a case is judged again that was disturbed.
const RETRIES: usize = 4;

/// The mutant with this bug, as a user would describe it.
fn mutant(bug: &str) -> Tool {
    let program = env!("CARGO_BIN_EXE_mutant");
    let command = |to: &str, mode: &str| {
        format!("'{program} {bug} {{url}} {{rate}} {to} {{connections}} {{duration}} {mode}'")
    };
    let text = format!(
        r"
        open = {}
        http2 = {}
        ramp = {}
        mix = {}
        replay = {}
        arrivals = 'constant'
        corrected = true
        [read]
        sent = '^sent (\d+)'
        answered = '^answered (\d+)'
        bad = '^bad (\d+)'
        errors = '^errors (\d+)'
        open = '^open (\d+)'
        percentiles = '^([\d.]+)% ([\d.]+) (ms)'
        'fast.p90' = '^fast 90% ([\d.]+) (ms)'
        'slow.p50' = '^slow 50% ([\d.]+) (ms)'
        ",
        command("{rate}", ""),
        command("{rate}", "h2"),
        command("{rate_to}", ""),
        command("{rate}", "mix"),
        command("{rate}", "{log}"),
    );
    Tool::parse("mutant", &text).expect("a tool")
}

/// What a case makes of a bug. A machine that is busy with others decides nothing, so it may be asked
/// again.
fn judged(bug: &str, case: &str) -> CaseResult {
    let mut result = judged_once(bug, case);
    for _ in 0..RETRIES {
        if result.outcome == Outcome::Disturbed {
            result = judged_once(bug, case);
        }
    }
    result
}

fn judged_once(bug: &str, case: &str) -> CaseResult {
    let _alone = alone();
    let folder = folder(&format!("mutant-{bug}"));
    let cases = named(&[case.to_owned()]).expect("a case");
    let mut setup = Setup { folder: &folder, quick: true, asked: &|| false, tell: &mut |_| () };
    let mut suite = judge(&mutant(bug), &cases, &mut setup).expect("a result");
    suite.cases.remove(0)
}

/// A figure is out of its bounds. That it is disturbed whenever it is asked for is the machine's fault.
fn is_convicted(result: &CaseResult) -> bool {
    let is_judged = matches!(result.outcome, Outcome::Failed | Outcome::Disturbed);
    is_judged && !result.findings.iter().all(Finding::holds)
}

/// Where the machine was busy elsewhere, nothing is decided.
fn is_acquitted(result: &CaseResult) -> bool {
    matches!(result.outcome, Outcome::Held | Outcome::Disturbed)
}

/// The outcome, and each figure that is out of its bounds.
fn line(result: &CaseResult) -> String {
    let failed = result.findings.iter().filter(|finding| !finding.holds());
    let failed: Vec<String> = failed
        .map(|finding| {
            let Finding { figure, found, low, high, .. } = finding;
            format!("{figure} {found:.3} not in {low:.3?} to {high:.3?}")
        })
        .collect();
    let noise = result.noise.map_or(String::new(), |Noise { late_ms, others }| {
        format!("{late_ms:.1} ms late, others {others:.2}")
    });
    format!("{:?}, {noise}, {}", result.outcome, failed.join("; "))
}

#[test]
fn each_bug_is_convicted_by_its_case() {
    let all = CONVICTED.map(|(bug, cases)| (bug, judged(bug, cases[0])));
    let acquitted: Vec<_> = all.iter().filter(|(_, result)| !is_convicted(result)).collect();
    assert!(acquitted.is_empty(), "{acquitted:#?}");
    // The null target only shows what a tool takes.
    for case in CASES.iter().filter(|case| case.name != "null") {
        let has_bug = CONVICTED.iter().any(|(_, cases)| cases[0] == case.name);
        assert!(has_bug, "{}: convicts no bug", case.name);
    }
}

#[test]
fn the_correct_generator_is_acquitted_by_every_case() {
    for case in &CASES {
        let result = judged_once("none", case.name);
        assert!(is_acquitted(&result), "{result:#?}");
    }
}

/// `TEST_JUDGE_RUNS` times, and each bug by each case: half an hour and more, so only if that is set.
#[test]
fn no_case_convicts_what_it_should_not() {
    let Some(runs) = env::var("TEST_JUDGE_RUNS").ok().and_then(|runs| runs.parse().ok()) else {
        return;
    };
    let mut wrong = Vec::new();
    for run in 1..=runs {
        for case in &CASES {
            let result = judged_once("none", case.name);
            println!("run {run}, {}: {}", case.name, line(&result));
            if !is_acquitted(&result) {
                wrong.push(format!("run {run}, {}", case.name));
            }
        }
    }
    for (bug, cases) in CONVICTED {
        for case in CASES.iter().filter(|case| !cases.contains(&case.name)) {
            let result = judged_once(bug, case.name);
            println!("{bug}, {}: {}", case.name, line(&result));
            if !is_acquitted(&result) {
                wrong.push(format!("{bug}, {}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
