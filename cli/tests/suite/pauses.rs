//! A generator or a target that is stopped for a while: the report blames the right one, and
//! nothing is lost or made up.
//!
//! The stops are longer than any delay of a busy machine; times are bounded only from below, or by
//! other figures of the same report.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Target, binary, document, signal};

/// The process that is stopped.
enum Stopped {
    Generator,
    Target,
}

/// A run of 3 s without a warm-up, with one of the two stopped for a while once 100 requests have
/// been received; returns the report, the ledger and the folder of the run's files.
fn run_with_a_stop(
    target_flags: &[&str],
    flags: &[&str],
    stopped: Stopped,
    stop: Duration,
) -> (Value, Value, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = folder.path().join("ledger.json");
    let ledger_flag = ["--ledger", ledger.to_str().expect("text")];
    let target = Target::start(&[target_flags, &ledger_flag].concat());
    let mut run = binary()
        .args(["run", &target.url, "--duration", "3s", "--warmup", "0s", "--allow-invalid"])
        .args(["--out", "report.json"])
        .args(flags)
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    target.wait_for_requests(&mut run, 100);
    let whom = match stopped {
        Stopped::Generator => &run,
        Stopped::Target => &target.child,
    };
    signal(whom, "STOP");
    std::thread::sleep(stop);
    signal(whom, "CONT");
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    target.interrupt();
    (document(&folder.path().join("report.json")), document(&ledger), folder)
}

fn codes(report: &Value) -> Vec<&str> {
    let reasons = report["verdict"]["reasons"].as_array().expect("a list");
    reasons.iter().map(|reason| reason["code"].as_str().expect("a word")).collect()
}

/// The reasons that a busy machine may add to a run's, or one whose clock is set meanwhile.
const OF_MACHINE: [&str; 8] = [
    "rate_missed",
    "generator_late",
    "receive_late",
    "client_share",
    "clock_stepped",
    "core_saturated",
    "starved",
    "cpu_stolen",
];

/// The other reasons of a run.
fn not_of_machine(report: &Value) -> Vec<&str> {
    codes(report).into_iter().filter(|code| !OF_MACHINE.contains(code)).collect()
}

fn us(report: &Value, distribution: &str, figure: &str) -> f64 {
    report[distribution][figure]
        .as_f64()
        .unwrap_or_else(|| panic!("{distribution}.{figure}: {}", report[distribution]))
}

#[test]
fn a_stopped_generator_is_late_and_blames_only_itself() {
    let stop = Duration::from_millis(400);
    let (report, ledger, _) =
        run_with_a_stop(&["--base-latency", "1ms"], &["--rate", "1k"], Stopped::Generator, stop);
    assert!(codes(&report).contains(&"generator_late"), "{}", report["verdict"]);
    assert_ne!(report["verdict"]["level"], "valid");
    // The pause counts as pacer lateness, and so does the burst after it, for which connections had
    // to be opened.
    assert!(350_000.0 < us(&report, "pacer_lateness", "max"));
    assert!(
        us(&report, "connection_wait", "p99") < us(&report, "pacer_lateness", "p99") / 3.0,
        "{} {}",
        report["connection_wait"],
        report["pacer_lateness"]
    );
    assert_eq!(report["counts"]["answered"], ledger["answered"]);
    assert_eq!(report["counts"]["answered"], report["counts"]["intended"]);
}

