//! Deaths on either side: no load is left running, and no number is wrong.

use std::fs;
use std::path::Path;
use std::process::Command;
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
use super::proxy::Proxy;
use crate::support::{BINARY, NO_CACHE, binary, document, said};

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
        self.command(&[&[self.target.url().as_str()], load].concat())
    }

    /// A controller with these words, and the agents.
    fn command(&self, words: &[&str]) -> Process {
        let agents = addresses(&self.agents);
        let args = ["--agents", &agents, "--key-file", &self.key];
        controller(Place::On(self.network, 3), &[&args[..], words].concat())
    }

    /// Waits until all send.
    fn load(&self, controller: &mut Process) {
        controller.wait_until("requests come", |controller| {
            300 < self.target.received() && controller.stderr().contains("Run ")
        });
    }
}

/// Checks the report of a run that was cut short and resumed: all three agents are in it, and every
/// request.
fn resumes(file: &Path, received: u64) {
    let report = document(file);
    assert_eq!((&report["partial"], &report["interrupted"]), (&json!(true), &json!(true)));
    assert_eq!(report["agent_lost"], json!([]));
    assert_eq!(report["per_agent"].as_array().map(Vec::len), Some(3));
    assert_eq!(report["counts"]["sent"], received);
    let verified = binary().arg("verify").arg(file).output().expect("it runs");
    assert!(verified.status.success(), "{}", said(&verified));
}

/// The name of a controller's run.
fn run_of(controller: &Process) -> String {
    let said = controller.stderr();
    let line = said.lines().find_map(|line| line.strip_prefix("Run "));
    let name = line.and_then(|line| line.split(':').next());
    name.unwrap_or_else(|| panic!("no run in: {said}")).to_owned()
}

