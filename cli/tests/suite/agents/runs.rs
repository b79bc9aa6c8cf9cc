//! Runs of several agents: one schedule, one start, one distribution.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::network::Network;
use super::processes::{
    Agent, KEY, LONGEST, Place, Target, addresses, controller, key_file, wait_until,
};
use crate::support::{binary, document, said};

/// The effects of a machine with too few cores for all of this, which no test here is about.
const TOO_FEW_CORES: [&str; 5] =
    ["cpu_stolen", "cpu_contended", "generator_late", "client_share", "schedule_not_as_planned"];

/// The factor for windows and rates.
fn scale() -> u64 {
    let scale = std::env::var("TEST_AGENTS_SCALE");
    scale.map_or(1, |scale| scale.parse().expect("TEST_AGENTS_SCALE is a whole number"))
}

/// The digest of a report's arrivals.
fn digest(report: &Value) -> &str {
    report["config"]["schedule_digest"].as_str().expect("a digest")
}

/// The codes of a verdict's reasons.
fn codes(report: &Value) -> Vec<&str> {
    let reasons = report["verdict"]["reasons"].as_array().expect("reasons");
    reasons.iter().map(|reason| reason["code"].as_str().expect("a code")).collect()
}

/// The output of `truetail verify` for a report with its samples, without the lines that agree.
fn verify(report: &Path, samples: &Path) -> String {
    let mut verify = binary();
    let output =
        verify.arg("verify").arg(report).arg("--raw").arg(samples).output().expect("it runs");
    let said = said(&output);
    let lines = said.lines().filter(|line| !line.starts_with("ok "));
    let said = lines.collect::<Vec<_>>().join("\n");
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

/// A run on one machine with the same plan, for its digest.
fn digest_of_one(target: &Target, load: &[&str], folder: &Path) -> String {
    let file = folder.join("one.json");
    let mut run = binary();
    run.args(["run", &target.url()]).args(load).arg("--out").arg(&file);
    let output = run.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    digest(&document(&file)).to_owned()
}

#[test]
fn three_machines_send_one_schedule_and_report_one_distribution() {
    let Some(network) = Network::new(5) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let key = key_file(folder.path(), "key", KEY);
    let target = Target::start(Place::On(&network, 4));
    let agents: Vec<Agent> = (0..3)
        .map(|machine| {
            let allowed = target.address.to_string();
            let args = ["--key-file", &key, "--allow-target", &allowed];
            Agent::start(Place::On(&network, machine), &args)
        })
        .collect();
    let (rate, duration) = (format!("{}", 450 * scale()), format!("{}s", 3 * scale()));
    let load = [
        ["--rate", &rate],
        ["--duration", &duration],
        ["--warmup", "500ms"],
        ["--wait", "sleep"],
        ["--seed", "7"],
    ]
    .concat();
    let (report, samples) = (path("report.json"), path("samples"));
    let url = target.url();
    let agents_flag = addresses(&agents);
    let mut args = vec![url.as_str(), "--agents", &agents_flag, "--key-file", &key];
    args.extend(load.iter().copied());
    args.extend(["--allow-invalid", "--out", report.to_str().expect("text")]);
    args.extend(["--raw", samples.to_str().expect("text")]);
    let ended = controller(Place::On(&network, 3), &args)
        .ends_within(Duration::from_secs(3 * scale()) + LONGEST);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    println!("{}", ended.stdout);

    let document = document(&report);
    println!("{}", verify(&report, &samples));
    // A target here, since this process has only the loopback interface.
    let here = Target::start(Place::Here);
    let load = [load.as_slice(), &["--allow-invalid"]].concat();
    assert_eq!(digest(&document), digest_of_one(&here, &load, folder.path()));
    // With other tests running, anything may happen to the generator.
    for code in codes(&document).into_iter().filter(|_| 1 < scale()) {
        assert!(TOO_FEW_CORES.contains(&code), "{code}: {}", document["verdict"]);
    }
}

#[test]
fn unequal_agents_together_offer_the_load_of_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let agents: Vec<Agent> = (0..5).map(|_| Agent::start(Place::Here, &[])).collect();
    let load = [
        "--rate",
        "500",
        "--duration",
        "1s",
        "--warmup",
        "0s",
        "--wait",
        "sleep",
        "--seed",
        "11",
        "--allow-invalid",
    ];
    let alone = digest_of_one(&target, &load, folder.path());
    for weights in ["1", "5,1,3", "1,2,3,4,7"] {
        let count = weights.split(',').count();
        let report = folder.path().join("report.json");
        let (url, few) = (target.url(), addresses(&agents[..count]));
        let before = target.received();
        let args = [
            &[url.as_str(), "--agents", &few, "--weights", weights, "--out"][..],
            &[report.to_str().expect("text")][..],
            load.as_slice(),
        ]
        .concat();
        let ended = controller(Place::Here, &args).ends_within(LONGEST);
        assert_eq!(ended.code, Some(0), "{weights}: {ended:?}");
        let document = document(&report);
        assert_eq!(digest(&document), alone, "{weights}");
        assert_eq!(document["per_agent"].as_array().map(Vec::len), Some(count), "{weights}");
        assert!(before < target.received(), "{weights}");
        fs::remove_file(report).expect("it is ours");
    }
}

