//! The command `experiment` where nothing runs to its end: its refusals, and an interrupt.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::support::{binary, said, signal};

/// The longest that an experiment may take to begin, and to end once it is interrupted.
const LONGEST: Duration = Duration::from_secs(60);

/// A user's mistakes are reported before anything runs.
#[test]
fn a_page_that_cannot_be_written_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("results");
    fs::create_dir(&results).expect("a folder");
    let refused = |words: &[&str], page: Option<&Path>, expected: &str| {
        let mut command = binary();
        command.arg("experiment").args(words).arg("--out").arg(&results);
        if let Some(page) = page {
            command.arg("--page").arg(page);
        }
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{words:?}: {}", said(&output));
    };
    refused(&["page"], None, "no experiment has a result there");
    refused(&["page", "--quick"], None, "--quick: `page` runs nothing; omit --quick");
    refused(&["merge"], Some(&results), "is a folder; name a file in it");
    refused(&["all"], Some(&results.join("none/FINDINGS.md")), "can't be written");
    fs::write(results.join("README.md"), "# My project\n").expect("written");
    refused(&["all"], None, "has a README.md of its own");
}

/// A process that is killed by its id when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It has already ended after a successful test.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_interrupt_ends_the_current_run_and_the_servers() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = binary();
    let output = folder.path().join("stdout");
    let stdout = fs::File::create(&output).expect("a file");
    command.args(["experiment", "merge", "--out"]).arg(folder.path().join("out"));
    let mut process = Process(command.stdout(Stdio::from(stdout)).spawn().expect("it runs"));
    let started = Instant::now();
    let words = loop {
        let said = fs::read_to_string(&output).expect("text");
        if let Some(line) = said.lines().find(|line| line.starts_with("$ truetail controller")) {
            break line.to_owned();
        }
        assert!(started.elapsed() < LONGEST, "no run begins: {said}");
        thread::sleep(Duration::from_millis(10));
    };
    signal(&process.0, "INT");
    let asked = Instant::now();
    let status = loop {
        if let Some(status) = process.0.try_wait().expect("it is ours") {
            break status;
        }
        assert!(asked.elapsed() < LONGEST, "it doesn't end");
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(130), "{}", fs::read_to_string(&output).expect("text"));
    let url = words.split(' ').find_map(|word| word.strip_prefix("http://0.0.0.0:"));
    let port = url.expect("a URL").trim_end_matches('/').parse::<u16>().expect("a port");
    // Another test's server may have the port meanwhile, for as long as its run takes.
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        assert!(asked.elapsed() < LONGEST, "the target still listens");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!folder.path().join("out/merge/result.json").exists());
}
