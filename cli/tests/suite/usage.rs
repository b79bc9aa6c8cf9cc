//! Usage errors of the binary: one line with the flag, the value and the cure, the right exit code,
//! and nothing started.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{BINARY, binary};

fn truetail(args: &[&str]) -> Output {
    binary().args(args).output().expect("the binary runs")
}

/// Runs the binary and expects one line on stderr with all of `words`, nothing on stdout, and this
/// exit code.
fn refused(args: &[&str], code: i32, words: &[&str]) {
    let output = truetail(args);
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?} wrote to stdout");
    assert_eq!(stderr.lines().count(), 1, "{args:?} is one line: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{args:?}: `{word}` is missing in: {stderr}");
    }
}

/// A URL that accepts connections for as long as the listener lives.
fn listening() -> (TcpListener, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    (listener, url)
}

#[test]
fn a_url_of_another_scheme_is_refused() {
    refused(&["run"], 2, &["--target '': the URL is missing", "http://"]);
    refused(&["run", "gopher://127.0.0.1/"], 2, &["--target", "gopher", "http nor https"]);
    refused(&["run", "ftp://127.0.0.1/"], 2, &["--target ftp://", "http nor https", "http://"]);
    refused(&["ftp://127.0.0.1/"], 2, &["--target ftp://", "http nor https", "http://"]);
    refused(&["run", "127.0.0.1:x"], 2, &["--target http://127.0.0.1:x", "invalid"]);
    refused(&["run", "http://x/", "--target", "http://y/"], 2, &["--target"]);
}

#[test]
fn a_full_output_is_refused_before_anything_is_sent() {
    let (listener, url) = listening();
    listener.set_nonblocking(true).expect("a socket");
    for flag in ["--out", "--csv", "--ndjson", "--junit"] {
        refused(&["run", &url, flag, "/dev/full"], 2, &[flag, "can't be written (No space left"]);
    }
    assert!(listener.accept().is_err(), "nothing was sent");
}

#[test]
fn tls_flags_are_refused_without_tls() {
    for flags in [&["--cacert", "ca.pem"][..], &["--insecure"], &["--tls-session", "resume"]] {
        let args = [&["run", "http://127.0.0.1/"], flags].concat();
        refused(&args, 2, &[flags[0], "the URL's scheme is http", "give an https URL"]);
    }
    let url = "https://127.0.0.1/";
    refused(&["run", url, "--cacert", "/none/ca.pem"], 2, &["--cacert /none/ca.pem", "can't read"]);
    refused(&["run", url, "-k", "--cert", "/none/c.pem"], 2, &["--cert /none/c.pem", "add --key"]);
}

#[test]
fn unsupported_protocols_are_named() {
    for (flag, words) in [
        ("--http2", "--http2 is --http here"),
        ("--http3", "for HTTP/3 and QUIC use h2load or oha"),
        ("--quic", "for HTTP/3 and QUIC use h2load or oha"),
        ("--ktls", "--ktls: TLS is handled by the program, not by the kernel"),
    ] {
        refused(&["run", "https://127.0.0.1/", flag], 2, &[words, "type `truetail run https"]);
    }
}

#[test]
fn unreachable_targets_are_reported() {
    refused(
        &["run", "http://no-such-host.invalid/"],
        1,
        &["--target", "no-such-host.invalid", "check the name"],
    );
    let (listener, url) = listening();
    drop(listener);
    refused(&["run", &url], 1, &["--target", &url, "accepts no connection", "start the server"]);
}

