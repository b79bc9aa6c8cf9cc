//! `sweep` and `search` against a target that serves one request at a time, in 1 ms: it can't
//! answer more than 1,000 requests per second. Reaching that takes an undisturbed machine, which
//! the verdicts of the steps show.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use engine::report::verdict::Code;
use serde::Deserialize as _;
use serde_json::Value;

use crate::support::{Target, binary, bounded, code_of_series, document, said, signal, verified};

/// Steps of 1 s.
const SHORT: [&str; 10] = [
    "--duration",
    "1s",
    "--warmup",
    "200ms",
    "--settle",
    "100ms",
    "--timeout",
    "1s",
    "--cooldown",
    "1s",
];

fn serial_target() -> Target {
    Target::start(&["--serial", "--base-latency", "1ms"])
}

fn run(folder: &Path, args: &[&str]) -> Output {
    let output = binary().args(args).args(SHORT).current_dir(folder).output();
    output.expect("the binary runs")
}

fn steps(document: &Value) -> &Vec<Value> {
    document["steps"].as_array().expect("a list")
}

/// True if the machine disturbed any step, by its own verdict.
fn disturbed(document: &Value) -> bool {
    steps(document).iter().any(|step| {
        let found = ["codes", "notes"].map(|of| step["verdict"][of].as_array().expect("a list"));
        found.into_iter().flatten().any(|reason| {
            let code = Code::deserialize(&reason["code"]).expect("a code");
            code.is_disturbance()
        })
    })
}

#[test]
fn a_sweep_finds_the_knee_of_a_serial_target() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let target = serial_target();
    // Each step's plan is the file's, except for what the sweep changes.
    fs::write(path("plan.toml"), "seed = 7\nheader = \"X-Secret: pa55\"\n").expect("written");
    let output = run(
        folder.path(),
        &[
            "sweep",
            &target.url,
            "--plan",
            "plan.toml",
            "--rates",
            "250..2k",
            "--steps",
            "4",
            "--refine",
            "2",
            "--out",
            "s.json",
            "--csv",
            "s.csv",
            "--svg",
            "s.svg",
        ],
    );
    let said = said(&output);
    let sweep = document(&path("s.json"));
    assert_eq!(output.status.code(), Some(code_of_series(&sweep, true)), "{said}");
    assert_eq!((&sweep["schema"], &sweep["interrupted"]), (&Value::from(7), &Value::from(false)));
    assert!(!fs::read_to_string(path("s.json")).expect("text").contains("pa55"));
    assert_eq!(sweep["plan"]["seed"], 7);
    let steps = steps(&sweep);
    let of = |name: &str| steps.iter().map(|step| step[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("rate_per_s")[..4], [250.0, 500.0, 1_000.0, 2_000.0].map(Value::from));
    assert_eq!(of("seed")[..4], [7, 8, 9, 10].map(Value::from));
    // The document has everything needed to repeat the sweep.
    assert_eq!(sweep["sweep"]["rates"], Value::from(vec![250.0, 500.0, 1_000.0, 2_000.0]));
    assert_eq!((&sweep["sweep"]["refine_max"], &sweep["cooldown"]), (&2.into(), &"1s".into()));
    for step in steps {
        assert!(step["corrected"]["p50"].is_number() && step["naive"]["p50"].is_number(), "{step}");
        // A window of 1 s states none.
        assert_eq!(step["corrected"]["intervals"]["needed_s"]["p50"], 5.0, "{step}");
    }
    // Part of what it answers in the window is the warm-up's backlog.
    let [answered, due] = ["answered_per_s", "answered_due_per_s"].map(|of| steps[3][of].as_f64());
    assert!(due < answered, "{}", steps[3]);
    // At 2,000/s half go unanswered in any case.
    let knee = &sweep["knee"];
    let to = knee["to_per_s"].as_f64().expect("it falls behind at the end");
    assert!(to <= 2_000.0 && knee["method"].is_string(), "{knee}");
    assert!(knee["answered_beyond_per_s"].as_f64().is_some_and(|rate| rate < 1_100.0), "{knee}");
    if !disturbed(&sweep) {
        assert!((1_000.0..=2_000.0).contains(&to), "{said}");
        assert_eq!(knee["bound"], "target");
        // Half a second of so few requests may not prove that they are answered.
        let from = knee["from_per_s"].as_f64();
        assert!(from.is_none_or(|from| from <= 1_050.0), "{said}");
        assert!(
            from.is_none() || said.contains("Knee between ") || said.contains("Knee at "),
            "{said}"
        );
    }
    verified(&path("s.json"), "/knee/to_per_s");
    let csv = fs::read_to_string(path("s.csv")).expect("written");
    assert_eq!(csv.lines().count(), 1 + steps.len(), "{csv}");
    let svg = fs::read_to_string(path("s.svg")).expect("written");
    assert!(svg.starts_with("<svg") && svg.contains("intended rate"), "{svg}");
}

