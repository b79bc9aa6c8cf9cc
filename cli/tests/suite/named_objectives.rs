//! Objectives for one route or one stage: as exit codes, in the summary, in the report and as test
//! cases; and names that nothing has.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::support::{Target, binary, document, said};

/// Runs the plan with these further arguments in a folder, which has two routes in `targets.json`.
fn run(folder: &std::path::Path, url: &str, args: &[&str]) -> Output {
    let targets = "{\"name\": \"home\", \"weight\": 3, \"url\": \"/\"}\n\
        {\"name\": \"search\", \"url\": \"/search\", \"body\": \"/w==\", \"slo\": \"errors<50%\"}\n";
    fs::write(folder.join("targets.json"), targets).expect("written");
    let run = ["run", url, "--allow-invalid", "--out", "report.json", "--junit", "cases.xml"];
    binary().args(run).args(args).current_dir(folder).output().expect("the binary runs")
}

fn judged(report: &Value) -> Vec<(Option<&str>, &str)> {
    let objectives = report["slo"]["objectives"].as_array().expect("some").iter();
    objectives.map(|one| (one["of"].as_str(), one["judgement"].as_str().expect("one"))).collect()
}

#[test]
fn a_route_that_misses_its_objective_fails_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "5ms"]);
    let args = ["--targets", "targets.json", "-R", "200", "-d", "6s", "--warmup", "0s"];
    let slo = "p50<60s,search: p50<1ms";
    let output = run(folder.path(), &target.url, &[&args[..], &["--slo", slo]].concat());
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("targets: 2 requests, JSON lines\n"), "{stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let headline = stdout.lines().next().expect("a line");
    assert!(headline.contains("objectives MISSED"), "{headline}");
    assert!(stdout.contains("search: p50 < 1.00 ms"), "{stdout}");
    let report = document(&folder.path().join("report.json"));
    let search = Some("search");
    assert_eq!(judged(&report), [(None, "met"), (search, "missed"), (search, "met")]);
    let cases = fs::read_to_string(folder.path().join("cases.xml")).expect("it was written");
    assert!(cases.contains("name=\"search: p50 &lt; 1.00 ms\""), "{cases}");
    let verified = binary().args(["verify", "report.json"]).current_dir(folder.path()).output();
    let verified = verified.expect("the binary runs");
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
}

#[test]
fn a_named_stage_has_its_objective_and_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "1ms"]);
    let args = ["--stages", "100:1s,busy=200:5s", "--warmup", "0s", "--slo", "busy: p50<60s"];
    let output = run(folder.path(), &target.url, &args);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.lines().any(|line| line.starts_with("busy  ")), "{stdout}");
    let report = document(&folder.path().join("report.json"));
    assert_eq!(judged(&report), [(Some("busy"), "met")]);
    assert_eq!(report["parts"][1]["stage"]["name"], "busy");
}

#[test]
fn a_name_that_nothing_has_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    // Nothing listens there.
    let url = "http://127.0.0.1:9/";
    let targets = ["--targets", "targets.json", "-R", "10"];
    for (args, problem) in [
        (&["--slo", "serch: p99<1s"][..], "neither a scenario nor a stage has this name"),
        (&["--slo", "serch: p99<1s"], "choose from search, home"),
        (&["--slo", "search: rate>=0.9"], "`rate` is for the whole run"),
        (&["--slo", "search: errors<9%"], "errors has two bounds"),
        (&["--order", "random"], "--order"),
    ] {
        let output = run(folder.path(), url, &[&targets[..], args].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(problem), "{}", said(&output));
    }
}
