//! The processes of the tests: targets, agents and controllers, each of which is killed by its id
//! when it is dropped.

use std::fs;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::network::Network;
use crate::support::{BINARY, NO_CACHE, binary, document, signal};

/// The key of agents and controllers that have one.
pub const KEY: &str = "0123456789abcdef0123456789abcdef";
/// The longest that anything here may take beyond its planned time.
pub const LONGEST: Duration = Duration::from_secs(60);
/// How often a condition is checked.
const LOOK: Duration = Duration::from_millis(5);

/// Where a process runs: on a machine of a network, or here.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// Here, on the loopback interface.
    Here,
    /// On this machine of this network.
    On(&'a Network, usize),
}

impl Place<'_> {
    /// The address that others reach it by.
    pub fn ip(&self) -> String {
        match self {
            Place::Here => "127.0.0.1".to_owned(),
            Place::On(network, machine) => network.address(*machine).to_string(),
        }
    }

    /// The binary, run there.
    pub fn binary(&self) -> Command {
        match self {
            Place::Here => binary(),
            Place::On(network, machine) => {
                let mut command = network.command(*machine, BINARY);
                command.envs(NO_CACHE);
                command
            }
        }
    }

    /// Calls this there.
    pub fn within<T: Send>(&self, call: impl FnOnce() -> T + Send) -> T {
        match self {
            Place::Here => call(),
            Place::On(network, machine) => network.within(*machine, call),
        }
    }
}

/// The output from a pipe so far.
type Said = Arc<Mutex<String>>;

/// A process, whose output is read as it comes.
pub struct Process {
    /// Its command line.
    what: String,
    child: Child,
    stdout: Said,
    stderr: Said,
}

/// The end of a process.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Process {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Process {
        let what = format!("{command:?}");
        let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
        let stdout = collect(child.stdout.take().expect("it is piped"));
        let stderr = collect(child.stderr.take().expect("it is piped"));
        Process { what, child, stdout, stderr }
    }

    /// Its standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.lock().expect("no reader panics").clone()
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().expect("no reader panics").clone()
    }

    /// Waits until this holds; it must before the process ends.
    pub fn wait_until(&mut self, what: &str, mut holds: impl FnMut(&Process) -> bool) {
        let started = Instant::now();
        while !holds(self) {
            let ended = self.child.try_wait().expect("it is ours");
            assert!(
                ended.is_none() && started.elapsed() < LONGEST,
                "never: {what}: {} ({ended:?}): {}{}",
                self.what,
                self.stdout(),
                self.stderr()
            );
            thread::sleep(LOOK);
        }
    }

    /// Sends it the signal of this name.
    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it runs").count()
    }

    /// The memory that it holds, MiB.
    pub fn memory_mib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let held = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = held.and_then(|held| held.split_whitespace().next()).expect("a figure");
        kib.parse::<u64>().expect("KiB") / 1_024
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_none()
    }

    /// How it ends by itself, within this time.
    pub fn ends_within(mut self, longest: Duration) -> Ended {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                break status;
            }
            assert!(
                started.elapsed() < longest,
                "still running after {longest:?}: {}: {}{}",
                self.what,
                self.stdout(),
                self.stderr()
            );
            thread::sleep(LOOK);
        };
        // Its readers end with it, unless a process that it started holds the pipe.
        let (stdout, stderr) = (Arc::clone(&self.stdout), Arc::clone(&self.stderr));
        let is_read = |said: &Said| Arc::strong_count(said) <= 2;
        while !(is_read(&stdout) && is_read(&stderr)) && started.elapsed() < longest + LONGEST {
            thread::sleep(LOOK);
        }
        Ended { code: status.code(), stdout: self.stdout(), stderr: self.stderr() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has already ended after a successful test, or it serves until it is killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a pipe to its end, in a thread of its own.
fn collect(mut pipe: impl Read + Send + 'static) -> Said {
    let said = Said::default();
    let writer = Arc::clone(&said);
    thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]);
            writer.lock().expect("no reader panics").push_str(&text);
        }
    });
    said
}

