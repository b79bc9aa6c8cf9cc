//! The command `agent` as its operator sees it: its refusals, its output, and how a signal ends it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::agents::processes::wait_until;
use crate::support::{Target, binary, bounded, document, first_line, said, signal};

/// The agent, on a free port and with this folder for its reports, unless they are given.
fn agent(state: &Path, args: &[&str]) -> Command {
    let mut command = binary();
    command.env_remove("TRUETAIL_KEY").arg("agent").args(args);
    if !args.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    if !args.contains(&"--state-dir") {
        command.arg("--state-dir").arg(state);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ended(mut command: Command) -> Output {
    bounded(command.spawn().expect("the binary runs"))
}

/// Starts it, and returns it with its first line.
fn listening(command: &mut Command) -> (Child, String) {
    let mut child = command.spawn().expect("the binary runs");
    let line = first_line(&mut child);
    (child, line)
}

#[test]
fn bad_flags_of_an_agent_are_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = folder.path().join("short");
    fs::write(&short, "secret\n").expect("written");
    let short = short.to_str().expect("text");
    let nobody = folder.path().join("nobody");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = taken.local_addr().expect("an address").to_string();
    for (args, code, words) in [
        (
            &["--listen", "0.0.0.0:0"][..],
            2,
            "--listen 0.0.0.0:0: an agent that others can reach needs a key; give --key-file",
        ),
        (&["--key-file", nobody.to_str().expect("text")], 2, "can't be read (No such file"),
        (&["--key-file", short], 2, "a key of 6 bytes, must be 32 to 1024; make one with"),
        (&["--listen", "here"], 2, "--listen here: invalid address: give IP:PORT"),
        (&["--listen", &taken], 1, "Address already in use"),
        (&["--cores", "4000"], 2, "--cores 4000: core 4000 is not available to this process"),
        (
            &["--source-addresses", "192.0.2.1"],
            2,
            "--source-addresses 192.0.2.1: not an address of this machine",
        ),
        (&["--allow-target", "host"], 2, "--allow-target host: invalid target: give HOST"),
        (&["--max-rate", "0"], 2, "--max-rate 0: "),
        (&["--max-conns", "0"], 2, "--max-conns 0: "),
        (&["--max-duration", "ten"], 2, "--max-duration ten: "),
        (
            &["--state-dir", "/dev/null/kept"],
            2,
            "--state-dir /dev/null/kept: can't be written (Not a directory",
        ),
        (&["--key", "secret"], 2, "--key"),
    ] {
        let output = ended(agent(folder.path(), args));
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
        assert!(!said.contains("secret\n"), "{said}");
    }
    // The environment's key counts as well, and is never shown.
    let mut command = agent(folder.path(), &[]);
    let output = ended({
        command.env("TRUETAIL_KEY", "too-short");
        command
    });
    let said = said(&output);
    assert!(
        said.contains("TRUETAIL_KEY: a key of 9 bytes") && !said.contains("too-short"),
        "{said}"
    );
}

#[test]
fn an_agent_shows_where_it_listens_and_a_signal_ends_it_in_good_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("new/folder");
    for name in ["INT", "TERM"] {
        let (child, line) = listening(&mut agent(&state, &[]));
        assert!(line.contains("Z listening on 127.0.0.1:"), "{line}");
        assert!(line.contains(" (no key), control plane on core "), "{line}");
        signal(&child, name);
        let output = bounded(child);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", said(&output));
        assert_eq!(said(&output), "", "{name}");
    }
    assert!(kept_files(&state).is_empty());
    let key = folder.path().join("key");
    fs::write(&key, "0123456789abcdef0123456789abcdef\n").expect("written");
    let key = key.to_str().expect("text");
    let args = ["--key-file", key, "--listen", "0.0.0.0:0", "--once"];
    let (child, line) = listening(&mut agent(&state, &args));
    assert!(line.contains("Z listening on 0.0.0.0:"), "{line}");
    assert!(line.contains(" (controllers need the key), "), "{line}");
    signal(&child, "TERM");
    assert_eq!(bounded(child).status.code(), Some(0));
}

