//! Profiles of runs: by perf where that works, else by the run's own signal, in every format, of an
//! interrupted run; and refusals before a run.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Target, binary, bounded, document, said, signal};

/// A run that keeps a core busy, in this folder.
fn run(target: &Target, folder: &Path, [warmup, length]: [&str; 2], profile: &str) -> Command {
    let mut command = binary();
    command
        .args(["run", &target.url, "--rate", "500", "--wait", "spin", "--warmup", warmup])
        .args(["--duration", length, "--out", "report.json", "--flamegraph", profile])
        .arg("--allow-invalid")
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn ended(command: &mut Command) -> Output {
    bounded(spawned(command))
}

fn spawned(command: &mut Command) -> Child {
    command.spawn().expect("the binary runs")
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).expect("it was written")
}

fn verified(folder: &Path) {
    let verify = binary().args(["verify", "report.json"]).current_dir(folder).output();
    let verify = verify.expect("the binary runs");
    assert!(verify.status.success(), "{}", said(&verify));
}

/// True if perf took a profile; otherwise tests of perf's own features are skipped.
fn by_perf(report: &Value) -> bool {
    let profile = &report["profile"];
    let by_perf = profile["source"] == "perf" && profile["user_only"].is_null();
    if !by_perf {
        println!("skipped: perf can't be used here: {}", profile["user_only"]);
    }
    by_perf
}

#[test]
fn perf_shows_a_shards_calls_down_into_the_kernel() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    let output = ended(&mut run(&target, folder.path(), ["0s", "1s"], "run.folded"));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = document(&folder.path().join("report.json"));
    if !by_perf(&report) {
        return;
    }
    verified(folder.path());
    let profile = &report["profile"];
    let stacks = read(folder.path(), "run.folded");
    let mut weight = 0;
    assert!(stacks.starts_with("# truetail {\"per_request\":true,"), "{stacks}");
    for line in stacks.lines().skip(1) {
        let (stack, ps) = line.rsplit_once(' ').expect("a weight");
        assert!(stack.contains(';') && !stack.contains("<impl"), "{stack}");
        weight += ps.parse::<u64>().expect("a number");
    }
    // Picoseconds of each stack, rounded, against microseconds.
    let us = profile["cpu_us_per_request"].as_f64().expect("requests were answered");
    let off_ps = (weight as f64 - us * 1e6).abs();
    assert!(off_ps <= stacks.lines().count() as f64, "{weight} ps, {us} µs");
    let shard = stacks.lines().filter(|line| line.starts_with("truetail-shard;"));
    let names: Vec<&str> = shard.collect();
    for name in ["shard::request::turn", "uring::ring::Ring::", "_[k]"] {
        assert!(names.iter().any(|line| line.contains(name)), "{name} is missing in: {stacks}");
    }
    if profile["kernel_unnamed"].is_null() {
        assert!(stacks.contains("__do_sys_io_uring_enter_[k]"), "{stacks}");
    }
    assert!(0 < profile["kernel"]["samples"].as_u64().expect("a count"));
    assert!(0 < profile["user"]["samples"].as_u64().expect("a count"));
    let codes = report["verdict"]["reasons"].as_array().expect("reasons");
    assert!(codes.iter().any(|reason| reason["code"] == "profiled"), "{codes:?}");
    target.interrupt();
}

#[test]
fn without_perf_the_run_samples_itself_and_reports_it_everywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    let words = "user space only: perf is not installed";
    for name in ["run.svg", "run.folded"] {
        let output = ended(
            run(&target, folder.path(), ["0s", "1s"], name)
                .arg("--details")
                .env("PATH", folder.path()),
        );
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let text = said(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{text}");
        let report = document(&folder.path().join("report.json"));
        let profile = &report["profile"];
        assert_eq!(profile["source"], "in_process");
        assert_eq!(profile["user_only"], "perf is not installed");
        assert_eq!((&profile["kernel"], &profile["event"]), (&Value::Null, &"SIGPROF".into()));
        assert!(0 < profile["samples"].as_u64().expect("a count"));
        verified(folder.path());
    }
    assert!(read(folder.path(), "run.svg").contains(words));
    let stacks = read(folder.path(), "run.folded");
    assert!(stacks.lines().any(|line| line.starts_with("truetail-shard;")), "{stacks}");
    assert!(stacks.contains("turn"), "{stacks}");
    assert!(!stacks.contains("_[k]"), "{stacks}");
    target.interrupt();
}

