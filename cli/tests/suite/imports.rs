//! `import`: plans from access logs, HAR files and curl lines, and runs of what it wrote.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::{Target, binary, document, said};

/// Routes, with how many of ten requests each gets.
const ROUTES: [(&str, usize); 3] =
    [("GET /users/{id}", 6), ("GET /search", 3), ("POST /orders", 1)];

/// A log of a hundred minutes of nginx in the combined format, with ids and queries that differ.
fn log(lines: usize) -> String {
    let mut log = String::new();
    for at in 0..lines {
        let second = at * 6_000 / lines;
        let (hour, minute, second) = (10 + second / 3_600, second / 60 % 60, second % 60);
        let request = match at % 10 {
            0..6 => format!("GET /users/{at} HTTP/1.1"),
            6..9 => format!("GET /search?q={at} HTTP/1.1"),
            _ => "POST /orders HTTP/1.1".to_owned(),
        };
        let _ = writeln!(
            log,
            "10.0.0.7 - - [25/Nov/2026:{hour}:{minute:02}:{second:02} +0100] \"{request}\" 200 612 \
             \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\""
        );
    }
    log
}

fn import(folder: &Path, args: &[&str]) -> Output {
    binary().arg("import").args(args).current_dir(folder).output().expect("the binary runs")
}

/// Runs a plan in this folder, and returns the requests of each part of its report by name.
fn parts(folder: &Path, args: &[&str]) -> BTreeMap<String, u64> {
    let run = ["run", "--plan", "plan.toml", "--warmup", "0s", "-q", "--allow-invalid"];
    let mut command = binary();
    command.args(run).args(["-o", "report.json"]).args(args).current_dir(folder);
    let output = command.output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = document(&folder.join("report.json"));
    let part = |part: &Value| {
        let name = part["name"].as_str().expect("a name").to_owned();
        (name, part["counts"]["intended"].as_u64().expect("a count"))
    };
    report["parts"].as_array().expect("parts").iter().map(part).collect()
}