#[test]
fn a_plan_means_the_same_to_agents_in_whatever_form_it_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (plan, report) = (folder.path().join("plan.toml"), folder.path().join("report.json"));
    let step = "[[scenario.step]]\nurl = '/'\nexpect.body = 'contains nothing of it'\n";
    fs::write(&plan, format!("rate = 100\n[[scenario]]\nname = 'a'\n{step}")).expect("written");
    let target = Target::start(Place::Here);
    let agents: Vec<Agent> = (0..2).map(|_| Agent::start(Place::Here, &[])).collect();
    let (url, all) = (target.url(), addresses(&agents));
    let [plan, out] = [&plan, &report].map(|file| file.to_str().expect("text"));
    for (load, figure) in [
        (&["--plan", plan, "--duration", "1s"][..], "failed_checks"),
        // Users, since the model is closed; as a table of a plan, they would be rates.
        (&["--model", "closed", "--stages", "2:300ms,4:300ms"], "answered"),
    ] {
        let more = ["--agents", &all, "--warmup", "0s", "--allow-invalid", "--out", out];
        let ended = controller(Place::Here, &[&[&*url], load, &more].concat()).ends_within(LONGEST);
        assert_eq!(ended.code, Some(0), "{load:?}: {ended:?}");
        let counts = &document(&report)["counts"];
        assert!(counts["answered"] != 0 && counts[figure] == counts["answered"], "{counts}");
        fs::remove_file(&report).expect("it is ours");
    }
}

#[test]
fn a_number_of_requests_is_for_all_agents_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json");
    let agents: Vec<Agent> = (0..2).map(|_| Agent::start(Place::Here, &[])).collect();
    for load in [&["--rate", "400"][..], &["--conns", "7"], &["--conns", "6", "--period", "20ms"]] {
        let target = Target::start(Place::Here);
        let (url, all) = (target.url(), addresses(&agents));
        let args = [
            &[url.as_str(), "--agents", &all, "--weights", "2,1", "--requests", "101"][..],
            &["--allow-invalid", "--out", report.to_str().expect("text")],
            load,
        ]
        .concat();
        let ended = controller(Place::Here, &args).ends_within(LONGEST);
        assert_eq!(ended.code, Some(0), "{load:?}: {ended:?}");
        let document = document(&report);
        assert_eq!(document["counts"]["intended"], 101, "{load:?}");
        assert_eq!(target.received(), 101, "{load:?}");
        let output = binary().args(["verify", "-q"]).arg(&report).output().expect("it runs");
        assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()), "{load:?}");
    }
}

