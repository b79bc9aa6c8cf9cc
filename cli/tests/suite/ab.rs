//! `ab`: two targets in alternating slices, whose difference is known.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::support::{Target, binary, bounded, document, said, signal};

/// Slices of half a second, without a warm-up.
const SHORT: [&str; 8] =
    ["--slices", "5", "--rate", "200", "--duration", "500ms", "--warmup", "0s"];

fn ab(folder: &Path, args: &[&str]) -> Output {
    let mut command = binary();
    command.arg("ab").args(args).args(SHORT).args(["--out", "ab.json"]).current_dir(folder);
    command.output().expect("the binary runs")
}

fn slices(document: &Value) -> &Vec<Value> {
    document["slices"].as_array().expect("a list")
}

#[test]
fn a_slower_target_is_found_and_the_same_one_is_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let fast = Target::start(&["--base-latency", "2ms"]);
    let slow = Target::start(&["--base-latency", "30ms"]);
    let gate = ["--allow-invalid", "--fail-on", "regression", "--reports", "slices", "--details"];
    let output = ab(folder, &[&[&*fast.url, &slow.url], &gate[..]].concat());
    let message = said(&output);
    assert_eq!(output.status.code(), Some(4), "{message}");
    assert!(message.starts_with("REGRESSION: B is slower at p50 (+"), "{message}");
    assert!(message.contains("\ntakes 6s to 2m6s in all: 12 slices, each 500ms to "), "{message}");
    assert!(message.contains("\nBoth slices of a pair have the same arrivals."), "{message}");
    assert!(
        String::from_utf8_lossy(&output.stdout).lines().all(|line| line.len() <= 90),
        "{message}"
    );
    let found = document(&folder.join("ab.json"));
    assert_eq!((&found["change"], &found["interrupted"]), (&"worse".into(), &false.into()));
    assert_eq!(found["pairs"], Value::from(vec![1, 2, 3, 4, 5]));
    let p50 = &found["percentiles"][0];
    let [low, high] = [0, 1].map(|end| p50["interval"][end].as_f64().expect("an end"));
    let ratio = p50["ratio"].as_f64().expect("a ratio");
    assert!(2.0 < low && low < ratio && ratio < high, "{p50}");

    let verify = || binary().arg("verify").arg(folder.join("ab.json")).output().expect("it runs");
    let output = verify();
    let verified = said(&output);
    assert_eq!(output.status.code(), Some(0), "{verified}");
    let words: Vec<&str> = verified.split_whitespace().collect();
    let verified = words.join(" ");
    assert!(verified.contains("from the slices, and they from their reports"), "{verified}");
    let report = binary().arg("report").arg(folder.join("ab.json")).output().expect("it runs");
    let refused = said(&report);
    assert!(refused.contains("a comparison, not a report; name the reports"), "{refused}");

    // The slices alternate, and both of a pair have the same arrivals, unlike the next pair.
    let order: Vec<&str> =
        slices(&found).iter().map(|slice| slice["of"].as_str().expect("a name")).collect();
    assert_eq!(order.concat(), "baabbaabba");
    let digest = |name: &str| {
        let report = folder.join("slices").join(name);
        let output = binary().args(["verify", "-q"]).arg(&report).output().expect("it runs");
        assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()), "{name}");
        document(&report)["config"]["schedule_digest"].as_str().expect("a digest").to_owned()
    };
    assert_eq!(digest("a-01.json"), digest("b-01.json"));
    assert_ne!(digest("a-01.json"), digest("a-02.json"));
    assert_eq!(fs::read_dir(folder.join("slices")).expect("a folder").count(), 10);
    let p50_of =
        |name: &str| document(&folder.join("slices").join(name))["corrected"]["p50"].clone();
    let first = slices(&found).iter().find(|one| one["of"] == "a" && one["pair"] == 1);
    assert_eq!(first.expect("a slice")["corrected"]["p50"], p50_of("a-01.json"));

    // The same target on both sides is the same: half of 30 ms is more than a busy machine adds to
    // the median of every slice, and far less than the difference of the two targets.
    let same = ["--allow-invalid", "--fail-on", "regression", "--margin", "50%", "--quiet"];
    let output = ab(folder, &[&[&*slow.url, &slow.url], &same[..]].concat());
    let message = said(&output);
    assert_eq!(output.status.code(), Some(0), "{message}");
    let found = document(&folder.join("ab.json"));
    assert_eq!(found["percentiles"][0]["change"], "same", "{message}");
    assert_eq!(found["percentiles"][0]["pairs"], 5, "{message}");
    assert_eq!(found["a"]["targets"], found["b"]["targets"]);
}

