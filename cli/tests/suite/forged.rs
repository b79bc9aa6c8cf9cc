//! Reports that no run wrote: every command that reads reports refuses what `verify` refuses.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use engine::record::series::SLOTS_MAX;
use engine::stats::distribution::{INTERVAL_DIGITS, empty_histogram};
use engine::stats::encoded::to_text;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::Value;

use crate::support::{Target, binary, document, said};

/// The commands that read a report, here with an original one and a changed one.
const READERS: [&[&str]; 5] = [
    &["verify", "changed.json"],
    &["report", "changed.json"],
    &["report", "changed.json", "--html", "page.html"],
    &["compare", "run.json", "changed.json", "--allow-invalid"],
    &["compare", "changed.json", "run.json", "--allow-invalid"],
];

/// A histogram of 40 kB that inflates to 40 MB.
fn bomb() -> String {
    let mut deflated = ZlibEncoder::new(Vec::new(), Compression::best());
    // Cookie, length, offset, digits, bounds and ratio, as a run's histogram has them.
    let length: u32 = 40 << 20;
    deflated.write_all(&[0x1c, 0x84, 0x93, 0x13]).expect("memory");
    deflated.write_all(&length.to_be_bytes()).expect("memory");
    deflated.write_all(&[0, 0, 0, 0, 0, 0, 0, 3]).expect("memory");
    deflated.write_all(&1_u64.to_be_bytes()).expect("memory");
    deflated.write_all(&60_000_000_000_u64.to_be_bytes()).expect("memory");
    deflated.write_all(&1_f64.to_be_bytes()).expect("memory");
    deflated.write_all(&vec![0; 40 << 20]).expect("memory");
    let deflated = deflated.finish().expect("memory");
    let length = u32::try_from(deflated.len()).expect("short").to_be_bytes();
    BASE64_STANDARD.encode([&[0x1c, 0x84, 0x93, 0x14], &length[..], &deflated].concat())
}

/// The text of a histogram about as long as one can be: all its counts are large, though together
/// no more than a run may have, and no two are alike.
fn largest(digits: u8) -> String {
    let mut histogram = empty_histogram(digits);
    let values: Vec<u64> = histogram.iter_all().map(|bucket| bucket.value_iterated_to()).collect();
    for (at, value) in values.into_iter().enumerate() {
        let count = (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        // The last bucket ends beyond the range.
        let _ = histogram.record_n(value, count);
    }
    to_text(&histogram)
}

/// Puts one text in the place of every histogram.
fn replace(value: &mut Value, with: &str) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| {
            if name == "histogram" {
                *value = Value::from(with);
            } else {
                replace(value, with);
            }
        }),
        Value::Array(values) => values.iter_mut().for_each(|value| replace(value, with)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The memory that a command may take, KiB: the intervals' histograms, of which there are 512 at
/// most, are the largest part of what a report can ask for.
const MEMORY_KIB: u64 = 100 << 10;

/// The output of a command in this folder, its exit code, and its time.
fn read(folder: &Path, args: &[&str]) -> (Option<i32>, String, Duration) {
    let began = Instant::now();
    let limited = format!("ulimit -d {MEMORY_KIB} && exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &limited])
        .arg(binary().get_program())
        .args(args)
        .current_dir(folder)
        .output()
        .expect("the binary runs");
    (output.status.code(), said(&output), began.elapsed())
}

#[test]
fn a_report_that_was_changed_is_refused_by_every_command_that_reads_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "1ms"]);
    let output = binary()
        .args(["run", &target.url, "-R", "1000", "-d", "2s", "--warmup", "0s", "--allow-invalid"])
        .args(["-q", "-o", "run.json"])
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = document(&folder.path().join("run.json"));
    let level = if report["verdict"]["level"] == "valid" { "invalid" } else { "valid" };
    let p50 = report["naive"]["p50"].as_f64().expect("a number");
    fs::write(folder.path().join("changed.json"), report.to_string()).expect("written");
    for args in READERS {
        let (code, said, _) = read(folder.path(), args);
        let (want, words) = match args[0] {
            "compare" => (2, ".json: the same run on both sides; name reports of two runs"),
            _ => (0, ""),
        };
        assert_eq!(code, Some(want), "{args:?} of what the run wrote: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
    fs::remove_file(folder.path().join("page.html")).expect("it was written");
    let with = |pointer: &str, value: Value| {
        let mut changed = report.clone();
        *changed.pointer_mut(pointer).expect("a figure") = value;
        changed
    };
    // As many intervals as there may be.
    let intervals = report["series"]["intervals"].as_array().expect("a list");
    let intervals: Vec<Value> = intervals.iter().cycle().take(SLOTS_MAX).cloned().collect();
    let with_all = |of_intervals: &str, of_others: &str| {
        let mut series = Value::from(intervals.clone());
        replace(&mut series, of_intervals);
        let mut changed = report.clone();
        replace(&mut changed, of_others);
        changed["series"]["intervals"] = series;
        changed
    };
    for (pointer, changed, named) in [
        ("p99", with("/corrected/p99", Value::from(-5.0)), "corrected.p99"),
        ("p50", with("/naive/p50", Value::from(2.0 * p50)), "naive.p50"),
        ("verdict", with("/verdict/level", Value::from(level)), "verdict"),
        ("bad", with("/bad", Value::from(7)), "bad"),
        ("one", with("/corrected/histogram", Value::from(bomb())), "corrected.histogram"),
        ("interval", with("/series/intervals/0/histogram", Value::from(bomb())), "series"),
        ("bombs", with_all(&largest(INTERVAL_DIGITS), &bomb()), "histogram"),
        ("all", with_all(&largest(INTERVAL_DIGITS), &largest(3)), "within its bucket"),
    ] {
        fs::write(folder.path().join("changed.json"), changed.to_string()).expect("written");
        for args in READERS {
            let (code, said, took) = read(folder.path(), args);
            assert_eq!(code, Some(1), "{args:?} {pointer}: {said}");
            assert!(said.contains(named), "{args:?} {pointer}: {said}");
            assert!(took < Duration::from_secs(10), "{args:?} {pointer}: {took:?}");
            if args[0] != "verify" {
                let start = "truetail: REPORT changed.json: contradicts itself: ";
                assert!(said.starts_with(start) && said.lines().count() == 1, "{said}");
                assert!(said.contains("; see `truetail verify changed.json`"), "{said}");
            }
        }
    }
    assert!(!folder.path().join("page.html").exists());
    target.interrupt();
}
