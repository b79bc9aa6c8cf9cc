//! The conditions that fail a build in a pipeline: objectives, verdicts and comparisons, as exit
//! codes and as JUnit files.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use quick_junit::{NonSuccessKind, Report, TestCaseStatus};

use crate::support::{BINARY, NO_CACHE, Target, binary, document, said};

/// The pipeline step that users copy.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/gate.sh");

/// The step, which loads this URL.
fn step(folder: &Path, url: &str, args: &[&str]) -> Command {
    let binary = Path::new(BINARY).parent().expect("it is in a folder").to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [binary].into_iter().chain(std::env::split_paths(&path));
    let mut step = Command::new("sh");
    step.args([SCRIPT, url, "--rate", "200", "--warmup", "0s", "--quiet"])
        .args(args)
        .current_dir(folder)
        .envs(NO_CACHE)
        .env("PATH", std::env::join_paths(folders).expect("they were joined"));
    step
}

/// Has the step load this URL for 6 s; returns its exit code, and its line about the objectives.
fn script(folder: &Path, url: &str, args: &[&str]) -> (Option<i32>, String) {
    let output = step(folder, url, args).env("DURATION", "6s").output();
    let output = output.expect("sh runs");
    let message = said(&output);
    let last = message.lines().last().and_then(|line| line.strip_prefix("objectives: "));
    let last = last.unwrap_or_else(|| panic!("{message}")).to_owned();
    (output.status.code(), last)
}

/// The test cases of the file that the step wrote: their names and results.
fn cases(folder: &Path) -> Vec<(String, &'static str)> {
    let text = fs::read_to_string(folder.join("results.xml")).expect("it was written");
    let report = Report::deserialize_from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    let [suite] = report.test_suites.as_slice() else { panic!("one suite: {text}") };
    let outcome = |status: &TestCaseStatus| match status {
        TestCaseStatus::Success { .. } => "passed",
        TestCaseStatus::Skipped { .. } => "skipped",
        TestCaseStatus::NonSuccess { kind: NonSuccessKind::Failure, .. } => "failed",
        TestCaseStatus::NonSuccess { kind: NonSuccessKind::Error, .. } => "error",
    };
    let cases = suite.test_cases.iter();
    cases.map(|case| (case.name.as_str().to_owned(), outcome(&case.status))).collect()
}

/// A server that answers every `nth` request with 500, and its URL.
fn failing(nth: u64) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    let count = Arc::new(AtomicU64::new(0));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let count = Arc::clone(&count);
            thread::spawn(move || answer_all(stream, nth, &count));
        }
    });
    url
}

fn answer_all(mut stream: TcpStream, nth: u64, count: &AtomicU64) {
    let Ok(reader) = stream.try_clone() else { return };
    for line in BufReader::new(reader).lines() {
        let Ok(line) = line else { return };
        if !line.is_empty() {
            continue;
        }
        let status = match count.fetch_add(1, Ordering::Relaxed) % nth {
            0 => "500 Internal Server Error",
            _ => "200 OK",
        };
        let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        if stream.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_pipeline_distinguishes_held_missed_undecided_and_invalid() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "5ms"]);
    let any = "--allow-invalid";
    let held = "held, if a window of 6s is typical: see the summary for what it may miss";
    // 1,200 requests of 5 ms show that p50 is below a minute and above 1 ms, but nothing about
    // p99.9.
    for (args, code, said, objectives) in [
        (&["--slo", "p50<60s,rate>=0.5", any][..], 0, held, &["passed", "passed"][..]),
        (&["--slo", "p50<1ms,errors<50%", any], 4, "missed", &["failed", "passed"]),
        (&["--slo", "p99.9<60s", any], 4, "undecided: a longer DURATION decides", &["failed"]),
    ] {
        let message = script(folder.path(), &target.url, args);
        assert_eq!(message, (Some(code), said.to_owned()), "{args:?}");
        let cases = cases(folder.path());
        assert_eq!(cases[0].0, "verdict", "{cases:?}");
        let found: Vec<&str> = cases[1..].iter().map(|case| case.1).collect();
        assert_eq!(found, objectives, "{args:?}: {cases:?}");
    }
    let names: Vec<String> = cases(folder.path()).into_iter().map(|case| case.0).collect();
    assert_eq!(names, ["verdict", "p99.9 < 60.0 s"]);
    // These numbers can't be trusted, even if the objectives are met.
    let (code, message) = script(folder.path(), &failing(1), &["--slo", "p50<60s"]);
    assert_eq!(code, Some(3), "{message}");
    assert!(message.starts_with("the numbers cannot be trusted"), "{message}");
    assert_eq!(cases(folder.path())[0], ("verdict".to_owned(), "error"));
    let (code, message) = script(folder.path(), "http://127.0.0.1:1/", &["--slo", "p50<60s"]);
    assert_eq!(
        (code, message.as_str()),
        (Some(1), "not judged: see the line above for the reason")
    );
    for file in ["results.xml", "report.json"] {
        assert!(!folder.path().join(file).exists(), "{file} is of another build");
    }
}

