//! Results that aren't files of their own, and bodies that are too large to send.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Target, binary, bounded, document, said, signal, wait_until};

fn short_run(target: &Target, folder: &Path) -> Command {
    let mut command = binary();
    command
        .args(["run", &target.url, "--rate", "100", "--duration", "200ms", "--warmup", "0s"])
        .arg("--allow-invalid")
        .current_dir(folder)
        .stderr(Stdio::piped());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_pipe_without_a_reader_is_refused_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    let made = Command::new("mkfifo").arg("pipe").current_dir(folder.path()).status();
    assert!(made.expect("mkfifo runs").success());
    for (flag, words) in [
        ("--out", "--out pipe: this pipe has no reader; start one first"),
        ("--csv", "--csv pipe: this pipe has no reader; start one first"),
        ("--raw", "--raw pipe: isn't a regular file; "),
    ] {
        let run = short_run(&target, folder.path()).args([flag, "pipe"]).spawn();
        let output = bounded(run.expect("the binary runs"));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    let ledger = ["target", "--listen", "127.0.0.1:0", "--ledger", "pipe"];
    let mut server = binary();
    server.args(ledger).current_dir(folder.path()).stderr(Stdio::piped());
    let output = bounded(server.spawn().expect("the binary runs"));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("--ledger pipe: this pipe has no reader"),
        "{}",
        stderr(&output)
    );
    assert_eq!(target.received(), 0);
    target.interrupt();
}

#[test]
fn a_log_as_standard_output_gets_both_and_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    let log = folder.path().join("log");
    fs::write(&log, "before\n").expect("written");
    for (append, first) in [(true, "before\n"), (false, "")] {
        let mut options = OpenOptions::new();
        let file = options.write(true).append(append).truncate(!append).open(&log);
        let file: File = file.expect("it opens");
        let mut run = short_run(&target, folder.path());
        let run = run.args(["--out", "/dev/stdout"]).stdout(file).spawn();
        let output = bounded(run.expect("the binary runs"));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = fs::read_to_string(&log).expect("text");
        let text = text.strip_prefix(first).expect("what was there");
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let report = documents.next().expect("a document").expect("it is JSON");
        assert!(report["counts"]["intended"].is_u64());
        let summary = &text[documents.byte_offset()..];
        assert!(summary.contains("\nwritten      /dev/stdout\n"), "{summary}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
    target.interrupt();
}

#[test]
fn a_run_fits_on_a_screen_and_the_details_follow_on_demand() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    let quick = ["--duration", "1s", "--warmup", "200ms", "--allow-invalid", "--quiet"];
    for load in [&["--rate", "500"][..], &["--conns", "4"], &["--rate", "500", "--details"]] {
        let mut run = binary();
        run.args(["run", &target.url, "--out", "report.json"]).args(quick).args(load);
        let output = run.current_dir(folder.path()).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let text = String::from_utf8(output.stdout).expect("text");
        let report = document(&folder.path().join("report.json"));
        let has_details = text.contains("\n\ndetails\n");
        assert_eq!(has_details, load.contains(&"--details"), "{text}");
        let screen = text.split("\n\ndetails\n").next().expect("a screen");
        let most = if report["verdict"]["level"] == "valid" { 24 } else { 34 };
        assert!(screen.lines().count() <= most, "{screen}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    let report = |details: &[&str]| {
        let mut report = binary();
        report.args(["report", "report.json"]).args(details).current_dir(folder.path());
        String::from_utf8(report.output().expect("it runs").stdout).expect("text")
    };
    let (screen, all) = (report(&[]), report(&["--details"]));
    assert!(all.starts_with(&screen) && all.contains("\npacer lateness "), "{all}");
    assert!(!screen.contains("pacer lateness"), "{screen}");
    target.interrupt();
}

#[test]
fn two_runs_with_one_file_of_samples_do_not_mix() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    fs::write(folder.path().join("raw.bin.tmp"), "of a crashed run").expect("written");
    let run = |report: &str| {
        let mut run = short_run(&target, folder.path());
        run.args(["--raw", "raw.bin", "--out", report]).stdout(Stdio::null());
        run.spawn().expect("the binary runs")
    };
    let both = [run("one.json"), run("other.json")];
    for output in both.map(bounded) {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let verified = ["one.json", "other.json"].map(|report| {
        let mut verify = binary();
        verify.args(["verify", report, "--raw", "raw.bin"]).current_dir(folder.path());
        verify.output().expect("it runs").status.code()
    });
    // The file is from the run that ended last.
    assert!(verified.contains(&Some(0)), "{verified:?}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 4);
    target.interrupt();
}

#[test]
fn leftovers_of_a_killed_run_are_removed_by_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    let mut killed = binary()
        .args(["run", &target.url, "--rate", "100", "--duration", "1h", "--warmup", "0s"])
        .args(["--raw", "raw.bin", "--out", "report.json"])
        .current_dir(folder.path())
        .spawn()
        .expect("the binary runs");
    wait_until(&mut killed, || 0 < target.received());
    signal(&killed, "KILL");
    bounded(killed);
    let left = || fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left(), 2, "no process can clean up after this signal");
    let run = short_run(&target, folder.path())
        .args(["--raw", "raw.bin", "--out", "report.json"])
        .stdout(Stdio::null())
        .spawn();
    let output = bounded(run.expect("the binary runs"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for file in ["raw.bin", "report.json"] {
        assert!(folder.path().join(file).exists(), "{file}");
    }
    assert_eq!(left(), 2);
    target.interrupt();
}

#[test]
fn a_body_too_large_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    let body = File::create(folder.path().join("body")).expect("created");
    body.set_len(3 << 30).expect("a hole takes no room");
    for (file, message) in [
        ("@body", "3221225472 bytes; the most is 1073741824 (1024 MiB)"),
        ("@/dev/zero", "more than 268435456 bytes; the most is 268435456 (256 MiB)"),
    ] {
        let run = short_run(&target, folder.path()).args(["--body", file]).spawn();
        let output = bounded(run.expect("the binary runs"));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let line = format!("truetail: --body {file}: it has {message}");
        assert!(stderr(&output).starts_with(&line), "{}", stderr(&output));
    }
    assert_eq!(target.received(), 0);
    target.interrupt();
}