#[test]
fn a_slower_target_is_slower_on_each_route() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let requests = "{\"url\":\"/a\",\"slo\":\"p99<1ns\"}\n{\"url\":\"/b\"}\n";
    fs::write(folder.join("targets.txt"), requests).expect("written");
    let [fast, slow] = ["2ms", "30ms"].map(|time| Target::start(&["--base-latency", time]));
    let routes = ["--allow-invalid", "--fail-on", "regression", "--targets", "targets.txt"];
    let output = ab(folder, &[&[&*fast.url, &slow.url], &routes[..]].concat());
    let message = said(&output);
    assert_eq!(output.status.code(), Some(4), "{message}");
    assert!(message.contains("worse for GET /a and GET /b."), "{message}");
    let note = "\nslo: `ab` doesn't judge the objectives of single routes\n";
    assert!(message.contains(note), "{message}");
    assert!(message.contains("\nby route\nGET /a  slower at p50 (+"), "{message}");
    let found = document(&folder.join("ab.json"));
    for part in found["parts"].as_array().expect("a list") {
        assert_eq!(part["change"], "worse", "{part}");
        assert_eq!(part["percentiles"][0]["pairs"], 5, "{part}");
    }
    let slice = &slices(&found)[0];
    let of_parts = [0, 1].map(|at| slice["parts"][at]["requests"].as_u64().expect("a count"));
    assert_eq!(Some(of_parts.iter().sum()), slice["requests"].as_u64());
}

#[test]
fn slices_that_cannot_be_trusted_are_named_and_nothing_is_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "2ms"]);
    let (url, other) = (target.url.as_str(), format!("{}other", target.url));
    // Every response has another status than expected.
    let output = ab(folder.path(), &[url, &other, "--expect-status", "404"]);
    let message = said(&output);
    assert_eq!(output.status.code(), Some(3), "{message}");
    let why = "NOT JUDGED: 10 of 10 slices are invalid, and the target may be the cause.\n";
    assert!(message.starts_with(why) && message.contains(": B1 ("), "{message}");
    let found = document(&folder.path().join("ab.json"));
    assert_eq!((&found["change"], slices(&found).len()), (&"undecided".into(), 10));
}

/// The output and the document of a comparison of a target with itself that a signal ends after
/// this many requests.
fn interrupted(after: u64, args: &[&str]) -> (String, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&["--base-latency", "2ms"]);
    let mut run = binary()
        .args(["ab", &target.url, &target.url, "--rate", "200", "--warmup", "0s"])
        .args(["--allow-invalid", "--out", "ab.json"])
        .args(args)
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    target.wait_for_requests(&mut run, after);
    signal(&run, "INT");
    let output = bounded(run);
    let message = said(&output);
    assert_eq!(output.status.code(), Some(130), "{message}");
    let found = document(&folder.path().join("ab.json"));
    assert_eq!(found["interrupted"], true, "{message}");
    (message, found)
}

#[test]
fn a_signal_ends_it_and_the_results_so_far_are_kept() {
    let (message, found) = interrupted(20, &["--duration", "1m"]);
    assert!(message.starts_with("interrupted by a signal: no pair was complete."), "{message}");
    assert_eq!(slices(&found).len(), 0);
}