#[test]
fn a_pipeline_that_ends_early_judges_no_objectives() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "5ms"]);
    // The report can't be written, so nothing starts.
    fs::create_dir(folder.path().join("report.json")).expect("a folder");
    let (code, message) = script(folder.path(), &target.url, &["--allow-invalid"]);
    assert_eq!(
        (code, message.as_str()),
        (Some(2), "not judged: see the line above for the reason")
    );
    fs::remove_dir(folder.path().join("report.json")).expect("it is empty");

    let args = ["--slo", "p50<60s"];
    let run = step(folder.path(), &target.url, &args).stderr(Stdio::piped()).spawn();
    let mut run = run.expect("sh runs");
    let before = target.received();
    target.wait_for_requests(&mut run, before + 20);
    // Ctrl-C reaches the shell as well, which ends with its command.
    let child = format!("/proc/{0}/task/{0}/children", run.id());
    let child = fs::read_to_string(child).expect("the step runs one command");
    let ended = Command::new("kill").args(["-INT", child.trim()]).status().expect("kill runs");
    assert!(ended.success());
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).ends_with("objectives: not judged: interrupted\n"), "{}", said(&output));
    let report = document(&folder.path().join("report.json"));
    assert_eq!(report["interrupted"], true);
    // The default length.
    assert_eq!(report["config"]["duration"], "1m");
    assert_eq!(cases(folder.path()).len(), 2);
}

#[test]
fn the_pipeline_step_is_the_documented_one() {
    let read = |path: &str| fs::read_to_string(path).expect("a file of the project");
    let page = read(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/comparing.md"));
    let block = format!("```sh\n{}```\n", read(SCRIPT));
    assert!(page.contains(&block), "docs/comparing.md lacks: {block}");
}

/// A run of 6 s; returns its exit code and its output.
fn run(folder: &Path, url: &str, args: &[&str]) -> (Option<i32>, String) {
    let output = binary()
        .args(["run", url, "--rate", "200", "--duration", "6s", "--warmup", "0s", "--quiet"])
        .args(["--junit", "results.xml"])
        .args(args)
        .current_dir(folder)
        .output()
        .expect("the binary runs");
    (output.status.code(), said(&output))
}

#[test]
fn an_undecided_objective_fails_only_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "5ms"]);
    let undecided = ["--slo", "p99.9<60s", "--allow-invalid"];
    let (code, message) = run(folder.path(), &target.url, &undecided);
    assert_eq!(code, Some(0), "{message}");
    assert_eq!(cases(folder.path())[1], ("p99.9 < 60.0 s".to_owned(), "skipped"));
}

#[test]
fn a_quarter_of_failures_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = failing(4);
    let (code, message) = run(folder.path(), &url, &["--slo", "errors<1%", "--allow-invalid"]);
    assert_eq!(code, Some(4), "{message}");
    assert_eq!(cases(folder.path())[1], ("errors < 1 %".to_owned(), "failed"));
    // Without an objective the verdict shows it.
    let (code, message) = run(folder.path(), &url, &["--fail-on", "suspect"]);
    assert!(code == Some(3) && message.contains(" bad (500: "), "{message}");
}

#[test]
fn contradictory_gates_are_refused() {
    for (args, words) in [
        (&["--fail-on", "undecided"][..], "--fail-on undecided: there is no objective; give --slo"),
        (&["--fail-on", "suspect", "--allow-invalid"], "--fail-on suspect: --allow-invalid lets"),
        (&["--slo", "rate>=0.9"], "--slo rate>=0.9: a closed loop has no requested rate"),
    ] {
        let output = binary().args(["run", "http://127.0.0.1:1/"]).args(args).output();
        let output = output.expect("the binary runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{args:?}: {}", said(&output));
    }
}

