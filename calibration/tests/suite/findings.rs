//! The committed findings: FINDINGS.md is the page of the results in `findings`, all of them at full
//! size, and every number in it stands in the result of its section. `make findings` makes the
//! results anew, `make page` the page alone.

use std::fs;
use std::path::Path;

use calibration::experiments;
use calibration::findings::{self, FILE};
use calibration::lab::result::judge;

/// The folder of the results, beside the page.
const FOLDER: &str = "findings";

#[test]
fn the_committed_findings_are_those_of_the_committed_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = root.join(FOLDER);
    let results = findings::results(&folder).expect("results");
    let names: Vec<&str> = results.iter().map(|result| result.name.as_str()).collect();
    assert_eq!(names, experiments::ALL.map(|experiment| experiment.name));
    let page = fs::read_to_string(root.join(FILE)).expect("the findings");
    let expected = findings::page(&results, &format!("{FOLDER}/")).expect("a page");
    assert!(page == expected, "{FILE} isn't the page of {FOLDER}: run `make page`");
    assert_eq!(findings::unfounded(&page, &results), Vec::<String>::new());
    for (experiment, result) in experiments::ALL.iter().zip(&results) {
        let name = experiment.name;
        assert!(!result.quick, "{name} is scaled down");
        let definition = experiment.definition().expect("a definition");
        let judged = judge(&definition, &result.figures, &result.runs);
        assert_eq!(judged.expect("judged"), result.judgements, "{name}");
        assert!(!result.plots.is_empty(), "{name} has no plot");
        for plot in &result.plots {
            let svg = fs::read_to_string(folder.join(name).join(&plot.file)).expect("a plot");
            assert!(svg.contains("<svg"), "{name}: {}", plot.file);
        }
    }
}

#[test]
fn results_are_judged_anew_by_their_figures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let name = "merge";
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join(name)).expect("a folder");
    let path = folder.path().join(name).join("result.json");
    let committed = fs::read_to_string(root.join(FOLDER).join(name).join("result.json"));
    let committed = committed.expect("a result");
    let mut changed: serde_json::Value = serde_json::from_str(&committed).expect("JSON");
    changed["judgements"][0]["what"] = "what it said before".into();
    changed["judgements"][0]["judgement"] = "failed".into();
    fs::write(&path, changed.to_string()).expect("written");
    findings::judge_anew(folder.path()).expect("judged");
    let anew = fs::read_to_string(&path).expect("a result");
    assert_eq!(anew, committed, "whatever isn't judged stays as it is");
}
