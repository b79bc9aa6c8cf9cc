//! `--replay` of a log with more URLs than a run has routes: each request has its own line's path
//! and body, on one machine, on agents and on both sides of a comparison.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::agents::processes::{Agent, Place, addresses};
use crate::noting_server::{server, sorted};
use crate::support::{Target, binary, document, said};

/// Twelve seconds of requests, with almost as many URLs.
const LINES: usize = 1_200;
/// Their routes, with the requests of each.
const ROUTES: [(&str, usize); 5] = [
    ("GET /users/{id}", 594),
    ("other GET routes", 248),
    ("POST /orders/{id}", 150),
    ("POST /orders/{id}, with a logged body", 150),
    ("HEAD /", 12),
];

/// Method, path and body of a line.
fn request(number: usize) -> (&'static str, String, Option<String>) {
    match number % 8 {
        _ if number % 100 == 7 => ("HEAD", "/".to_owned(), None),
        0 => ("POST", format!("/orders/{number}"), None),
        1 => ("POST", format!("/orders/{number}"), Some(format!("{{{{seq}}}} of {number}"))),
        2..6 => ("GET", format!("/users/{number}?q={number}%20"), None),
        // Each is a route of its own, and most have no results of their own.
        _ => ("GET", format!("/page-{number}"), None),
    }
}

fn log() -> String {
    let mut log = String::new();
    for number in 0..LINES {
        let (method, path, body) = request(number);
        let body = body.map_or(String::new(), |body| format!(",\"body\":\"{body}\""));
        let (s, ms) = (1_700_000_000 + number / 100, number % 100 * 10 + 3);
        let line = format!("\"time\":\"{s}.{ms:03}\",\"method\":\"{method}\",\"path\":\"{path}\"");
        let _ = writeln!(log, "{{{line},\"host\":\"h{}\"{body}}}", number % 3);
    }
    log
}

/// What a server notes of these requests.
fn noted(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    let text = |number: usize| {
        let (method, path, body) = request(number);
        let body = body.or_else(|| (method == "POST").then(|| "of the plan".to_owned()));
        let body = body.map_or(String::new(), |body| format!(" {body}"));
        format!("{method} {path} HTTP/1.1 {number}{body}")
    };
    let mut all: Vec<String> = numbers.map(text).collect();
    all.sort_unstable();
    all
}

fn run(folder: &Path, args: &[&str]) -> Output {
    let plan = ["--replay", "access.log", "--allow-invalid", "-q"];
    let header = ["--header", "X-Id: {{seq}}", "--body", "of the plan"];
    let mut command = binary();
    command.args(args).args(plan).args(header).current_dir(folder);
    command.output().expect("the binary runs")
}

/// Runs this to a report, which verifies.
fn report(folder: &Path, args: &[&str]) -> Value {
    let output = run(folder, &[args, &["--speed", "12x", "-o", "report.json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let verify = binary().args(["verify", "-q", "report.json"]).current_dir(folder).output();
    let verify = verify.expect("the binary runs");
    assert_eq!((verify.status.code(), said(&verify)), (Some(0), String::new()));
    document(&folder.join("report.json"))
}

/// The name of each part, and one of its counts.
fn parts<'a>(report: &'a Value, count: &str) -> Vec<(&'a str, u64)> {
    let parts = report["parts"].as_array().expect("parts").iter();
    let of = |part: &'a Value| (part["name"].as_str(), part["counts"][count].as_u64());
    parts.map(of).map(|(name, count)| (name.expect("a name"), count.expect("a count"))).collect()
}

#[test]
fn agents_and_one_machine_send_each_line_once_with_its_path_and_body() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("access.log"), log()).expect("written");
    let want = noted(0..LINES);

    let (url, got) = server();
    let alone = report(folder.path(), &["run", &url]);
    assert_eq!(sorted(&got), want);
    let of_alone = parts(&alone, "answered");
    for (name, requests) in ROUTES {
        let part = of_alone.iter().find(|(other, _)| *other == name).expect(name);
        assert_eq!(part.1, requests as u64, "{name}");
    }
    assert_eq!(of_alone.iter().map(|(_, answered)| answered).sum::<u64>(), LINES as u64);
    assert!((50..60).contains(&of_alone.len()), "{of_alone:?}");
    assert_eq!((&alone["replay"]["routes"], &alone["replay"]["hosts"]), (&298.into(), &3.into()));

    let agents: Vec<Agent> = (0..3).map(|_| Agent::start(Place::Here, &[])).collect();
    let (url, got) = server();
    let line = ["controller", &url, "--agents", &addresses(&agents), "--weights", "1,2,3"];
    let of_agents = report(folder.path(), &line);
    assert_eq!(sorted(&got), want);
    assert_eq!(parts(&of_agents, "answered"), of_alone);
    for place in ["/config/schedule_digest", "/config/scenario", "/config/requests", "/replay"] {
        let of = |report: &Value| report.pointer(place).cloned().expect(place);
        assert_eq!(of(&of_agents), of(&alone), "{place}");
    }
}

#[test]
fn both_sides_of_a_comparison_get_the_start_of_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("access.log"), log()).expect("written");
    let [(a, got_a), (b, got_b)] = [server(), server()];
    let slices = ["ab", &a, &b, "--slices", "5", "--duration", "1s", "--speed", "2x"];
    let output = run(folder.path(), &slices);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    // A pair more than asked for comes first.
    let want = noted((0..6).flat_map(|_| 0..200));
    for got in [got_a, got_b] {
        assert_eq!(sorted(&got), want);
    }
}

#[test]
fn a_log_that_agents_cannot_replay_is_refused_with_its_flag() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "1ms"]);
    let path = folder.path().join("access.log");
    fs::write(&path, log()).expect("written");
    let both = [(); 2].map(|()| Agent::start(Place::Here, &["--max-rate", "99"]));
    let [one, all] = [addresses(&both[1..]), addresses(&both)];
    let agents = ["controller", &target.url, "--agents", &one];
    let refused = |output: Output, problem: &str| {
        assert_ne!(output.status.code(), Some(0), "{}", said(&output));
        assert!(said(&output).contains(problem), "{}", said(&output));
    };
    let too_much = "--replay access.log: this agent's part of its busiest second is 100 per \
        second, above its --max-rate 99";
    refused(run(folder.path(), &agents), too_much);
    // About half of it, but all of a second: requests are dealt in runs as long as the weights.
    let weights = [all.as_str(), "--weights", "501,499"];
    refused(run(folder.path(), &[&agents[..3], &weights].concat()), too_much);
    let series: [&[&str]; 3] = [&["sweep", "--rates", "1..2"], &["search"], &["ceiling"]];
    for command in series {
        let output = run(folder.path(), &[command, &[&target.url]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        refused(output, "--replay access.log: each of its runs has one rate");
    }
    let file = fs::OpenOptions::new().write(true).open(&path).expect("the log");
    file.set_len((64 << 20) + 1).expect("a hole");
    let output = run(folder.path(), &agents);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let problem = "--replay access.log: the file has 67108865 bytes; an agent takes 67108864";
    refused(output, problem);
    assert_eq!(target.received(), 0);
}