/// A run of 1 s against this target, whose report has this name.
fn report(folder: &Path, target: &Target, name: &str, args: &[&str]) {
    report_of(folder, target, name, "1s", args);
}

/// The same with a window of this length.
fn report_of(folder: &Path, target: &Target, name: &str, length: &str, args: &[&str]) {
    let output = binary()
        .args(["run", &target.url, "--duration", length, "--warmup", "200ms"])
        .args(["--quiet", "--allow-invalid", "--out", name])
        .args(args)
        .current_dir(folder)
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

fn compare(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output: Output =
        binary().arg("compare").args(args).current_dir(folder).output().expect("the binary runs");
    (output.status.code(), said(&output))
}

#[test]
fn a_slower_target_is_a_regression() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let fast = Target::start(&["--base-latency", "2ms"]);
    let slow = Target::start(&["--base-latency", "30ms"]);
    let names = |side: &str| (1..=5).map(|run| format!("{side}{run}.json")).collect::<Vec<_>>();
    let (a, b) = (names("a"), names("b"));
    for (seed, (a, b)) in ["1", "2", "3", "4", "5"].into_iter().zip(a.iter().zip(&b)) {
        report(folder, &fast, a, &["--rate", "200", "--seed", seed]);
        report(folder, &slow, b, &["--rate", "200", "--seed", seed]);
    }
    report(folder, &fast, "c.json", &["--rate", "100"]);
    report(folder, &fast, "same.json", &["--rate", "200", "--seed", "1"]);
    let any = "--allow-invalid";
    let gate = ["--fail-on", "regression"];
    // One run per side decides nothing unless that is accepted; its estimates are shown all the
    // same.
    let one = [&a[0], b[0].as_str(), any];
    let (code, said) = compare(folder, &[&one[..], &gate].concat());
    assert_eq!(code, Some(3), "{said}");
    let cure =
        "give several per side (--with), compare with `truetail ab`, or add --accept-one-run\n";
    assert!(said.contains("\ntruetail: --fail-on regression: ") && said.ends_with(cure), "{said}");
    assert!(
        said.starts_with("undecided: no percentile has an interval, so any difference"),
        "{said}"
    );
    let unwrapped = said.replace('\n', " ");
    assert!(unwrapped.contains(" it takes windows of 5 s"), "{said}");
    assert!(unwrapped.contains(", or 5 runs per side."), "{said}");
    // A window of 1 s calls nothing, so it doesn't pass a gate either, accepted or not.
    let (code, said) = compare(folder, &[&one[..], &gate, &["--accept-one-run"]].concat());
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("\ntruetail: --fail-on regression: no percentile has an interval"),
        "{said}"
    );
    // With five runs per side, the difference between runs is known.
    let sides = |a: &[String], b: &[String]| {
        let a = a.iter().map(String::as_str);
        a.chain(["--with"]).chain(b.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    };
    let words = |line: &str, more: &[&str]| {
        let args: Vec<&str> = line.split(' ').chain(more.iter().copied()).collect();
        compare(folder, &args)
    };
    let asked = [any, "--fail-on", "regression", "--out", "compared.json"];
    let (code, said) = words(&sides(&a, &b), &asked);
    let mut printed = said.lines().filter(|line| !line.starts_with("truetail: "));
    assert!(printed.all(|line| line.chars().count() <= 80), "{said}");
    let compared = document(&folder.join("compared.json"));
    assert_eq!(compared["a"]["runs"], 5);
    let p50 = &compared["percentiles"][0];
    assert!(p50["ratio"].as_f64().is_some_and(|ratio| 1.5 < ratio), "{p50}");
    // On a shared machine, runs of one side may differ too much for an interval.
    if let Some(low) = p50["interval"][0].as_f64() {
        assert!(1.01 < low, "{p50}");
        assert_eq!((code, &compared["change"]), (Some(4), &"worse".into()), "{said}");
        assert!(said.starts_with("REGRESSION: B is slower at p50 (+"), "{said}");
        // The other way round it is better.
        let (code, said) = words(&sides(&b, &a), &[any, "--fail-on", "regression"]);
        assert_eq!((code, said.starts_with("improvement: ")), (Some(0), true), "{said}");
    }
    let (_, said) = words(&sides(&a[..2], &b[..2]), &[any]);
    // Without an interval, there is none that could include how much runs differ.
    assert!(said.starts_with("undecided: ") && !said.contains("the intervals include"), "{said}");
    for (args, code, words) in [
        (&["a1.json", "c.json", any][..], 2, "the plans differ: rate is 200 and 100"),
        (&["a1.json", "b1.json", "--accept-one-run"], 2, "--fail-on"),
        (&["a1.json"], 2, "1 given; give two, or name those of side B with --with"),
        (
            &["a1.json", "same.json", "--with", "b1.json", any],
            2,
            "REPORT same.json: run 1 of its side has the same --seed 1, and so the same arrivals; \
             repeat each run of a side with its own: --seed 1, --seed 2, …",
        ),
        (&["a1.json", "none.json"], 2, "REPORT none.json: can't be read"),
        (
            &["a1.json", "c.json", "a1.json", "--with", "b1.json", any],
            2,
            "REPORT a1.json and a1.json: the same run twice on one side; name it once",
        ),
        (
            &["a1.json", "a1.json", any],
            2,
            "REPORT a1.json and a1.json: the same run on both sides; name reports of two runs",
        ),
    ] {
        let (found, said) = compare(folder, args);
        assert_eq!(found, Some(code), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
    let (code, said) = compare(folder, &["a1.json", "c.json", any, "--allow-different-plans"]);
    assert!(code == Some(0) && said.contains("The plans differ: rate"), "{said}");
    let mut elsewhere = document(&folder.join("b1.json"));
    elsewhere["environment"]["kernel"] = "9.9".into();
    fs::write(folder.join("elsewhere.json"), elsewhere.to_string()).expect("it is written");
    let (_, said) = compare(folder, &["a1.json", "elsewhere.json", any]);
    assert!(said.contains("truetail: The machines differ: kernel is "), "{said}");
    assert!(said.contains(" and 9.9."), "{said}");
}

#[test]
fn slices_too_short_for_any_interval_do_not_pass_a_gate() {
    let [one, other] = [Target::start(&[]), Target::start(&[])];
    let output = binary()
        .args(["ab", &one.url, &other.url, "--rate", "20", "--duration", "200ms", "--warmup", "0s"])
        .args(["--slices", "5", "--quiet", "--allow-invalid", "--fail-on", "regression"])
        .output()
        .expect("the binary runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.ends_with("; it takes longer slices, or a higher rate\n"), "{said}");
}

#[test]
fn requests_never_sent_are_no_errors_of_the_target() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let fast = Target::start(&["--base-latency", "1ms"]);
    let slow = Target::start(&["--base-latency", "500ms"]);
    // The only connection gets two responses per second from the slow target.
    let one = ["--rate", "100", "--conns", "1", "--timeout", "1s"];
    report(folder, &fast, "a.json", &one);
    report(folder, &slow, "b.json", &one);
    let (code, said) = compare(folder, &["a.json", "b.json", "--allow-invalid", "-o", "c.json"]);
    assert_eq!(code, Some(0), "{said}");
    let compared = document(&folder.join("c.json"));
    let unsent = compared["b"]["unsent"].as_u64().expect("a count");
    assert!(50 < unsent, "{said}");
    assert_ne!(compared["errors"]["change"], "worse", "{said}");
    assert!(said.contains("\nLeft out of the errors below: B "), "{said}");
    assert!(said.contains("\nInvalid: ") && said.contains("b.json ("), "{said}");
    assert!(said.contains("rate_missed") || said.contains("nothing_sent"), "{said}");
}

#[test]
fn requests_dropped_while_the_target_is_busy_are_its_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let fast = Target::start(&["--base-latency", "1ms"]);
    let slow = Target::start(&["--base-latency", "200ms"]);
    let drops = ["--rate", "50", "--conns", "2", "--overload", "drop"];
    report_of(folder, &fast, "a.json", "6s", &drops);
    report_of(folder, &slow, "b.json", "6s", &drops);
    let (code, said) = compare(folder, &["a.json", "b.json", "--allow-invalid", "-o", "c.json"]);
    assert_eq!(code, Some(0), "{said}");
    let compared = document(&folder.join("c.json"));
    assert_eq!(compared["errors"]["change"], "worse", "{said}");
    // Two connections carry 10 of the 50 a second; dropped requests have no latency to show it.
    let errors = compared["errors"]["b"].as_f64().expect("a share");
    assert!((0.7..0.9).contains(&errors), "{said}");
}