#[test]
fn contradictory_or_impossible_values_are_refused() {
    let (_listener, url) = listening();
    let url = url.as_str();
    refused(&["run", url, "--rate", "0"], 2, &["--rate 0", "must be above 0", "20k"]);
    refused(&["run", url, "--rate", "-5"], 2, &["--rate -5", "20k"]);
    refused(&["run", url, "--rate", "fast"], 2, &["--rate fast", "20k"]);
    refused(&["run", url, "--model", "open"], 2, &["--model open", "--rate"]);
    refused(&["run", url, "--model", "half"], 2, &["--model half", "open, closed"]);
    refused(&["run", url, "--stamps", "hardware"], 2, &["--stamps hardware", "kernel, user"]);
    refused(&["run", url, "--model", "closed", "--rate", "5"], 2, &["--rate 5", "--period"]);
    refused(
        &["run", url, "--warmup", "1s", "--duration", "0s"],
        2,
        &["--duration 0s", "records nothing", "--duration 10s"],
    );
    refused(&["run", url, "--duration", "10x"], 2, &["--duration 10x", "30s"]);
    refused(&["run", url, "-n", "0"], 2, &["--requests 0", "from 1 to"]);
    refused(&["run", url, "--rate", "5", "--period", "1s"], 2, &["--rate", "--period"]);
    refused(&["sweep", url, "--rates", "1..5", "-n", "5"], 2, &["--requests 5", "--duration"]);
    refused(&["run", url, "--connect-to", "h"], 2, &["--connect-to h", "HOST:PORT"]);
    refused(&["run", url, "--resolve", "h:1:::1"], 2, &["--resolve h:1:::1", "the URL is at"]);
    refused(&["run", url, "-u", "pa55"], 2, &["--user: no colon", "USER:PASSWORD"]);
    refused(&["-c", "5"], 2, &["--target '': the URL is missing"]);
    refused(&["run", url, "--conns", "0"], 2, &["--conns 0", "from 1 to"]);
    refused(&["run", url, "--conns", "many"], 2, &["--conns many", "whole number"]);
    refused(&["run", url, "--cores", "4000"], 2, &["--cores 4000", "not available", "choose from"]);
    refused(&["run", url, "--cores", "a"], 2, &["--cores a", "0-3"]);
    refused(
        &["run", url, "--header", "A: b", "--header", "no colon"],
        2,
        &["--header #2: no colon", "Name: value"],
    );
    refused(&["run", url, "--body", "@/none/there"], 2, &["--body @/none/there", "readable"]);
    refused(&["run", url, "--queue-max", "1ms"], 2, &["--queue-max 1ms", "--overload drop"]);
    refused(&["run", url, "--source-addresses", "127.0.0.2,here"], 2, &["--source-addresses here"]);
    refused(&["run", url, "--expect-status", "9xx"], 2, &["--expect-status 9xx", "2xx,3xx"]);
    refused(
        &["run", url, "--threshold", "speed=1"],
        2,
        &["--threshold speed=1", "unknown", "busy"],
    );
    refused(
        &["run", url, "--threshold", "busy=nan"],
        2,
        &["--threshold busy=nan", "invalid threshold"],
    );
    refused(
        &["run", url, "--nonsense"],
        2,
        &["--nonsense: unknown flag", "; see `truetail run --help`"],
    );
    refused(&[url, "-Z"], 2, &["-Z: unknown flag; see `truetail run --help`"]);
    refused(&["target", "--tail-fraction", "2"], 2, &["--tail-fraction 2", "0 to 1"]);
    refused(&["target", "--tail-fraction", "-0.1"], 2, &["--tail-fraction -0.1", "0 to 1"]);
    refused(&["target", "--stall-every", "1s"], 2, &["--stall-for"]);
    refused(&["target", "--cold-requests", "5"], 2, &["--cold-latency"]);
    refused(&["target", "--fault", "reset"], 2, &["--fault-every"]);
    refused(&["target", "--fault", "close", "--fault-every", "2"], 2, &["--fault close", "repeat"]);
    refused(&["target", "--fault", "short", "--fault-every", "0"], 2, &["--fault-every 0"]);
    let pause =
        ["target", "--pause-every-requests", "500", "--pause-for", "200ms", "--cores", "0,1"];
    refused(&pause, 2, &["--pause-every-requests", "--cores 0,1", "one core"]);
    refused(&["target", "--goaway-every", "0"], 2, &["--goaway-every 0", "above zero"]);
    refused(&["target", "--window", "3000000000"], 2, &["--window 3000000000", "2147483647"]);
    refused(&["target", "--write-cacert", "ca.pem"], 2, &["--tls"]);
    for server in ["target", "null-target"] {
        let unwritable = [server, "--tls", "--write-cacert", "/none/ca.pem", "--listen", "[::1]:0"];
        refused(&unwritable, 2, &["--write-cacert /none/ca.pem", "where you may write"]);
    }
    refused(&["target", "--listen", "nowhere"], 2, &["--listen nowhere"]);
    refused(&["null-target", "--cores", "4000"], 2, &["--cores 4000", "choose from"]);
    refused(&["man", "nothing"], 2, &["COMMAND nothing: unknown", "`truetail --help`"]);
}

