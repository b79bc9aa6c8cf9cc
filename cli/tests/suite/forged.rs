//! Reports that no run wrote: every command that reads reports refuses what `verify` refuses.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
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

/// The output of a command in this folder, its exit code, and its time.
fn read(folder: &Path, args: &[&str]) -> (Option<i32>, String, Duration) {
    let began = Instant::now();
    let output = binary().args(args).current_dir(folder).output().expect("the binary runs");
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
        assert_eq!(code, Some(0), "{args:?} of what the run wrote: {said}");
    }
    fs::remove_file(folder.path().join("page.html")).expect("it was written");
    for (pointer, value, named) in [
        ("/corrected/p99", Value::from(-5.0), "corrected.p99"),
        ("/naive/p50", Value::from(2.0 * p50), "naive.p50"),
        ("/verdict/level", Value::from(level), "verdict"),
        ("/bad", Value::from(7), "bad"),
        ("/corrected/histogram", Value::from(bomb()), "corrected.histogram"),
        ("/series/intervals/0/histogram", Value::from(bomb()), "series"),
    ] {
        let mut changed = report.clone();
        *changed.pointer_mut(pointer).expect("a figure") = value;
        fs::write(folder.path().join("changed.json"), changed.to_string()).expect("written");
        for args in READERS {
            let (code, said, took) = read(folder.path(), args);
            assert_eq!(code, Some(1), "{args:?} {pointer}: {said}");
            assert!(said.contains(named), "{args:?} {pointer}: {said}");
            assert!(took < Duration::from_secs(5), "{args:?} {pointer}: {took:?}");
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
