//! `--replay`: a log's requests arrive again at its times, with its methods and paths, whatever the
//! target does meanwhile.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::noting_server::server;
use crate::support::{Target, binary, document, said};

/// Method and URL of a line.
fn request(number: usize) -> (&'static str, String) {
    let method = if number % 5 == 4 { "POST" } else { "GET" };
    (method, format!("/item/{}?q={}", number % 50, number % 50))
}

/// A log of JSON lines at these times, in ms, with fifty URLs.
fn log(times_ms: &[u64]) -> String {
    let mut log = String::new();
    for (number, at_ms) in times_ms.iter().enumerate() {
        let (s, ms) = (1_700_000_000 + at_ms / 1_000, at_ms % 1_000);
        let (method, url) = request(number);
        let _ = writeln!(
            log,
            "{{\"time\":\"{s}.{ms:03}\",\"method\":\"{method}\",\"path\":\"{url}\"}}"
        );
    }
    log
}

/// Twenty seconds: 50/s, with a burst of 400 requests in 200 ms at 8.3 s, and nothing from 12 s to
/// 16 s. At ten times the speed the burst lies in the middle of a window of 100 ms, so that a few
/// milliseconds at its edges, or of the first request, don't decide how much of it that window has.
fn burst_and_lull() -> Vec<u64> {
    let even = (0..1_000).map(|at| at * 20).filter(|ms| !(12_000..16_000).contains(ms));
    let mut times: Vec<u64> = even.chain((0..400).map(|at| 8_300 + at / 2)).collect();
    times.sort_unstable();
    times
}

fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = binary();
    command.args(["run", "-q", "-o", "report.json"]).args(args);
    command.current_dir(folder).output().expect("the binary runs")
}

