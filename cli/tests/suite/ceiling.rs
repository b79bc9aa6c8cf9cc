//! `ceiling` against targets with a known limit. Its results need an undisturbed machine, which the
//! figures of its runs show.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{
    BINARY, NO_CACHE, Target, binary, bounded, code_of_series, document, said, signal, verified,
};

/// Few steps, of 1 s.
const SHORT: [&str; 15] = [
    "--duration",
    "1s",
    "--warmup",
    "200ms",
    "--settle",
    "100ms",
    "--timeout",
    "1s",
    "--cooldown",
    "300ms",
    "--tolerance",
    "30%",
    "--repeats",
    "0",
    "--quiet",
];

fn ceiling(folder: &Path, args: &[&str]) -> Output {
    let mut command = binary();
    command.arg("ceiling").args(args).args(SHORT).args(["--out", "c.json"]);
    command.current_dir(folder).output().expect("the binary runs")
}

/// Every run: the steps, and the trials that show what moves the ceiling.
fn runs<'a>(ceiling: &'a Value) -> Vec<&'a Value> {
    let trials = ceiling["proof"]["trials"].as_array().expect("a list");
    let steps = ceiling["steps"].as_array().expect("a list");
    let of_trial = |trial: &'a Value| trial["steps"].as_array().expect("a list");
    steps.iter().chain(trials.iter().flat_map(of_trial)).collect()
}

/// True if others took a shard's core in any run; then they took the target's as well.
fn disturbed(ceiling: &Value) -> bool {
    runs(ceiling).iter().any(|run| {
        let figures = &run["figures"];
        let shards = figures["shards"].as_array().expect("a list");
        let waited = shards.iter().filter_map(|shard| shard["waited"].as_f64()).fold(0.0, f64::max);
        0.02 < waited + figures["steal"].as_f64().unwrap_or(0.0)
    })
}

#[test]
fn a_serial_target_is_the_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let target = Target::start(&["--serial", "--base-latency", "500us"]);
    fs::write(path("plan.toml"), "seed = 7\nheader = \"X-Secret: pa55\"\n").expect("written");
    let args = [&target.url, "--plan", "plan.toml", "--csv", "c.csv", "--svg", "c.svg"];
    let output = ceiling(folder.path(), &args);
    let said = said(&output);
    let found = document(&path("c.json"));
    assert_eq!((&found["schema"], &found["interrupted"]), (&7.into(), &false.into()));
    assert_eq!(found["plan"]["seed"], 7);
    assert!(!fs::read_to_string(path("c.json")).expect("text").contains("pa55"));
    let seeds: Vec<u64> = runs(&found).iter().filter_map(|run| run["seed"].as_u64()).collect();
    assert!(seeds.iter().all(|seed| 7 <= *seed), "{seeds:?}");
    // At 4,000/s half go unanswered in any case.
    let failed = found["failed_per_s"].as_f64().expect("it can't do everything");
    assert!(failed <= 4_000.0, "{said}");
    let passed = found["passed_per_s"].as_f64();
    assert_eq!(output.status.code(), Some(code_of_series(&found, passed.is_some())), "{said}");
    assert!(passed.is_none_or(|passed| passed < 2_600.0), "{said}");
    let bound = &found["bound"];
    assert!(bound["evidence"].as_str().is_some_and(|text| !text.is_empty()), "{bound}");
    if !disturbed(&found) {
        assert_eq!(bound["code"], "target", "{said}");
        assert!(passed.is_some_and(|passed| 1_300.0 < passed), "{said}");
        let trials = found["proof"]["trials"].as_array().expect("a list");
        assert!(3 <= trials.len(), "{said}");
        assert!(said.contains("Bound: the target"), "{said}");
    }
    verified(&path("c.json"), "/failed_per_s");
    let csv = fs::read_to_string(path("c.csv")).expect("written");
    assert_eq!(csv.lines().count(), 1 + runs(&found).len(), "{csv}");
    let steps = csv.lines().filter(|row| row.ends_with(',')).count();
    assert_eq!(Some(steps), found["steps"].as_array().map(Vec::len), "{csv}");
    let svg = fs::read_to_string(path("c.svg")).expect("written");
    assert!(svg.starts_with("<svg") && svg.contains("intended rate"), "{svg}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
}

#[test]
fn a_cap_on_connections_is_the_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "5ms"]);
    let args = [&target.url, "--conns", "4", "--rate", "200", "--max-rate", "3200"];
    let output = ceiling(folder.path(), &args);
    let said = said(&output);
    let found = document(&folder.path().join("c.json"));
    // Four connections get at most 800/s from a target that takes 5 ms.
    assert!(found["failed_per_s"].as_f64().is_some_and(|failed| failed <= 1_600.0), "{said}");
    assert!(found["passed_per_s"].as_f64().is_none_or(|passed| passed < 1_100.0), "{said}");
    if !disturbed(&found) {
        assert_eq!(found["bound"]["code"], "cap", "{said}");
        assert!(found["passed_per_s"].as_f64().is_some_and(|passed| 500.0 < passed), "{said}");
        let trials = found["proof"]["trials"].as_array().expect("a list");
        let moved: Vec<(u64, bool)> = trials
            .iter()
            .filter(|trial| trial["changed"] == "conns")
            .filter_map(|trial| Some((trial["conns"].as_u64()?, trial["moved"].as_bool()?)))
            .collect();
        assert_eq!(moved, [(8, true), (2, true)], "{said}");
    }
}