#[test]
fn more_connections_than_open_files_are_refused() {
    let (_listener, url) = listening();
    // The shell lowers the limit, for its child only.
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 200 && exec \"$0\" run \"$1\" --conns 5000"])
        .args([BINARY, &url])
        .output()
        .expect("the binary runs");
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for word in ["open files", "--conns 5000", "ulimit -n"] {
        assert!(stderr.contains(word), "`{word}` is missing in: {stderr}");
    }
}

#[test]
fn unwritable_and_unreadable_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_listener, url) = listening();
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let missing = path("none/report.json");
    for flag in ["--out", "--hdr", "--csv", "--raw"] {
        let words = format!("truetail: {flag} {missing}: can't be written (No such file");
        refused(&["run", &url, flag, &missing], 2, &[&words, "folder"]);
    }
    refused(&["run", &url, "--raw", "/dev/null"], 2, &["--raw /dev/null", "regular file"]);
    // Opening it would wait for a reader.
    let pipe = path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    refused(&["run", &url, "--raw", &pipe], 2, &["--raw", &pipe, "regular file"]);
    refused(&["run", &url, "--out", &path("")], 2, &["--out", "is a folder"]);
    refused(&["verify", &missing], 2, &["REPORT", &missing, "can't be read"]);
    for (file, why) in [(&missing, "No such file"), (&path(""), "directory")] {
        let unreadable = [&format!("FILE {file}: can't be read ("), why, "written by `run --raw`"];
        refused(&["samples", file, "--csv"], 2, &unreadable);
    }
    refused(&["samples", &missing, "--csv", "--json"], 2, &["--csv", "--json"]);
    refused(&["run", "--plan", &missing], 2, &["--plan", &missing, "can't be read"]);
    refused(&["demo", "--out-dir", "/dev/null/x"], 2, &["--out-dir /dev/null/x"]);
    let plan = path("plan.toml");
    fs::write(&plan, "rate = 5\nrats = 6\n").expect("written");
    refused(&["verify", &plan], 1, &["REPORT", &plan, "not a report", "run --out"]);
    refused(&["report", &missing], 2, &["REPORT", &missing, "can't be read"]);
    refused(&["report", &plan, "--html", &plan], 2, &["--html", &plan, "REPORT names the same"]);
    refused(&["report", &plan], 1, &["REPORT", &plan, "not a report", "run --out"]);
    refused(&["compare", &plan, &plan], 1, &["REPORT", &plan, "not a report", "run --out"]);
    let comparison = path("comparison.json");
    fs::write(&comparison, "{\"schema\": 2, \"margin\": 0.01}").expect("written");
    let why = "a comparison of schema 2, and this version reads schema 5";
    for command in [&["report", &comparison][..], &["compare", &comparison, &comparison]] {
        refused(command, 1, &["REPORT", &comparison, why]);
    }
    // A report of an older version lacks fields, and its schema's number explains that.
    let older = path("older.json");
    fs::write(&older, "{\"schema\": 1, \"verdict\": {}}").expect("written");
    refused(&["verify", &older], 1, &["REPORT", &older, "schema 1", "reads schema 18"]);
    let calibration = path("calibration.json");
    fs::write(&calibration, "{\"schema\": 4, \"clocks\": null}").expect("written");
    refused(&["verify", &calibration], 1, &["REPORT", &calibration, "a calibration", "run"]);
    let ceiling = path("ceiling.json");
    fs::write(&ceiling, "{\"schema\": 2, \"passed\": 1.0, \"proof\": {}}").expect("written");
    let why = "a ceiling of schema 2, and this version reads schema 7";
    refused(&["verify", &ceiling], 1, &["REPORT", &ceiling, why]);
    let unreadable = format!("--raw {missing}: can't be read (");
    refused(&["verify", &plan, "--raw", &missing], 2, &[&unreadable, "written by `run --raw`"]);
    refused(&["samples", &plan, "--json"], 1, &[&format!("FILE {plan}: at byte 0: ")]);
    refused(&["run", &url, "--plan", &plan], 2, &["--plan", &plan, "line 2", "rats"]);
    fs::write(&plan, format!("rate = 5\nout = '{plan}'\n")).expect("written");
    refused(&["run", &url, "--plan", &plan], 2, &["--out", &plan, "--plan names the same file"]);
}

