//! The benchmarks in quick mode, so that they keep working.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BENCH: &str = env!("CARGO_BIN_EXE_truetail-bench");

fn bench(arguments: &[&str]) -> Output {
    Command::new(BENCH).args(arguments).output().expect("the bench starts")
}

/// The numbers in these columns, counted from 0 after `first`, of the line that begins with
/// `first`.
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

/// The `truetail` binary, which is built first if this package is tested alone.
fn truetail() -> PathBuf {
    let truetail = Path::new(BENCH).with_file_name("truetail");
    if !truetail.is_file() {
        let folder = truetail.parent().and_then(Path::parent).expect("the build folder");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "--package", "cli"]).env("CARGO_TARGET_DIR", folder);
        if truetail.parent().is_some_and(|profile| profile.ends_with("release")) {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo starts").success(), "truetail can't be built");
    }
    truetail
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
        "Schedule::next, Poisson, 64M/s, one of 256 shards",
    ] {
        assert!(numbers(&output, row, &[0, 1, 2]).iter().all(|ns| 0.0 < *ns), "{output}");
    }
}

#[test]
fn runs_give_tables() {
    let truetail = truetail();
    let path = truetail.to_str().expect("a path in UTF-8");
    let output = text(&bench(&["--quick", "--truetail", path, "side-by-side", "pacing"]));
    assert!(numbers(&output, "16 ", &[0, 3, 6]).iter().all(|figure| 0.0 < *figure), "{output}");
    assert!(numbers(&output, "hybrid", &[3, 5]).iter().all(|figure| 0.0 < *figure), "{output}");
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