/// Replays this log and returns the report, which verifies.
fn replayed(folder: &Path, log: &str, args: &[&str]) -> Value {
    fs::write(folder.join("access.log"), log).expect("written");
    let output = run(folder, &[args, &["--replay", "access.log", "--allow-invalid"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(verify(folder), (Some(0), String::new()));
    document(&folder.join("report.json"))
}

fn verify(folder: &Path) -> (Option<i32>, String) {
    let mut command = binary();
    let output = command.args(["verify", "-q", "report.json"]).current_dir(folder).output();
    let output = output.expect("the binary runs");
    (output.status.code(), said(&output))
}

/// Variance over mean of the counts of these times, ns, in windows of 100 ms.
fn dispersion(times_ns: impl Iterator<Item = u64>, windows: usize) -> f64 {
    let mut counts = vec![0.0; windows];
    for at_ns in times_ns {
        let window = usize::try_from(at_ns / 100_000_000).expect("few");
        counts[window.min(windows - 1)] += 1.0;
    }
    let mean = counts.iter().sum::<f64>() / windows as f64;
    counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / windows as f64 / mean
}

/// Three times at most: where the machine stalls, a burst spreads.
#[test]
fn a_target_gets_the_logs_requests_at_the_logs_times() {
    let off: Vec<String> = (0..3).map_while(|_| times_off()).collect();
    assert!(off.len() < 3, "{off:?}");
}

/// Replays a log with a burst, and returns how its times were missed, if they were.
fn times_off() -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let times_ms = burst_and_lull();
    let (url, got) = server();
    let log = format!("garbage?pa55\n{}", log(&times_ms));
    let below = format!("{url}api/");
    let report = replayed(folder.path(), &log, &[&below, "--speed", "10x", "--prewarm", "50"]);
    let lines = times_ms.len() as u64;
    assert_eq!(report["config"]["target"], below);
    assert_eq!(report["replay"]["requests"], lines);
    assert_eq!(report["replay"]["unreadable"], 1);
    assert_eq!(report["counts"]["intended"], lines);
    assert_eq!(report["counts"]["answered"], lines);
    let parts = report["parts"].as_array().expect("parts");
    let of = |part: &Value| (part["name"].clone(), part["counts"]["answered"].clone());
    let routes = [("GET /item/{id}", lines / 5 * 4), ("POST /item/{id}", lines / 5)];
    let routes = routes.map(|(name, requests)| (Value::from(name), Value::from(requests)));
    assert_eq!(parts.iter().map(of).collect::<Vec<_>>(), routes);

    let mut got = got.lock().expect("notes").clone();
    got.sort_by_key(|(at, _)| *at);
    let mut paths: Vec<String> = got.iter().map(|(_, line)| line.clone()).collect();
    let line = |number: usize| {
        let (method, url) = request(number);
        format!("{method} /api{url} HTTP/1.1")
    };
    let mut want: Vec<String> = (0..times_ms.len()).map(line).collect();
    paths.sort_unstable();
    want.sort_unstable();
    assert_eq!(paths, want);

    let began = got[0].0;
    let since = got.iter().map(|(at, _)| u64::try_from((*at - began).as_nanos()).expect("seconds"));
    let (of_log, of_sends) =
        (dispersion(times_ms.iter().map(|ms| ms * 100_000), 20), dispersion(since, 20));
    assert!(10.0 < of_log, "{of_log}");
    let at_100_ms = &report["arrivals"]["dispersion"][2];
    let (due, sent) = (at_100_ms["due"].as_f64(), at_100_ms["sent"]["value"].as_f64());
    let (due, sent) = (due.expect("a figure"), sent.expect("a figure"));
    let is_near = |found: f64, truth: f64| (found / truth - 1.0).abs() < 0.05;
    let held = is_near(of_sends, of_log) && is_near(sent, due);
    (!held).then(|| format!("{of_sends} of {of_log}, {sent} of {due}"))
}

#[test]
fn any_shards_send_the_same() {
    let cores: Vec<String> =
        engine::sys::placement::allowed_cores().iter().take(2).map(ToString::to_string).collect();
    let digest = |cores: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let (url, got) = server();
        let log = log(&burst_and_lull());
        let report = replayed(folder.path(), &log, &[&url, "--speed", "50", "--cores", cores]);
        let mut lines: Vec<String> =
            got.lock().expect("notes").iter().map(|(_, line)| line.clone()).collect();
        lines.sort_unstable();
        (report["config"]["schedule_digest"].clone(), lines)
    };
    assert_eq!(digest(&cores[0]), digest(&cores.join(",")));
}

#[test]
fn a_stall_erases_no_arrival() {
    let folder = tempfile::tempdir().expect("a folder");
    let target =
        Target::start(&["--base-latency", "1ms", "--stall-every", "3s", "--stall-for", "2s"]);
    let times_ms: Vec<u64> = (0..1_500).map(|at| at * 4).collect();
    let report = replayed(folder.path(), &log(&times_ms), &[&target.url, "-c", "20"]);
    assert_eq!(report["counts"]["intended"], 1_500);
    assert_eq!(report["counts"]["answered"], 1_500);
    assert_eq!(target.received(), 1_500);
    let max = report["corrected"]["max"].as_f64().expect("a latency");
    assert!(1_500_000.0 < max, "those who came during the stall waited: {max}");
}

#[test]
fn a_shorter_duration_cuts_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "1ms"]);
    let times_ms: Vec<u64> = (0..1_000).map(|at| at * 10).collect();
    let report = replayed(folder.path(), &log(&times_ms), &[&target.url, "-d", "1s"]);
    assert_eq!(report["counts"]["intended"], 100);
    assert_eq!(report["replay"]["requests"], 1_000);
    assert_eq!(target.received(), 100);
}

