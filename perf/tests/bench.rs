//! The bench in its quick mode, so that it doesn't rot.

use std::path::Path;
use std::process::{Command, Output};

const BENCH: &str = env!("CARGO_BIN_EXE_truetail-bench");

fn bench(arguments: &[&str]) -> Output {
    Command::new(BENCH).args(arguments).output().expect("the bench starts")
}

/// The numbers in the columns named, counted from 0, behind `first`, with which the line begins.
fn numbers(output: &str, first: &str, columns: &[usize]) -> Vec<f64> {
    let line = output.lines().find(|line| line.starts_with(first));
    let cells: Vec<&str> = line.unwrap_or_else(|| panic!("{first}: {output}"))[first.len()..]
        .split_whitespace()
        .collect();
    let number = |column: &usize| {
        cells[*column].parse().unwrap_or_else(|_| panic!("{first} {column}: {cells:?}"))
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
        "ResponseParser::feed, a response of 175 bytes",
        "Distribution::record ×4, one request",
        "Recorder::sent and ended, one request",
        "Schedule::next, constant, 20k/s",
        "Schedule::next, Poisson, 1M/s",
    ] {
        assert!(numbers(&output, row, &[0, 1, 2]).iter().all(|ns| 0.0 < *ns), "{output}");
    }
}

#[test]
fn runs_give_tables() {
    let truetail = Path::new(BENCH).with_file_name("truetail");
    if !truetail.is_file() {
        let error = bench(&["--quick", "pacing"]);
        assert!(!error.status.success());
        assert!(String::from_utf8_lossy(&error.stderr).contains("--truetail "), "{error:?}");
        eprintln!("{} is not built: only its absence was tested", truetail.display());
        return;
    }
    let output = text(&bench(&["--quick", "side-by-side", "pacing"]));
    assert!(numbers(&output, "16 ", &[0, 3, 6]).iter().all(|figure| 0.0 < *figure), "{output}");
    assert!(numbers(&output, "hybrid", &[3, 5]).iter().all(|figure| 0.0 < *figure), "{output}");
}

#[test]
fn words_that_mean_nothing_are_refused() {
    for arguments in
        [&["--fast"][..], &["macro"], &["--truetail"], &["--truetail", "/nowhere", "pacing"]]
    {
        let output = bench(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(arguments[0]), "{error}");
    }
}
