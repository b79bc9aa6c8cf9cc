//! The committed findings: FINDINGS.md and the READMEs beside the results are written from the
//! results in `findings`, all of them at full size; every number in a text is in its result, and
//! every link has a target. `make findings` makes the results anew, `make page` only the texts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use calibration::experiments;
use calibration::findings::{self, FILE, Findings};
use calibration::judgement::Judgement;
use calibration::lab::result::{ExperimentResult, Machine, SCHEMA, judge};
use serde_json::{Value, json};

use crate::numbers::{Known, numbers, unfounded};

/// The folder of the results, beside the page.
const FOLDER: &str = "findings";
/// The largest size of the page, bytes, and the most lines of a section: about a screen.
const PAGE_BYTES_MAX: usize = 40_000;
const SECTION_LINES_MAX: usize = 45;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_committed_findings_are_those_of_the_committed_results() {
    let folder = root().join(FOLDER);
    let results = findings::results(&folder).expect("results");
    let names: Vec<&str> = results.iter().map(|result| result.name.as_str()).collect();
    assert_eq!(names, experiments::ALL.map(|experiment| experiment.name));
    let found = Findings::of_folder(&folder, &root().join(FILE)).expect("findings");
    for (path, expected) in texts(&found) {
        let text = fs::read_to_string(&path).expect("a text");
        assert!(text == expected, "{}: not that of the results: run `make page`", path.display());
    }
    assert_eq!(unfounded(&found, &results), Vec::<String>::new());
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

/// The page and the READMEs, by their paths.
fn texts(found: &Findings) -> Vec<(PathBuf, &str)> {
    let mut texts = found.beside(&root().join(FOLDER));
    texts.push((root().join(FILE), found.page.as_str()));
    texts
}

/// Some machines permit no profile, and then there is no flamegraph.
#[test]
fn a_ceiling_without_a_profile_has_a_section() {
    let mut results = findings::results(&root().join(FOLDER)).expect("results");
    let ceiling = results.iter_mut().find(|result| result.name == "ceiling").expect("a result");
    ceiling.plots.clear();
    ceiling.figures["ceiling"]["profile"] = Value::Null;
    let found = Findings::new(&results, "", FILE).expect("findings");
    assert!(!found.page.contains("ceiling.svg") && !found.readmes["ceiling"].contains("## Plots"));
}

#[test]
fn each_section_fits_on_a_screen() {
    let page = fs::read_to_string(root().join(FILE)).expect("the page");
    assert!(page.len() <= PAGE_BYTES_MAX, "{} bytes", page.len());
    for section in page.split("<a id=\"").skip(1) {
        let (name, text) = section.split_once('"').expect("a name");
        let lines = text.lines().count();
        assert!(lines <= SECTION_LINES_MAX, "{name}: {lines} lines");
    }
}

#[test]
fn every_link_leads_to_a_file_and_a_place_in_it() {
    let found = Findings::of_folder(&root().join(FOLDER), &root().join(FILE)).expect("findings");
    for (path, text) in texts(&found) {
        let between = |before: &'static str, after: char| {
            text.split(before).skip(1).filter_map(move |rest| rest.split(after).next())
        };
        let links = between("](", ')').chain(between("src=\"", '"'));
        for link in links {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().expect("a folder").join(file),
            };
            let target = fs::read_to_string(&target);
            let target =
                target.unwrap_or_else(|error| panic!("{}: {link}: {error}", path.display()));
            let place = format!("<a id=\"{anchor}\"></a>");
            assert!(anchor.is_empty() || target.contains(&place), "{}: {link}", path.display());
        }
    }
}

#[test]
fn results_are_judged_anew_by_their_figures() {
    let name = "merge";
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join(name)).expect("a folder");
    let path = folder.path().join(name).join("result.json");
    let committed = fs::read_to_string(root().join(FOLDER).join(name).join("result.json"));
    let committed = committed.expect("a result");
    let mut changed: Value = serde_json::from_str(&committed).expect("JSON");
    changed["judgements"][0]["what"] = "what it said before".into();
    changed["judgements"][0]["judgement"] = "failed".into();
    fs::write(&path, changed.to_string()).expect("written");
    findings::judge_anew(folder.path()).expect("judged");
    let anew = fs::read_to_string(&path).expect("a result");
    assert_eq!(anew, committed, "what isn't judged stays as it is");
}

#[test]
fn numbers_are_words_that_begin_with_a_digit() {
    let text = "p99 is 41.00 ms (1,273 of 13,500), R_q at 5ms; `--rate 2k`, 0.5 %.";
    assert_eq!(numbers(text), ["41.00", "1273", "13500", "5", "2", "0.5"]);
    assert!(numbers("x86_64, HdrHistogram, ρ < λs").is_empty());
}

#[test]
fn a_number_is_known_if_a_figure_rounds_to_it_or_a_text_has_it() {
    let mut known = Known::default();
    known.add(&json!({ "p99_ms": 41.0034, "list": [13_500, -2.5], "command": "run --rate 2k" }));
    let known_all = "41.003, 41.00, 41, 13,500, 2.5, 2k";
    assert!(known.unknown_in(known_all).is_empty(), "{:?}", known.unknown_in(known_all));
    assert_eq!(known.unknown_in("41.01 and 13,501, 42"), ["41.01", "13501", "42"]);
}

#[test]
fn every_number_of_a_section_must_stand_in_its_own_result() {
    let result = |name: &str, p99_ms: f64| ExperimentResult {
        schema: SCHEMA,
        name: name.to_owned(),
        title: String::new(),
        question: String::new(),
        judgement: Judgement::Passed,
        quick: true,
        command: "truetail experiment x --rate 2k".to_owned(),
        began: "2026-01-02T03:04:05Z".to_owned(),
        took_s: 7.5,
        machine: Machine::default(),
        definition: Value::Null,
        commands: Vec::new(),
        runs: Vec::new(),
        figures: json!({ "p99_ms": p99_ms }),
        judgements: Vec::new(),
        plots: Vec::new(),
    };
    let results = [result("merge", 41.03), result("sketches", 0.098)];
    let section = "41.0 and 0.098\n<a id=\"merge\"></a>\np99 41.03 ms, in 7.5 s\n";
    let mut findings = Findings {
        page: section.to_owned(),
        readme: "41 and 0.1".to_owned(),
        readmes: BTreeMap::from([("merge".to_owned(), "41, 7.5".to_owned())]),
    };
    assert_eq!(unfounded(&findings, &results), Vec::<String>::new());
    findings.page = format!("{section}0.098, 42\n<a id=\"sketches\"></a>\n2k, 0.1, 41\n");
    findings.readmes.insert("sketches".to_owned(), "41.03, 0.1".to_owned());
    assert_eq!(
        unfounded(&findings, &results),
        ["merge: 0.098", "merge: 42", "sketches: 41", "sketches: 41.03"]
    );
}

#[test]
fn the_texts_around_the_results_have_only_numbers_of_formulas() {
    let others = unfounded(&Findings::new(&[], "", FILE).expect("findings"), &[]);
    let others: Vec<_> = others
        .iter()
        .filter(|one| ![": 0", ": 1", ": 2"].iter().any(|of| one.ends_with(of)))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}
