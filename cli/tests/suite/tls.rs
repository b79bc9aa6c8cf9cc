//! The binary over TLS against its own target: counts as in the ledger, the summary, and refusals.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::{Target, binary, document, said};

/// A TLS target in this folder, with its issuer in `ca.pem` and its ledger in `ledger.json`.
fn target(folder: &Path) -> Target {
    let path = |name: &str| folder.join(name).display().to_string();
    let target = Target::start(&[
        "--tls",
        "--write-cacert",
        &path("ca.pem"),
        "--ledger",
        &path("ledger.json"),
    ]);
    assert!(target.url.starts_with("https://"), "{}", target.url);
    target
}

/// A run in this folder, with any verdict, and its report in `report.json`.
fn run(folder: &Path, url: &str, flags: &[&str]) -> Output {
    let mut command = binary();
    command.args(["run", url, "--warmup", "0s", "--duration", "1s", "--allow-invalid"]);
    command.args(["--details", "--out", "report.json"]).args(flags).current_dir(folder);
    command.output().expect("the binary runs")
}

/// The report of a successful run, which `verify` accepts, and its output.
fn ran(folder: &Path, url: &str, flags: &[&str]) -> (Value, String) {
    let output = run(folder, url, flags);
    assert_eq!(output.status.code(), Some(0), "{flags:?}: {}", said(&output));
    let verified = binary().args(["verify", "-q", "report.json"]).current_dir(folder).output();
    assert_eq!(said(&verified.expect("it runs")), "", "{flags:?}");
    (document(&folder.join("report.json")), said(&output))
}

#[test]
fn a_run_over_tls_is_the_same_in_ledger_and_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = target(folder.path());
    let mut answered = 0;
    let mut handshakes = [0, 0];
    for flags in [
        &["--rate", "500"][..],
        &["--conns", "4"],
        &["--conns", "2", "--pipeline", "4"],
        &["--rate", "200", "--keepalive", "off"],
        &["--rate", "200", "--keepalive", "off", "--tls-session", "resume"],
        &["--rate", "200", "--stamps", "user", "--raw", "raw.bin"],
    ] {
        let (report, text) =
            ran(folder.path(), &target.url, &[flags, &["--cacert", "ca.pem"]].concat());
        let counts = &report["counts"];
        assert_eq!(counts["answered"], counts["intended"], "{flags:?}: {counts}");
        answered += counts["answered"].as_u64().expect("a count");
        let tls = &report["tls"];
        let of = |name: &str| tls[name].as_u64().expect("a count");
        handshakes[0] += of("full");
        handshakes[1] += of("resumed");
        assert_eq!(0 < of("resumed"), flags.contains(&"resume"), "{tls}");
        assert_eq!(tls["version"], "TLS 1.3");
        assert!(text.contains("\ntls              TLS 1.3; TLS_"), "{text}");
        let in_window = tls["handshake_time"]["count"].as_u64().expect("a count");
        assert_eq!(text.contains("\nhandshakes       p50 "), 0 < in_window, "{text}");
    }
    target.interrupt();
    let ledger = document(&folder.path().join("ledger.json"));
    assert_eq!(ledger["answered"].as_u64(), Some(answered));
    let served = &ledger["connections"]["handshakes"];
    let count = |name: &str| served[name].as_u64().expect("a count");
    // Each run's first is its probe.
    let expected = [handshakes[0] + 6, handshakes[1]];
    assert_eq!(([count("full"), count("resumed")], count("failed")), (expected, 0), "{served}");
}

#[test]
fn a_target_that_is_not_trusted_is_refused_with_its_issuer_and_the_cure() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = target(folder.path());
    let output = run(folder.path(), &target.url, &["--rate", "10"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let start = format!(
        "truetail: --target {}: its certificate was issued by `CN=truetail issuer ",
        target.url
    );
    assert!(text.starts_with(&start) && text.contains("--cacert FILE"), "{text}");
    assert!(!folder.path().join("report.json").exists());

    let (report, text) = ran(folder.path(), &target.url, &["--rate", "100", "-k"]);
    assert_eq!(report["tls"]["insecure"], true);
    assert!(text.contains("any certificate was accepted (--insecure)"), "{text}");

    let other = target.url.replace("127.0.0.1", "localhost");
    let (report, _) = ran(folder.path(), &other, &["--rate", "100", "--cacert", "ca.pem"]);
    assert_eq!(report["tls"]["insecure"], false, "its certificate has that name too");
    let flags = [
        "--rate",
        "10",
        "--cacert",
        "ca.pem",
        "--connect-to",
        target.url.trim_start_matches("https://"),
    ];
    let flags = flags.map(|flag| flag.trim_end_matches('/'));
    let text = said(&run(folder.path(), "https://elsewhere.test/", &flags));
    assert!(text.contains("(tls_wrong_name)") && text.contains("elsewhere.test"), "{text}");
}