/// Takes the controller away from its agents; they stop, keep their results, and serve the next
/// one, which resumes the run first.
fn agents_stop_without(take_away: impl FnOnce(&Network, &Process)) {
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
    let run = run_of(&first);
    drop(first);
    network.restore(3);
    let resumed = folder.path().join("resumed.json");
    let ended = machines
        .command(&["--resume", &run, "--out", resumed.to_str().expect("a path")])
        .ends_within(LONGEST);
    println!("{}", ended.stdout);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    resumes(&resumed, received);
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

#[test]
fn a_controller_that_is_killed_leaves_no_load() {
    agents_stop_without(|_, controller| controller.signal("KILL"));
}

#[test]
fn a_stalled_controller_leaves_no_load() {
    agents_stop_without(|_, controller| controller.signal("STOP"));
}

#[test]
fn a_controller_paused_for_less_than_the_lease_loses_nothing() {
    // With a heartbeat's interval before it, half a second below the lease.
    let (pause, slack) = (Duration::from_millis(1_500), Duration::from_millis(400));
    nothing_is_lost_in(
        (pause, slack),
        |_, controller| controller.signal("STOP"),
        |_, controller| controller.signal("CONT"),
    );
}

#[test]
fn a_link_that_is_cut_for_less_than_the_lease_loses_nothing() {
    // A heartbeat that is lost at once is repeated after 0.2 s, 0.6 s and 1.4 s.
    let (cut, slack) = (Duration::from_millis(1_000), Duration::from_millis(300));
    nothing_is_lost_in((cut, slack), |network, _| network.cut(3), |network, _| network.restore(3));
}

/// Interrupts a controller for a while; its run goes on as if nothing had happened.
fn nothing_is_lost_in(
    (pause, slack): (Duration, Duration),
    interrupt: impl FnOnce(&Network, &Process),
    restore: impl FnOnce(&Network, &Process),
) {
    let Some(network) = Network::new(5) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let machines = Machines::start(&network, folder.path());
    let out = folder.path().join("report.json");
    let load = ["--rate", "300", "--duration", "6s", "--warmup", "0s", "--wait", "sleep"];
    let out = ["--allow-invalid", "--out", out.to_str().expect("a path")];
    let mut controller = machines.controller(&[&load[..], &out].concat());
    machines.load(&mut controller);
    let began = Instant::now();
    interrupt(&network, &controller);
    let before = machines.target.received();
    thread::sleep(pause);
    let meanwhile = machines.target.received() - before;
    restore(&network, &controller);
    let paused = began.elapsed();
    let ended = controller.ends_within(LONGEST);
    println!("{meanwhile} requests came in a pause of {paused:?}.");
    if pause + slack < paused {
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
    agents_stop_without(|network, _| network.cut(3));
}

#[test]
fn a_slow_link_that_loses_one_segment_in_a_hundred_costs_no_request() {
    const DELAY: Duration = Duration::from_millis(50);
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let agents: Vec<Agent> = (0..3).map(|_| Agent::start(Place::Here, &[])).collect();
    let links: Vec<Proxy> =
        agents.iter().map(|agent| Proxy::start(agent.address, DELAY, 100)).collect();
    let named: Vec<String> = links.iter().map(|link| link.address.to_string()).collect();
    let report = folder.path().join("report.json");
    let out = report.to_str().expect("text");
    let load = ["--rate", "300", "--duration", "10s", "--warmup", "0s", "--wait", "sleep"];
    let raw = folder.path().join("raw");
    let raw = raw.to_str().expect("text");
    let args = [&target.url(), "--agents", &named.join(","), "--out", out, "--raw", raw];
    let args = [&args[..], &load, &["--allow-invalid"]].concat();
    let ended = controller(Place::Here, &args).ends_within(LONGEST);
    let (carried, lost) = links
        .iter()
        .map(Proxy::segments)
        .fold((0, 0), |sum, link| (sum.0 + link.0, sum.1 + link.1));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(0 < lost, "{lost} of {carried}");
    let report = document(&report);
    assert_eq!((&report["partial"], &report["interrupted"]), (&json!(false), &json!(false)));
    let received = target.received();
    assert_eq!(report["counts"]["sent"], received);
    assert_eq!(report["samples"]["written"], report["counts"]["intended"]);
    let clock = |agent: &Value| {
        let error = agent["synchronization"]["offset_error_ns"].as_u64().expect("a length");
        let skew = agent["start_skew_us"].as_f64().expect("a length");
        (error / 1_000_000, skew.abs() / 1e3)
    };
    for agent in report["per_agent"].as_array().expect("agents") {
        let (error_ms, skew_ms) = clock(agent);
        println!("clock within {error_ms} ms, first request {skew_ms:.1} ms late");
        // Both ways take the delay, and half of that is unknown.
        assert!((50..200).contains(&error_ms), "{error_ms} ms");
    }
    println!("{received} requests, none lost; {lost} of {carried} segments were repeated");
}

#[test]
fn a_run_whose_controller_died_before_it_collected_is_whole_unless_an_agent_is_missing() {
    const RUN: [&str; 8] =
        ["--rate", "300", "--duration", "1500ms", "--warmup", "0s", "--wait", "sleep"];
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let agents: Vec<Agent> = (0..3).map(|_| Agent::start(Place::Here, &[])).collect();
    let raw = folder.path().join("raw");
    let raw = raw.to_str().expect("text");
    let (url, all) = (target.url(), addresses(&agents));
    let begin = [&[url.as_str(), "--agents", &all, "--raw", raw], &RUN[..]].concat();
    let mut first = controller(Place::Here, &begin);
    first.wait_until("it names its run", |first| first.stderr().contains("Run "));
    first.signal("STOP");
    // The run ends before the lease does.
    wait_until("the agents keep their reports", || {
        agents.iter().all(|agent| !agent.kept().is_empty())
    });
    let run = run_of(&first);
    first.signal("KILL");
    drop(first);
    let received = target.received();
    let report = folder.path().join("report.json");
    let resume = |agents: &str, words: &[&str]| {
        let out = ["--resume", &run, "--agents", agents, "--out", report.to_str().expect("text")];
        controller(Place::Here, &[&out[..], words].concat()).ends_within(LONGEST)
    };
    // As the run was begun, with its raw samples.
    let same = [&[url.as_str(), "--raw", raw, "--allow-invalid"], &RUN[..]].concat();
    let ended = resume(&all, &same);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let whole = document(&report);
    assert_eq!((&whole["partial"], &whole["interrupted"]), (&json!(false), &json!(false)));
    assert_eq!(whole["counts"]["sent"], received);
    assert_eq!(whole["samples"]["written"], whole["counts"]["intended"]);
    let verified = binary().arg("verify").arg(&report).args(["--raw", raw]).output();
    let verified = verified.expect("it runs");
    assert!(verified.status.success(), "{}", said(&verified));
    // The others know of an agent that isn't asked.
    let two = addresses(&agents[..2]);
    let ended = resume(&two, &[]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.stderr.contains("--raw FOLDER collects them"), "{ended:?}");
    let partial = document(&report);
    assert_eq!((&partial["partial"], &partial["interrupted"]), (&json!(true), &json!(false)));
    let lost = &partial["agent_lost"];
    assert_eq!(lost.as_array().map(Vec::len), Some(1));
    assert_eq!(lost[0]["name"], agents[2].address.to_string());
    assert_eq!(lost[0]["share"], whole["per_agent"][2]["config"]["share"]);
    let verified = binary().arg("verify").arg(&report).output().expect("it runs");
    assert!(verified.status.success(), "{}", said(&verified));
    let third = &whole["per_agent"][2]["counts"]["sent"];
    let third = third.as_u64().expect("a count");
    assert_eq!(partial["counts"]["sent"], received - third, "nothing is scaled up");
    // One that ended since is named.
    agents[2].process.signal("KILL");
    let ended = resume(&all, &[]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let line = format!("agent {}: can't be reached", agents[2].address);
    assert!(ended.stderr.contains(&line), "{ended:?}");
    // Another plan, and another run.
    let other = [&[url.as_str()], &RUN[2..]].concat();
    let ended = resume(&two, &[&other[..], &["--rate", "301"]].concat());
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("that run had another plan; "), "{ended:?}");
    let none = "0123456789abcdef";
    let words = ["--resume", none, "--agents", &two];
    let ended = controller(Place::Here, &words).ends_within(LONGEST);
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.stderr.contains(&format!("no results of run {none}")), "{ended:?}");
}

#[test]
fn an_agent_without_room_for_its_report_sends_on_and_says_that_it_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let mut agents = [Agent::start_on_a_small_disk(&[]), Agent::start(Place::Here, &[])];
    let (url, all) = (target.url(), addresses(&agents));
    let raw = folder.path().join("raw");
    let raw = raw.to_str().expect("text");
    let args = [url.as_str(), "--agents", &all, "--raw", raw];
    let mut first = controller(Place::Here, &[&args[..], &LONG].concat());
    // Its disk is full long before.
    first.wait_until("requests come", |first| {
        1_000 < target.received() && first.stderr().contains("Run ")
    });
    let run = run_of(&first);
    drop(first);
    agents[0]
        .process
        .wait_until("its report is lost", |agent| agent.stdout().contains("report lost ("));
    let said = agents[0].process.stdout();
    println!("{}", said.lines().last().expect("a line"));
    assert!(said.contains("No space left"), "{said}");
    wait_until("the other keeps its report", || !agents[1].kept().is_empty());
    let out = folder.path().join("report.json");
    let args = ["--resume", &run, "--agents", &all, "--out", out.to_str().expect("text")];
    let ended = controller(Place::Here, &args).ends_within(LONGEST);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let line = format!("agent {}: refused: it keeps no results of run {run}", agents[0].address);
    assert!(ended.stderr.contains(&line), "{ended:?}");
    let report = document(&out);
    assert_eq!(report["agent_lost"][0]["name"], agents[0].address.to_string());
    assert_eq!(report["per_agent"].as_array().map(Vec::len), Some(1));
    // It serves the next.
    let args = [url.as_str(), "--agents", &all];
    let ended = controller(Place::Here, &[&args[..], &SHORT].concat()).ends_within(LONGEST);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// A group of processes with little memory, of the first version of cgroups.
struct MemoryGroup(String);

impl MemoryGroup {
    /// `None` where none can be made.
    fn new(limit: &str) -> Option<MemoryGroup> {
        let group = format!("/sys/fs/cgroup/memory/truetail-{}", std::process::id());
        fs::create_dir(&group).ok()?;
        let group = MemoryGroup(group);
        fs::write(format!("{}/memory.limit_in_bytes", group.0), limit).ok()?;
        Some(group)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // After a failed test it may not be empty.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn an_agent_that_runs_out_of_memory_is_lost_and_named() {
    let Some(MemoryGroup(group)) = &MemoryGroup::new("96M") else {
        println!("Skipped: no memory cgroup can be made.");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let report = folder.path().join("report.json");
    {
        // The kernel ends the agent, not what takes the memory.
        let script = format!(
            "echo 1000 >/proc/self/oom_score_adj; echo $$ >{group}/tasks; \
                              exec \"$0\" \"$@\""
        );
        let mut limited = Command::new("sh");
        limited.args(["-c", &script, BINARY]).envs(NO_CACHE);
        let agents =
            [Agent::start_as(&mut limited, Place::Here, &[]), Agent::start(Place::Here, &[])];
        let (url, all) = (target.url(), addresses(&agents));
        let args = [url.as_str(), "--agents", &all, "--out", report.to_str().expect("text")];
        let mut controller = controller(Place::Here, &[&args[..], &LONG].concat());
        controller.wait_until("requests come", |_| 300 < target.received());
        // `tail` keeps what it reads, until the group has no more.
        let take = "head -c 300M /dev/zero | tail -c 300M >/dev/null";
        let script = format!("echo $$ >{group}/tasks; {take}");
        let began = Instant::now();
        let _taker = Process::start(Command::new("sh").args(["-c", &script]));
        let ended = controller.ends_within(LONGEST);
        println!("The controller ended {:?} after memory was taken.", began.elapsed());
        assert_eq!(ended.code, Some(5), "{ended:?}");
        assert!(ended.stderr.contains(&agents[0].address.to_string()), "{ended:?}");
        let ends = agents.into_iter().next().expect("an agent").process.ends_within(LONGEST);
        assert_eq!(ends.code, None, "a signal ended it: {ends:?}");
    }
    let killed = fs::read_to_string(format!("{group}/memory.oom_control")).expect("a group");
    assert!(!killed.contains("oom_kill 0"), "{killed}");
    let report = document(&report);
    assert_eq!(report["partial"], true);
    // Of what it had sent, only its last progress is known.
    let reported = report["agent_lost"][0]["reported"]["answered"].as_u64().expect("a count");
    let sent = report["counts"]["sent"].as_u64().expect("a count");
    let received = target.received();
    println!("{received} received, {sent} in the report, {reported} reported by the lost agent");
    assert!(sent + reported <= received);
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
