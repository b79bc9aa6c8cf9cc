//! Whole runs of the binary against its own target: the report's shape, its sums, the ledger,
//! interruption, the demo.
//!
//! No test bounds a time from above: all of them pass on a slow machine too.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{BINARY, NO_CACHE, Target, binary, document, signal, wait_until};
use serde_json::Value;

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn assert_sums(counts: &Value) {
    let count = |name: &str| counts[name].as_u64().unwrap_or_else(|| panic!("{name}: {counts}"));
    assert_eq!(count("intended"), count("sent") + count("unsent"), "{counts}");
    let ended = count("answered") + count("timed_out") + count("failed") + count("abandoned");
    assert_eq!(count("sent"), ended, "{counts}");
}

/// When each request was due, ns, from the raw samples.
fn intended(folder: &Path, raw: &str) -> Vec<u64> {
    let output = binary().args(["samples", raw]).current_dir(folder).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let lines = String::from_utf8(output.stdout).expect("text");
    let first = |line: &str| line.split(',').next().and_then(|due| due.parse().ok());
    let mut intended: Vec<u64> =
        lines.lines().skip(1).map(|line| first(line).expect(line)).collect();
    intended.sort_unstable();
    intended
}

#[test]
fn a_seed_decides_when_requests_are_due_and_nothing_else() {
    const REQUESTS: u64 = 400;
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "1ms", "--tail-fraction", "0"]);
    let requests = REQUESTS.to_string();
    let [one, same, other] = [("one", "7"), ("same", "7"), ("other", "8")].map(|(name, seed)| {
        // The names of a run's files are part of its plan.
        let folder = folder.path().join(name);
        fs::create_dir(&folder).expect("a folder");
        let output = binary()
            .args(["run", &target.url, "--rate", "2k", "--requests", &requests, "--warmup", "0s"])
            .args(["--seed", seed, "--out", "run.json", "--raw", "run.raw", "--allow-invalid"])
            .arg("--quiet")
            .current_dir(&folder)
            .output()
            .expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        (document(&folder.join("run.json")), intended(&folder, "run.raw"))
    });
    for (report, intended) in [&one, &same, &other] {
        assert_eq!(intended.len() as u64, REQUESTS);
        for count in ["intended", "sent", "answered"] {
            assert_eq!(report["counts"][count], REQUESTS, "{count}");
        }
    }
    let digest = |report: &Value| report["config"]["schedule_digest"].clone();
    assert!(digest(&one.0).is_string());
    assert_eq!((digest(&one.0), &one.1), (digest(&same.0), &same.1));
    assert_ne!(digest(&one.0), digest(&other.0));
    // Some gaps may be alike, but hardly one in ten.
    let alike = one.1.iter().filter(|due| other.1.binary_search(due).is_ok()).count() as u64;
    assert!(alike < REQUESTS / 10, "{alike}");
    let mut plans = [one.0, same.0, other.0].map(|report| report["config"].clone());
    assert_eq!(plans[0], plans[1]);
    for plan in &mut plans {
        let plan = plan.as_object_mut().expect("an object");
        // A number of requests takes until the next one would be due.
        for key in ["seed", "schedule_digest", "duration", "schedule_until_s"] {
            assert!(plan.remove(key).is_some(), "{key}");
        }
    }
    assert_eq!(plans[0], plans[2]);
}