#[test]
fn a_search_brackets_what_a_serial_target_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = serial_target();
    let output = run(
        folder.path(),
        &[
            "search",
            &target.url,
            "--slo",
            "p50<20ms",
            "--rate",
            "250",
            "--max-rate",
            "4k",
            "--tolerance",
            "30%",
            "--repeats",
            "0",
            "--out",
            "s.json",
            "--svg",
            "s.svg",
        ],
    );
    let said = said(&output);
    let search = document(&folder.path().join("s.json"));
    assert_eq!(
        (&search["slo"], &search["interrupted"]),
        (&"p50<20ms,errors<1%".into(), &false.into())
    );
    let passed = search["passed_per_s"].as_f64();
    let code = code_of_series(&search, passed.is_some());
    assert_eq!(output.status.code(), Some(code), "{said}");
    verified(&folder.path().join("s.json"), "/failed_per_s");
    // At 1,500/s a third of the arrivals join a backlog, so that half of them wait over 100 ms.
    assert!(passed.is_none_or(|passed| passed < 1_500.0), "{said}");
    if !disturbed(&search) {
        let passed = passed.expect("400/s are no load for it");
        let failed = search["failed_per_s"].as_f64().expect("4,000/s are too much");
        assert!(400.0 <= passed && passed < failed && failed <= 1.31 * passed, "{said}");
        assert_eq!((&search["ended_by"], &search["complete"]), (&"target".into(), &true.into()));
    }
}

/// A sweep of long steps, once its first step has ended.
fn after_one_step(folder: &Path, url: &str) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut sweep = binary()
        .args(["sweep", url, "--rates", "50..100", "--steps", "3"])
        .args(["--duration", "1s", "--warmup", "0s", "--cooldown", "5s", "--out", "s.json"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let stdout = BufReader::new(sweep.stdout.take().expect("it is piped"));
    let mut lines = stdout.lines().map(|line| line.expect("text"));
    let row = lines.by_ref().take(20).any(|line| line.contains(" % "));
    assert!(row, "no step ended: {:?}", sweep.wait_with_output());
    (sweep, lines)
}

#[test]
fn a_signal_ends_a_sweep_with_what_it_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = serial_target();
    let (sweep, rest) = after_one_step(folder.path(), &target.url);
    signal(&sweep, "INT");
    let said: Vec<String> = rest.collect();
    let ended = bounded(sweep);
    assert_eq!(ended.status.code(), Some(130), "{said:?}");
    let takes = String::from_utf8(ended.stderr).expect("text");
    assert!(
        takes.starts_with("takes up to ")
            && takes.ends_with(" steps, each window 1s, drain up to 10s\n"),
        "{takes}"
    );
    let document = document(&folder.path().join("s.json"));
    assert_eq!((&document["interrupted"], &document["error"]), (&true.into(), &Value::Null));
    assert_eq!(steps(&document).len(), 1);
    assert!(said.iter().any(|line| line.starts_with("Interrupted")), "{said:?}");
}

