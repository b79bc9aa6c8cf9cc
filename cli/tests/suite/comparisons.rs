//! Whether `compare` and `ab` tell differences from noise: pairs of runs of one target, of which
//! hardly any may differ, and a target that takes a tenth longer for one request in a hundred,
//! which has to be found.
//!
//! `make comparisons` runs this, by a release build, and prints what it finds. It takes about half
//! an hour, and the machine for itself.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::{Target, binary, document, said};

/// Pairs of runs of one target.
const PAIRS: usize = 20;
/// Of these, how many may differ in any figure: all intervals hold 99 times in 100.
const DIFFER_MAX: usize = 1;
/// What a response takes.
const USUAL: &str = "100ms";
/// What one in a hundred takes at the other target.
const SLOWER: &str = "110ms";
/// Requests per second.
const RATE: &str = "3000";
/// Lengths of the runs in which the difference is looked for, seconds.
const LENGTHS_S: [u64; 5] = [10, 20, 40, 80, 160];
/// Numbers of slices in which it is looked for, of either side.
const SLICES: [u64; 4] = [5, 10, 20, 40];
/// Seconds of a slice: it has more requests than a p99.9 takes.
const SLICE_S: u64 = 2;

/// The two targets; the first serves side A, and both sides where nothing differs.
fn targets() -> [Target; 2] {
    let slower = ["--base-latency", USUAL, "--tail-fraction", "0.01", "--tail-latency", SLOWER];
    [Target::start(&slower[..2]), Target::start(&slower)]
}

/// What a comparison found, which was asked for in a file.
fn compared(folder: &Path, output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    document(&folder.join("compared.json"))
}

/// One run a side, of so many seconds, and what `compare` says of them.
fn by_runs(folder: &Path, urls: [&str; 2], seconds: u64, seed: usize) -> Value {
    for (url, name, seed) in [(urls[0], "a.json", seed), (urls[1], "b.json", seed + 1)] {
        let output = binary()
            .args(["run", url, "--rate", RATE, "--duration", &seconds.to_string()])
            .args(["--warmup", "1s", "--seed", &seed.to_string(), "--quiet"])
            .args(["--allow-invalid", "--out", name])
            .current_dir(folder)
            .output();
        let output = output.expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    let output = binary()
        .args(["compare", "a.json", "b.json", "--allow-invalid", "-o", "compared.json"])
        .current_dir(folder)
        .output();
    compared(folder, &output.expect("the binary runs"))
}

/// So many slices a side, and what `ab` says of them.
fn by_slices(folder: &Path, urls: [&str; 2], slices: u64, seed: usize) -> Value {
    let output = binary()
        .args(["ab", urls[0], urls[1], "--rate", RATE, "--slices", &slices.to_string()])
        .args(["--duration", &SLICE_S.to_string(), "--warmup", "0s", "--prewarm", "400"])
        .args(["--seed", &seed.to_string(), "--quiet", "--allow-invalid", "-o", "compared.json"])
        .current_dir(folder)
        .output();
    compared(folder, &output.expect("the binary runs"))
}

/// The figures that changed, each with its ratio and interval.
fn changed(compared: &Value) -> Vec<String> {
    let percentiles = compared["percentiles"].as_array().expect("a list").iter();
    let differs = |figure: &&Value| figure["change"] == "worse" || figure["change"] == "better";
    let found = percentiles.filter(differs).map(|one| {
        let name = one["percentile"].as_str().expect("a name");
        format!("{name} ×{:.3} {}", one["ratio"].as_f64().unwrap_or(f64::NAN), one["interval"])
    });
    found.chain(Some(&compared["errors"]).filter(differs).map(|_| "errors".to_owned())).collect()
}

/// Compares one target with itself again and again, each time with other seeds.
fn nothing_differs(name: &str, compare: impl Fn(&Path, [&str; 2], usize) -> Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let [target, _] = targets();
    let mut differ = Vec::new();
    for pair in 1..=PAIRS {
        let found = changed(&compare(folder.path(), [&target.url, &target.url], 1_000 * pair));
        println!("{name}, one target, {pair} of {PAIRS}: {}", found.join(", "));
        differ.extend((!found.is_empty()).then_some(found));
    }
    println!("{name}: one target differs from itself {} times in {PAIRS}", differ.len());
    assert!(differ.len() <= DIFFER_MAX, "{name}: {differ:?}");
}

/// Compares the target with the slower one, each time by more requests, until it is found.
fn slower_is_found(name: &str, sizes: &[u64], compare: impl Fn(&Path, [&str; 2], u64) -> Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let [usual, slower] = targets();
    for size in sizes {
        let found = compare(folder.path(), [&usual.url, &slower.url], *size);
        let requests = &found["a"]["requests"];
        println!("{name}, {requests} requests a side: {}", changed(&found).join(", "));
        if found["change"] == "worse" {
            return;
        }
    }
    panic!("{name}: {SLOWER} instead of {USUAL} in one request of 100 is never found");
}

#[test]
fn compare_finds_no_difference_where_there_is_none() {
    nothing_differs("compare", |folder, urls, seed| by_runs(folder, urls, LENGTHS_S[0], seed));
}

#[test]
fn compare_finds_a_tenth_more_in_one_request_of_a_hundred() {
    slower_is_found("compare", &LENGTHS_S, |folder, urls, size| by_runs(folder, urls, size, 1));
}

#[test]
fn ab_finds_no_difference_where_there_is_none() {
    nothing_differs("ab", |folder, urls, seed| by_slices(folder, urls, SLICES[0], seed));
}

#[test]
fn ab_finds_a_tenth_more_in_one_request_of_a_hundred() {
    slower_is_found("ab", &SLICES, |folder, urls, size| by_slices(folder, urls, size, 1));
}
