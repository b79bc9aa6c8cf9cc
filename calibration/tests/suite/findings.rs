//! The committed findings: the page is that of the committed results, and every number in it stands
//! in the result of its section. Results come from `truetail experiment all --out
//! calibration/results`; with TRUETAIL_UPDATE_FINDINGS=1 this test writes the page of those that
//! are there, after a change of its words.

use std::env;
use std::fs;
use std::path::Path;

use calibration::experiments;
use calibration::lab::findings::{self, FILE};

#[test]
fn the_committed_findings_are_those_of_the_committed_results() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let results = findings::results(&folder).expect("results");
    if results.is_empty() {
        assert!(!folder.join(FILE).exists(), "findings without a result");
        return;
    }
    if env::var_os("TRUETAIL_UPDATE_FINDINGS").is_some() {
        findings::publish(&folder).expect("written");
    }
    let page = fs::read_to_string(folder.join(FILE)).expect("the findings");
    assert_eq!(page, findings::page(&results).expect("a page"), "written from other results");
    assert_eq!(findings::unfounded(&page, &results), Vec::<String>::new());
    for result in results {
        let experiment = experiments::ALL.iter().find(|one| one.name == result.name);
        let definition = experiment.expect("an experiment").definition().expect("a definition");
        let judged = definition.judge(&result.figures, !result.disturbed.is_empty());
        assert_eq!(judged.expect("judged"), result.judgements, "{}", result.name);
    }
}
