//! `truetail calibrate` on this machine: every section has figures, and the null target ends with
//! it.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{BINARY, bounded, signal};

/// The processes that `parent` started, as the kernel lists them: null targets.
fn null_targets_of(parent: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    children.unwrap_or_default().split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

fn is_there(id: u32) -> bool {
    fs::exists(format!("/proc/{id}")).expect("known")
}

#[test]
fn each_section_has_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("calibration.json");
    let child = Command::new(BINARY)
        .args(["calibrate", "--quick", "--quiet", "--out"])
        .arg(&out)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let output = bounded(child);
    let said = String::from_utf8_lossy(&output.stdout);
    // On a busy machine the generator's share may be too much.
    assert!(matches!(output.status.code(), Some(0 | 1 | 5)), "{said}");
    let document: Value =
        serde_json::from_slice(&fs::read(out).expect("a document")).expect("JSON");
    assert_eq!(document["interrupted"], false, "{said}");
    assert!(document["clocks"]["stamp_pair_ns"].as_f64() > Some(0.0), "{document:#}");
    for (section, figures) in [("waits", 3), ("floors", 3), ("costs", 3)] {
        assert_eq!(document[section].as_array().map(Vec::len), Some(figures), "{section}: {said}");
    }
    for floor in document["floors"].as_array().expect("a list") {
        let us = |of: &str| floor[of]["p50"].as_f64().expect("a median");
        assert!(0.0 < us("naive") && us("naive") <= us("corrected") * 1.01, "{floor:#}");
    }
    let ceiling = &document["ceiling"];
    assert!(ceiling["closed_rate"].as_f64() > Some(1_000.0), "{ceiling:#}");
    assert!(!ceiling["open"].as_array().expect("a list").is_empty(), "{ceiling:#}");
    let overhead = &document["overhead"];
    let at = &overhead["at"][0];
    let us = |of: &str| at[of].as_f64().expect("a time");
    assert!(5_000.0 <= us("held_us") && us("held_us") <= us("corrected_us"), "{overhead:#}");
    assert!(overhead["path"]["floor_us"].as_f64() > Some(0.0), "{overhead:#}");
}

#[test]
fn a_signal_ends_it_with_what_it_has_and_takes_the_null_target_along() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("calibration.json");
    let mut child = Command::new(BINARY)
        .args(["calibrate", "--quick", "--quiet", "--out"])
        .arg(&out)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let said = crate::support::first_line(&mut child);
    let targets = null_targets_of(child.id());
    assert_eq!(targets.len(), 1, "{said}");
    signal(&child, "INT");
    let output = bounded(child);
    assert_eq!(output.status.code(), Some(130));
    assert!(targets.iter().all(|id| !is_there(*id)));
    let document: Value =
        serde_json::from_slice(&fs::read(out).expect("a document")).expect("JSON");
    assert_eq!((&document["interrupted"], &document["overhead"]), (&true.into(), &Value::Null));
    assert!(document["clocks"]["read_ns"].is_f64(), "{document:#}");
}

#[test]
fn a_null_target_ends_with_a_parent_that_was_killed() {
    let mut child = Command::new(BINARY)
        .args(["calibrate", "--quick", "--quiet"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    crate::support::first_line(&mut child);
    let targets = null_targets_of(child.id());
    assert_eq!(targets.len(), 1);
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    let ended = || targets.iter().all(|id| !is_there(*id));
    let seen = (0..1_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        ended()
    });
    assert!(seen, "{targets:?}");
}

#[test]
fn cores_that_are_not_ours_are_refused() {
    let output =
        Command::new(BINARY).args(["calibrate", "--cores", "4095"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let line = String::from_utf8_lossy(&output.stderr);
    assert!(line.contains("--cores 4095: this process may not use that core"), "{line}");
}