/// In a network namespace with 200 local ports: the target, then the search.
const FEW_PORTS: &str = "set -eu
ip link set lo up
echo '20000 20199' > /proc/sys/net/ipv4/ip_local_port_range
\"$0\" target --listen 127.0.0.1:8080 --base-latency 100ms > target.log &
trap \"kill $!\" EXIT
until grep -q listening target.log; do kill -0 $!; sleep 0.02; done
\"$0\" ceiling http://127.0.0.1:8080/ --keepalive off --rate 400 --max-rate 12800 \\
    --out c.json \"$@\"";

#[test]
fn local_ports_are_the_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    // A tenth of a second at 2,000/s takes all 200, even if ended connections are reused.
    let output = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-c", FEW_PORTS, BINARY])
        .args(SHORT)
        .envs(NO_CACHE)
        .current_dir(folder.path())
        .output()
        .expect("unshare runs");
    let said = said(&output);
    let found = document(&folder.path().join("c.json"));
    if !disturbed(&found) {
        assert_eq!(found["bound"]["code"], "ports", "{said}");
        assert!(found["failed_per_s"].as_f64().is_some_and(|failed| failed <= 3_200.0), "{said}");
    }
}

#[test]
fn files_that_a_run_lacks_are_the_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "0s"]);
    let output = Command::new("prlimit")
        .args(["--nofile=200", BINARY, "ceiling", &target.url, "--out", "c.json"])
        .args(SHORT)
        .envs(NO_CACHE)
        .current_dir(folder.path())
        .output()
        .expect("prlimit runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let found = document(&folder.path().join("c.json"));
    let bound = &found["bound"];
    assert_eq!((&bound["code"], &found["interrupted"]), (&"files".into(), &true.into()), "{said}");
    assert!(bound["evidence"].as_str().is_some_and(|text| text.contains("--conns")), "{bound}");
    verified(&folder.path().join("c.json"), "/failed_per_s");
    assert!(said.contains("open files") && said.contains("Bound: this machine's files"), "{said}");
}

#[test]
fn the_null_target_is_loaded_from_other_cores_and_profiled() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["--null", "--rate", "200", "--max-rate", "200", "--flamegraph", "f.folded"];
    let output = ceiling(folder.path(), &args);
    let said = said(&output);
    let found = document(&folder.path().join("c.json"));
    if found["passed_per_s"].is_number() {
        assert_eq!(output.status.code(), Some(code_of_series(&found, true)), "{said}");
        assert_eq!((&found["passed_per_s"], &found["failed_per_s"]), (&200.0.into(), &Value::Null));
        assert_eq!(found["bound"]["code"], "none_reached", "{said}");
        assert!(found["profile"]["frames"].is_array(), "{said}");
        assert!(folder.path().join("f.folded").exists(), "{said}");
    } else {
        assert!(disturbed(&found), "{said}");
    }
}

#[test]
fn a_signal_ends_it_with_what_it_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "0s"]);
    let mut child = binary()
        .args(["ceiling", &target.url, "--rate", "50", "--duration", "1s", "--warmup", "0s"])
        .args(["--cooldown", "5s", "--out", "c.json"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut lines = stdout.lines().map(|line| line.expect("text"));
    let row = lines.by_ref().take(20).find(|line| line.contains(" % "));
    assert!(row.is_some(), "no step ended: {:?}", child.wait_with_output());
    signal(&child, "INT");
    let rest: Vec<String> = lines.collect();
    assert_eq!(bounded(child).status.code(), Some(130), "{rest:?}");
    let found = document(&folder.path().join("c.json"));
    assert_eq!((&found["interrupted"], &found["failed_per_s"]), (&true.into(), &Value::Null));
    assert_eq!(found["steps"].as_array().map(Vec::len), Some(1));
    assert!(rest.iter().any(|line| line.starts_with("Interrupted")), "{rest:?}");
}

#[test]
fn flags_that_a_ceiling_cannot_use_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = "http://127.0.0.1:1/";
    fs::write(folder.path().join("plan.toml"), format!("target = \"{url}\"\n")).expect("written");
    for (args, line) in [
        (&[url, "--slo", "p99<1s"][..], "--slo p99<1s: a ceiling has no objectives; omit it"),
        (&[url, "--model", "closed"], "--model closed: a closed model has no rate to change"),
        (&[], "--target: the URL is missing; give http://HOST[:PORT]/PATH, or --null"),
        (&[url, "--raw", "r"], "--raw r: a file holds one run, not many; omit it"),
        (&[url, "--max-rate", "5"], "--max-rate 5: below the first rate"),
        (&[url, "--flamegraph", "f.png"], "--flamegraph f.png: invalid file name"),
        (&["--null", "--plan", "plan.toml"], "--null: the plan file names a target; omit one"),
    ] {
        let output = ceiling(folder.path(), args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.starts_with(&format!("truetail: {line}")), "{message}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "a file was left");
}
