//! The committed findings: FINDINGS.md and the READMEs beside the results are written from the
//! results in `findings`, all of them at full size; every number in a text is in its result, and
//! every link has a target. `make findings` makes the results anew, `make page` only the texts.

use std::fs;
use std::path::{Path, PathBuf};

use calibration::experiments;
use calibration::findings::{self, FILE, Findings};
use calibration::lab::result::judge;

/// The folder of the results, beside the page.
const FOLDER: &str = "findings";
/// The largest size of the page, bytes, and the most lines of a section: about a screen.
const PAGE_BYTES_MAX: usize = 40_000;
const SECTION_LINES_MAX: usize = 40;

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
    assert_eq!(found.unfounded(&results), Vec::<String>::new());
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
    ceiling.figures["ceiling"]["profile"] = serde_json::Value::Null;
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
    let mut changed: serde_json::Value = serde_json::from_str(&committed).expect("JSON");
    changed["judgements"][0]["what"] = "what it said before".into();
    changed["judgements"][0]["judgement"] = "failed".into();
    fs::write(&path, changed.to_string()).expect("written");
    findings::judge_anew(folder.path()).expect("judged");
    let anew = fs::read_to_string(&path).expect("a result");
    assert_eq!(anew, committed, "what isn't judged stays as it is");
}
