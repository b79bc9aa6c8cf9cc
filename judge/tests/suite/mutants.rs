//! Each bug is convicted by its case, and the correct generator by none.

use judge::Tool;
use judge::suite::{CaseResult, Outcome, Setup, judge, named};

use crate::alone;
use crate::runner::folder;

/// The mutant with this bug, as a user would describe it.
fn mutant(bug: &str) -> Tool {
    let program = env!("CARGO_BIN_EXE_mutant");
    let text = format!(
        r"
        open = '{program} {{url}} {{rate}} {{connections}} {{duration}} {bug}'
        arrivals = 'constant'
        corrected = true
        [read]
        sent = '^sent (\d+)'
        answered = '^answered (\d+)'
        bad = '^bad (\d+)'
        errors = '^errors (\d+)'
        open = '^open (\d+)'
        percentiles = '^([\d.]+)% ([\d.]+) (ms)'
        "
    );
    Tool::parse("mutant", &text).expect("a tool")
}

fn judged(bug: &str, case: &str) -> CaseResult {
    let _alone = alone();
    let folder = folder(&format!("mutant-{bug}"));
    let cases = named(&[case.to_owned()]).expect("a case");
    let mut setup = Setup { folder: &folder, quick: true, asked: &|| false, tell: &mut |_| () };
    let mut suite = judge(&mutant(bug), &cases, &mut setup).expect("a result");
    suite.cases.remove(0)
}

/// Fails unless a case convicts a bug and acquits the correct generator. Where the machine was busy
/// elsewhere, nothing is decided.
fn convicts(case: &str, bugs: &[&str]) {
    for bug in bugs {
        let result = judged(bug, case);
        assert_eq!(result.outcome, Outcome::Failed, "{bug}: {result:#?}");
    }
    let correct = judged("none", case);
    let acquitted = matches!(correct.outcome, Outcome::Held | Outcome::Disturbed);
    assert!(acquitted, "{correct:#?}");
}

#[test]
fn rate_convicts_a_lost_fraction_only_where_it_counts() {
    convicts("low-rate", &["truncates-rate"]);
    assert_eq!(judged("none", "rate").outcome, Outcome::Held);
}

#[test]
fn arrivals_convict_batches() {
    convicts("arrivals", &["batches"]);
}

#[test]
fn requests_convict_forgotten_ones() {
    convicts("requests", &["forgets-open"]);
}

#[test]
fn failures_convict_those_counted_as_good() {
    convicts("failures", &["counts-failures"]);
}

#[test]
fn freeze_convicts_late_stamps_a_moved_schedule_and_slow_catching_up() {
    convicts("freeze", &["stamps-late", "rebases", "catches-up"]);
}

#[test]
fn tail_convicts_corrections_of_what_needs_none() {
    convicts("tail", &["over-corrects"]);
}

#[test]
fn bimodal_acquits_the_correct_one() {
    convicts("bimodal", &[]);
}

#[test]
fn floor_convicts_rounding() {
    convicts("floor", &["rounds-to-ms"]);
}

#[test]
fn slow_convicts_dropped_responses() {
    convicts("slow", &["drops-slow"]);
}
