//! Limits that are reached in each phase of a run: each result is whole or absent, an older file
//! stays where there is no new one, and no temporary file remains.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use crate::phases::{FILES, Held, Phase};
use crate::support::{BINARY, NO_CACHE, Target, bounded, document};

/// Sets a limit of a running run.
fn set_limit(held: &Held, limit: &str) {
    let pid = held.child.id().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, limit]).status();
    assert!(set.expect("prlimit runs").success(), "{limit}");
}

/// A limit, the signal after it that ends the run, and the expected end.
struct Row {
    limit: &'static str,
    /// The exit code in a phase with load, and while the report is written.
    codes: [i32; 2],
    /// The files that are there, likewise.
    files: [&'static [&'static str]; 2],
    /// Words of the one line on stderr, or none.
    line: [&'static str; 2],
}

const ROWS: [Row; 2] = [
    // Not a byte more: neither samples nor a report, nor any other non-empty file.
    Row {
        limit: "--fsize=0",
        codes: [1, 1],
        files: [&[], &["report.json", "raw.bin"]],
        line: ["could not be written (File too large", "could not be written (File too large"],
    },
    // No descriptor more: connections fail, results are already open.
    Row { limit: "--nofile=1", codes: [130, 0], files: [&FILES, &FILES], line: ["", ""] },
];

#[test]
fn a_limit_in_any_phase_affects_only_what_it_forbids() {
    for phase in Phase::ALL {
        let target = phase.target();
        for row in &ROWS {
            let held = Held::start(phase, &target, &[]);
            set_limit(&held, row.limit);
            crate::support::signal(&held.child, "TERM");
            let ended = held.end();
            let at = usize::from(phase == Phase::Writing);
            let said = format!("{} in {phase:?}: {}", row.limit, ended.said());
            assert_eq!(ended.output.status.code(), Some(row.codes[at]), "{said}");
            assert_eq!(ended.files(), row.files[at], "{said}");
            // A run that still waits for responses announces it.
            let stderr = String::from_utf8_lossy(&ended.output.stderr);
            let complaints = |line: &&str| !line.starts_with("truetail: interrupted: ");
            let stderr = stderr.lines().filter(complaints).collect::<Vec<_>>().join("\n");
            assert!(stderr.contains(row.line[at]), "{said}");
            assert!(stderr.lines().all(|line| line.starts_with("truetail: --")), "{said}");
            assert_eq!(row.line[at].is_empty(), stderr.is_empty(), "{said}");
            if row.files[at].contains(&"report.json") {
                let report = ended.report().unwrap_or_else(|| panic!("no report; {said}"));
                assert_eq!(report["interrupted"], phase != Phase::Writing, "{said}");
            }
        }
        drop(target);
    }
}

#[test]
fn samples_beyond_the_limit_of_a_file_end_the_run_with_its_report() {
    let target = Target::start(&["--base-latency", "0s"]);
    let mut limited = Command::new("prlimit");
    // A shard hands over a block of samples when it is full, long after the report would fit.
    limited.args(["--fsize=262144", BINARY]).envs(NO_CACHE);
    let held = Held::start_as(&mut limited, Phase::Window, &target, &["--rate", "5k"]);
    let ended = held.end();
    assert_eq!(ended.output.status.code(), Some(130), "{}", ended.said());
    assert_eq!(ended.files(), FILES[..4], "all but the samples");
    let report = ended.report().expect("a report");
    assert_eq!(report["interrupted"], true);
    let reasons = report["verdict"]["reasons"].to_string();
    assert!(
        reasons.contains("raw_samples_lost") && reasons.contains("File too large"),
        "{reasons}"
    );
    target.interrupt();
}

#[test]
fn a_limit_of_processor_time_interrupts_the_run() {
    let target = Target::start(&["--base-latency", "0s"]);
    let mut limited = Command::new("prlimit");
    limited.args(["--cpu=1:60", BINARY]).envs(NO_CACHE);
    let held = Held::start_as(&mut limited, Phase::Window, &target, &["--wait", "spin"]);
    let ended = held.end();
    assert_eq!(ended.output.status.code(), Some(130), "{}", ended.said());
    assert_eq!(ended.files(), FILES);
    assert_eq!(ended.report().expect("a report")["interrupted"], true);
    ended.assert_verified();
    target.interrupt();
}

#[test]
fn a_full_disk_costs_the_samples_and_not_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "0s"]);
    // The disk is the child's own. The script lists what the run left there.
    let script = "mount -t tmpfs -o size=64k none disk && echo old >disk/raw.bin && \"$0\" \"$@\"; \
        echo $? >code; ls disk >left; cat disk/raw.bin >>left";
    fs::create_dir(folder.path().join("disk")).expect("a folder");
    let child = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, BINARY])
        .envs(NO_CACHE)
        .args(["run", &target.url, "--rate", "5k", "--duration", "1s", "--warmup", "0s"])
        .args(["--raw", "disk/raw.bin", "--out", "report.json", "--quiet", "--allow-invalid"])
        .current_dir(folder.path())
        .spawn()
        .expect("unshare runs");
    bounded(child);
    let text = |name: &str| fs::read_to_string(folder.path().join(name)).expect("written");
    assert_eq!((text("code").as_str(), text("left").as_str()), ("0\n", "raw.bin\nold\n"));
    let report = document(&folder.path().join("report.json"));
    let reasons = report["verdict"]["reasons"].to_string();
    assert!(reasons.contains("raw_samples_lost") && reasons.contains("No space left"), "{reasons}");
    assert_eq!(report["interrupted"], false);
    target.interrupt();
}

#[test]
fn a_target_raises_its_soft_limit_of_open_files_and_serves_more_connections() {
    let target = Target::start_by(Command::new("prlimit").args(["--nofile=64:", BINARY]), &[]);
    let connect = |_| TcpStream::connect(target.address()).expect("the target listens");
    let mut clients: Vec<TcpStream> = (0..100).map(connect).collect();
    for client in &mut clients {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("the target reads");
        client.read_exact(&mut [0]).expect("an answer");
    }
    drop(clients);
    assert_eq!(target.ledger()["connections"]["accept_errors"], 0);
    target.interrupt();
}