#[test]
fn a_run_that_fails_ends_a_sweep_with_what_it_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = serial_target();
    let (sweep, rest) = after_one_step(folder.path(), &target.url);
    // It rests for 5 s, in which the target goes away.
    target.interrupt();
    let said: Vec<String> = rest.collect();
    let output = bounded(sweep);
    assert_eq!(output.status.code(), Some(1), "{said:?}");
    let document = document(&folder.path().join("s.json"));
    let error = document["error"].as_str().expect("why it ended").to_owned();
    assert_eq!((&document["interrupted"], steps(&document).len()), (&true.into(), 1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&error), "{error}");
}

#[test]
fn a_series_keeps_within_its_time_and_is_marked_incomplete() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = serial_target();
    let sweep = ["sweep", &target.url, "--rates", "50..100", "--steps", "9", "--out", "s.json"];
    let ceiling = ["ceiling", &target.url, "--rate", "500", "--out", "s.json"];
    for (args, message) in [(&sweep[..], "weren't offered"), (&ceiling, "The search stopped at")] {
        let begun = Instant::now();
        let output = run(folder.path(), &[args, &["--within", "6s"]].concat());
        let took_s = begun.elapsed().as_secs_f64();
        let text = said(&output);
        let found = document(&folder.path().join("s.json"));
        assert_eq!(found["complete"], false, "{text}");
        assert!(text.contains(message) && text.contains("--within 6s, incomplete"), "{text}");
        let steps = steps(&found);
        let steps_s: f64 = steps.iter().filter_map(|step| step["took_s"].as_f64()).sum();
        assert!(1 < steps.len() && steps_s <= took_s, "{steps_s} of {took_s} s: {text}");
        // A step may take longer outside its window than the one before.
        assert!(steps_s <= 7.5, "{steps_s} s: {text}");
        let verify = binary().args(["verify", "s.json"]).current_dir(folder.path()).output();
        let verify = verify.expect("the binary runs");
        assert_eq!(verify.status.code(), Some(0), "{}", said(&verify));
    }
}

#[test]
fn flags_that_a_series_cannot_use_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let sweep = ["sweep", "http://127.0.0.1:1/", "--rates", "1k..2k"];
    let search = ["search", "http://127.0.0.1:1/"];
    for (command, flags, line) in [
        (&sweep[..], &["--rate", "5"][..], "--rate 5: a sweep has many rates; omit it"),
        (&sweep, &["--period", "1s"], "--period 1s: a closed model has no rate to change; omit"),
        (&sweep, &["--model", "closed"], "--model closed: a closed model has no rate to change"),
        (&sweep, &["--raw", "r"], "--raw r: a file holds one run, not many; omit it"),
        (&sweep, &["--hdr", "r"], "--hdr r: a file holds one run, not many; omit it"),
        (&sweep, &["--flamegraph", "f.svg"], "--flamegraph f.svg: a profile is of one run; omit"),
        (&search, &["--flamegraph", "f.svg"], "--flamegraph f.svg: a profile is of one run; omit"),
        (
            &sweep,
            &["--allow-invalid"],
            "--allow-invalid: a series has a verdict for each step, and none of its own; omit",
        ),
        (&sweep, &["--flamegraph", "f.svg"], "--flamegraph f.svg: a profile is of one run; omit"),
        (
            &sweep,
            &["--steps", "1"],
            "--steps 1: invalid number: give a whole number from 2 to 1000",
        ),
        (&sweep, &["--out", "a", "--svg", "a"], "--svg a: --out names the same file"),
        (&sweep, &["--slo", "p99"], "--slo p99: invalid objectives: `p99` has no bound; give"),
        (&search, &[], "--slo: missing; give the objectives, e.g."),
        (&search, &["--slo", "max<1s", "--max-rate", "5"], "--max-rate 5: below the first rate"),
        (&search, &["--slo", "max<1s", "--max-steps", "0"], "--max-steps 0: invalid number: give"),
        (
            &search,
            &["--slo", "max<1s", "--within", "12s"],
            "--within 12s: a step takes at least 13s; raise it, or lower --duration or --warmup",
        ),
        (&search, &["--tolerance", "5"], "--tolerance 5: invalid percentage: give one from"),
        (&["sweep", "http://x/", "--rates", "2k..1k"], &[], "--rates 2k..1k: invalid range: the"),
    ] {
        let args = command.iter().chain(flags);
        let output = binary().args(args).current_dir(folder.path()).output();
        let output = output.expect("the binary runs");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.starts_with(&format!("truetail: {line}")), "{message}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "a file was left");
}