#[test]
fn two_agents_send_over_http_2_what_the_ledger_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json");
    let agents: Vec<Agent> = (0..2).map(|_| Agent::start(Place::Here, &[])).collect();
    let stages = ["--stages", "100:300ms,100..600:400ms,200:300ms"];
    for load in [
        &["--rate", "400", "--duration", "1s"][..],
        &stages,
        &["--conns", "6", "--streams", "5", "--requests", "500"],
        &["--conns", "6", "--streams", "5", "--period", "20ms", "--duration", "1s"],
        &["--rate", "100", "--keepalive", "off", "--duration", "1s"],
    ] {
        let target = Target::start(Place::Here);
        let (url, all) = (target.url(), addresses(&agents));
        let args = [
            &[url.as_str(), "--agents", &all, "--http", "2", "--warmup", "0s"][..],
            &["--settle", "0s", "--allow-invalid", "--out", report.to_str().expect("text")],
            load,
        ]
        .concat();
        let ended = controller(Place::Here, &args).ends_within(LONGEST);
        assert_eq!(ended.code, Some(0), "{load:?}: {ended:?}");
        let document = document(&report);
        let counts = &document["counts"];
        let answered = counts["answered"].as_u64().expect("a count");
        assert!(50 < answered && counts["intended"] == answered, "{load:?}: {counts}");
        let ledger = target.ledger();
        assert_eq!([&ledger["received"], &ledger["answered"]], [answered, answered], "{load:?}");
        let parts = document["per_agent"].as_array().expect("a list");
        assert!(parts.iter().all(|part| part["counts"]["answered"] != 0), "{load:?}");
        assert_eq!(document["config"]["http"], "2", "{load:?}");
        if load.contains(&"off") {
            // Each agent has tried the target once.
            assert_eq!(ledger["connections"]["http2"].as_u64(), Some(answered + 2), "{load:?}");
        }
        let output = binary().args(["verify", "-q"]).arg(&report).output().expect("it runs");
        assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()), "{load:?}");
        fs::remove_file(&report).expect("it is ours");
    }
}

#[test]
fn a_closed_loop_of_three_agents_adds_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start_null(Place::Here);
    let agents: Vec<Agent> = (0..3).map(|_| Agent::start(Place::Here, &[])).collect();
    let duration = format!("{}ms", 500 * scale());
    for count in [1, 3] {
        let report = folder.path().join("report.json");
        let (url, few) = (target.url(), addresses(&agents[..count]));
        let args = [
            url.as_str(),
            "--agents",
            &few,
            "--conns",
            "192",
            "--duration",
            &duration,
            "--warmup",
            "0s",
            "--allow-invalid",
            "--out",
            report.to_str().expect("text"),
        ];
        let ended = controller(Place::Here, &args).ends_within(LONGEST);
        assert_eq!(ended.code, Some(0), "{count}: {ended:?}");
        let document = document(&report);
        let answered = |part: &Value| part["counts"]["answered"].as_u64().expect("a count");
        let parts = document["per_agent"].as_array().expect("a list");
        assert_eq!(parts.iter().map(answered).sum::<u64>(), answered(&document));
        println!("{count} agents: {} per second", document["rate"]["answered"]);
        fs::remove_file(report).expect("it is ours");
    }
}

#[test]
fn an_agent_keeps_no_descriptor_and_no_memory_of_the_runs_that_it_served() {
    /// The most that memory may grow in the second half of the runs: the allocator's arenas fill in
    /// the first, and a leaked run would be about 7 MiB.
    const GROWS_MIB: u64 = 32;
    let runs = 10 * scale();
    let target = Target::start(Place::Here);
    let agent = Agent::start(Place::Here, &["--cores", "0"]);
    let (url, address) = (target.url(), agent.address.to_string());
    let run = || {
        let args = [&url, "--agents", &address, "--rate", "200", "--duration", "50ms"];
        let more = ["--warmup", "0s", "--wait", "sleep", "--allow-invalid"];
        let ended = controller(Place::Here, &[&args[..], &more].concat()).ends_within(LONGEST);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    };
    // The first one opens what remains open, and its session's socket for a moment.
    run();
    thread::sleep(Duration::from_millis(500));
    let before = agent.process.descriptors();
    (0..runs / 2).for_each(|_| run());
    let half_mib = agent.process.memory_mib();
    (0..runs / 2).for_each(|_| run());
    wait_until("its descriptors are as before", || agent.process.descriptors() <= before);
    let grown_mib = agent.process.memory_mib().saturating_sub(half_mib);
    assert!(grown_mib < GROWS_MIB, "{grown_mib} MiB more than the {half_mib} after half the runs");
}