#[test]
fn a_run_writes_the_document_the_log_and_the_summary() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let ledger_path = path("ledger.json");
    let ledger_flag = ledger_path.to_str().expect("text");
    let target =
        Target::start(&["--base-latency", "1ms", "--tail-fraction", "0", "--ledger", ledger_flag]);
    // The plan file gives one rate, the flag another.
    fs::write(
        path("plan.toml"),
        "rate = 5\nseed = 7\narrivals = \"constant\"\nduration = \"1s\"\n",
    )
    .expect("written");
    let output = binary()
        .args(["run", &target.url, "--rate", "200", "--warmup", "200ms", "--plan", "plan.toml"])
        .args(["--out", "report.json", "--hdr", "run.hlog", "--csv", "run.csv", "--allow-invalid"])
        .arg("--details")
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));

    let report = document(&path("report.json"));
    assert_eq!(report["schema"], 18);
    assert_eq!(report["interrupted"], false);
    let config = &report["config"];
    assert_eq!((&config["rate"], &config["seed"]), (&Value::from(200.0), &Value::from(7)));
    assert_eq!(
        (&config["arrivals"], &config["duration"]),
        (&Value::from("constant"), &Value::from("1s"))
    );
    assert!(config["schedule_digest"].is_string(), "{config}");
    for key in ["kernel", "cpu", "cores_used", "ring_features", "tool_version"] {
        assert!(!report["environment"][key].is_null(), "{key}");
    }
    for twice in ["per_agent", "merged"] {
        assert!(report.get(twice).is_none(), "{twice}");
    }
    for part in [&report] {
        assert_sums(&part["counts"]);
        // A constant 200/s over one second: each arrival counts, whatever its outcome.
        assert_eq!(part["counts"]["intended"], 200);
        for key in ["target", "intended", "sent", "answered"] {
            assert!(part["rate"][key].is_number(), "{key}");
        }
        for name in ["naive", "corrected", "pacer_lateness", "connection_wait"] {
            let distribution = &part[name];
            assert_eq!(distribution["unit"], "us");
            for key in [
                "count",
                "min",
                "mean",
                "p50",
                "p90",
                "p99",
                "p99.9",
                "p99.99",
                "max",
                "overflow",
                "histogram",
            ] {
                assert!(distribution.get(key).is_some(), "{name}.{key}");
            }
        }
    }
    assert!(1_000.0 <= report["naive"]["min"].as_f64().expect("a number"), "the target holds 1 ms");

    let said = target.interrupt();
    let ledger = document(&ledger_path);
    let count = |name: &str| report["counts"][name].as_u64().expect("a count");
    let unrecorded = |phase: &str| report["counts"][phase]["answered"].as_u64().expect("a count");
    let answered = count("answered") + unrecorded("setup") + unrecorded("warmup");
    assert_eq!(ledger["answered"].as_u64(), Some(answered), "{said}");

    let log = fs::read_to_string(path("run.hlog")).expect("the log was written");
    for start in [
        "#[Histogram log format version 1.3]",
        "#[StartTime: ",
        "Tag=naive,0.200,1.000,",
        "Tag=corrected,0.200,0.125,",
        "Tag=corrected,1.075,0.125,",
    ] {
        assert!(log.lines().any(|line| line.starts_with(start)), "{start}: {log}");
    }
    let csv = fs::read_to_string(path("run.csv")).expect("the series was written");
    let rows: Vec<Vec<f64>> = csv
        .lines()
        .skip(1)
        .map(|row| row.split(',').map(|cell| cell.parse().unwrap_or(f64::NAN)).collect())
        .collect();
    assert!(csv.starts_with("start_s,length_s,intended,sent,unsent,answered,errors,"), "{csv}");
    assert_eq!((rows.len(), rows.iter().map(|row| row[2]).sum::<f64>()), (8, 200.0), "{csv}");
    let summary = String::from_utf8(output.stdout).expect("text");
    for word in [
        "too_few_samples",
        "needs 563 requests",
        "asked 200",
        "naive",
        "corrected",
        "p99.9",
        "pacer lateness",
        "report.json",
        "run.hlog",
    ] {
        assert!(summary.contains(word), "`{word}` is missing in: {summary}");
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let takes = "takes 2.2s to 16.2s: setup 1s to 5s, warm-up 200ms, window 1s, drain up to 10s\n";
    assert_eq!(said, takes, "no progress without a terminal");
    assert_eq!(
        names(folder.path()),
        ["ledger.json", "plan.toml", "report.json", "run.csv", "run.hgrm", "run.hlog"]
    );
}