#[test]
fn a_stopped_closed_loop_is_late_too() {
    let (report, ledger, _) = run_with_a_stop(
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
fn a_closed_loop_whose_generator_keeps_stopping_blames_it_for_the_throughput() {
    let target = Target::start(&["--base-latency", "1ms"]);
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = binary()
        .args(["run", &target.url, "--conns", "4", "--duration", "2s", "--warmup", "0s"])
        .args(["--allow-invalid", "--out", "report.json"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    target.wait_for_requests(&mut run, 100);
    // Each stop is too short to count as one.
    for _ in 0..100 {
        signal(&run, "STOP");
        std::thread::sleep(Duration::from_millis(8));
        signal(&run, "CONT");
        std::thread::sleep(Duration::from_millis(8));
    }
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    target.interrupt();
    let report = document(&folder.path().join("report.json"));
    assert!(codes(&report).contains(&"generator_bound"), "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("users waited for it"), "{said}");
}

#[test]
fn an_answer_that_came_while_the_generator_stalled_is_no_timeout() {
    // The stop is longer than the timeout: the answers wait in the kernel meanwhile.
    let (report, ledger, _) = run_with_a_stop(
        &["--serial", "--base-latency", "1ms"],
        &["--conns", "1", "--timeout", "400ms"],
        Stopped::Generator,
        Duration::from_millis(900),
    );
    assert_eq!(report["counts"]["timed_out"], 0, "{}", report["counts"]);
    assert_eq!(report["counts"]["answered"], ledger["answered"]);
}

#[test]
fn responses_that_arrive_while_the_generator_is_stopped_are_not_slow() {
    // About 200 requests are in flight when the stop begins; all are answered during it.
    let (report, ledger, _) = run_with_a_stop(
        &["--base-latency", "200ms"],
        &["--rate", "1k", "--arrivals", "constant"],
        Stopped::Generator,
        Duration::from_millis(600),
    );
    assert!(codes(&report).contains(&"generator_late"), "{}", report["verdict"]);
    let (naive, late) = (us(&report, "naive", "max"), us(&report, "receive_lateness", "max"));
    assert!(350_000.0 < late, "the first to arrive waited for the whole stop: {late} µs");
    assert!(naive < late, "the program saw {naive} + {late} µs");
    assert!(naive < 500_000.0, "200 ms and what a busy machine adds: {naive} µs");
    assert_eq!(report["counts"]["answered"], ledger["answered"]);
}

#[test]
fn a_stopped_target_is_a_wait_not_lateness() {
    let (report, ledger, _) = run_with_a_stop(
        &["--base-latency", "1ms"],
        &["--rate", "1k", "--conns", "20"],
        Stopped::Target,
        Duration::from_millis(800),
    );
    // What waited for a connection was sent in one burst.
    let expected = ["cap_reached", "schedule_not_as_planned"];
    assert_eq!(not_of_machine(&report), expected, "{}", report["verdict"]);
    // Users waited for the target to continue: for a connection, which naive latency omits.
    assert!(600_000.0 < us(&report, "connection_wait", "max"));
    assert!(us(&report, "pacer_lateness", "mean") < us(&report, "connection_wait", "mean") / 10.0);
    assert!(100_000.0 < us(&report, "corrected", "p90"));
    assert!(us(&report, "naive", "p90") < us(&report, "corrected", "p90") / 2.0);
    assert_eq!(report["counts"]["answered"], ledger["answered"]);
    assert_eq!(report["counts"]["answered"], report["counts"]["intended"]);
}

#[test]
fn connections_opened_while_the_target_stalls_discredit_no_latency() {
    let (report, ledger, _) = run_with_a_stop(
        &["--base-latency", "1ms"],
        &["--rate", "2k", "--conns", "2000"],
        Stopped::Target,
        Duration::from_millis(400),
    );
    let grew = report["counts"]["pool_grew"].as_u64().expect("a number");
    assert!(200 < grew, "one for each request that found none free: {grew}");
    let verdict = &report["verdict"];
    let notes = verdict["notes"].as_array().expect("a list");
    assert!(notes.iter().any(|note| note["code"] == "pool_grew"), "{verdict}");
    // Requests that a busy machine sends late aren't as the schedule has them.
    let mut reasons = not_of_machine(&report);
    reasons.retain(|code| *code != "schedule_not_as_planned");
    assert!(reasons.is_empty(), "{reasons:?}: {verdict}");
    // Late sends and opened connections are a small part of the time that users waited.
    let part = &report["client_share"]["p99"];
    let us = |name: &str| part[name].as_f64().expect("a number");
    assert!(200_000.0 < us("corrected"), "{part}");
    assert!(us("added") + us("opening") < 0.05 * us("corrected"), "{part}");
    let message = verdict["reasons"].to_string();
    assert!(!message.contains("ms at p99 ("), "{message}");
    assert_eq!(report["counts"]["answered"], ledger["answered"]);
}

#[test]
fn a_signal_in_the_drain_interrupts_the_run_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    // It answers after an hour, which is also the timeout: only the signal ends the drain.
    let target = Target::start(&["--base-latency", "1h"]);
    let mut run = binary()
        .args(["run", &target.url, "--rate", "50", "--duration", "200ms", "--warmup", "0s"])
        .args(["--arrivals", "constant", "--timeout", "1h"])
        .args(["--out", "report.json", "--allow-invalid"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary runs");
    // The last of ten requests is due 180 ms after the start and never sent earlier, so after this
    // the window of 200 ms is over.
    target.wait_for_requests(&mut run, 10);
    std::thread::sleep(Duration::from_millis(20));
    assert!(run.try_wait().expect("it is ours").is_none(), "it waits for its answers");
    signal(&run, "INT");
    assert_eq!(run.wait().expect("it ends").code(), Some(130));
    let report = document(&folder.path().join("report.json"));
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["counts"]["abandoned"], report["counts"]["sent"]);
    assert!(codes(&report).contains(&"interrupted"), "{}", report["verdict"]);
    assert!(report["verdict"].to_string().contains("the drain"), "{}", report["verdict"]);
}

#[test]
fn answers_that_came_during_a_stop_are_no_timeouts() {
    // More than one poll posts: 64 answers are there, one per user, each in time.
    let (report, ledger, _) = run_with_a_stop(
        &["--base-latency", "20ms"],
        &["--conns", "64", "--timeout", "1s"],
        Stopped::Generator,
        Duration::from_millis(1_500),
    );
    let counts = &report["counts"];
    assert_eq!((&counts["timed_out"], &counts["failed"]), (&0.into(), &0.into()), "{counts}");
    assert_eq!(counts["answered"], ledger["answered"], "{counts}");
}

#[test]
fn after_a_stop_longer_than_the_deadline_each_paced_request_counts_once() {
    // The target takes longer than the period: each user always has a request waiting.
    let (report, _, folder) = run_with_a_stop(
        &["--base-latency", "6ms"],
        &["--conns", "2", "--period", "4ms", "--deadline", "50ms", "--raw", "raw.bin"],
        Stopped::Generator,
        Duration::from_millis(300),
    );
    let samples = binary().args(["samples", "--csv"]).arg(folder.path().join("raw.bin")).output();
    let samples = samples.expect("the binary runs");
    let complaint = String::from_utf8_lossy(&samples.stderr);
    assert!(samples.status.success(), "{complaint}");
    let samples = String::from_utf8(samples.stdout).expect("text");
    let mut lines = samples.lines();
    let header = lines.next().expect("a header");
    let at = header.split(',').position(|name| name == "intended_ns").expect("a column");
    let mut times: Vec<u64> = lines
        .map(|line| line.split(',').nth(at).expect("a field").parse().expect("a number"))
        .collect();
    times.sort_unstable();
    // The users send in turn, one every 2 ms for 3 s: every moment once.
    let expected: Vec<u64> = (0..1_500).map(|k| 2_000_000 * k).collect();
    assert!(times == expected, "{} requests, {}", times.len(), report["counts"]);
}

#[test]
fn nothing_is_sent_once_the_drain_is_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "100ms"]);
    // Each of four users sends four times as often as it is answered: requests wait at the end.
    let mut run = binary()
        .args(["run", &target.url, "--conns", "4", "--period", "25ms", "--duration", "1s"])
        .args(["--warmup", "0s", "--timeout", "1s", "--out", "report.json", "--allow-invalid"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary runs");
    // Four in 100 ms: the 45th comes in the drain, which a stop of its whole length outlasts.
    target.wait_for_requests(&mut run, 45);
    signal(&run, "STOP");
    std::thread::sleep(Duration::from_millis(1_200));
    signal(&run, "CONT");
    assert_eq!(run.wait().expect("it ends").code(), Some(0));
    let report = document(&folder.path().join("report.json"));
    assert_eq!(report["counts"]["abandoned"], 0, "{}", report["counts"]);
    assert!(100_000.0 <= us(&report, "naive", "min"), "{}", report["naive"]);
}
