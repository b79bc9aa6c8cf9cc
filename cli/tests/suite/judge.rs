//! The command `judge`: its refusals, and tools of which nothing can be read.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::{binary, document, said, signal};

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
    fs::write(folder.path().join("none.toml"), "open = 'nosuch {url}'\n[read]\nsent = '(\\d+)'\n")
        .expect("written");
    let refused = |tool: &str, more: &[&str], code: i32, expected: &str| {
        let (found, said) = judged(folder.path(), tool, more);
        assert_eq!(found, Some(code), "{tool}: {said}");
        assert!(said.contains(expected), "{tool}: {said}");
    };
    refused("wkr", &[], 2, "wkr: not a known tool; give one of ab, ");
    refused("bad.toml", &[], 2, "bad.toml: open = \"x\": loads no {url}; write {url}");
    refused("wrk", &["--case", "rate,freze"], 2, "--case freze: no such case; give some of rate, ");
    refused("none.toml", &["--case", "rate"], 1, "nosuch: not installed, or not in PATH");
}

#[test]
fn a_tool_of_which_nothing_can_be_read_is_said_to_be_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let tool = "open = '''sh -c 'echo sent 1; echo {url} >&2; exit 9' '''\n[read]\n\
                sent = 'sent (\\d+)'\nanswered = 'answered (\\d+)'\n";
    fs::write(folder.path().join("bad.toml"), tool).expect("written");
    let (code, said) =
        judged(folder.path(), "bad.toml", &["--case", "requests,freeze", "--out", "out"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("requests  not read     it exited with 9: http://127.0.0.1:"), "{said}");
    assert!(said.contains("freeze    not claimed  its latency counts from when"), "{said}");
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
    let tool = "open = '''sh -c 'test -e first && exec sleep 60; touch first; exit 9' {url}'''\n\
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
