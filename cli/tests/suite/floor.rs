//! `truetail calibrate` on this machine: every section has figures, and the null target ends with
//! it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Target, binary, bounded, document, signal};

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
    let cache = folder.path().join("cache");
    let child = binary()
        .args(["calibrate", "--quick", "--quiet", "--out"])
        .arg(&out)
        .arg("--flamegraph")
        .arg(folder.path().join("ceiling.folded"))
        .env("XDG_CACHE_HOME", &cache)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let output = bounded(child);
    let said = String::from_utf8_lossy(&output.stdout);
    // On a busy machine the generator's share may be too large.
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{said}");
    let document = document(&out);
    assert_eq!(document["interrupted"], false, "{said}");
    assert!(document["clocks"]["stamp_pair_ns"].as_f64() > Some(0.0), "{document:#}");
    for (section, figures) in [("waits", 3), ("floors", 3), ("costs", 3)] {
        assert_eq!(document[section].as_array().map(Vec::len), Some(figures), "{section}: {said}");
    }
    for floor in document["floors"].as_array().expect("a list") {
        let us = |of: &str| floor[of]["p50"].as_f64().expect("a median");
        assert!(0.0 < us("naive") && us("naive") <= us("corrected") * 1.01, "{floor:#}");
    }
    let capacity = &document["capacity"];
    assert!(capacity["closed_rate"].as_f64() > Some(1_000.0), "{capacity:#}");
    assert!(!capacity["open"].as_array().expect("a list").is_empty(), "{capacity:#}");
    assert!(document["profile"]["samples"].as_u64() > Some(0), "{said}");
    let folded = fs::read_to_string(folder.path().join("ceiling.folded")).expect("a profile");
    assert!(folded.lines().next().is_some_and(|line| line.contains(' ')), "{folded}");
    let overhead = &document["overhead"];
    let at = &overhead["at"][0];
    let us = |of: &str| at[of].as_f64().expect("a time");
    assert!(5_000.0 <= us("held_us") && us("held_us") <= us("corrected_us"), "{overhead:#}");
    assert!(overhead["path"]["floor_us"].as_f64() > Some(0.0), "{overhead:#}");
    let message = String::from_utf8_lossy(&output.stderr);
    // On a busy machine none of its figures may be worth saving.
    let is_saved = cache.exists();
    assert_eq!(
        !is_saved,
        message.contains("the calibration isn't saved: others disturbed"),
        "{message}"
    );
    runs_find_it(is_saved.then_some(&cache), &out, &document);
}

/// Runs on the same cores find the saved one, and no others do; a file can be named instead.
fn runs_find_it(cache: Option<&PathBuf>, file: &Path, calibration: &Value) {
    let nowhere = PathBuf::from("/dev/null");
    if let Some(cache) = cache {
        let saved: Vec<_> = fs::read_dir(cache.join("truetail")).expect("a folder").collect();
        let saved = saved[0].as_ref().expect("one file").path();
        assert_eq!(document(&saved), *calibration);
    }
    let target = Target::start(&["--base-latency", "0s"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = file.to_str().expect("a path of text");
    let cores = calibration["cores"].as_array().expect("cores").iter().map(Value::to_string);
    let cores = cores.collect::<Vec<_>>().join(",");
    let run = |cache: &Path, flags: &[&str]| {
        let output = binary()
            .args(["run", &target.url, "--rate", "500", "--duration", "500ms", "--warmup", "0s"])
            .args(["--cores", &cores, "--out", "report.json", "--quiet", "--allow-invalid"])
            .arg("--details")
            .args(flags)
            .env("XDG_CACHE_HOME", cache)
            .current_dir(folder.path())
            .output()
            .expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).expect("text"))
    };
    let held = || document(&folder.path().join("report.json"))["calibration"].clone();
    let found = cache.map(|cache| (cache, &[][..]));
    for (cache, flags) in found.into_iter().chain([(&nowhere, &["--calibration", file][..])]) {
        let (code, said) = run(cache, flags);
        assert_eq!(code, Some(0), "{said}");
        let held = held();
        assert_eq!(held["began_s"], calibration["began_s"], "{said}");
        assert_eq!(held["kernel"], calibration["kernel"], "{said}");
        assert!(!said.contains("none that fits is saved"), "{said}");
        let verify = binary().args(["verify", "report.json"]).current_dir(folder.path()).output();
        let verify = verify.expect("it runs");
        assert_eq!(verify.status.code(), Some(0), "{}", String::from_utf8_lossy(&verify.stdout));
    }
    let cache = cache.unwrap_or(&nowhere);
    for (cache, flags) in [(cache, &["--wait", "sleep"][..]), (&nowhere, &[])] {
        let (code, said) = run(cache, flags);
        assert_eq!((code, held()), (Some(0), Value::Null), "{said}");
        assert!(said.contains("calibration      none that fits is saved (core"), "{said}");
    }
    fs::remove_file(folder.path().join("report.json")).expect("it is there");
    let (code, said) = run(&nowhere, &["--calibration", file, "--wait", "sleep"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("doesn't fit this run (--wait hybrid, here sleep); omit it"), "{said}");
    assert!(!folder.path().join("report.json").exists(), "nothing ran");
}

#[test]
fn a_signal_ends_it_with_what_it_has_and_takes_the_null_target_along() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("calibration.json");
    let cache = folder.path().join("cache");
    let mut child = binary()
        .args(["calibrate", "--quick", "--quiet", "--out"])
        .arg(&out)
        .env("XDG_CACHE_HOME", &cache)
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
    let document = document(&out);
    assert_eq!((&document["interrupted"], &document["overhead"]), (&true.into(), &Value::Null));
    assert!(!cache.exists(), "an interrupted one isn't saved");
    assert!(document["clocks"]["read_ns"].is_f64(), "{document:#}");
}

#[test]
fn a_null_target_ends_with_a_parent_that_was_killed() {
    let mut child = binary()
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
    let output = binary().args(["calibrate", "--cores", "4095"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let line = String::from_utf8_lossy(&output.stderr);
    assert!(line.contains("--cores 4095: this process may not use that core"), "{line}");
}