#[test]
fn a_log_becomes_a_plan_with_its_shares_and_rates() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("access.log"), log(100_000) + "garbage?pa55\n").expect("written");
    let output = import(folder.path(), &["access.log", "-o", "plan.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let said = said(&output);
    for line in [
        "100,000 requests in 1h40m",
        "1 line (line 100001: no time in brackets)",
        "3 routes of 100,000 requests, 100 stages of at most 1m",
        "10,000 POST: the log has no bodies",
        "truetail run URL --plan plan.toml",
    ] {
        assert!(said.contains(line), "{said}");
    }
    assert!(!said.contains("pa55"), "{said}");
    let plan: toml::Table =
        fs::read_to_string(path("plan.toml")).expect("a plan").parse().expect("TOML");
    let stages = plan["stage"].as_array().expect("stages");
    let rates = stages.iter().map(|stage| stage["rate"].as_float().expect("a rate"));
    assert!(rates.into_iter().all(|rate| (rate - 1_000.0 / 60.0).abs() < 0.05));

    let target = Target::start(&["--base-latency", "1ms"]);
    let parts = parts(folder.path(), &[&target.url, "--rate", "4k", "-d", "5s"]);
    let all: u64 = parts.values().sum();
    for (name, of_ten) in ROUTES {
        let share = parts[name] as f64 / all as f64;
        assert!((share - of_ten as f64 / 10.0).abs() < 0.01, "{name}: {share} of {parts:?}");
    }
    assert!(target.received() <= all, "a busy machine sends some too late");
}

#[cfg(feature = "real-servers")]
#[test]
fn nginxs_log_becomes_a_plan_that_nginx_logs_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let locations = "keepalive_requests 100000000; location / { return 200; }";
    let server = crate::real_servers::nginx(at, locations);
    let url = format!("http://127.0.0.1:{}/", server.port);
    let shares = || {
        let log = fs::read_to_string(at.join("access.log")).expect("nginx keeps a log");
        let count = |path: &str| log.lines().filter(|line| line.contains(path)).count() as f64;
        let all = log.lines().count();
        (all, ["/users/", "/search", "/orders"].map(|path| count(path) / all as f64))
    };
    let targets = "{\"url\":\"/users/7\",\"weight\":6}\n{\"url\":\"/search?q=x\",\"weight\":3}\n\
        {\"url\":\"/orders\",\"method\":\"POST\"}\n";
    fs::write(at.join("targets"), targets).expect("written");
    let line =
        ["run", &url, "--targets", "targets", "-n", "100k", "-c", "8", "-q", "--allow-invalid"];
    let output = binary().args(line).current_dir(at).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let (all, logged) = shares();
    assert_eq!(all, 100_000);
    let output = import(at, &["access.log", "-o", "plan.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    fs::write(at.join("access.log"), "").expect("writable");
    let parts = parts(at, &[&url, "--rate", "5k", "-d", "5s"]);
    let (all, again) = shares();
    assert_eq!(all as u64, parts.values().sum::<u64>());
    for (before, now) in logged.into_iter().zip(again) {
        assert!((before - now).abs() < 0.01, "{logged:?} then {again:?}");
    }
}

#[test]
fn the_help_says_that_a_har_file_keeps_all_hosts() {
    let output = binary().args(["import", "--help"]).output().expect("the binary runs");
    let help = said(&output).split_whitespace().collect::<Vec<&str>>().join(" ");
    let har = "Read the requests that a browser saved as a HAR file, to whichever hosts; those \
        beside the first one's are listed";
    assert!(help.contains(har), "{help}");
}

#[test]
fn a_har_file_becomes_a_plan_that_runs() {
    let target = Target::start(&["--base-latency", "1ms"]);
    let folder = tempfile::tempdir().expect("a folder");
    let request = |method: &str, path: &str| {
        let headers = [serde_json::json!({"name": "Accept", "value": "*/*"})];
        let url = format!("{}{path}", target.url);
        let body = (method == "POST").then(|| serde_json::json!({"text": "a=b"}));
        serde_json::json!({"request": {"method": method, "url": url, "headers": headers, "postData": body}})
    };
    let entries = [request("GET", "a"), request("GET", "a"), request("POST", "b")];
    let har = serde_json::json!({"log": {"entries": entries}});
    fs::write(folder.path().join("page.har"), har.to_string()).expect("written");
    let output = import(folder.path(), &["--har", "page.har", "-o", "plan.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let parts = parts(folder.path(), &["-n", "300"]);
    let names: Vec<&String> = parts.keys().collect();
    assert_eq!(names, ["GET /a", "POST /b"]);
    assert_eq!(target.received(), parts.values().sum::<u64>());
}

#[test]
fn a_curl_line_becomes_a_plan_that_runs() {
    let target = Target::start(&["--base-latency", "1ms"]);
    let folder = tempfile::tempdir().expect("a folder");
    let line =
        format!("curl -sS {} -u me:pa55 -H 'A: b' --data-raw '{{\"a\":1}}' -m 3", target.url);
    let output = import(folder.path(), &["--curl", &line]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("pa55"), "{}", said(&output));
    let secrets = "secrets      the plan has the values of A, -u\n";
    assert!(String::from_utf8_lossy(&output.stderr).contains(secrets), "{}", said(&output));
    fs::write(folder.path().join("plan.toml"), &output.stdout).expect("written");
    // Only its user may read a plan with secrets, even if others could read the file before.
    for (line, mode) in [(line.as_str(), 0o600), ("curl localhost", 0o644)] {
        fs::write(folder.path().join("other.toml"), "").expect("written");
        let permissions = fs::Permissions::from_mode(0o644);
        fs::set_permissions(folder.path().join("other.toml"), permissions).expect("ours");
        let output = import(folder.path(), &["--curl", line, "-o", "other.toml"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let written = fs::metadata(folder.path().join("other.toml")).expect("written");
        assert_eq!(written.permissions().mode() & 0o777, mode, "{line}");
    }
    let run = ["run", "--plan", "plan.toml", "-n", "50", "-q", "-o", "-", "--allow-invalid"];
    let output = binary().args(run).current_dir(folder.path()).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let config = &report["config"];
    assert_eq!((&config["method"], &config["timeout"]), (&"POST".into(), &"3s".into()));
    assert_eq!(report["counts"]["answered"], 50);
    assert_eq!(target.received(), 50);
}

#[test]
fn a_source_that_gives_no_plan_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("other.txt"), "pa55\n").expect("written");
    for (args, problem) in [
        (&["missing.log"][..], "LOG missing.log: can't be read ("),
        (&["."], "LOG .: can't be read ("),
        (&["other.txt"], "LOG other.txt: has no readable line (line 1: no time in brackets); give"),
        (&["other.txt", "-o", "other.txt"], "--out other.txt: LOG names the same file"),
        (&["--har", "other.txt"], "--har other.txt: not a HAR file"),
        (&["--curl", "wget pa55"], "--curl: doesn't begin with `curl`"),
        (&[], "LOG"),
        (&["other.txt", "--curl", "curl h"], "--curl"),
        (&["other.txt", "--routes", "0"], "--routes 0: "),
    ] {
        let output = import(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        let said = said(&output);
        assert!(said.contains(problem) && !said.contains("pa55"), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let text = fs::read_to_string(folder.path().join("other.txt")).expect("still there");
    assert_eq!(text, "pa55\n");
}
