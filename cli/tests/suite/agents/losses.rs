//! Deaths on either side: no load is left running, and no number is wrong.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use engine::load::curve::Curve;
use engine::load::schedule::Schedule;
use engine::load::share::Share;
use engine::plan::Arrivals;
use serde_json::{Value, json};

use super::network::Network;
use super::processes::{
    Agent, KEY, LONGEST, Place, Process, Target, addresses, controller, key_file, now_ms,
    wait_until,
};
use crate::support::{binary, document, said};

/// A load that outlasts a test.
const LONG: [&str; 8] = ["--rate", "300", "--duration", "60s", "--warmup", "0s", "--wait", "sleep"];
/// A short load.
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

/// Takes the controller away from its agents; they stop, keep their results, and serve the next
/// one.
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
    drop(first);
    if machines_are_connected {
        let whole = folder.path().join("whole.json");
        let load = [&SHORT[..], &["--out", whole.to_str().expect("a path")]].concat();
        let ended = machines.controller(&load).ends_within(LONGEST);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(received < machines.target.received(), "the agents serve the next");
        // An agent's kept report is of a part of the load, and isn't compared with a whole one.
        fs::write(folder.path().join("third.json"), kept[0].to_string()).expect("written");
        let args = ["compare", "third.json", "whole.json", "--allow-invalid"];
        let output = binary().args(args).current_dir(folder.path()).output().expect("it runs");
        let words = "the part of the load is 33.3 % and 100";
        assert!(output.status.code() == Some(2) && said(&output).contains(words), "{output:?}");
    }
}

#[test]
fn a_controller_that_is_killed_leaves_no_load() {
    agents_stop_without(true, |_, controller| controller.signal("KILL"));
}

#[test]
fn a_stalled_controller_leaves_no_load() {
    agents_stop_without(true, |_, controller| controller.signal("STOP"));
}

