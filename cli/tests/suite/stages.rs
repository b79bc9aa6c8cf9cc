//! `--stages` through the binary: a run whose rate rises and falls, and its refusals.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Target, binary, document, said};

/// Checks that the report of a folder follows from itself and its samples.
fn verifies(folder: &Path) {
    let verified = binary()
        .args(["verify", "run.json", "--raw", "run.raw"])
        .current_dir(folder)
        .output()
        .expect("the binary runs");
    assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
}

#[test]
fn a_run_has_results_for_each_of_its_stages() {
    let target = Target::start(&["--base-latency", "1ms", "--tail-fraction", "0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let output = binary()
        .args(["run", &target.url, "--stages", "100:500ms,100..500:1s,500:500ms"])
        .args(["--arrivals", "constant", "--warmup", "0s", "--allow-invalid"])
        .args(["--out", "run.json", "--raw", "run.raw"])
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let report = document(&folder.path().join("run.json"));
    let parts = report["parts"].as_array().expect("parts");
    let intended: Vec<u64> =
        parts.iter().filter_map(|part| part["counts"]["intended"].as_u64()).collect();
    assert_eq!(intended, [50, 300, 250]);
    assert_eq!(parts[1]["stage"]["from_per_s"], 100.0);
    assert_eq!(report["config"]["duration"], "2s");
    assert_eq!(target.received(), 600, "the target saw them");
    assert!(text.contains("constant arrivals, seed 1, 3 stages"), "{text}");
    let row = text.lines().find(|line| line.split_whitespace().nth(1) == Some("100..500"));
    assert!(row.is_some_and(|row| row.split_whitespace().count() == 9), "{text}");
    assert!(text.contains("Percentiles of a ramp mix its rates"), "{text}");

    verifies(folder.path());
}

#[test]
fn users_of_a_closed_loop_come_and_go() {
    let target = Target::start(&["--base-latency", "5ms", "--tail-fraction", "0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let run = |flags: &[&str]| {
        let output = binary()
            .args(["run", &target.url, "--warmup", "0s", "--allow-invalid", "--out", "run.json"])
            .args(["--csv", "run.csv", "--raw", "run.raw"])
            .args(flags)
            .current_dir(folder.path())
            .output()
            .expect("the binary runs");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        verifies(folder.path());
        (text, document(&folder.path().join("run.json")))
    };
    let (text, report) = run(&["--model", "closed", "--stages", "2:400ms,2..8:600ms,8:500ms"]);
    let parts = report["parts"].as_array().expect("parts");
    let ends = |of: &Value| (of["stage"]["from_users"].clone(), of["stage"]["to_users"].clone());
    assert_eq!(
        parts.iter().map(ends).collect::<Vec<_>>(),
        [(2.into(), 2.into()), (2.into(), 8.into()), (8.into(), 8.into())]
    );
    assert_eq!((&report["config"]["conns"], &report["counts"]["users"]), (&8.into(), &8.into()));
    assert_eq!(report["config"]["stage"][0]["users"], 2);
    let answered = |at: usize| parts[at]["counts"]["answered"].as_f64().expect("a count");
    // Four times as many users get more answers per second.
    assert!(1.5 * answered(0) / 0.4 < answered(2) / 0.5, "{parts:?}");
    assert!(text.contains("closed loop, up to 8 users, 3 stages"), "{text}");
    let row = text.lines().find(|line| line.split_whitespace().nth(1) == Some("2..8"));
    assert!(row.is_some_and(|row| row.split_whitespace().count() == 9), "{text}");
    assert!(text.contains("Percentiles of a ramp mix its numbers of users"), "{text}");
    let csv = fs::read_to_string(folder.path().join("run.parts.csv")).expect("parts");
    let (head, rows) = csv.split_once('\n').expect("a header");
    let at = head.split(',').position(|name| name == "to_users").expect("a column");
    let last: Vec<&str> = rows.lines().filter_map(|row| row.split(',').nth(at)).collect();
    assert_eq!(last, ["2", "8", "8"]);

    // In a plan file, with a period.
    let file = "period = '20ms'\n[[stage]]\nusers = 4\nduration = '300ms'\n\
        [[stage]]\nname = 'away'\nfrom = 4\nto = 0\nduration = '400ms'\n";
    fs::write(folder.path().join("plan.toml"), file).expect("written");
    let (text, report) = run(&["--plan", "plan.toml"]);
    assert_eq!(report["config"]["model"], "closed");
    // Four users send 15 times each, then each of them until it leaves.
    let intended = |at: usize| report["parts"][at]["counts"]["intended"].as_u64();
    assert_eq!(intended(0), Some(60));
    assert!(intended(1).is_some_and(|few| (38..=42).contains(&few)), "{:?}", intended(1));
    assert!(text.contains("closed loop, up to 4 users, one request every 20ms"), "{text}");
}

/// The counts of a part, by scenario and stage.
type Counts = BTreeMap<(String, String), u64>;

/// The sum of a column of a CSV, by scenario and stage. No name here has a comma.
fn column(text: &str, name: &str) -> Counts {
    let (head, rows) = text.split_once('\n').expect("a header");
    let at = |name: &str| head.split(',').position(|one| one == name).expect(name);
    let mut sums = Counts::new();
    for row in rows.lines() {
        let cells: Vec<&str> = row.split(',').collect();
        let number =
            if name == "intended_ns" { 1 } else { cells[at(name)].parse().expect("a count") };
        let key = (cells[at("scenario")].to_owned(), cells[at("stage")].to_owned());
        *sums.entry(key).or_default() += number;
    }
    sums
}

#[test]
fn each_output_has_each_route_in_each_stage() {
    let target = Target::start(&["--base-latency", "1ms", "--tail-fraction", "0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let text = |name: &str| fs::read_to_string(path(name)).expect(name);
    let targets = "{\"name\": \"home\", \"weight\": 3, \"url\": \"/\"}\n\
                   {\"weight\": 1, \"url\": \"/search?q=1\"}\n";
    fs::write(path("targets.json"), targets).expect("written");
    let output = binary()
        .args(["run", &target.url, "--targets", "targets.json", "--stages", "200:1s,busy=400:2s"])
        .args(["--warmup", "0s", "--settle", "0s", "--allow-invalid", "--quiet"])
        .args(["--out", "run.json", "--csv", "run.csv", "--ndjson", "run.ndjson"])
        .args(["--prom", "run.prom", "--hdr", "run.hlog", "--raw", "run.raw"])
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report = document(&path("run.json"));
    let parts = report["parts"].as_array().expect("parts");
    let counts = parts.iter().map(|part| {
        let name = part["name"].as_str().expect("a name").to_owned();
        let count = part["counts"]["intended"].as_u64().expect("a count");
        let stage = part["stage"]["name"].as_str().map(str::to_owned);
        ((name, stage.unwrap_or_else(|| part["stage"]["number"].to_string())), count)
    });
    let counts: Counts = counts.collect();
    let keys: Vec<(&str, &str)> = counts.keys().map(|(name, at)| (&**name, &**at)).collect();
    let expected = [("GET /search", "1"), ("GET /search", "busy"), ("home", "1"), ("home", "busy")];
    assert_eq!(keys, expected);

    assert_eq!(column(&text("run.parts.csv"), "intended"), counts);
    let samples = binary()
        .args(["samples", "run.raw", "--report", "run.json"])
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    let samples = String::from_utf8(samples.stdout).expect("text");
    assert_eq!(column(&samples, "intended_ns"), counts);
    let lines: Vec<Value> =
        text("run.ndjson").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (last, others) = lines.split_last().expect("lines");
    assert!(others.iter().any(|line| line["stage"] == "busy"), "{lines:?}");
    let of_lines = last["parts"].as_array().expect("a list").iter().map(|part| {
        let name = part["scenario"].as_str().expect("a name").to_owned();
        let stage = part["stage"].as_str().expect("a name or a number").to_owned();
        ((name, stage), part["intended"].as_u64().expect("a count"))
    });
    assert_eq!(of_lines.collect::<Counts>(), counts);
    let (prom, hlog) = (text("run.prom"), text("run.hlog"));
    for ((name, stage), count) in &counts {
        let labels = format!("target=\"{}\",scenario=\"{name}\",stage=\"{stage}\"", target.url);
        let line = format!("truetail_part_requests_intended{{{labels}}} {count}.0");
        assert!(prom.lines().any(|found| found == line), "{line}: {prom}");
        for kind in ["corrected", "naive"] {
            let tag = format!("\nTag={kind}/{}/{stage},", name.replace(' ', "%20"));
            assert_eq!(hlog.matches(&tag).count(), 1, "{tag}");
        }
    }
    assert!(prom.contains("truetail_part_requests{target="), "{prom}");

    // Another plan's report has other names.
    let mut other = report.clone();
    other["config"]["seed"] = 2.into();
    fs::write(path("other.json"), other.to_string()).expect("written");
    let refused = binary()
        .args(["samples", "run.raw", "--report", "other.json"])
        .current_dir(folder.path())
        .output()
        .expect("the binary runs");
    assert_ne!(refused.status.code(), Some(0), "{}", said(&refused));
}

#[test]
fn stages_are_read_from_a_plan_file_and_refused_where_meaningless() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = "[[stage]]\nrate = 100\nduration = '1s'\n\
        [[stage]]\nfrom = 100\nto = '1k'\nduration = '2s'\n";
    fs::write(folder.path().join("plan.toml"), file).expect("written");
    fs::write(folder.path().join("both.toml"), format!("rate = 5\n{file}")).expect("written");
    let users = "[[stage]]\nusers = 3\nduration = '1s'\n";
    let mixed = format!("{users}[[stage]]\nrate = 4\nduration = '1s'\n");
    fs::write(folder.path().join("users.toml"), users).expect("written");
    fs::write(folder.path().join("mixed.toml"), mixed).expect("written");
    let url = "http://127.0.0.1:9/";
    let stages = ["--stages", "100:1s"];
    for (line, words) in [
        (vec!["run", url, "--plan", "plan.toml", "-d", "30s"], ["--duration 30s", "omit one"]),
        (
            vec!["run", url, "--plan", "plan.toml", "-n", "9"],
            ["--requests 9", "omit one of the two"],
        ),
        (vec!["run", url, "--plan", "both.toml"], ["line 2", "contradicts `rate`"]),
        (vec!["run", url, "--stages", "100:1s", "-R", "5"], ["--stages", "--rate"]),
        (vec!["run", url, "--stages", "100:1s", "-d", "5s"], ["--stages", "--duration"]),
        (vec!["run", url, "--stages", "100"], ["--stages 100", "give RATE:DURATION"]),
        (
            vec!["run", url, "--stages", "9:1s", "--model", "closed", "-c5"],
            ["--conns 5", "9 users"],
        ),
        (vec!["run", url, "--stages", "1.5:1s", "--period", "1s"], ["--stages 1.5:1s", "whole"]),
        (
            vec!["run", url, "--plan", "mixed.toml"],
            ["--stages 3:1s,4:1s: stage 2", "or use --model"],
        ),
        (
            vec!["run", url, "--plan", "users.toml", "--pipeline", "2"],
            ["--pipeline 2", "users who"],
        ),
        (vec!["run", url, "--plan", "users.toml", "-d", "30s"], ["--duration 30s", "omit one"]),
        (vec!["search", url, "--plan", "plan.toml"], ["--stages", "has one rate"]),
        (
            [&["sweep", url, "--rates", "1..2"][..], &stages].concat(),
            ["--stages 100:1s", "has one rate"],
        ),
        ([&["ceiling", url][..], &stages].concat(), ["--stages 100:1s", "has one rate"]),
        ([&["ab", url, url][..], &stages].concat(), ["--stages 100:1s", "has one rate"]),
    ] {
        let output =
            binary().args(&line).current_dir(folder.path()).output().expect("the binary runs");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{line:?}: {text}");
    }
}