#[test]
fn two_results_under_one_name_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    // The port is closed: a run that went further would fail for that.
    let (listener, url) = listening();
    drop(listener);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (plain, other, plan) = (path("a"), path("./a"), path("plan.toml"));
    for flags in [["--out", "--hdr"], ["--out", "--csv"], ["--hdr", "--csv"], ["--out", "--raw"]] {
        let args = ["run", &url, flags[0], &plain, flags[1], &other];
        refused(&args, 2, &[flags[1], "/a: ", flags[0], " names the same file; give each its own"]);
    }
    fs::write(&plan, "seed = 1").expect("written");
    refused(&["run", &url, "--plan", &plan, "--out", &plan], 2, &["--out", "--plan"]);
    let body = format!("@{plan}");
    refused(&["run", &url, "--body", &body, "--csv", &plan], 2, &["--csv", "--body"]);
    assert_eq!(fs::read_to_string(&plan).expect("there"), "seed = 1");
    assert_eq!(files(folder.path()), 1, "nothing else is left");
}

#[test]
fn temporary_files_of_other_runs_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    for name in ["keep.json.tmp", "keep.bin.tmp"] {
        fs::write(path(name), "another's").expect("written");
    }
    refused(&["run", "gopher://127.0.0.1/", "--out", &path("keep.json")], 2, &["gopher"]);
    refused(&["run", "gopher://127.0.0.1/", "--raw", &path("keep.bin")], 2, &["gopher"]);
    for name in ["keep.json.tmp", "keep.bin.tmp"] {
        assert_eq!(fs::read_to_string(path(name)).expect("there"), "another's");
    }
    assert_eq!(files(folder.path()), 2, "nothing else is left");
}

#[test]
fn a_refused_run_leaves_an_old_report_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json");
    fs::write(&report, "old").expect("written");
    let shown = report.to_str().expect("text");
    refused(&["run", "gopher://127.0.0.1/", "--out", shown], 2, &["gopher"]);
    assert_eq!(fs::read_to_string(&report).expect("there"), "old");
    assert_eq!(files(folder.path()), 1, "no temporary file is left");
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).expect("a folder").count()
}

#[test]
fn help_and_generated_text_go_to_stdout() {
    for (args, words) in [
        (&["--help"][..], &["run", "doctor", "demo", "Exit codes"][..]),
        (&["run", "--help"], &["--rate <PER_SECOND>", "[default: 30s]", "Machine:", "Results:"]),
        (&["sweep", "--help"], &["Columns: rate:", "throughput: good answers per second"]),
        (&["ab", "--help"], &["<URL-A> <URL-B>", "--slices <N>", "[default: 10s]", "regression"]),
        (&["completions", "bash"], &["_truetail", "--warmup", "--slices"]),
        (&["completions", "zsh"], &["#compdef truetail"]),
        (&["man"], &[".TH truetail", "null\\-target"]),
        (&["man", "run"], &["\\-\\-warmup"]),
    ] {
        let output = truetail(args);
        let stdout = String::from_utf8(output.stdout).expect("text");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(output.stderr.is_empty(), "{args:?} wrote to stderr");
        for word in words {
            assert!(stdout.contains(word), "{args:?}: `{word}` is missing in: {stdout}");
        }
    }
}

