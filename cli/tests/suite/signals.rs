//! Signals in each phase of a run: the first ends it with its results so far, the second at once.
#![expect(unsafe_code, reason = "what a signal does by default has no safe form")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use crate::phases::{FILES, Held, Phase};
use crate::support::{BINARY, NO_CACHE, Target, binary, document, signal};

/// Signals from a user or a terminal; a repeated one ends the program at once.
const USERS: [&str; 4] = ["INT", "TERM", "HUP", "QUIT"];
/// Signals that the kernel sends repeatedly at a limit.
const LIMITS: [&str; 2] = ["XFSZ", "XCPU"];

/// Lets processes started from here receive SIGHUP, even if this one was started by nohup.
fn hear_hangups() {
    // SAFETY: the default action needs no handler.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
}

#[test]
fn a_signal_ends_every_phase_with_what_there_is() {
    hear_hangups();
    for phase in Phase::ALL {
        let target = phase.target();
        for name in [&USERS[..], &LIMITS].concat() {
            let held = Held::start(phase, &target, &[]);
            signal(&held.child, name);
            let ended = held.end();
            let said = format!("{name} in {phase:?}: {}", ended.said());
            let report = ended.report().unwrap_or_else(|| panic!("no report; {said}"));
            // A run that is over can't be interrupted any more.
            let interrupted = phase != Phase::Writing;
            let code = if interrupted { 130 } else { 0 };
            assert_eq!(ended.output.status.code(), Some(code), "{said}");
            assert_eq!(report["interrupted"], interrupted, "{said}");
            assert_eq!(ended.files(), FILES, "{said}");
            if interrupted {
                ended.assert_verified();
            }
        }
        drop(target);
    }
}

#[test]
fn a_second_signal_of_the_user_ends_it_at_once_but_one_of_a_limit_never_does() {
    hear_hangups();
    let target = Phase::Writing.target();
    for name in USERS {
        let mut held = Held::start(Phase::Writing, &target, &[]);
        // Signals that are pending at once count as one, so they are sent until the second is
        // received.
        crate::support::until_ended(&mut held.child, name);
        let ended = held.end();
        assert_eq!(ended.output.status.code(), Some(130), "{name}: {}", ended.said());
        assert_eq!(ended.said(), "", "there was no more output");
        assert!(ended.report().is_none(), "it can't have been finished");
        assert_eq!(ended.files(), ["report.json", "raw.bin"], "half of the pipe, whole samples");
    }
    for name in LIMITS {
        let held = Held::start(Phase::Writing, &target, &[]);
        (0..20).for_each(|_| signal(&held.child, name));
        let ended = held.end();
        assert_eq!(ended.output.status.code(), Some(0), "{name}: {}", ended.said());
        assert_eq!(ended.report().expect("a report")["interrupted"], false);
    }
}

#[test]
fn under_nohup_a_hangup_is_ignored() {
    let target = Phase::Window.target();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", BINARY]).envs(NO_CACHE);
    let held = Held::start_as(&mut shell, Phase::Window, &target, &[]);
    signal(&held.child, "HUP");
    let (before, mut held) = (target.received(), held);
    target.wait_for_requests(&mut held.child, before + 20);
    signal(&held.child, "TERM");
    let ended = held.end();
    assert_eq!(ended.output.status.code(), Some(130), "{}", ended.said());
    target.interrupt();
}

#[test]
fn every_signal_of_the_user_ends_a_server_in_good_order() {
    hear_hangups();
    for name in USERS {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = folder.path().join("ledger.json");
        let target = Target::start(&["--ledger", ledger.to_str().expect("text")]);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
        target.end_by(name);
        assert!(document(&ledger)["received"].is_u64());
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "{name}");

        let mut server = binary()
            .args(["null-target", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        crate::support::first_line(&mut server);
        signal(&server, name);
        let output = crate::support::bounded(server);
        assert_eq!(output.status.code(), Some(0), "{name}");
    }
}

#[test]
fn a_signal_ends_calibrate_with_the_cases_that_are_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("truth.json");
    let mut command = binary();
    command.args(["calibrate", "--truth", "--quick", "--quiet", "--out"]).arg(&out);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut said = String::new();
    while !said.ends_with("\n\n") {
        assert!(0 < stdout.read_line(&mut said).expect("text"), "{said}");
    }
    signal(&child, "INT");
    stdout.read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{said}");
    let document: serde_json::Value =
        serde_json::from_slice(&fs::read(out).expect("a document")).expect("JSON");
    assert!(document["interrupted"] == true && document["judgement"].is_string(), "{document:#}");
    let cases = document["cases"].as_array().expect("cases");
    assert!((1..10).contains(&cases.len()), "{said}");
    let ended = format!(", interrupted after {}\n", cases.len());
    assert!(said.contains(" of 10 cases passed") && said.contains(&ended), "{said}");
    assert_eq!(cases[0]["intended"], cases[0]["ledger"], "{said}");
}