#[test]
fn a_signal_shows_the_estimates_of_the_pairs_so_far() {
    // The warm-up of both sides takes 200 requests, and so does each pair of slices.
    let (message, found) = interrupted(750, &["--duration", "500ms", "--slices", "100"]);
    let pairs = found["pairs"].as_array().expect("a list").len();
    assert!((2..5).contains(&pairs), "{message}");
    let first = format!("interrupted by a signal: these are the estimates of the first {pairs} ");
    assert!(message.starts_with(&first), "{message}");
    assert!(message.contains(&format!("NOT JUDGED: only {pairs} of 100 pairs count")), "{message}");
    let p50 = &found["percentiles"][0];
    let [low, high] = [0, 1].map(|end| p50["interval"][end].as_f64().expect("an end"));
    let ratio = p50["ratio"].as_f64().expect("a ratio");
    assert!(low < ratio && ratio < high, "{p50}");
    assert_eq!((&p50["change"], &found["change"]), (&"undecided".into(), &"undecided".into()));
}

#[test]
fn flags_that_two_targets_cannot_share_are_refused_before_the_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    let url = target.url.as_str();
    let nobody = "http://127.0.0.1:1/";
    let place = url.trim_start_matches("http://").trim_end_matches('/');
    // A folder with the report of a longer comparison, and one without.
    let reports = tempfile::tempdir().expect("a folder");
    let path = |name: &str| reports.path().join(name).to_str().expect("text").to_owned();
    let (old, new, targets) = (&*path("old"), &*path("new"), &*path("targets.txt"));
    fs::write(targets, "/a\n").expect("written");
    fs::create_dir(old).expect("made");
    fs::write(Path::new(old).join("a-12.json"), "{}").expect("written");
    for (args, code, line) in [
        (&[url, nobody][..], 1, "URL-B http://127.0.0.1:1/: 127.0.0.1:1 accepts no"),
        (&[nobody, url], 1, "URL-A http://127.0.0.1:1/: 127.0.0.1:1 accepts no"),
        (&[url, "ftp://h/"], 2, "URL-B ftp://h/: the scheme is neither http nor https"),
        (
            &["http://h:80/", "http://h/#b", "--connect-to", place],
            2,
            &format!("--connect-to {place}: both URLs ask"),
        ),
        (&[url], 2, "the following required arguments were not provided: <URL-B>"),
        (&[url, url, "--raw", "r"], 2, "--raw r: a file holds one run, not many slices"),
        (&[url, url, "--csv", "c"], 2, "--csv c: a file holds one run, not many slices"),
        (&[url, url, "--slo", "p99<1s"], 2, "--slo p99<1s: a comparison has no objectives"),
        (&[url, url, "--slices", "4"], 2, "--slices 4: invalid number: give a whole number from 5"),
        (&[url, url, "--fail-on", "suspect"], 2, "--fail-on suspect"),
        (
            &[url, url, "--reports", old],
            2,
            &format!("--reports {old}: has a-12.json already; name"),
        ),
        (
            &[url, url, "--reports", new, "--out", &format!("{new}/../new/b-01.json")],
            2,
            &format!("--out {new}/../new/b-01.json: --reports names the same file; give each"),
        ),
        (
            &[url, &format!("{url}other"), "--targets", targets],
            2,
            "--targets #1: URL-A and URL-B lead to the same URL; give its path instead",
        ),
        (&[url, url, "--flamegraph", "f.svg"], 2, "--flamegraph f.svg: a profile is of one run"),
    ] {
        let output = binary().arg("ab").args(args).current_dir(folder.path()).output();
        let output = output.expect("the binary runs");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        // The format of a file of targets is named first.
        let refusal = message.lines().filter(|line| !line.starts_with("targets: "));
        let [refusal] = &refusal.collect::<Vec<&str>>()[..] else { panic!("{message}") };
        assert!(refusal.starts_with(&format!("truetail: {line}")), "{args:?}: {message}");
    }
    assert_eq!(target.received(), 0);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "a file was left");
}