#[test]
fn the_man_pages_of_all_commands_are_written_to_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("share/man1");
    let shown = pages.to_str().expect("text");
    let output = truetail(&["man", "--out", shown]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for (page, words) in [("truetail.1", "null\\-target"), ("truetail-run.1", "\\-\\-warmup")] {
        let page = fs::read_to_string(pages.join(page)).expect("a page");
        assert!(page.contains(words), "{page}");
    }
    refused(&["man", "--out", "/dev/null/man"], 2, &["--out /dev/null/man: can't be written ("]);
    refused(&["man", "run", "--out", shown], 2, &["--out"]);
}

#[test]
fn without_a_command_the_help_is_shown() {
    let output = truetail(&[]);
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for word in ["Usage: truetail <COMMAND>", "Start here:", "doctor", "truetail demo"] {
        assert!(stderr.contains(word), "`{word}` is missing in: {stderr}");
    }
    assert!(output.stdout.is_empty() && !stderr.contains("truetail: "), "{stderr}");
}

#[test]
fn a_stdout_without_a_reader_is_harmless_and_a_full_one_is_not() {
    for args in [&["--version"][..], &["run", "--help"], &["man"], &["completions", "bash"]] {
        let run = |stdout: Stdio| {
            let mut command = binary();
            let output = command.args(args).stdout(stdout).output().expect("the binary runs");
            (output.status.code(), String::from_utf8(output.stderr).expect("text"))
        };
        let (reader, broken) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(run(broken.into()), (Some(0), String::new()), "{args:?}");
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it opens");
        let (code, stderr) = run(full.into());
        assert_eq!(code, Some(1), "{args:?}: {stderr}");
        let words = "truetail: can't write to standard output (No space left";
        assert!(stderr.starts_with(words) && stderr.lines().count() == 1, "{args:?}: {stderr}");
    }
}

#[test]
fn doctor_lists_what_a_run_needs_and_exits_accordingly() {
    let output = truetail(&["doctor", "--details"]);
    let stdout = String::from_utf8(output.stdout).expect("text");
    for name in [
        "kernel",
        "io_uring",
        "locked memory",
        "open files",
        "ephemeral ports",
        "allowed cores",
        "siblings",
        "memory nodes",
        "interrupt cores",
        "clock source",
        "timekeeping",
        "steal",
    ] {
        let line = |line: &str| {
            let found = ["good", "warning", "missing"].iter().any(|state| line.starts_with(state));
            found && line[8..].trim_start().starts_with(name)
        };
        assert!(stdout.lines().any(line), "`{name}` is missing in: {stdout}");
    }
    let missing = stdout.lines().any(|line| line.starts_with("missing"));
    assert_eq!(output.status.code(), Some(i32::from(missing)), "{stdout}");
    let last = stdout.lines().last().expect("a line");
    assert_eq!(last.starts_with("Not ready"), missing, "{stdout}");

    let output = truetail(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(i32::from(missing)));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(document["ready"], !missing, "{document}");
    let checks = document["checks"].as_array().expect("a list");
    // Two probes of the same core may differ.
    let is_probed = |name: Option<&str>| matches!(name, Some("timekeeping" | "steal"));
    for check in checks {
        let (name, severity) = (check["name"].as_str(), check["severity"].as_str());
        let line = stdout
            .lines()
            .find(|line| name.is_some_and(|name| line.len() > 9 && line[9..].starts_with(name)));
        assert!(
            line.is_some_and(|line| {
                is_probed(name) || severity.is_some_and(|word| line.starts_with(word))
            }),
            "{check}"
        );
    }
    assert!(10 < checks.len(), "{document}");
}