#[test]
fn a_missed_objective_ends_with_its_own_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "5ms"]);
    let run = |slo: &str| {
        let output = binary()
            .args(["run", &target.url, "--rate", "200", "--duration", "6s", "--warmup", "100ms"])
            .args(["--slo", slo, "--out", "report.json", "--allow-invalid"])
            .current_dir(folder.path())
            .output()
            .expect("the binary runs");
        let report = document(&folder.path().join("report.json"));
        let said = text(&output);
        (output.status.code(), report["slo"]["judgement"].clone(), said)
    };
    // No response is faster than the target's own 5 ms; 1,200 requests show nothing about p99.9.
    for (slo, code, judgement) in [
        ("p50<1ms,p99.9<1s", 4, "missed"),
        ("p50<60s,p99.9<60s", 0, "undecided"),
        ("p50<60s,max<60s", 0, "met"),
    ] {
        let (found, judged, said) = run(slo);
        assert_eq!((found, &judged), (Some(code), &Value::from(judgement)), "{slo}: {said}");
        assert!(said.to_lowercase().contains(&format!("objectives {judgement}")), "{said}");
    }
    let checked = binary()
        .args(["verify", "report.json"])
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked));
}

#[test]
fn a_pipelined_run_and_its_target_count_the_same_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    for load in [&["--rate", "5k"][..], &["--model", "closed"]] {
        let ledger = folder.path().join("ledger.json");
        let ledger_flag = ledger.to_str().expect("text");
        let target = Target::start(&["--base-latency", "2ms", "--ledger", ledger_flag]);
        let output = binary()
            .args(["run", &target.url, "--conns", "4", "--pipeline", "16", "--duration", "1s"])
            .args(["--warmup", "0s", "--out", "report.json", "--raw", "run.samples"])
            .args(["--allow-invalid", "--details"])
            .args(load)
            .current_dir(folder.path())
            .output()
            .expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        assert!(text(&output).contains("up to 16 in flight on a connection"), "{}", text(&output));
        let report = document(&folder.path().join("report.json"));
        let count = |name: &str| report["counts"][name].as_u64().expect("a count");
        target.interrupt();
        assert_eq!(document(&ledger)["answered"].as_u64(), Some(count("answered")));
        assert_eq!(count("answered"), count("intended"), "{}", report["counts"]);
        assert!(0 < count("shared_sends"), "{}", report["counts"]);
        let output = binary()
            .args(["verify", "report.json", "--raw", "run.samples"])
            .current_dir(folder.path())
            .output()
            .expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        fs::remove_file(folder.path().join("run.samples")).expect("it was written");
    }
}

#[test]
fn quiet_hides_only_the_progress_and_names_are_resolved() {
    let target = Target::start(&["--base-latency", "0s", "--tail-fraction", "0"]);
    let url = target.url.replace("127.0.0.1", "localhost");
    // The progress line is for terminals, and script gives the program one.
    let run = |flag: &str| {
        let line = format!(
            "{BINARY} run {url} --conns 2 --duration 300ms --warmup 0s --allow-invalid {flag}"
        );
        let output = Command::new("script")
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .envs(NO_CACHE)
            .stdin(Stdio::null())
            .output()
            .expect("script is installed");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        text(&output)
    };
    for (flags, drawn, announced) in [
        ("", true, true),
        ("--progress bar", true, true),
        ("--progress lines", false, true),
        ("--progress off", false, true),
        ("--quiet", false, false),
    ] {
        let said = run(flags);
        assert_eq!(said.contains("s left"), drawn, "{flags}: {said}");
        assert_eq!(
            said.contains("takes 300ms to 10.3s: window 300ms, "),
            announced,
            "{flags}: {said}"
        );
        assert!(said.contains("p99.9"), "{flags}: {said}");
    }
    target.interrupt();
}