#[test]
fn a_controller_paused_for_less_than_the_lease_loses_nothing() {
    /// With a heartbeat's interval before it, half a second below the lease.
    const PAUSE: Duration = Duration::from_millis(1_500);
    let Some(network) = Network::new(5) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let machines = Machines::start(&network, folder.path());
    let out = folder.path().join("report.json");
    let load = ["--rate", "300", "--duration", "6s", "--warmup", "0s", "--wait", "sleep"];
    let out = ["--allow-invalid", "--out", out.to_str().expect("a path")];
    let mut controller = machines.controller(&[&load[..], &out].concat());
    machines.load(&mut controller);
    let began = Instant::now();
    controller.signal("STOP");
    let before = machines.target.received();
    thread::sleep(PAUSE);
    let meanwhile = machines.target.received() - before;
    controller.signal("CONT");
    let paused = began.elapsed();
    let ended = controller.ends_within(LONGEST);
    println!("{meanwhile} requests came in a pause of {paused:?}.");
    if PAUSE + Duration::from_millis(400) < paused {
        // On a machine this busy, the agents may rightly have given it up.
        return;
    }
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(0 < meanwhile, "the load goes on");
    let report = document(Path::new(out[2]));
    assert_eq!(report["agent_lost"], json!([]));
    assert_eq!(report["counts"]["sent"], machines.target.received());
    assert_eq!(report["counts"]["answered"], machines.target.received());
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
fn the_others_go_on_if_they_may_and_the_report_shows_what_is_missing() {
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
    // Its reported progress is known, and counts in no other number.
    let answered = lost[0]["reported"]["answered"].as_u64().expect("a count");
    assert!(0 < answered && answered < document["counts"]["answered"].as_u64().expect("a count"));
    assert!(ended.stdout.contains("; not counted: "), "{}", ended.stdout);
    let rest = document["per_agent"].as_array().expect("a list");
    assert_eq!(rest.len(), 2);
    // The others' share of the schedule.
    let curve = Curve::constant("300".parse().expect("a rate"));
    let share = |number: u32| {
        let share = Share::units(number..number + 1, 3);
        Schedule::new(curve.clone(), Arrivals::Poisson, 3, 6_000_000_000, share).count()
    };
    assert_eq!(document["counts"]["intended"], share(0) + share(2));
}

#[test]
fn a_run_whose_only_agent_is_lost_has_that_agents_progress() {
    for on_loss in ["abort", "continue"] {
        let folder = tempfile::tempdir().expect("a folder");
        let target = Target::start(Place::Here);
        let agent = Agent::start(Place::Here, &[]);
        let report = folder.path().join("report.json");
        let (url, address) = (target.url(), agent.address.to_string());
        let out = report.to_str().expect("text");
        let args = [&url, "--agents", &address, "--on-agent-loss", on_loss, "--out", out];
        let mut controller = controller(Place::Here, &[&args[..], &LONG].concat());
        controller.wait_until("requests come", |_| 300 < target.received());
        agent.process.signal("KILL");
        let ended = controller.ends_within(LONGEST);
        assert_eq!(ended.code, Some(5), "{ended:?}");
        assert!(ended.stderr.contains(&address), "{ended:?}");
        assert!(ended.stdout.contains("; not counted: "), "{}", ended.stdout);
        let document = document(&report);
        assert_eq!(
            (&document["partial"], &document["verdict"]["level"]),
            (&json!(true), &json!("invalid"))
        );
        let reported = &document["agent_lost"][0]["reported"];
        let answered = reported["answered"].as_u64().expect("a count");
        assert!(0 < answered && answered <= target.received(), "{answered}");
        assert_eq!(document["counts"]["intended"], 0, "nothing stands for it");
        let verified = binary().args(["verify", out]).output().expect("it runs");
        assert!(verified.status.success(), "{}", said(&verified));
    }
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

#[test]
fn an_agent_that_stalls_beyond_its_lease_sends_nothing_afterwards() {
    const STILL: Duration = Duration::from_secs(5);
    // Most that one system call carries: a request on each connection, or stream.
    const CALL_MAX: u64 = 80;
    let mut sent_on = Vec::new();
    let open = ["--rate", "1000", "--conns", "100", "--prewarm", "100", "--duration", "60s"];
    let closed = ["--model", "closed", "--conns", "20", "--duration", "60s", "--timeout", "5s"];
    let over_http_2 = ["--http", "2", "--streams", "4"];
    let loads = [
        open.to_vec(),
        closed.to_vec(),
        [&open[..], &over_http_2].concat(),
        [&closed[..], &over_http_2].concat(),
    ];
    for load in loads {
        // Each has a target of its own, and they stall at different moments.
        let targets: Vec<Target> = (0..4).map(|_| Target::start(Place::Here)).collect();
        let agents: Vec<Agent> = targets.iter().map(|_| Agent::start(Place::Here, &[])).collect();
        let mut controllers: Vec<Process> = (targets.iter().zip(&agents))
            .map(|(target, agent)| {
                let (url, address) = (target.url(), agent.address.to_string());
                let args = [&url, "--agents", &address, "--warmup", "0s", "--wait", "sleep"];
                controller(Place::Here, &[&args[..], &load].concat())
            })
            .collect();
        for (target, controller) in targets.iter().zip(&mut controllers) {
            controller.wait_until("requests come", |_| 300 < target.received());
        }
        agents.iter().for_each(|agent| agent.process.signal("STOP"));
        thread::sleep(STILL);
        let stopped: Vec<u64> = targets.iter().map(Target::received).collect();
        agents.iter().for_each(|agent| agent.process.signal("CONT"));
        for ((agent, target), stopped) in agents.iter().zip(&targets).zip(stopped) {
            wait_until("it keeps its report", || !agent.kept().is_empty());
            let received = target.received();
            assert_eq!(agent.kept()[0]["counts"]["sent"], received, "{load:?}");
            sent_on.push(received - stopped);
        }
    }
    // One that was stopped between its last look at the lease and the system call makes that call.
    sent_on.retain(|&sent| 0 < sent);
    assert!(sent_on.len() <= 1, "they sent after they went on: {sent_on:?}");
    assert!(sent_on.iter().all(|&sent| sent <= CALL_MAX), "{sent_on:?}");
}
