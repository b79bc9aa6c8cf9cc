//! The binary as its users run it: its witness as a process of its own, signals, and the documents that it writes.
#![allow(dead_code, reason = "each test file uses its own part of the support")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

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

/// The JSON document in a file.
pub fn document(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("the document was written");
    serde_json::from_str(&text).expect("it is JSON")
}
