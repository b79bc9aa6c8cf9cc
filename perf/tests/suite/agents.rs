//! A controller of many simulated agents.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::support::truetail;
use engine::load::curve::Curve;
use engine::load::schedule::{Digest, Schedule};
use engine::load::share::Share;
use engine::plan::Arrivals;
use serde_json::Value;

const SIMULATOR: &str = env!("CARGO_BIN_EXE_truetail-agents-sim");
const AGENTS: usize = 20;

/// The simulator, which is killed when this is dropped.
struct Simulator {
    child: Child,
    /// The value of `--agents`.
    addresses: String,
}

impl Simulator {
    fn start() -> Simulator {
        let mut simulator = Command::new(SIMULATOR);
        simulator.args(["--agents", &AGENTS.to_string()]).stdout(Stdio::piped());
        let mut child = simulator.spawn().expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let addresses = line.trim_end().rsplit(' ').next().expect("addresses").to_owned();
        Simulator { child, addresses }
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        // It serves until it is killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn many_agents_report_the_schedule_of_one_machine() {
    const END_NS: u64 = 2_500_000_000;
    const WINDOW_NS: u64 = 500_000_000;
    let simulator = Simulator::start();
    assert_eq!(simulator.addresses.split(',').count(), AGENTS);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let mut controller = Command::new(truetail());
    // This port is never connected to.
    controller.args(["controller", "http://127.0.0.1:9/", "--agents", &simulator.addresses]);
    controller.args(["--rate", "20k", "--duration", "2s", "--warmup", "500ms", "--seed", "5"]);
    controller.args(["--allow-invalid", "--out"]).arg(&file);
    let output = controller.output().expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");

    let curve = Curve::constant("20k".parse().expect("a rate"));
    let mut digest = Digest::default();
    let mut intended = 0;
    let schedule = Schedule::new(curve, Arrivals::Poisson, 5, END_NS, Share::whole());
    for due_ns in schedule.times_ns() {
        digest.add(due_ns);
        intended += u64::from(WINDOW_NS <= due_ns);
    }
    let report = std::fs::read_to_string(&file).expect("a report");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["config"]["schedule_digest"], digest.hex());
    assert_eq!(report["counts"]["intended"], intended);
    assert_eq!(report["counts"]["answered"], intended);
    assert_eq!(report["per_agent"].as_array().map(Vec::len), Some(AGENTS));
}
