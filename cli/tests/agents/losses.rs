//! Deaths on either side: no load is left running, and no number is wrong.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use engine::load::schedule::Schedule;
use engine::load::share::Share;
use engine::plan::Arrivals;
use serde_json::{Value, json};

use crate::network::Network;
use crate::processes::{
    Agent, KEY, LONGEST, Place, Process, Target, addresses, controller, key_file, now_ms,
    wait_until,
};
use crate::support::{binary, document, said};

/// A load that doesn't end by itself while a test lasts.
const LONG: [&str; 8] = ["--rate", "300", "--duration", "60s", "--warmup", "0s", "--wait", "sleep"];
/// One that is over soon.
const SHORT: [&str; 9] = [
    "--rate",
    "300",
    "--duration",
    "300ms",
    "--warmup",
    "0s",
    "--wait",
    "sleep",
    "--allow-invalid",
];
/// By when an agent without a controller must have sent its last request.
const LAST_REQUEST_MS: u64 = 4_000;
/// How long an agent may then take to drain, and to keep its report.
const DRAINED_MS: u64 = 10_000;

/// Three agents on three machines, the controller on the fourth, the target on the fifth.
struct Machines<'a> {
    network: &'a Network,
    target: Target<'a>,
    agents: Vec<Agent>,
    key: String,
}