#[test]
fn without_a_terminal_there_is_a_line_every_ten_seconds() {
    let target = Target::start(&["--base-latency", "0s", "--tail-fraction", "0"]);
    let output = binary()
        .args(["run", &target.url, "--rate", "200", "--conns", "50", "--allow-invalid"])
        .args(["--warmup", "0s", "--duration", "11s"])
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let message = String::from_utf8(output.stderr).expect("text");
    let [takes, line] = message.lines().collect::<Vec<_>>()[..] else {
        panic!("two lines: {message}")
    };
    assert_eq!(takes, "takes 11s to 21s: window 11s, drain up to 10s");
    assert!(line.starts_with("steady ") || line.starts_with("drain "), "{message}");
    for part in [" left  intended ", "/s  answered ", "/s  ", " bad  p50 ", "  generator "] {
        assert!(line.contains(part) || line.starts_with("drain "), "{part}: {message}");
    }
    let output =
        binary().args(["run", &target.url, "--progress", "bar"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(
        text(&output).starts_with("truetail: --progress bar: standard error isn't a terminal; ")
    );
    target.interrupt();
}

#[test]
fn a_report_and_its_samples_are_verified_and_a_change_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "1ms", "--tail-fraction", "0"]);
    let truetail =
        |args: &[&str]| binary().args(args).current_dir(folder.path()).output().expect("it runs");
    let load = ["--rate", "500", "--duration", "2s", "--warmup", "0s", "--allow-invalid"];
    let files = ["--out", "report.json", "--raw", "raw.bin"];
    let output = truetail(&[&["run", &target.url], &load[..], &files[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    target.interrupt();

    for args in [&["verify", "report.json"][..], &["verify", "report.json", "--raw", "raw.bin"]] {
        let output = truetail(args);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        assert!(text(&output).contains("no difference"), "{}", text(&output));
    }

    let summary = truetail(&["report", "report.json"]);
    assert_eq!(summary.status.code(), Some(0), "{}", text(&summary));
    assert!(text(&summary).contains("p99.9") && !text(&summary).contains('\u{1b}'));
    let both = ["report", "report.json", "report.json", "--html", "page.html", "--svg", "charts"];
    let drawn = truetail(&both);
    assert_eq!((drawn.status.code(), text(&drawn)), (Some(0), String::new()));
    let page = fs::read_to_string(folder.path().join("page.html")).expect("it was written");
    assert_eq!(page.matches("<svg").count(), 10, "five charts of each");
    let charts = fs::read_dir(folder.path().join("charts")).expect("it was made");
    let mut charts: Vec<String> =
        charts.map(|file| file.expect("a file").file_name().into_string().expect("text")).collect();
    charts.sort_unstable();
    assert_eq!(charts.len(), 10, "{charts:?}");
    assert_eq!(charts[0], "report-2-in-flight.svg");

    let intended = document(&folder.path().join("report.json"))["counts"]["intended"].clone();
    let csv = truetail(&["samples", "raw.bin", "--csv"]);
    let lines = String::from_utf8(csv.stdout).expect("text");
    assert!(lines.starts_with("intended_ns,noticed_ns,sent_ns,ended_ns,shard,"), "{lines}");
    assert_eq!(Some(lines.lines().count() as u64 - 1), intended.as_u64());
    let default = truetail(&["samples", "raw.bin"]);
    assert_eq!(String::from_utf8(default.stdout).expect("text"), lines, "CSV is the default");
    let json = truetail(&["samples", "raw.bin", "--json"]);
    let objects = String::from_utf8(json.stdout).expect("text");
    let outcomes = objects.lines().map(|line| {
        let object: Value = serde_json::from_str(line).expect("an object a line");
        object["outcome"].as_str().expect("a word").to_owned()
    });
    assert_eq!(outcomes.filter(|outcome| outcome == "answered").count() + 1, lines.lines().count());

    let path = folder.path().join("report.json");
    let whole = fs::read_to_string(&path).expect("written");
    let mut report: Value = serde_json::from_str(&whole).expect("it is JSON");
    let p99 = report["corrected"]["p99"].as_f64().expect("a number");
    report["corrected"]["p99"] = (p99 * 0.9).into();
    fs::write(&path, report.to_string()).expect("written");
    let output = truetail(&["verify", "report.json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("DIFFERS  corrected.p99"), "{}", text(&output));

    fs::write(&path, &whole).expect("written");
    let raw = folder.path().join("raw.bin");
    let mut bytes = fs::read(&raw).expect("written");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&raw, bytes).expect("written");
    let output = truetail(&["verify", "report.json", "--raw", "raw.bin"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let output = truetail(&["samples", "raw.bin", "--csv"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert!(stderr.contains("raw.bin: at byte") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn a_result_that_cannot_be_written_affects_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "0s", "--tail-fraction", "0"]);
    // Both the figures and the report fail; no status is as expected. Only a shell can limit the
    // length of a file.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\"", BINARY])
        .args(["run", &target.url, "--rate", "100", "--duration", "300ms", "--warmup", "0s"])
        .args(["--out", "run.json", "--prom", "run.prom", "--csv", "run.csv"])
        .args(["--expect-status", "500", "--quiet"])
        .envs(NO_CACHE)
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("INVALID") && said.contains("corrected"), "{said}");
    assert!(said.contains("run.csv") && !said.contains("run.json"), "{said}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{stderr}");
    for (line, file) in lines.iter().zip(["--out run.json", "--prom run.prom"]) {
        let words = format!("truetail: {file}: could not be written (File too large");
        assert!(line.starts_with(&words), "{stderr}");
    }
    let csv = fs::read_to_string(folder.path().join("run.csv")).expect("the series was written");
    assert!(1 < csv.lines().count(), "{csv}");
    target.interrupt();
}

#[test]
fn an_invalid_run_begins_with_that_and_exits_with_3() {
    let target = Target::start(&["--base-latency", "0s", "--tail-fraction", "0"]);
    let run = |flags: &[&str]| {
        binary()
            .args(["run", &target.url, "--rate", "100", "--duration", "500ms", "--warmup", "0s"])
            .args(["--expect-status", "500"])
            .args(flags)
            .output()
            .expect("the binary runs")
    };
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let said = String::from_utf8(output.stdout).expect("text");
    let first = said.lines().next().expect("a line");
    assert!(first.starts_with("INVALID"), "{said}");
    assert!(said.contains("errors: 100 % of the requests had no good answer"), "{said}");
    assert_eq!(run(&["--allow-invalid"]).status.code(), Some(0));
    target.interrupt();
}

/// Starts a run of an hour with all its files, the report under this name, and waits until the
/// target has received requests of it.
fn long_run(target: &Target, folder: &Path, report: &str) -> Child {
    let mut run = binary()
        .args(["run", &target.url, "--rate", "100", "--warmup", "0s", "--duration", "1h"])
        .args(["--timeout", "1h", "--out", report, "--csv", "run.csv", "--raw", "raw.bin", "-q"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let has_samples = || names(folder).iter().any(|name| is_temporary(name, "raw.bin"));
    wait_until(&mut run, || has_samples() && 100 < target.received());
    run
}

/// True if `file` has this name until it is whole.
fn is_temporary(name: &str, file: &str) -> bool {
    name.strip_prefix(file).is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".tmp"))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[test]
fn an_interrupted_run_writes_and_announces_what_it_has() {
    for name in ["INT", "TERM"] {
        let folder = tempfile::tempdir().expect("a folder");
        let target = Target::start(&["--base-latency", "1ms", "--tail-fraction", "0"]);
        let run = long_run(&target, folder.path(), "report.json");
        signal(&run, name);
        let output = run.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{}", text(&output));
        let report = document(&folder.path().join("report.json"));
        assert_eq!(report["interrupted"], true);
        assert_sums(&report["counts"]);
        assert!(0 < report["counts"]["answered"].as_u64().expect("a count"));
        assert!(text(&output).contains("\ninterrupted after "), "{}", text(&output));
        assert_eq!(names(folder.path()), ["raw.bin", "report.json", "run.csv"]);
        target.interrupt();
    }
}

/// A listener that takes no more connections: its queue is full, and none is accepted.
fn deaf() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("it has one");
    let waiting =
        (0..20_000).map_while(|_| TcpStream::connect_timeout(&address, DEAF_FOR).ok()).collect();
    (listener, waiting)
}

/// How long a listener has to be silent to count as deaf: longer than the second until the kernel
/// tries again.
const DEAF_FOR: Duration = Duration::from_millis(1_500);

#[test]
fn a_signal_ends_the_search_for_a_target() {
    let (listener, waiting) = deaf();
    ended_by_a_signal(&format!("http://{}/", listener.local_addr().expect("it has one")));
    drop(waiting);
    // The kernel accepts the connection, but there is no handshake.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    ended_by_a_signal(&format!("https://{}/", silent.local_addr().expect("it has one")));
}

/// Sends a signal to a run that waits for its target: it ends at once, and there is no report.
fn ended_by_a_signal(url: &str) {
    /// Less than the three seconds after which the program gives up on the target.
    const IN_TIME: Duration = Duration::from_secs(2);
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json");
    for _ in 0..5 {
        let began = Instant::now();
        let mut run = binary();
        run.args(["run", url, "--out"]).arg(&report).stderr(Stdio::piped());
        let mut run = run.spawn().expect("runs");
        // Before the handler is set, the signal would end the program by itself.
        let status = format!("/proc/{}/status", run.id());
        let hears = |text: String| {
            let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:\t"))?;
            Some(u64::from_str_radix(mask, 16).expect("a mask") & 1 << (2 - 1) != 0)
        };
        wait_until(&mut run, || {
            // A program that has ended catches nothing any more.
            IN_TIME < began.elapsed()
                || fs::read_to_string(&status).ok().and_then(hears) == Some(true)
        });
        // Until it is waited for, even a process that has ended can be signalled.
        signal(&run, "INT");
        let in_time = began.elapsed() < IN_TIME;
        let output = run.wait_with_output().expect("it ends");
        if in_time {
            assert_eq!(output.status.code(), Some(130), "{}", text(&output));
            assert_eq!(text(&output), "truetail: interrupted before the run began\n");
            assert_eq!(
                fs::read_dir(folder.path()).expect("a folder").count(),
                0,
                "no file is left"
            );
            return;
        }
        // The machine was too slow for the case to arise: this attempt proves nothing.
    }
    panic!("no signal came within {IN_TIME:?}");
}

#[test]
fn a_target_that_never_answers_does_not_hold_an_interrupted_run() {
    let folder = tempfile::tempdir().expect("a folder");
    // It answers nothing for an hour, which is also the timeout and the length of the run.
    let target = Target::start(&["--base-latency", "1h", "--tail-fraction", "0"]);
    let run = long_run(&target, folder.path(), "report.json");
    signal(&run, "INT");
    // Unless the drain is limited, this would take the hour.
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let counts = &document(&folder.path().join("report.json"))["counts"];
    assert_sums(counts);
    assert_eq!(counts["answered"], 0, "{counts}");
    assert!(100 < counts["abandoned"].as_u64().expect("a count"), "{counts}");
    assert!(text(&output).contains("responses are awaited for up to 2s"), "{}", text(&output));
    drop(target);
}

#[test]
fn a_second_signal_ends_it_at_once_and_leaves_no_half_file() {
    let folder = tempfile::tempdir().expect("a folder");
    // A full pipe without a reader: the report can't be finished, so only the second signal ends
    // the program.
    let report = folder.path().join("report.pipe");
    assert!(Command::new("mkfifo").arg(&report).status().expect("mkfifo runs").success());
    let reader = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(O_NONBLOCK)
        .open(&report)
        .expect("it opens");
    while (&reader).write(&[b' '; 4_096]).is_ok() {}
    // The target answers nothing for an hour, so after the first signal there is a drain as well.
    let target = Target::start(&["--base-latency", "1h", "--tail-fraction", "0"]);
    let mut run = long_run(&target, folder.path(), "report.pipe");
    let before = names(folder.path());
    assert!(is_temporary(&before[0], "raw.bin"), "{before:?}");
    assert_eq!(before[1], "report.pipe");
    assert!(is_temporary(&before[2], "run.csv"), "{before:?}");
    // Signals that are pending at once count as one, so they are sent until the second is received.
    // Without it the program would wait for a reader of the pipe.
    let ended = (0..6_000).any(|_| {
        signal(&run, "INT");
        thread::sleep(Duration::from_millis(20));
        run.try_wait().expect("it is ours").is_some()
    });
    if !ended {
        run.kill().expect("it is ours");
    }
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_eq!(text(&output), "", "there was no more output");
    let names = names(folder.path());
    assert!(names.iter().all(|name| !name.ends_with(".tmp")), "{names:?}");
    drop((reader, target));
}

/// Linux's O_NONBLOCK: a full pipe refuses what is written.
const O_NONBLOCK: i32 = 0o4000;

#[test]
fn a_broken_stdout_harms_neither_the_run_nor_its_files() {
    let target = Target::start(&["--base-latency", "0s", "--tail-fraction", "0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["--rate", "100", "--duration", "300ms", "--warmup", "0s", "--allow-invalid", "-q"];
    let run = |out: &str, stdout: Stdio| {
        let output = binary()
            .args(["run", &target.url, "--out", out])
            .args(args)
            .current_dir(folder.path())
            .stdout(stdout)
            .output()
            .expect("the binary runs");
        assert_sums(&document(&folder.path().join(out))["counts"]);
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    // A reader that has gone away does no harm; a full disk loses only the summary.
    let (reader, broken) = io::pipe().expect("a pipe");
    drop(reader);
    assert_eq!(run("broken.json", broken.into()), (Some(0), String::new()));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it opens");
    let (code, stderr) = run("full.json", full.into());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.starts_with("truetail: can't write to standard output (No space"), "{stderr}");
    // Closed from the start, which only a shell can do.
    let output = Command::new("sh")
        .args(["-c", "\"$0\" run \"$@\" --out closed.json >&-", BINARY, &target.url])
        .args(args)
        .envs(NO_CACHE)
        .current_dir(folder.path())
        .output()
        .expect("the shell runs");
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(0), ""));
    assert_sums(&document(&folder.path().join("closed.json"))["counts"]);
    target.interrupt();
}

#[test]
fn the_demonstration_shows_both_and_keeps_both() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = binary()
        .args(["demo", "--duration", "2s"])
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    for word in ["closed loop", "by arrival rate", "naive", "corrected", "truetail-demo/open.json"]
    {
        assert!(text(&output).contains(word), "`{word}` is missing in: {}", text(&output));
    }
    let [closed, open] = ["closed.json", "open.json"]
        .map(|name| document(&folder.path().join("truetail-demo").join(name)));
    assert_eq!(
        (&closed["config"]["model"], &open["config"]["model"]),
        (&"closed".into(), &"open".into())
    );
    assert_sums(&closed["counts"]);
    assert_sums(&open["counts"]);
    // Any two seconds contain a whole stall of 200 ms, and at 800/s some requests are due in its
    // first half.
    assert!(100_000.0 < open["corrected"]["max"].as_f64().expect("a number"), "{}", text(&output));
}

/// The faulty server's treatment of a request, by the request's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Answered,
    Refused,
    Reset,
    CutShort,
    Dripped,
}

impl Fate {
    /// 1 % gets a 500, 0.5 % a reset, 0.5 % half a body, 0.1 % a byte a second.
    fn of(number: u64) -> Fate {
        match (number % 100, number % 200, number % 1_000) {
            (7, _, _) => Fate::Refused,
            (_, 13, _) => Fate::Reset,
            (_, 57, _) => Fate::CutShort,
            (_, _, 501) => Fate::Dripped,
            _ => Fate::Answered,
        }
    }
}

/// A server that treats each request by its number, and its log: how many had each fate.
struct FaultyServer {
    url: String,
    log: Arc<Mutex<BTreeMap<Fate, u64>>>,
}

impl FaultyServer {
    fn start() -> FaultyServer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("it has one"));
        let log = Arc::default();
        let server = FaultyServer { url, log };
        let log = server.log.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, log) = (stream.expect("a connection"), log.clone());
                thread::spawn(move || serve(stream, &log));
            }
        });
        server
    }

    fn count(&self, fate: Fate) -> u64 {
        self.log.lock().expect("no thread panics").get(&fate).copied().unwrap_or(0)
    }
}

