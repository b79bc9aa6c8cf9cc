//! The binary as its users run it: its witness as a process of its own, signals, and the documents
//! that it writes.
#![allow(dead_code, reason = "each test file uses its own part of the support")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// The binary.
pub const BINARY: &str = env!("CARGO_BIN_EXE_truetail");

/// The witness as a process of its own.
pub struct Witness {
    /// Its process.
    pub child: Child,
    stdout: BufReader<ChildStdout>,
    /// Where it listens.
    pub url: String,
}

impl Witness {
    /// Starts it on a free port.
    pub fn start(args: &[&str]) -> Witness {
        let mut child = Command::new(BINARY)
            .args(["target", "--listen", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let url = line.split([' ', ',']).find(|word| word.starts_with("http://"));
        let url = url.unwrap_or_else(|| panic!("no URL in: {line}")).to_owned();
        Witness { child, stdout, url }
    }

    /// How many requests it has received, by its own ledger.
    pub fn received(&self) -> u64 {
        let address = self.url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream
            .write_all(b"GET /__ledger HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .expect("it reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("text");
        let body = response.split_once("\r\n\r\n").expect("a body").1;
        let ledger: Value = serde_json::from_str(body).expect("it is JSON");
        ledger["received"].as_u64().expect("a count")
    }

    /// Waits until it has received so many requests of this run.
    pub fn wait_for(&self, requests: u64, run: &mut Child) {
        wait_until("the requests arrive", run, |run| {
            assert_eq!(run.try_wait().expect("it is ours"), None, "the run has ended");
            requests <= self.received()
        });
    }

    /// Ends it as a user does and gives what it said last.
    pub fn interrupt(mut self) -> String {
        signal(&self.child, "INT");
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).expect("text");
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0), "{said}");
        said
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // It has ended already when the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends the signal of this name.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// Waits until this is so of a process. A minute is enough on any machine; then the process is
/// ended and the test fails.
pub fn wait_until(what: &str, child: &mut Child, mut is_so: impl FnMut(&mut Child) -> bool) {
    for _ in 0..6_000 {
        if is_so(child) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it is ours");
    let status = child.wait().expect("it ends");
    panic!("waited for a minute until {what}: {status}");
}

/// Whether SIGINT is in this set of the process's signals: `SigCgt` are those that it handles,
/// `ShdPnd` those that wait to be.
pub fn has_interrupt_in(set: &str, child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(set)?.strip_prefix(":\t"));
    mask.is_some_and(|mask| u64::from_str_radix(mask, 16).expect("a mask") & (1 << (2 - 1)) != 0)
}

/// The JSON document in a file.
pub fn document(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("the document was written");
    serde_json::from_str(&text).expect("it is JSON")
}