/// The sample target.
pub struct Target<'a> {
    _process: Process,
    place: Place<'a>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl<'a> Target<'a> {
    /// Starts it there, on a free port.
    pub fn start(place: Place<'a>) -> Target<'a> {
        Target::serve(place, "target")
    }

    /// Starts the null target there, on a free port.
    pub fn start_null(place: Place<'a>) -> Target<'a> {
        Target::serve(place, "null-target")
    }

    fn serve(place: Place<'a>, command: &str) -> Target<'a> {
        let mut binary = place.binary();
        binary.args([command, "--listen", &format!("{}:0", place.ip())]);
        let mut process = Process::start(&mut binary);
        let address = listens(&mut process);
        Target { _process: process, place, address }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Its ledger so far.
    pub fn ledger(&self) -> Value {
        let response = self.place.within(|| {
            let mut stream = TcpStream::connect(self.address).expect("it listens");
            let request = b"GET /__ledger HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            stream.write_all(request).expect("it reads");
            let mut response = String::new();
            stream.read_to_string(&mut response).expect("text");
            response
        });
        let body = response.split_once("\r\n\r\n").expect("a body").1;
        serde_json::from_str(body).expect("it is JSON")
    }

    /// How many requests it has received.
    pub fn received(&self) -> u64 {
        self.ledger()["received"].as_u64().expect("a count")
    }

    /// When the last request came, ms of CLOCK_MONOTONIC, which all namespaces share.
    pub fn last_arrival_ms(&self) -> u64 {
        let arrivals = &self.ledger()["arrivals_per_ms"];
        let counts = arrivals["counts"].as_array().expect("counts");
        let last = counts.iter().rposition(|count| *count != 0).expect("requests came");
        arrivals["first_ms"].as_u64().expect("a moment") + last as u64
    }
}

/// An agent.
pub struct Agent {
    /// Its process.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its `--state-dir`.
    pub state: TempDir,
}

impl Agent {
    /// Starts it there, on a free port.
    pub fn start(place: Place, args: &[&str]) -> Agent {
        Agent::start_as(&mut place.binary(), place, args)
    }

    /// Starts it here, with a disk of 16 KiB of its own for its `--state-dir`.
    pub fn start_on_a_small_disk(args: &[&str]) -> Agent {
        // The folder is named last.
        let script =
            "for last; do :; done; mount -t tmpfs -o size=16k none \"$last\" && exec \"$0\" \"$@\"";
        let mut limited = Command::new("unshare");
        limited.args(["--map-root-user", "--mount", "sh", "-c", script, BINARY]).envs(NO_CACHE);
        Agent::start_as(&mut limited, Place::Here, args)
    }

    /// Starts it by this command, to which its words are added.
    pub fn start_as(binary: &mut Command, place: Place, args: &[&str]) -> Agent {
        Agent::start_at(binary, &format!("{}:0", place.ip()), args)
    }

    /// Starts it by this command, to listen on this address.
    pub fn start_at(binary: &mut Command, address: &str, args: &[&str]) -> Agent {
        let state = tempfile::tempdir().expect("a folder");
        binary.args(["agent", "--listen", address]).args(args);
        let mut process = Process::start(binary.arg("--state-dir").arg(state.path()));
        let address = listens(&mut process);
        Agent { process, address, state }
    }

    /// The reports that it kept, because no controller collected them.
    pub fn kept(&self) -> Vec<Value> {
        let entries = fs::read_dir(self.state.path()).expect("a folder");
        let files = entries.map(|entry| entry.expect("a file").path());
        let reports = files.filter(|file| file.extension().is_some_and(|end| end == "json"));
        reports.map(|file| document(&file)).collect()
    }
}

/// The values of `--agents`.
pub fn addresses(agents: &[Agent]) -> String {
    let addresses: Vec<String> = agents.iter().map(|agent| agent.address.to_string()).collect();
    addresses.join(",")
}

/// A controller there.
pub fn controller(place: Place, args: &[&str]) -> Process {
    let mut binary = place.binary();
    Process::start(binary.arg("controller").args(args))
}

/// Where a server listens, by the line that it prints first.
fn listens(process: &mut Process) -> SocketAddr {
    process.wait_until("it listens", |process| process.stdout().contains('\n'));
    let said = process.stdout();
    let line = said.lines().next().expect("a line");
    let mut words = line.split([' ', ',', '/']);
    let address = words.find_map(|word| word.parse().ok());
    address.unwrap_or_else(|| panic!("no address in: {line}"))
}

/// Now, ms of CLOCK_MONOTONIC.
pub fn now_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, ns) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.expect("a time") * 1_000 + ns.expect("a time") / 1_000_000
}

/// Waits until this holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LONGEST, "never: {what}");
        thread::sleep(LOOK);
    }
}

/// A key file in this folder, as `--key-file` takes it.
pub fn key_file(folder: &Path, name: &str, key: &str) -> String {
    let file = folder.join(name);
    fs::write(&file, key).expect("written");
    file.to_str().expect("text").to_owned()
}
