//! A run's results for other programs, each read here by an independent reader. HdrHistogram's,
//! which is Python's, is among the real servers.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use prometheus_parse::{Scrape, Value as Measured};
use serde_json::Value;

use crate::support::{Target, binary, bounded, document, said, signal, wait_until};

/// The lines of a file of JSON Lines.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The counts in the lines, and those in the report.
const COUNTS: [(&str, &str); 10] = [
    ("intended", "/counts/intended"),
    ("sent", "/counts/sent"),
    ("unsent", "/counts/unsent"),
    ("answered", "/counts/answered"),
    ("unexpected_status", "/counts/unexpected_status"),
    ("timed_out", "/counts/timed_out"),
    ("failed", "/counts/failed"),
    ("abandoned", "/counts/abandoned"),
    ("warmup_sent", "/counts/warmup/sent"),
    ("warmup_answered", "/counts/warmup/answered"),
];

fn assert_adds_up(lines: &[Value], report: &Value) {
    for (name, pointer) in COUNTS {
        let counts = lines.iter().map(|line| line[name].as_u64().expect("a count"));
        let whole = report.pointer(pointer).and_then(Value::as_u64);
        assert_eq!(Some(counts.sum()), whole, "{name}");
    }
}

#[test]
fn the_lines_of_a_run_add_up_to_its_report_even_if_interrupted() {
    let target = Target::start(&["--base-latency", "1ms"]);
    let folder = tempfile::tempdir().expect("a folder");
    let run = |duration: &str| {
        let mut run = binary();
        run.args(["run", &target.url, "--rate", "300", "--warmup", "500ms", "--settle", "0s"])
            .args(["--duration", duration, "--ndjson", "run.ndjson", "--out", "report.json"])
            .args(["--allow-invalid", "--quiet"])
            .current_dir(folder.path());
        run
    };
    let path = |name: &str| folder.path().join(name);
    let written = || fs::read_to_string(path("run.ndjson")).unwrap_or_default();

    let output = run("2s").output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let whole = lines(&written());
    assert!((3..=4).contains(&whole.len()), "a line a second, and the last: {whole:?}");
    assert_adds_up(&whole, &document(&path("report.json")));
    assert_eq!(whole.last().expect("lines")["phase"], "done");

    fs::remove_file(path("run.ndjson")).expect("it is there");
    let mut child = run("1h").stderr(Stdio::piped()).spawn().expect("it runs");
    wait_until(&mut child, || 2 <= written().lines().count());
    assert!(!path("report.json.tmp").exists());
    signal(&child, "INT");
    let output = bounded(child);
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    let cut = lines(&written());
    let report = document(&path("report.json"));
    assert_eq!(report["interrupted"], true);
    assert!(0 < report["counts"]["intended"].as_u64().expect("a count"), "it was in the window");
    assert_adds_up(&cut, &report);
}

#[test]
fn the_lines_go_to_standard_output_and_other_text_elsewhere() {
    let target = Target::start(&["--base-latency", "1ms"]);
    let output = binary()
        .args(["run", &target.url, "--rate", "100", "--warmup", "0s", "--duration", "1s"])
        .args(["--ndjson", "-", "--allow-invalid"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let lines = lines(&String::from_utf8(output.stdout).expect("text"));
    let answered: u64 = lines.iter().map(|line| line["answered"].as_u64().expect("a count")).sum();
    assert!(0 < answered, "{lines:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("Poisson arrivals"), "the summary");
}

/// The only sample of this metric with these labels.
fn sample(scrape: &Scrape, metric: &str, labels: &[(&str, &str)]) -> f64 {
    let mut found = scrape.samples.iter().filter(|sample| {
        sample.metric == metric
            && labels.iter().all(|(name, value)| sample.labels.get(name) == Some(value))
    });
    let (Some(sample), None) = (found.next(), found.next()) else {
        panic!("{metric} {labels:?}: not one sample of {:?}", scrape.samples)
    };
    match sample.value {
        Measured::Gauge(value) => value,
        ref other => panic!("{metric}: {other:?}"),
    }
}

#[test]
fn a_reader_of_prometheus_text_finds_the_figures_of_the_report() {
    let target = Target::start(&["--base-latency", "1ms"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let output = binary()
        .args(["run", &target.url, "--rate", "400", "--warmup", "0s", "--duration", "5s"])
        .args(["--slo", "p50<10s", "--label", "night\"ly", "--allow-invalid"])
        .args(["--prom", "run.prom", "--out", "report.json"])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = document(&path("report.json"));
    let number = |pointer: &str| {
        let number = report.pointer(pointer).and_then(Value::as_f64);
        number.unwrap_or_else(|| panic!("{pointer}: {report}"))
    };
    let scrape = scraped(&path("run.prom"));
    let requests = |outcome| sample(&scrape, "truetail_requests", &[("outcome", outcome)]);
    for outcome in ["answered", "timed_out", "failed", "abandoned", "unsent"] {
        assert_eq!(requests(outcome), number(&format!("/counts/{outcome}")), "{outcome}");
    }
    assert_eq!(
        sample(&scrape, "truetail_responses", &[("status", "200")]),
        number("/counts/status/200")
    );
    for (metric, labels, us) in [
        ("latency_seconds", &[("kind", "corrected"), ("quantile", "0.5")][..], "/corrected/p50"),
        ("latency_seconds", &[("kind", "naive"), ("quantile", "0.9")], "/naive/p90"),
        ("latency_max_seconds", &[("kind", "corrected")], "/corrected/max"),
        ("latency_mean_seconds", &[("kind", "naive")], "/naive/mean"),
    ] {
        let seconds = sample(&scrape, &format!("truetail_{metric}"), labels);
        let expected = number(us) / 1e6;
        assert!((seconds - expected).abs() <= 1e-9 * expected, "{metric}: {seconds}, {expected}");
    }
    let level = report["verdict"]["level"].as_str().expect("a level");
    assert_eq!(sample(&scrape, "truetail_verdict", &[("level", level)]), 1.0);
    assert_eq!(sample(&scrape, "truetail_window_seconds", &[]), 5.0);
    assert_eq!(sample(&scrape, "truetail_objective", &[("judgement", "met")]), 1.0);
    assert_eq!(
        sample(&scrape, "truetail_traffic_bytes", &[("direction", "received")]),
        number("/traffic/received_bytes")
    );
    assert!(scrape.samples.iter().all(|sample| {
        sample.labels.get("target") == Some(&target.url)
            && sample.labels.get("run") == Some("night\\\"ly")
    }));
}

/// The samples of a file; the reader must know every line.
fn scraped(file: &Path) -> Scrape {
    let text = fs::read_to_string(file).expect("it was written");
    let scrape = Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).expect("it is read");
    let samples = text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(scrape.samples.len(), samples, "{text}");
    assert!(!text.contains("{}"), "{text}");
    scrape
}
