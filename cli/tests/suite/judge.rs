//! The command `judge`: its refusals, tools of which nothing can be read, and the page of committed
//! results.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{binary, document, said, signal};

/// Set to write the documents anew, after a change to a result, a case or a text.
const UPDATE: &str = "UPDATE_DOCS";
/// Fields of a case that committed results lack: its texts, which the cases have, and the figures,
/// of which the findings have those that were judged.
const LEFT_OUT: [&str; 5] = ["holds", "truth", "tolerance", "reply", "figures"];

/// Judges a tool in a folder; the exit code, and what is said.
fn judged(folder: &Path, tool: &str, more: &[&str]) -> (Option<i32>, String) {
    let mut command = binary();
    command.current_dir(folder).args(["judge", tool]).args(more);
    let output = command.output().expect("it runs");
    (output.status.code(), said(&output))
}

#[test]
fn a_tool_or_a_case_that_is_unknown_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("bad.toml"), "open = 'x'\n[read]\nanswered = '(\\d+)'\n")
        .expect("written");
    fs::write(
        folder.path().join("none.toml"),
        "open = 'nosuch {rate} {url}'\n[read]\nsent = '(\\d+)'\n",
    )
    .expect("written");
    let refused = |tool: &str, more: &[&str], code: i32, expected: &str| {
        let (found, said) = judged(folder.path(), tool, more);
        assert_eq!(found, Some(code), "{tool}: {said}");
        assert!(said.contains(expected), "{tool}: {said}");
    };
    refused("wkr", &[], 2, "wkr: not a known tool; give one of ab, ");
    refused("bad.toml", &[], 2, "bad.toml: open = \"x\": doesn't contain {url}; write {url}");
    refused("wrk", &["--case", "rate,freze"], 2, "--case freze: no such case; give some of rate, ");
    refused("none.toml", &["--case", "rate"], 1, "nosuch: not installed, or not in PATH");
}

#[test]
fn a_tool_of_which_nothing_can_be_read_is_said_to_be_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let tool = "open = '''sh -c 'echo sent 1; : {rate} {connections}; echo {url} >&2; exit 9' \
                '''\n[read]\n\
                sent = 'sent (\\d+)'\nanswered = 'answered (\\d+)'\n";
    fs::write(folder.path().join("bad.toml"), tool).expect("written");
    let (code, said) =
        judged(folder.path(), "bad.toml", &["--case", "requests,freeze,files", "--out", "out"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("requests   not read    it exited with 9: http://127.0.0.1:"), "{said}");
    // It fails with all the files that it wants as well.
    assert!(said.contains("files      not read    it exited with 9: "), "{said}");
    assert!(said.contains("freeze     not claimed its latency counts from when"), "{said}");
    let wide: Vec<&str> = said.lines().filter(|line| 80 < line.chars().count()).collect();
    assert!(wide.is_empty(), "{wide:?}");
    let result = fs::read(folder.path().join("out/result.json")).expect("a file");
    let result: Value = serde_json::from_slice(&result).expect("JSON");
    assert_eq!(result["cases"][0]["outcome"], "unread");
    assert_eq!(result["cases"][1]["outcome"], "not_claimed");
    assert_eq!(
        fs::read_to_string(folder.path().join("out/requests.stdout")).expect("a file"),
        "sent 1\n"
    );
}

#[test]
fn a_signal_ends_it_and_the_cases_so_far_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    // It fails in the first case, and doesn't end in the second.
    let tool = "open = '''sh -c 'test -e first && exec sleep 60; touch first; exit 9' {rate} {url}'''\n\
                [read]\nsent = 'sent (\\d+)'\nanswered = 'answered (\\d+)'\n";
    fs::write(folder.path().join("hangs.toml"), tool).expect("written");
    let mut child = binary()
        .current_dir(folder.path())
        .args(["judge", "hangs.toml", "--case", "requests,rate", "--out", "."])
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let has_begun = |_: usize| {
        thread::sleep(Duration::from_millis(50));
        folder.path().join("rate.stdout").exists()
    };
    assert!((0..600).any(has_begun), "the second case begins");
    signal(&child, "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let result = document(&folder.path().join("result.json"));
    let cases = result["cases"].as_array().expect("cases");
    assert_eq!((&result["interrupted"], cases.len()), (&Value::from(true), 1), "{result:#}");
    assert_eq!((&cases[0]["case"], &cases[0]["outcome"]), (&"requests".into(), &"unread".into()));
}