/// A controller that has this agent load this target for a minute.
fn controller(agent: &str, target: &Target, samples: Option<&Path>) -> Child {
    let address = agent.split_whitespace().nth(3).expect("where it listens");
    let mut command = binary();
    command.args(["controller", &target.url, "--agents", address, "--rate", "200", "--quiet"]);
    command.args(["--duration", "60s", "--warmup", "0s", "--wait", "sleep", "--allow-invalid"]);
    if let Some(folder) = samples {
        command.arg("--raw").arg(folder);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

/// The files that an agent has kept in its folder.
fn kept_files(state: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(state).expect("its folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_none_or(|ending| ending != "lock"));
    files
}

/// The report that an agent has kept, and whether it fits the samples.
fn kept(state: &Path) -> (Value, bool) {
    let files = kept_files(state);
    let of =
        |ending: &str| files.iter().find(|file| file.extension().is_some_and(|is| is == ending));
    let report = of("json").unwrap_or_else(|| panic!("no report: {files:?}"));
    let samples = of("samples");
    let mut verify = binary();
    verify.arg("verify").arg(report);
    if let Some(samples) = samples {
        verify.arg("--raw").arg(samples);
    }
    let output = verify.output().expect("the binary runs");
    assert!(output.status.success(), "{}", said(&output));
    (document(report), samples.is_some())
}

#[test]
fn a_signal_during_a_run_ends_the_load_and_keeps_the_report() {
    let target = Target::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let (child, line) = listening(&mut agent(&state, &[]));
    let samples = folder.path().join("samples");
    let mut controlling = controller(&line, &target, Some(&samples));
    target.wait_for_requests(&mut controlling, 20);
    signal(&child, "TERM");
    let output = bounded(child);
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    let message = said(&output);
    let words = |sent: u64| format!(": the agent was asked to end; {sent} sent, report kept in ");
    assert!(message.contains(&words(target.received())), "{message}");
    let (report, has_samples) = kept(&state);
    assert_eq!(report["uncollected"], "the agent was asked to end");
    assert_eq!(report["counts"]["sent"], target.received());
    assert!(has_samples);
    let output = bounded(controlling);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
}

#[test]
fn an_agents_output_is_a_record_of_what_ran() {
    let target = Target::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let began = SystemTime::now();
    let (child, line) = listening(&mut agent(folder.path(), &["--max-conns", "1000"]));
    let address = line.split_whitespace().nth(3).expect("where it listens");
    let run = |more: &[&str]| {
        let mut command = binary();
        command.args(["controller", &target.url, "--agents", address, "--rate", "200", "--quiet"]);
        command.args(["--duration", "1s", "--warmup", "0s", "--wait", "sleep", "--allow-invalid"]);
        bounded(
            command
                .env("USER", "ann\nrun begun")
                .args(more)
                .stdout(Stdio::piped())
                .spawn()
                .expect("it runs"),
        )
    };
    assert_eq!(run(&["--conns", "50"]).status.code(), Some(0));
    let received = target.received();
    assert_eq!(run(&["--conns", "1001"]).status.code(), Some(5));
    let mut lost = controller(&line, &target, None);
    target.wait_for_requests(&mut lost, received + 20);
    lost.kill().expect("it is ours");
    lost.wait().expect("it ends");
    wait_until("its report is kept", || !kept_files(folder.path()).is_empty());
    signal(&child, "TERM");
    let printed = said(&bounded(child));
    let mut lines = printed.lines().map(|line| {
        let (at, what) = line.split_once(' ').expect("a time");
        let at = humantime::parse_rfc3339(at).expect("a time");
        assert!(began <= at + Duration::from_millis(1) && at <= SystemTime::now(), "{line}");
        what
    });
    let (demand, sent) = (
        ": 100 % of the load, at most 200 per second on 50 connections for at most 1s, to 127.0.0.1:",
        format!(": {received} sent, {received} answered, report collected"),
    );
    for (begins, contains) in [
        ("run accepted for annrun begun@", demand),
        ("run begun for annrun begun@", ", process "),
        ("run ended for annrun begun@", &sent),
        ("refused annrun begun@", ": --conns 1001: this agent's part of them is 1001, above its"),
        ("run accepted for ", " for at most 1m, to 127.0.0.1:"),
        ("run begun for ", ", process "),
        ("run ended for ", ": the controller's session ended; "),
    ] {
        let line = lines.next().expect("a line");
        assert!(line.starts_with(begins) && line.contains(contains), "{line}");
        let has_address = line.contains(" at 127.0.0.1:");
        assert_eq!(
            has_address,
            !begins.contains("begun for") && !begins.contains("ended"),
            "{line}"
        );
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn an_agent_for_one_run_exits_by_the_fate_of_its_report() {
    let target = Target::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let (child, line) = listening(&mut agent(folder.path(), &["--once"]));
    let mut controlling = controller(&line, &target, None);
    target.wait_for_requests(&mut controlling, 20);
    signal(&controlling, "INT");
    assert_eq!(bounded(controlling).status.code(), Some(130));
    let output = bounded(child);
    let message = said(&output);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(message.ends_with(" answered, report collected\n"), "{message}");
    assert!(kept_files(folder.path()).is_empty());

    let (child, line) = listening(&mut agent(folder.path(), &["--once"]));
    let before = target.received();
    let mut controlling = controller(&line, &target, None);
    target.wait_for_requests(&mut controlling, before + 20);
    controlling.kill().expect("it is ours");
    controlling.wait().expect("it ends");
    let output = bounded(child);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let (report, has_samples) = kept(folder.path());
    assert_eq!(report["uncollected"], "the controller's session ended");
    assert!(!has_samples);
}

#[test]
fn without_a_home_an_agent_needs_a_folder() {
    let mut command = binary();
    command.args(["agent", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let output = ended({
        command.env("XDG_STATE_HOME", "relative").env("HOME", "relative").stderr(Stdio::piped());
        command
    });
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--state-dir '': there is no home folder"), "{said}");
}
