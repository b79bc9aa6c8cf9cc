//! Every experiment, scaled down, as a user runs them. Figures disturbed by a busy machine aren't
//! judged, and an experiment that fails is repeated: no figure may be off each time. One is
//! performed twice, with the same result.
//!
//! Behind the feature `experiments`, because it takes about five minutes, and in a process of its
//! own, which no other test's load disturbs.

#[path = "../../calibration/tests/suite/numbers.rs"]
mod numbers;
#[path = "suite/support.rs"]
mod support;

use std::fs;
use std::path::Path;

use calibration::experiments;
use calibration::findings::{self, FILE, Findings};
use calibration::judgement::Judgement;
use calibration::lab::result::{ExperimentResult, judge};
use support::{binary, said};

/// The one that is performed twice.
const REPEATED: &str = "merge";
/// The most runs of an experiment whose figures are off.
const RUNS_MAX: usize = 4;

#[test]
fn each_experiment_is_judged_and_every_number_of_the_findings_is_in_a_result() {
    let folder = tempfile::tempdir().expect("a folder");
    for experiment in experiments::ALL {
        perform(experiment.name, folder.path());
    }
    let results = findings::results(folder.path()).expect("results");
    assert_eq!(results.len(), experiments::ALL.len());
    let page = fs::read_to_string(folder.path().join(FILE)).expect("the findings");
    let found = Findings::new(&results, "", FILE).expect("findings");
    assert_eq!(page, found.page);
    for (path, expected) in found.beside(folder.path()) {
        assert_eq!(fs::read_to_string(path).expect("a README"), expected);
    }
    assert_eq!(numbers::unfounded(&found, &results), Vec::<String>::new());
    assert!(page.contains("These are quick results."));
    let elsewhere = Findings::new(&results, "../", "page/page.md").expect("findings");
    assert_eq!(page_elsewhere(folder.path()), elsewhere.page);
    for (path, expected) in elsewhere.beside(folder.path()) {
        assert_eq!(fs::read_to_string(path).expect("a README"), expected);
    }
    for (experiment, result) in experiments::ALL.iter().zip(&results) {
        assert!(result.quick && !result.commands.is_empty() && !result.judgements.is_empty());
        let definition = experiment.definition().expect("a definition");
        let judged = judge(&definition, &result.figures, &result.runs);
        assert_eq!(judged.expect("judged"), result.judgements, "{}", result.name);
        verify(&folder.path().join(experiment.name), result);
    }
    let repeated = results.iter().find(|result| result.name == REPEATED);
    repeat(repeated.expect("it was performed"));
}

/// The page, written anew in a folder below that of the results, without running anything.
fn page_elsewhere(results: &Path) -> String {
    let folder = results.join("page");
    fs::create_dir(&folder).expect("a folder");
    let page = folder.join("page.md");
    let mut command = binary();
    command.args(["experiment", "page", "--out"]).arg(results).arg("--page").arg(&page);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(said(&output), format!("written  {}\n", page.display()));
    fs::read_to_string(page).expect("the page")
}

/// Performs an experiment until no figure is off.
fn perform(name: &str, folder: &Path) {
    for run in 1..=RUNS_MAX {
        let mut command = binary();
        command.args(["experiment", name, "--quick", "--quiet", "--out"]).arg(folder);
        let output = command.output().expect("it runs");
        match output.status.code() {
            Some(0 | 3) => return,
            Some(1) if run < RUNS_MAX && folder.join(name).join("result.json").exists() => {}
            code => panic!("{name}: exit code {code:?}: {}", said(&output)),
        }
    }
}

/// Performs the experiment of a result again: the judgements are of the same figures, and have the
/// same outcome unless others on the machine may be the cause.
fn repeat(one: &ExperimentResult) {
    let folder = tempfile::tempdir().expect("a folder");
    perform(&one.name, folder.path());
    let results = findings::results(folder.path()).expect("results");
    let [other] = <[ExperimentResult; 1]>::try_from(results).expect("one result");
    assert!(one.began < other.began && one.definition == other.definition);
    assert_eq!(one.judgements.len(), other.judgements.len());
    for (one, other) in one.judgements.iter().zip(&other.judgements) {
        assert_eq!((&one.what, &one.figure), (&other.what, &other.figure));
        let both = [one.judgement, other.judgement];
        assert!(both[0] == both[1] || both.contains(&Judgement::NotJudged), "{one:?} {other:?}");
    }
}

/// Each run left a report that can be verified.
fn verify(folder: &Path, result: &ExperimentResult) {
    for run in &result.runs {
        let report = folder.join(format!("{}.json", run.name));
        let output = binary().arg("verify").arg(&report).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}: {}", report.display(), said(&output));
    }
}
