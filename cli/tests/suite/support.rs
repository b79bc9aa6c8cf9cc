//! The binary as users run it: its target in a process of its own, signals, and the documents that
//! it writes.
#![allow(dead_code, reason = "each test file uses its own part of the support")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// The binary.
pub const BINARY: &str = env!("CARGO_BIN_EXE_truetail");

/// The environment of the binary, which hides the user's calibrations: none can be read or saved.
pub const NO_CACHE: [(&str, &str); 1] = [("XDG_CACHE_HOME", "/dev/null")];

/// The binary in that environment.
pub fn binary() -> Command {
    let mut command = Command::new(BINARY);
    command.envs(NO_CACHE);
    command
}

/// The output of a process that ended, standard output first, then standard error.
pub fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat()
}

/// The target in a process of its own.
pub struct Target {
    /// Its process.
    pub child: Child,
    stdout: BufReader<ChildStdout>,
    /// Where it listens.
    pub url: String,
}

impl Target {
    /// Starts it on a free port.
    pub fn start(args: &[&str]) -> Target {
        Target::start_by(&mut binary(), args)
    }

    /// Starts it on a free port by a command that becomes the binary.
    pub fn start_by(command: &mut Command, args: &[&str]) -> Target {
        let mut child = command
            .args(["target", "--listen", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let url = line.split([' ', ',']).find(|word| word.starts_with("http"));
        let url = url.unwrap_or_else(|| panic!("no URL in: {line}")).to_owned();
        Target { child, stdout, url }
    }

    /// Interrupts it like a user and returns its last output.
    pub fn interrupt(self) -> String {
        self.end_by("INT")
    }

    /// Ends it by the signal of this name and returns its last output.
    pub fn end_by(mut self, name: &str) -> String {
        signal(&self.child, name);
        let ended = (0..6_000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            self.child.try_wait().expect("it is ours").is_some()
        });
        if !ended {
            self.child.kill().expect("it is ours");
        }
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).expect("text");
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "by {name}: {said}");
        said
    }

    /// Its address and port.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches('/')
    }

    /// The number of requests it has received, by its own ledger.
    pub fn received(&self) -> u64 {
        self.ledger()["received"].as_u64().expect("a count")
    }

    /// Its current ledger. While its core is starved, it asks to be asked again.
    pub fn ledger(&self) -> Value {
        let mut answers = (0..5).map(|_| {
            let mut stream = TcpStream::connect(self.address()).expect("it listens");
            stream
                .write_all(b"GET /__ledger HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                .expect("it reads");
            let mut response = String::new();
            stream.read_to_string(&mut response).expect("text");
            response
        });
        let response = answers
            .find(|response| response.starts_with("HTTP/1.1 200 "))
            .expect("its executors answer within 10 s");
        let body = response.split_once("\r\n\r\n").expect("a body").1;
        serde_json::from_str(body).expect("it is JSON")
    }

    /// Waits until it has received this many requests of `run`, which is killed if that takes too
    /// long.
    pub fn wait_for_requests(&self, run: &mut Child, least: u64) {
        wait_until(run, || least <= self.received());
    }
}

/// Waits for a condition on `run`, which is killed if that takes too long.
pub fn wait_until(run: &mut Child, condition: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if condition() {
            return;
        }
        if run.try_wait().expect("it is ours").is_some() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    // It may have ended by itself.
    let _ = run.kill();
    let status = run.wait().expect("it ends");
    panic!("the run never came so far: {status}");
}

/// The end of a process, which is killed if that takes too long. Its output must fit into the
/// pipes.
pub fn bounded(mut child: Child) -> Output {
    for _ in 0..6_000 {
        if child.try_wait().expect("it is ours").is_some() {
            return child.wait_with_output().expect("it has ended");
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it is ours");
    let output = child.wait_with_output().expect("it ends");
    panic!("it never ended: {}", String::from_utf8_lossy(&output.stderr));
}

/// Sends a signal until it ends the process, which is killed if that takes too long.
pub fn until_ended(child: &mut Child, name: &str) {
    let ended = (0..3_000).any(|_| {
        signal(child, name);
        thread::sleep(Duration::from_millis(20));
        child.try_wait().expect("it is ours").is_some()
    });
    if !ended {
        child.kill().expect("it is ours");
        panic!("{name} never ended it");
    }
}

/// The first line that a process prints.
pub fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    line
}

impl Drop for Target {
    fn drop(&mut self) {
        // It has already ended after a successful test.
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

/// The expected exit code of a completed series, given its document and whether it found a rate.
pub fn code_of_series(document: &Value, found: bool) -> i32 {
    let steps = document["steps"].as_array().expect("a list");
    let mut deciding = steps.iter().filter(|step| step["outcome"] != "undecided").peekable();
    let decided = deciding.peek().is_some();
    let none_is_valid = decided && deciding.all(|step| step["verdict"]["level"] == "invalid");
    let not_judged = document.get("not_judged").is_some_and(Value::is_object);
    match none_is_valid || not_judged {
        true => 3,
        false if found => 0,
        false => 4,
    }
}

/// Asserts that a document of many runs verifies, and that a changed figure is found and named.
pub fn verified(path: &Path, figure: &str) {
    let verify = |file: &Path| {
        let output = binary().arg("verify").arg(file).output().expect("the binary runs");
        (output.status.code(), said(&output))
    };
    let (code, message) = verify(path);
    assert_eq!(code, Some(0), "{message}");
    let mut changed = document(path);
    *changed.pointer_mut(figure).expect("a figure") = Value::from(123.5);
    let other = path.with_file_name("changed.json");
    fs::write(&other, changed.to_string()).expect("written");
    let (code, message) = verify(&other);
    let name = figure.trim_start_matches('/').replace('/', ".");
    assert_eq!(code, Some(1), "{message}");
    let line = message.lines().find(|line| line.starts_with("DIFFERS") && line.contains(&name));
    assert!(line.is_some_and(|line| line.contains("123.5, expected ")), "{message}");
}