/// Serves one connection until either side ends it.
fn serve(mut stream: TcpStream, log: &Mutex<BTreeMap<Fate, u64>>) -> Option<()> {
    const HEAD_END: &[u8] = b"\r\n\r\n";
    stream.set_nodelay(true).ok()?;
    let mut head = [0; 1_024];
    loop {
        // The bytes stay in the socket until the request's fate is known: closing it with unread
        // bytes resets it.
        let length = match stream.peek(&mut head).ok()? {
            0 => return None,
            seen => head[..seen].windows(4).position(|end| end == HEAD_END).map(|at| at + 4),
        };
        let Some(length) = length else { continue };
        let fate = {
            let mut log = log.lock().expect("no thread panics");
            let fate = Fate::of(log.values().sum());
            *log.entry(fate).or_default() += 1;
            fate
        };
        if fate == Fate::Reset {
            return None;
        }
        stream.read_exact(&mut head[..length]).ok()?;
        let status = if fate == Fate::Refused { "500 Internal Server Error" } else { "200 OK" };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 100\r\n\r\n{:100}", "");
        let body = answer.len() - 100;
        match fate {
            Fate::CutShort => return stream.write_all(&answer.as_bytes()[..body + 50]).ok(),
            Fate::Dripped => {
                stream.write_all(&answer.as_bytes()[..body]).ok()?;
                loop {
                    thread::sleep(Duration::from_secs(1));
                    stream.write_all(b" ").ok()?;
                }
            }
            _ => stream.write_all(answer.as_bytes()).ok()?,
        }
    }
}