impl<'a> Machines<'a> {
    fn start(network: &'a Network, folder: &Path) -> Machines<'a> {
        let key = key_file(folder, "key", KEY);
        let target = Target::start(Place::On(network, 4));
        let allowed = target.address.to_string();
        let agents = (0..3)
            .map(|machine| {
                let args = ["--key-file", &key, "--allow-target", &allowed];
                Agent::start(Place::On(network, machine), &args)
            })
            .collect();
        Machines { network, target, agents, key }
    }

    fn controller(&self, load: &[&str]) -> Process {
        let (url, agents) = (self.target.url(), addresses(&self.agents));
        let args = [&url, "--agents", &agents, "--key-file", &self.key];
        controller(Place::On(self.network, 3), &[&args[..], load].concat())
    }

    /// Waits until all send.
    fn load(&self, controller: &mut Process) {
        controller.wait_until("requests come", |_| 300 < self.target.received());
    }
}

/// Takes the controller away from its agents; they stop, keep what they have, and serve the next.
fn agents_stop_without(machines_are_connected: bool, take_away: impl FnOnce(&Network, &Process)) {
    let Some(network) = Network::new(5) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let machines = Machines::start(&network, folder.path());
    let mut first = machines.controller(&LONG);
    machines.load(&mut first);
    let lost_ms = now_ms();
    take_away(&network, &first);
    wait_until("the agents keep their reports", || {
        machines.agents.iter().all(|agent| !agent.kept().is_empty())
    });
    let last_ms = machines.target.last_arrival_ms();
    println!("The last request came {} ms after the loss.", last_ms.saturating_sub(lost_ms));
    assert!(last_ms < lost_ms + LAST_REQUEST_MS, "{} ms", last_ms - lost_ms);
    assert!(now_ms() < lost_ms + LAST_REQUEST_MS + DRAINED_MS);
    let received = machines.target.received();
    let kept: Vec<Value> = machines.agents.iter().flat_map(Agent::kept).collect();
    assert_eq!(kept.len(), 3);
    let sent: u64 =
        kept.iter().map(|report| report["counts"]["sent"].as_u64().expect("a count")).sum();
    assert_eq!(sent, received, "nothing that was sent is missing in the reports");
    let mut other = kept[1].clone();
    other["per_agent"][0]["config"]["share"]["of"] = 4.into();
    for (name, report) in [("third.json", &kept[0]), ("quarter.json", &other)] {
        fs::write(folder.path().join(name), report.to_string()).expect("written");
    }
    let args = ["compare", "third.json", "quarter.json", "--allow-invalid"];
    let output = binary().args(args).current_dir(folder.path()).output().expect("it runs");
    let words = "the part of the load is 33.3 % and 25.0 %";
    assert!(output.status.code() == Some(2) && said(&output).contains(words), "{output:?}");
    drop(first);
    if machines_are_connected {
        let ended = machines.controller(&SHORT).ends_within(LONGEST);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(received < machines.target.received(), "the agents serve the next");
    }
}

#[test]
fn a_controller_that_is_killed_leaves_no_load() {
    agents_stop_without(true, |_, controller| controller.signal("KILL"));
}

#[test]
fn a_controller_that_stands_still_leaves_no_load() {
    agents_stop_without(true, |_, controller| controller.signal("STOP"));
}

#[test]
fn a_cut_link_leaves_no_load() {
    agents_stop_without(false, |network, _| network.cut(3));
}

#[test]
fn an_agent_that_dies_ends_the_run() {
    let Some(network) = Network::new(5) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let machines = Machines::start(&network, folder.path());
    let mut controller = machines.controller(&LONG);
    machines.load(&mut controller);
    let killed = Instant::now();
    machines.agents[1].process.signal("KILL");
    let ended = controller.ends_within(Duration::from_secs(5));
    println!("The controller ended after {:?}.", killed.elapsed());
    assert_eq!(ended.code, Some(5), "{ended:?}");
    let name = machines.agents[1].address.to_string();
    assert!(ended.stderr.contains(&name), "{ended:?}");
    let stopped = machines.target.received();
    thread::sleep(Duration::from_millis(500));
    assert_eq!(machines.target.received(), stopped, "the others stopped");
}

#[test]
fn the_others_go_on_if_they_may_and_the_report_says_what_is_missing() {
    let Some(network) = Network::new(5) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let machines = Machines::start(&network, folder.path());
    let report = folder.path().join("report.json");
    let load = [
        "--rate",
        "300",
        "--duration",
        "6s",
        "--warmup",
        "0s",
        "--wait",
        "sleep",
        "--seed",
        "3",
        "--on-agent-loss",
        "continue",
        "--allow-invalid",
        "--out",
    ];
    let load = [&load[..], &[report.to_str().expect("text")]].concat();
    let mut controller = machines.controller(&load);
    machines.load(&mut controller);
    machines.agents[1].process.signal("KILL");
    let ended = controller.ends_within(LONGEST);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    println!("{}", ended.stdout);
    let document = document(&report);
    assert_eq!(document["partial"], true);
    let lost = document["agent_lost"].as_array().expect("a list");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0]["name"], machines.agents[1].address.to_string());
    assert_eq!(lost[0]["share"], json!({ "units": { "start": 1, "end": 2 }, "of": 3 }));
    // What it had told is known, and in no other number.
    let told = lost[0]["told"]["intervals"].as_array().expect("intervals");
    let answered: u64 = told.iter().filter_map(|it| it["answered"].as_u64()).sum();
    assert!(0 < answered && answered < document["counts"]["answered"].as_u64().expect("a count"));
    assert!(ended.stdout.contains("; not counted: "), "{}", ended.stdout);
    let rest = document["per_agent"].as_array().expect("a list");
    assert_eq!(rest.len(), 2);
    // What the others were to send, by the schedule.
    let rate = "300".parse().expect("a rate");
    let share = |number: u32| {
        let share = Share::units(number..number + 1, 3);
        Schedule::new(rate, Arrivals::Poisson, 3, 6_000_000_000, share).count()
    };
    assert_eq!(document["counts"]["intended"], share(0) + share(2));
}

#[test]
fn an_interrupted_controller_reports_what_was_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let agents: Vec<Agent> = (0..3).map(|_| Agent::start(Place::Here, &[])).collect();
    let report = folder.path().join("report.json");
    let (url, addresses) = (target.url(), addresses(&agents));
    let args = [url.as_str(), "--agents", &addresses, "--out", report.to_str().expect("text")];
    let mut controller = controller(Place::Here, &[&args[..], &LONG].concat());
    controller.wait_until("requests come", |_| 300 < target.received());
    controller.signal("INT");
    let ended = controller.ends_within(LONGEST);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let document = document(&report);
    assert_eq!(document["interrupted"], true);
    assert_eq!(document["counts"]["sent"], target.received());
    assert_eq!(document["per_agent"].as_array().map(Vec::len), Some(3));
    assert!(agents.iter().all(|agent| agent.kept().is_empty()), "all was collected");
}
