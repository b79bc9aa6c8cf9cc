//! A generator or a target that is stopped for a while: whose fault it was shows, and nothing is
//! lost or made up.
//!
//! The stops are longer than anything that a busy machine does; bounds on times are lower ones, or
//! relations of a report's own figures.

#[path = "suite/support.rs"]
mod support;

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::{BINARY, Witness, document, signal};

/// Who is stopped.
enum Stopped {
    Generator,
    Target,
}

/// A run of 3 s without a warm-up, in which one of the two is stopped once load has begun; gives
/// the report and the ledger.
fn run_with_a_stop(
    target: &[&str],
    flags: &[&str],
    stopped: Stopped,
    stop: Duration,
) -> (Value, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = folder.path().join("ledger.json");
    let ledger_flag = ["--ledger", ledger.to_str().expect("text")];
    let witness = Witness::start(&[target, &ledger_flag].concat());
    let mut run = Command::new(BINARY)
        .args(["run", &witness.url, "--duration", "3s", "--warmup", "0s", "--allow-invalid"])
        .args(["--out", "report.json"])
        .args(flags)
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    witness.wait_for(300, &mut run);
    let whom = match stopped {
        Stopped::Generator => &run,
        Stopped::Target => &witness.child,
    };
    signal(whom, "STOP");
    std::thread::sleep(stop);
    signal(whom, "CONT");
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    witness.interrupt();
    (document(&folder.path().join("report.json")), document(&ledger))
}

fn codes(report: &Value) -> Vec<&str> {
    let reasons = report["verdict"]["reasons"].as_array().expect("a list");
    reasons.iter().map(|reason| reason["code"].as_str().expect("a word")).collect()
}

fn us(report: &Value, distribution: &str, figure: &str) -> f64 {
    report[distribution][figure]
        .as_f64()
        .unwrap_or_else(|| panic!("{distribution}.{figure}: {}", report[distribution]))
}

#[test]
fn a_stopped_generator_is_late_and_blames_nobody_else() {
    let stop = Duration::from_millis(400);
    let (report, ledger) =
        run_with_a_stop(&["--base-latency", "1ms"], &["--rate", "1k"], Stopped::Generator, stop);
    assert!(codes(&report).contains(&"generator_late"), "{}", report["verdict"]);
    assert_ne!(report["verdict"]["level"], "valid");
    // The pause is the pacer's, and the burst behind it, for which connections had to be opened, is
    // so as well.
    assert!(350_000.0 < us(&report, "pacer_lateness", "max"));
    assert!(
        us(&report, "connection_wait", "p99") < us(&report, "pacer_lateness", "p99") / 10.0,
        "{} {}",
        report["connection_wait"],
        report["pacer_lateness"]
    );
    assert_eq!(report["counts"]["answered"], ledger["answered"]);
    assert_eq!(report["counts"]["answered"], report["counts"]["intended"]);
}

#[test]
fn a_stopped_closed_loop_is_late_too() {
    let (report, ledger) = run_with_a_stop(
        &["--base-latency", "1ms"],
        &["--conns", "4"],
        Stopped::Generator,
        Duration::from_millis(800),
    );
    assert!(codes(&report).contains(&"generator_late"), "{}", report["verdict"]);
    assert!(0.7 < report["generator"]["shards"][0]["stopped_s"].as_f64().expect("a number"));
    assert_eq!(report["counts"]["answered"], ledger["answered"]);
}

#[test]
fn an_answer_that_came_while_the_generator_stood_still_is_no_timeout() {
    // The stop is longer than the timeout: the answers lie in the kernel meanwhile.
    let (report, ledger) = run_with_a_stop(
        &["--serial", "--base-latency", "1ms"],
        &["--conns", "1", "--timeout", "400ms"],
        Stopped::Generator,
        Duration::from_millis(900),
    );
    assert_eq!(report["counts"]["timed_out"], 0, "{}", report["counts"]);
    assert_eq!(report["counts"]["answered"], ledger["answered"]);
}

#[test]
fn a_stopped_target_is_a_wait_and_no_lateness() {
    let (report, ledger) = run_with_a_stop(
        &["--base-latency", "1ms"],
        &["--rate", "1k", "--conns", "20"],
        Stopped::Target,
        Duration::from_millis(800),
    );
    assert!(codes(&report).contains(&"cap_reached"), "{}", report["verdict"]);
    // The users waited for the target's return: in the queue for a connection, which the naive view
    // leaves out for nearly all.
    assert!(600_000.0 < us(&report, "connection_wait", "max"));
    assert!(us(&report, "pacer_lateness", "p99") < us(&report, "connection_wait", "p99") / 10.0);
    assert!(100_000.0 < us(&report, "corrected", "p90"));
    assert!(us(&report, "naive", "p90") < us(&report, "corrected", "p90") / 2.0);
    assert_eq!(report["counts"]["answered"], ledger["answered"]);
    assert_eq!(report["counts"]["answered"], report["counts"]["intended"]);
}

#[test]
fn a_signal_in_the_drain_interrupts_the_run_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    // It answers after an hour, which is also the timeout: only the signal ends the drain.
    let witness = Witness::start(&["--base-latency", "1h"]);
    let mut run = Command::new(BINARY)
        .args(["run", &witness.url, "--rate", "50", "--arrivals", "constant"])
        .args([
            "--duration",
            "200ms",
            "--warmup",
            "0s",
            "--timeout",
            "1h",
            "--out",
            "report.json",
            "--allow-invalid",
        ])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary runs");
    // All ten have been sent: what is left of the window is shorter than the gap between two.
    witness.wait_for(10, &mut run);
    signal(&run, "INT");
    assert_eq!(run.wait().expect("it ends").code(), Some(130));
    let report = document(&folder.path().join("report.json"));
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["counts"]["abandoned"], report["counts"]["sent"]);
    assert!(codes(&report).contains(&"interrupted"), "{}", report["verdict"]);
}