#[test]
fn a_target_that_accepts_and_never_answers_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it has an address"));
    // These connections are never read.
    thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    let sweep = ["sweep", &url, "--rates", "50..100", "--steps", "2", "--refine", "0"];
    let output = run(folder.path(), &[&sweep[..], &["--out", "s.json"]].concat());
    let message = said(&output);
    assert!(message.contains("no answers; ") && !message.contains("fell behind"), "{message}");
    assert!(
        message.contains("No knee found: the target sent no answers at any rate."),
        "{message}"
    );
    let found = document(&folder.path().join("s.json"));
    assert!(steps(&found).iter().all(|step| step["silent_from_s"] == 0.0), "{message}");
    let bounds = ["--rate", "50", "--max-rate", "50", "--tolerance", "100%", "--max-steps", "3"];
    let search = ["search", &url, "--slo", "p50<100ms", "--repeats", "0"];
    // A shorter window decides no objective.
    let mut long = SHORT;
    long[1] = "5s";
    let message = binary().args(search).args(bounds).args(long).current_dir(folder.path()).output();
    let message = said(&message.expect("the binary runs"));
    assert!(
        message.contains("failed: no answers; ") && message.contains("The target ended"),
        "{message}"
    );
    let message =
        said(&run(folder.path(), &[&["ceiling", &url, "--details"][..], &bounds].concat()));
    assert!(
        message.contains("  silent") && message.contains("Bound: the target (target)"),
        "{message}"
    );
    assert!(
        message.contains("no answers; ") || message.contains("offered: no answers"),
        "{message}"
    );
}

#[test]
fn a_series_that_cannot_begin_prints_only_the_reason() {
    let url = "http://127.0.0.1:1/";
    for (args, code) in [
        (&["sweep", url, "--rates", "1k..2k"][..], 1),
        (&["sweep", url, "--rates", "1k..2k", "--duration", "0s"], 2),
        (&["search", url, "--slo", "p99<1s"], 1),
        (&["search", url, "--slo", "p99<1s", "--header", "X"], 2),
        (&["ceiling", url], 1),
    ] {
        let output = binary().args(args).output().expect("the binary runs");
        let (stdout, stderr) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
        assert_eq!((output.status.code(), &stdout[..]), (Some(code), &b""[..]), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_sweep_keeps_no_descriptor_of_the_steps_that_it_made() {
    const STEPS: usize = 12;
    let target = Target::start(&[]);
    let mut sweep = binary()
        .args(["sweep", &target.url, "--rates", "100..1200", "--steps", &STEPS.to_string()])
        .args(["--duration", "100ms", "--warmup", "0s", "--settle", "0s", "--cooldown", "0s"])
        .args(["--refine", "0", "--cores", "0", "--conns", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let folder = format!("/proc/{}/fd", sweep.id());
    let mut open = Vec::new();
    while sweep.try_wait().expect("it is ours").is_none() && open.len() < 1_000 {
        open.extend(fs::read_dir(&folder).map(Iterator::count));
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(bounded(sweep).status.code(), Some(0));
    let (first, second) = open.split_at(open.len() / 2);
    assert!(STEPS < second.len(), "each step is seen: {open:?}");
    // One for each step would be half as many more as there are steps.
    let most = |half: &[usize]| half.iter().copied().max().unwrap_or(0);
    assert!(most(second) < most(first) + STEPS / 2, "{open:?}");
}