#[test]
fn an_interrupted_run_has_the_profile_up_to_then() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    let mut child = spawned(&mut run(&target, folder.path(), ["0s", "60s"], "run.svg"));
    // Half a second of load.
    target.wait_for_requests(&mut child, 250);
    signal(&child, "INT");
    let output = bounded(child);
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    let report = document(&folder.path().join("report.json"));
    assert_eq!(report["interrupted"], true);
    assert!(0 < report["profile"]["samples"].as_u64().expect("a profile"));
    assert!(read(folder.path(), "run.svg").contains("Processor time per request"));
    verified(folder.path());
    target.interrupt();
}

#[test]
fn a_run_that_never_reached_its_window_has_no_profile() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    let mut command = run(&target, folder.path(), ["60s", "1s"], "run.svg");
    let mut child = spawned(&mut command);
    target.wait_for_requests(&mut child, 10);
    signal(&child, "INT");
    let output = bounded(child);
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    let words = "--flamegraph run.svg: no profile: the window was never reached";
    assert!(said(&output).contains(words), "{}", said(&output));
    assert_eq!(document(&folder.path().join("report.json"))["profile"], Value::Null);
    assert!(!folder.path().join("run.svg").exists());
    target.interrupt();
}

#[test]
fn a_bad_profile_file_is_refused_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    fs::create_dir(folder.path().join("folder.svg")).expect("a folder");
    for (name, words) in [
        (
            "run.png",
            "--flamegraph run.png: invalid file name: it must end in .svg, .folded or .pb.gz",
        ),
        ("run.gz", "--flamegraph run.gz: invalid file name"),
        ("none/run.svg", "--flamegraph none/run.svg: "),
        ("folder.svg", "--flamegraph folder.svg: "),
    ] {
        let output = ended(&mut run(&target, folder.path(), ["0s", "1s"], name));
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(words), "{}", said(&output));
    }
    let mut same = run(&target, folder.path(), ["0s", "1s"], "same.svg");
    let output = ended(same.args(["--csv", "same.svg"]));
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("--csv names the same file"), "{}", said(&output));
    assert_eq!(target.received(), 0);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    target.interrupt();
}

#[test]
fn two_profiles_of_either_format_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    for name in ["a.folded", "b.pb.gz"] {
        let output = ended(&mut run(&target, folder.path(), ["0s", "1s"], name));
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    let us = document(&folder.path().join("report.json"))["profile"]["cpu_us_per_request"]
        .as_f64()
        .expect("requests were answered");
    let flamediff = |args: &[&str]| {
        let mut command = binary();
        command.arg("flamediff").args(args).current_dir(folder.path());
        command.output().expect("the binary runs")
    };
    let output = flamediff(&["a.folded", "b.pb.gz", "--json", "--out", "diff.svg"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let after = found["whole"]["after_us"].as_f64().expect("a figure");
    assert!((after - us).abs() < 0.01, "{after} {us}");
    // The shard polls nearly all the time, which a profile recognises by a function's name.
    let polling = found["polling"]["after_us"].as_f64().expect("a figure");
    assert!(after / 2.0 < polling, "{polling} of {after}");
    // Apart from polling, a second of it may have few functions.
    let frames = found["frames"].as_array().expect("frames").len();
    assert!((1..=10).contains(&frames), "{frames}");
    assert!(read(folder.path(), "diff.svg").contains("widths: after, and what only before had"));
    let output = flamediff(&["b.pb.gz", "b.pb.gz"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("+0 ns   processor time per request (+0.0 %)"));
    assert!(!said(&output).contains("the runs differ"), "{}", said(&output));
    fs::write(folder.path().join("foreign.folded"), "main;foo 100\n").expect("written");

    for (args, words) in [
        (&["report.json", "a.folded"][..], "BEFORE report.json: not a profile by its name"),
        (&["a.folded", "diff.svg"], "AFTER diff.svg: not a profile by its name"),
        (
            &["foreign.folded", "a.folded"],
            "BEFORE foreign.folded: it doesn't say what its figures are; name a file written by",
        ),
        (&["a.folded", "none.folded"], "AFTER none.folded: can't be read"),
        (&["a.folded", "b.pb.gz", "--out", "d.png"], "--out d.png: name it .svg"),
        (&["a.folded", "b.pb.gz", "--out", "none/d.svg"], "--out none/d.svg: "),
        (&["a.folded", "b.pb.gz", "--out", "a.folded"], "--out a.folded: "),
    ] {
        let output = flamediff(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{args:?}: {}", said(&output));
    }
    target.interrupt();
}