#[test]
fn a_burst_at_the_logs_end_is_sent_and_answered_in_the_window() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "20ms"]);
    // With 20 connections, most of each burst waits for others to be answered.
    let times_ms: Vec<u64> = (0..200).map(|at| at / 100 * 500).collect();
    let report = replayed(folder.path(), &log(&times_ms), &[&target.url, "-c", "20"]);
    let counts = &report["counts"];
    assert_eq!((&counts["intended"], &counts["answered"]), (&200.into(), &200.into()));
    assert_eq!(counts["sent_in_window"], 200);
    assert_eq!(report["config"]["duration"], "1.501s");
    let reasons = report["verdict"]["reasons"].as_array().expect("reasons");
    assert!(reasons.iter().all(|reason| reason["code"] != "rate_missed"), "{reasons:?}");
}

#[test]
fn a_changed_log_is_found_and_a_missing_one_leaves_its_schedule_unchecked() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "1ms"]);
    let times_ms: Vec<u64> = (0..200).map(|at| at * 5).collect();
    replayed(folder.path(), &log(&times_ms), &[&target.url]);
    let path = folder.path().join("access.log");
    let report = fs::read_to_string(folder.path().join("report.json")).expect("a report");
    let moved = report.replacen("\"/{{log.path}}\"", "\"/v2/{{log.path}}\"", 1);
    assert_ne!(moved, report);
    fs::write(folder.path().join("report.json"), moved).expect("written");
    let (code, message) = verify(folder.path());
    assert_eq!(code, Some(1), "{message}");
    assert!(message.starts_with("DIFFERS  replay: requests of the routes"), "{message}");
    fs::write(folder.path().join("report.json"), report).expect("written");
    let text = fs::read_to_string(&path).expect("a log");
    fs::write(&path, text.replace("/item/7?", "/item/8?")).expect("written");
    let (code, message) = verify(folder.path());
    assert_eq!(code, Some(1), "{message}");
    assert!(message.starts_with("DIFFERS  replay.sha256"), "{message}");
    fs::write(&path, "pa55\n").expect("written");
    let (code, message) = verify(folder.path());
    assert_eq!(code, Some(1), "{message}");
    assert!(message.starts_with("DIFFERS  replay") && !message.contains("pa55"), "{message}");
    fs::remove_file(&path).expect("removed");
    assert_eq!(verify(folder.path()), (Some(0), String::new()));
    let mut command = binary();
    let command = command.args(["verify", "--details", "report.json"]).current_dir(folder.path());
    let text = said(&command.output().expect("the binary runs")).replace('\n', " ");
    for words in [
        "no difference: counts, percentiles and verdict follow",
        "the schedule wasn't checked, since access.log can't be read",
        "not checked, for lack of data: what was read of access.log, and the schedule; ",
    ] {
        assert!(text.contains(words), "{words} in: {text}");
    }
}

#[test]
fn a_log_that_cannot_be_replayed_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "1ms"]);
    fs::write(folder.path().join("access.log"), "pa55\n").expect("written");
    for (args, problem) in [
        (
            &["--replay", "access.log"][..],
            "--replay access.log: has no readable line (line 1: no time in brackets); give",
        ),
        (&["--replay", "missing.log"], "--replay missing.log: can't read the file ("),
        (&["--replay", "access.log", "--rate", "5"], "--replay"),
        (
            &["--replay", "access.log", "--arrivals", "poisson"],
            "--arrivals poisson: the log sets when requests come; omit it, or --replay",
        ),
        (
            &["--replay", "access.log", "--warmup", "5s"],
            "--warmup 5s: a log has no requests before its first one",
        ),
        (
            &["--replay", "access.log", "-m", "POST"],
            "--method POST: the log of --replay has the methods; omit one of the two",
        ),
        (
            &["--replay", "access.log", "--speed", "0x"],
            "--speed 0x: invalid speed: give a number from 0.001 to 1000",
        ),
    ] {
        let output = run(folder.path(), &[&[target.url.as_str()], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(problem), "{args:?}: {}", said(&output));
        assert!(!said(&output).contains("pa55"), "{}", said(&output));
    }
    let output = binary().args(["run", &target.url, "--speed", "2x"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("--speed 2x: only --replay uses it"), "{}", said(&output));
    assert_eq!(target.received(), 0);
}
