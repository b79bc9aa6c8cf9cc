//! The benchmarks in quick mode, so that they keep working.

use std::process::{Command, Output};

use crate::support::truetail;

const BENCH: &str = env!("CARGO_BIN_EXE_truetail-bench");

fn bench(arguments: &[&str]) -> Output {
    Command::new(BENCH).args(arguments).output().expect("the bench starts")
}

/// The cells of the table's row that begins with `first`, below the line `heading`.
fn cells<'a>(output: &'a str, heading: &str, first: &str) -> Vec<&'a str> {
    let row = |line: &'a str| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        (cells[0] == first).then_some(cells)
    };
    let mut lines = output.lines().skip_while(|line| *line != heading);
    lines.find_map(row).unwrap_or_else(|| panic!("{heading}: {first}: {output}"))
}

/// The number at the start of each of these columns of a row, counted from 0.
fn numbers(output: &str, heading: &str, first: &str, columns: &[usize]) -> Vec<f64> {
    let cells = cells(output, heading, first);
    let number = |&column: &usize| {
        let number = cells[column].split([' ', ';']).next().unwrap_or_default().replace(',', "");
        number.parse().unwrap_or_else(|_| panic!("{heading}, {first}, {column}: {cells:?}"))
    };
    columns.iter().map(number).collect()
}

fn text(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn the_hot_functions_have_a_cost() {
    let output = text(&bench(&["--quick", "micro"]));
    for row in [
        "ResponseParser::feed_with, new head, a response of 175 bytes",
        "ResponseParser::feed_with, known head, a response of 175 bytes",
        "Distribution::record ×4, one request",
        "Recorder::sent and ended, one request",
        "Schedule::next, constant, 20k/s",
        "Schedule::next, Poisson, 1M/s",
        "Schedule::next, Poisson, 64M/s, one of 256 shards",
    ] {
        let ns = numbers(&output, "## Hot functions", row, &[1, 2, 3]);
        assert!(ns.iter().all(|ns| 0.0 < *ns), "{output}");
    }
}

#[test]
fn the_end_of_a_run_on_many_shards_has_a_cost() {
    let output = text(&bench(&["--quick", "many"]));
    for row in ["1 × 1 part", "4 × 1 part", "1 × 10 parts", "4 × 10 parts"] {
        let own = numbers(&output, "## Many shards", row, &[1, 3, 4, 5, 6]);
        assert!(own.iter().all(|figure| 0.0 < *figure), "{row}: {output}");
    }
}

#[test]
fn runs_give_tables() {
    let truetail = truetail();
    let path = truetail.to_str().expect("a path in UTF-8");
    let output = text(&bench(&[
        "--quick",
        "--truetail",
        path,
        "closed",
        "pipelined",
        "http2",
        "bodies",
        "tls",
        "open",
        "pacing",
        "pairs",
        "routes",
    ]));
    for (heading, row, columns) in [
        ("## Closed loop", "16", &[1][..]),
        ("Requests per second, in the same way:", "16", &[1]),
        ("## HTTP/2", "16 × 10", &[1]),
        ("## TLS", "null target, 16", &[1]),
        ("Handshakes, one for each request:", "`--tls-session resume`", &[1, 2, 3, 4]),
        ("## Open loop at shares of the closed loop's ceiling", "0.50", &[1, 2, 3, 4]),
        ("## Pacer lateness", "`hybrid`", &[4, 5, 6]),
        ("## Cost of features", "`--raw`", &[1, 2, 3]),
        ("## Cost of features", "progress line", &[1, 2, 3]),
        ("## Cost of features", "all three", &[1, 2, 3]),
        ("## Cost of features", "`--live`", &[1, 2, 3, 4]),
        ("## Many routes", "one route", &[1, 2, 3, 4]),
        ("## Many routes", "100 routes of eight fields", &[1, 2, 3, 4]),
    ] {
        let figures = numbers(&output, heading, row, columns);
        assert!(figures.iter().all(|figure| 0.0 < *figure), "{heading}, {row}: {output}");
    }
    let is_installed = |program: &str| Command::new(program).arg("-v").output().is_ok();
    if is_installed("wrk") {
        let peers = cells(&output, "## Closed loop", "connections");
        let wrk = peers.iter().position(|name| *name == "wrk").expect("a column of wrk");
        numbers(&output, "## Closed loop", "16", &[wrk]);
        let peers = cells(&output, "## Pipelined", "");
        let wrk = peers.iter().position(|name| *name == "wrk").expect("a column of wrk");
        numbers(&output, "## Pipelined", "requests/s", &[wrk]);
    }
    if is_installed("h2load") {
        numbers(&output, "## HTTP/2", "16 × 10", &[2, 3, 4, 5, 6, 7]);
    }
    if is_installed("nghttpd") {
        let heading = "The same on nghttpd with one worker, a file of 27 bytes:";
        numbers(&output, heading, "16 × 10", &[1]);
    }
    if is_installed("nginx") {
        numbers(&output, "## Response bodies", "1,048,576", &[1]);
    }
}

/// The counts of this build differ from the file's, which is for the release build.
#[test]
fn instructions_are_held_by_their_limits() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("limits.toml");
    let limits = file.to_str().expect("a path in UTF-8");
    let output = bench(&["--quick", "--limits", limits, "--update-limits"]);
    if String::from_utf8_lossy(&output.stdout).contains("valgrind is not installed") {
        return;
    }
    text(&output);
    let written = std::fs::read_to_string(&file).expect("the limits");
    let (head, counts) = written.split_once("[instructions]\n").expect("a table");
    for name in ["ResponseParser::feed_with", "a request of a closed loop, one", "over HTTP/2"] {
        assert!(counts.contains(name), "{written}");
    }

    let halve = |line: &str| {
        let (name, count) = line.split_once(" = ").expect("a count");
        let count: f64 = count.parse().expect("a number");
        assert!(0.0 < count, "{line}");
        format!("{name} = {:.1}\n", count / 2.0)
    };
    let halved: String = counts.lines().map(halve).collect();
    std::fs::write(&file, format!("{head}[instructions]\n{halved}")).expect("writable");
    let output = bench(&["--quick", "--limits", limits, "instructions"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("make ratchet"), "{error}");
}

#[test]
fn invalid_arguments_are_named() {
    for arguments in
        [&["--fast"][..], &["macro"], &["--truetail"], &["--truetail", "/nowhere", "pacing"]]
    {
        let output = bench(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(arguments[0]), "{error}");
    }
}