#[test]
fn each_fault_of_a_server_is_found_under_its_own_cause() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = FaultyServer::start();
    // The timeout ends a drip of a hundred seconds, and is far above any other response time.
    let output = binary()
        .args(["run", &server.url, "--rate", "1k", "--arrivals", "constant", "--conns", "64"])
        .args(["--warmup", "0s", "--duration", "3s", "--timeout", "5s"])
        .args(["--out", "report.json", "--allow-invalid"])
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let counts = &document(&folder.path().join("report.json"))["counts"];
    assert_sums(counts);
    assert_eq!((&counts["intended"], &counts["sent"]), (&3_000.into(), &3_000.into()), "{counts}");
    let logged = serde_json::json!({
        "status": {
            "200": server.count(Fate::Answered),
            "500": server.count(Fate::Refused),
        },
        "errors": {
            "reset": server.count(Fate::Reset),
            "cut_short": server.count(Fate::CutShort),
            "timed_out": server.count(Fate::Dripped),
        },
    });
    assert_eq!(counts["status"], logged["status"], "{counts}");
    assert_eq!(counts["errors"], logged["errors"], "{counts}");
    assert_eq!(counts["unexpected_status"], server.count(Fate::Refused), "{counts}");
    let errors = serde_json::json!({ "cut_short": 15, "reset": 15, "timed_out": 3 });
    assert_eq!(logged["errors"], errors);
}
