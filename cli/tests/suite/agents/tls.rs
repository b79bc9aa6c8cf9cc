//! Runs of several agents over TLS: the issuers they trust, and handshakes and responses that equal
//! the target's ledger.

use std::path::Path;

use serde_json::Value;

use super::processes::{Agent, Ended, LONGEST, Place, addresses, controller};
use crate::support::{Target, binary, document, said};

/// A target over TLS in this folder, its issuer in `ca.pem`, its ledger in `ledger.json`.
fn target(folder: &Path) -> Target {
    let path = |name: &str| folder.join(name).display().to_string();
    Target::start(&["--tls", "--write-cacert", &path("ca.pem"), "--ledger", &path("ledger.json")])
}

/// A run of these agents, with its report in `report.json`.
fn run(folder: &Path, url: &str, agents: &[Agent], flags: &[&str]) -> Ended {
    let report = folder.join("report.json");
    let all = addresses(agents);
    let length = ["--duration", "1s", "--warmup", "0s", "--wait", "sleep", "--allow-invalid"];
    let out = ["--details", "--out", report.to_str().expect("text")];
    let args = [&[url, "--agents", &all], &length[..], &out, flags].concat();
    controller(Place::Here, &args).ends_within(LONGEST)
}

#[test]
fn handshakes_and_responses_of_all_agents_are_those_of_the_ledger() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = target(folder.path());
    // OpenSSL and rustls read the system's issuers from here, if it is set.
    let issuer = folder.path().join("ca.pem");
    let agents: Vec<Agent> = (0..3)
        .map(|_| Agent::start_as(binary().env("SSL_CERT_FILE", &issuer), Place::Here, &[]))
        .collect();
    let (mut answered, mut full, mut resumed) = (0, 0, 0);
    for flags in [
        &["--rate", "300", "--keepalive", "off"][..],
        &["--rate", "300", "--keepalive", "off", "--tls-session", "resume"],
        &["--conns", "6"],
    ] {
        let ended = run(folder.path(), &target.url, &agents, flags);
        assert_eq!(ended.code, Some(0), "{flags:?}: {ended:?}");
        assert!(ended.stdout.contains("\ntls              TLS 1.3; TLS_"), "{}", ended.stdout);
        let report = folder.path().join("report.json");
        let output = binary().args(["verify", "-q"]).arg(&report).output().expect("it runs");
        assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()), "{flags:?}");
        let report = document(&report);
        let count = |part: &Value, of: &str| part["tls"][of].as_u64().expect("a count");
        for of in ["full", "resumed"] {
            let parts = report["per_agent"].as_array().expect("a list");
            let sum: u64 = parts.iter().map(|part| count(part, of)).sum();
            assert_eq!(sum, count(&report, of), "{flags:?}: {of}");
        }
        assert_eq!(0 < count(&report, "resumed"), flags.contains(&"resume"), "{}", report["tls"]);
        answered += report["counts"]["answered"].as_u64().expect("a count");
        full += count(&report, "full");
        resumed += count(&report, "resumed");
    }
    target.interrupt();
    let ledger = document(&folder.path().join("ledger.json"));
    assert_eq!(ledger["answered"].as_u64(), Some(answered));
    let message = &ledger["connections"]["handshakes"];
    // Each agent tries one before each run.
    let expected = (Some(full + 9), Some(resumed), Some(0));
    let count = |of: &str| message[of].as_u64();
    assert_eq!((count("full"), count("resumed"), count("failed")), expected, "{message}");
}

#[test]
fn agents_trust_what_their_system_trusts_and_read_no_file_of_the_controller() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = target(folder.path());
    let agents = [Agent::start(Place::Here, &[]), Agent::start(Place::Here, &[])];
    let ended = run(folder.path(), &target.url, &agents, &["--rate", "100"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let words = "its certificate was issued by `CN=truetail issuer ";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);

    let ended = run(folder.path(), &target.url, &agents, &["--rate", "100", "--cacert", "ca.pem"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("--cacert"), "{}", ended.stderr);

    let ended = run(folder.path(), &target.url, &agents, &["--rate", "100", "--insecure"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(document(&folder.path().join("report.json"))["tls"]["insecure"], true);
}