#[test]
fn the_documents_have_the_committed_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let is_updated = env::var_os(UPDATE).is_some();
    let cure = format!("run {UPDATE}=1 cargo test -p cli --test suite judge");
    let results = fs::read_dir(root.join("judge/results")).expect("the results");
    let mut results: Vec<PathBuf> = results.map(|entry| entry.expect("an entry").path()).collect();
    results.sort();
    for path in &results {
        let mut result = document(path);
        for case in result["cases"].as_array_mut().expect("cases") {
            case.as_object_mut()
                .expect("a case")
                .retain(|key, _| !LEFT_OUT.contains(&key.as_str()));
        }
        if is_updated {
            fs::write(path, format!("{result:#}\n")).expect("written");
        }
        assert!(document(path) == result, "{}: has more than is read: {cure}", path.display());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let made = binary().args(["judge", "page", "--out"]).arg(folder.path()).args(&results).output();
    let made = made.expect("it runs");
    assert!(made.status.success(), "{}", said(&made));
    for name in ["judge.md", "judge-cases.md"] {
        let (made, committed) = (folder.path().join(name), root.join("docs").join(name));
        if is_updated {
            fs::copy(&made, &committed).expect("copied");
        }
        let [made, committed] = [made, committed].map(|path| fs::read(path).expect("a page"));
        assert!(made == committed, "docs/{name}: not that of the results and cases: {cure}");
    }
}

#[test]
fn a_page_is_made_only_of_results_of_this_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = json!({ "kernel": "6.1", "processor": null, "cores": 2 });
    let case = json!({ "case": "rate", "outcome": "not_claimed", "findings": [] });
    let result = json!({
        "schema": 1, "tool": "page", "version": null, "judge": "0.1.0", "quick": false,
        "machine": machine, "interrupted": false, "cases": [case],
    });
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    let mut changed = result.clone();
    write("good.json", &result.to_string());
    write("text.json", "[]");
    changed["cases"][0]["case"] = "freze".into();
    write("case.json", &changed.to_string());
    changed["schema"] = 0.into();
    write("schema.json", &changed.to_string());
    let check = |files: &[&str], code: i32, expected: &str| {
        let (found, said) = judged(folder.path(), "page", files);
        assert_eq!(found, Some(code), "{files:?}: {said}");
        assert!(said.contains(expected), "{files:?}: {said}");
    };
    check(&[], 2, "page: no results; name the result.json of each tool");
    check(&["good.json", "none.json"], 2, "none.json: can't be read (No such file");
    check(&["good.json", "--quick"], 2, "--quick: `page` runs nothing; omit --quick");
    check(&["good.json", "--case", "rate"], 2, "--case: `page` runs nothing; omit --case");
    check(&["text.json"], 1, "text.json: not a result of `judge` (");
    check(&["good.json", "case.json"], 1, "case.json: case freze: this version has no such case; ");
    check(
        &["schema.json"],
        1,
        "schema.json: a result of schema 0, and this version reads schema 1;",
    );
    assert!(!folder.path().join("truetail-judge").exists(), "nothing is written");
    check(&["good.json", "--out", "page/of"], 0, "written  page/of/judge.html\n");
    assert!(folder.path().join("page/of/judge-cases.md").exists());
    // A tool's file may have this name too.
    let (_, said) = judged(folder.path(), "page.toml", &[]);
    assert!(said.contains("page.toml: can't be read"), "{said}");
    let (code, said) = judged(folder.path(), "wrk", &["hey"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("hey: `judge` takes one tool; "), "{said}");
}
