//! Raw samples that an agent or the controller has no room for: they are lost, and reported as
//! lost.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::processes::{Agent, LONGEST, Place, Process, Target, addresses};
use crate::support::{BINARY, NO_CACHE, binary, document, said};

/// A run with samples, whose report is `report.json`, and its samples in `disk/raw`.
const RUN: [&str; 17] = [
    "--rate",
    "2k",
    "--conns",
    "20",
    "--duration",
    "1s",
    "--warmup",
    "0s",
    "--wait",
    "sleep",
    "--raw",
    "disk/raw",
    "--out",
    "report.json",
    "--quiet",
    "--allow-invalid",
    "--agents",
];

/// The verdict's reasons about samples, once the report has been verified.
fn samples_lost(report: &Path) -> Vec<Value> {
    let mut verify = binary();
    let output = verify.arg("verify").arg(report).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = document(report);
    let reasons = report["verdict"]["reasons"].as_array().expect("reasons");
    let mut reasons = reasons.clone();
    reasons.retain(|reason| reason["code"] == "raw_samples_lost");
    reasons
}

/// True if all samples of an agent's part are lost.
fn is_lost(part: &Value) -> bool {
    let samples = &part["samples"];
    samples["file"].is_null()
        && samples["written"] == 0
        && samples["lost"] == part["counts"]["intended"]
}

#[test]
fn an_agent_without_room_loses_its_samples_and_no_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let args = ["--cores", "0"];
    let agents = [Agent::start_on_a_small_disk(&args), Agent::start(Place::Here, &args)];
    let mut controller = binary();
    controller.current_dir(&folder).args(["controller", &target.url()]).args(RUN);
    let ended = Process::start(controller.arg(addresses(&agents))).ends_within(LONGEST);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = folder.path().join("report.json");
    let reasons = samples_lost(&report);
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert_eq!(reasons[0]["agent"], agents[0].address.to_string(), "{reasons:?}");
    let cure = reasons[0]["cure"].as_str().expect("text");
    assert!(cure.contains("the agent a --state-dir"), "{cure}");
    let report = document(&report);
    let (limited, other) = (&report["per_agent"][0], &report["per_agent"][1]);
    assert!(is_lost(limited), "{}", limited["samples"]);
    assert_eq!(report["counts"]["sent"], target.received(), "the load goes on");
    assert_eq!(other["samples"]["written"], other["counts"]["intended"]);
    assert!(report["samples"]["file"].is_null(), "{}", report["samples"]);
    let files = fs::read_dir(folder.path().join("disk/raw")).expect("a folder");
    let files: Vec<String> =
        files.map(|file| file.expect("a file").path().display().to_string()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let whole = other["samples"]["file"].as_str().expect("a file");
    assert!(files[0].ends_with(whole), "{files:?}: {whole}");
}

#[test]
fn a_controller_without_room_loses_all_samples_and_reports_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Place::Here);
    let agents = [(); 2].map(|()| Agent::start(Place::Here, &["--cores", "0"]));
    // The disk is the controller's own. The script lists what the run left there.
    let script =
        "mount -t tmpfs -o size=16k none disk && \"$0\" \"$@\"; echo $? >code; ls disk/raw >left";
    fs::create_dir(folder.path().join("disk")).expect("a folder");
    let mut controller = Command::new("unshare");
    controller
        .args(["--map-root-user", "--mount", "sh", "-c", script, BINARY, "controller"])
        .envs(NO_CACHE)
        .arg(target.url())
        .args(RUN)
        .arg(addresses(&agents))
        .current_dir(&folder);
    let ended = Process::start(&mut controller).ends_within(LONGEST);
    let text = |name: &str| fs::read_to_string(folder.path().join(name)).expect("written");
    assert_eq!((text("code").as_str(), text("left").as_str()), ("0\n", ""), "{ended:?}");
    let report = folder.path().join("report.json");
    let reasons = samples_lost(&report);
    assert!(!reasons.is_empty(), "{ended:?}");
    for reason in reasons {
        let cure = reason["cure"].as_str().expect("text");
        assert!(cure.starts_with("write --raw to a disk with more room"), "{cure}");
    }
    let report = document(&report);
    let parts = report["per_agent"].as_array().expect("parts");
    assert!(parts.iter().all(is_lost), "{parts:?}");
    assert!(report["samples"]["file"].is_null(), "{}", report["samples"]);
}
