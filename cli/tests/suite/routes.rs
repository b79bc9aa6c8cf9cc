//! Several routes through the binary: against `target --route`, whose ledger counts each of them,
//! and on agents.

use std::fs;
use std::path::Path;

use engine::report::Report;
use serde_json::Value;

use crate::support::{Target, binary, document, said};

/// Three routes in the proportions 6 to 3 to 1.
pub const TARGETS: &str = r#"
{"name": "home", "weight": 6, "url": "/"}
{"name": "search", "weight": 3, "url": "/search?q=shoes"}
{"name": "orders", "weight": 1, "method": "POST", "url": "/orders/new", "body": "eyJhIjoxfQ=="}
"#;

/// Runs the binary with `TARGETS` in a folder; returns its text and the report.
fn run(folder: &Path, url: &str, flags: &[&str]) -> (String, Value) {
    fs::write(folder.join("targets.json"), TARGETS).expect("written");
    run_in(folder, &[&[url, "--targets", "targets.json"][..], flags].concat())
}

/// Runs the binary in a folder; returns its text and the report.
pub fn run_in(folder: &Path, flags: &[&str]) -> (String, Value) {
    let output = binary()
        .args(["run", "--warmup", "0s", "--quiet", "--allow-invalid", "--out", "run.json"])
        .args(flags)
        .current_dir(folder)
        .output()
        .expect("the binary runs");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    (text, document(&folder.join("run.json")))
}

/// The count of this name of each part, by the part's name.
pub fn counts<'report>(report: &'report Value, name: &str) -> Vec<(&'report str, u64)> {
    let parts = report["parts"].as_array().expect("parts").iter();
    let of = |part: &'report Value| {
        let count = part["counts"][name].as_u64().expect("a count");
        (part["name"].as_str().expect("a name"), count)
    };
    parts.map(of).collect()
}

#[test]
fn the_ledger_counts_for_each_route_what_the_report_does() {
    let target = Target::start(&[
        "--base-latency",
        "1ms",
        "--route",
        "/search:base=2ms,tail=30ms,tail-fraction=0.1",
        "--route",
        "/orders:base=3ms,status=503,body-size=9",
    ]);
    let folder = tempfile::tempdir().expect("a folder");
    let (_, report) = run(folder.path(), &target.url, &["-R", "500", "-d", "2s"]);
    let ledger = target.ledger();
    let of_ledger = |path: &Value, name: &str| {
        let mut routes = ledger["routes"].as_array().expect("routes").iter();
        let route = routes.find(|route| route["path"] == *path).expect("its path");
        route[name].as_u64().expect("a count")
    };
    let paths = [Value::Null, Value::from("/search"), Value::from("/orders")];
    for (name, counted) in [("sent", "received"), ("answered", "answered")] {
        let reported = counts(&report, name);
        let expected = ["home", "search", "orders"].into_iter().zip(&paths);
        let expected: Vec<(&str, u64)> =
            expected.map(|(name, path)| (name, of_ledger(path, counted))).collect();
        assert_eq!(reported, expected, "{name}");
        // Four standard deviations of a binomial.
        let total = reported.iter().map(|(_, count)| count).sum::<u64>() as f64;
        for ((name, count), share) in reported.iter().zip([0.6, 0.3, 0.1]) {
            let off = (*count as f64 - share * total).abs();
            assert!(off <= 4.0 * (total * share * (1.0 - share)).sqrt(), "{name}: {count}");
        }
    }
    assert_eq!(ledger["received"], report["counts"]["sent"]);
    let orders = &report["parts"][2];
    assert_eq!(orders["counts"]["status"]["503"], orders["counts"]["answered"]);
    assert_eq!(orders["bad"], orders["counts"]["answered"]);
    let least = |part: usize| report["parts"][part]["naive"]["min"].as_f64().expect("a time");
    assert!(2_000.0 <= least(1) && 3_000.0 <= least(2));

    let text = target.interrupt();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    for (line, start) in lines[1..].iter().zip(["/search: rec", "/orders: rec", "other paths: rec"])
    {
        assert!(line.starts_with(start) && line.contains(", held p50 "), "{text}");
    }
}

/// The target of a run in which `search` needs more connections than there are, and the flags of
/// that run.
fn slow_search() -> (Target, [&'static str; 6]) {
    let target = Target::start(&["--base-latency", "1ms", "--route", "/search:base=400ms"]);
    (target, ["--rate", "60", "--conns", "4", "--duration", "3s"])
}

#[test]
fn all_routes_wait_for_a_slow_one_at_the_cap_and_the_text_says_for_which() {
    let (target, flags) = slow_search();
    let folder = tempfile::tempdir().expect("a folder");
    let (text, report) = run(folder.path(), &target.url, &flags);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("% of these were busy with search, which has "), "{text}");
    assert!(text.contains(" arrivals were of other routes."), "{text}");
    let reasons = report["verdict"]["reasons"].as_array().expect("reasons").iter();
    let mut reasons = reasons.filter(|reason| reason["code"] == "cap_reached");
    let evidence = reasons.next().expect("the cap was reached")["evidence"].to_string();
    assert!(evidence.contains("% of these were busy with search ("), "{evidence}");

    let capped = counts(&report, "capped");
    let all: u64 = capped.iter().map(|(_, count)| count).sum();
    assert_eq!(Value::from(all), report["counts"]["capped"]);
    assert!(capped.iter().all(|(_, count)| 0 < *count), "{capped:?}");
    let held = [0, 1, 2].map(|part| report["parts"][part]["held"].as_u64().expect("a number"));
    let most: u64 = held.iter().sum();
    assert!(most <= 4 * all && 0.9 * most as f64 <= held[1] as f64, "{held:?} of {all}");
    let output = binary().args(["verify", "--quiet"]).arg(folder.path().join("run.json")).output();
    assert_eq!(said(&output.expect("the binary runs")), "");
}

#[test]
fn requests_dropped_at_the_cap_are_errors_of_their_routes() {
    let (target, flags) = slow_search();
    let folder = tempfile::tempdir().expect("a folder");
    let (_, report) =
        run(folder.path(), &target.url, &[&flags[..], &["--overload", "drop"]].concat());
    let report: Report = serde_json::from_value(report).expect("a report");
    let errors = report.whole.parts.iter().map(|part| part.counts.as_whole().of_target().0);
    let errors: Vec<u64> = errors.collect();
    // Whatever the route, an arrival is as likely to find all connections in use.
    assert!(errors.iter().all(|errors| 0 < *errors), "{errors:?}");
    assert_eq!(errors.iter().sum::<u64>(), report.whole.counts.of_target().0);
}

#[test]
fn a_route_that_cannot_be_read_or_served_is_refused() {
    for (route, words) in [
        ("/a", "--route /a: no colon after the path"),
        ("a:base=1ms", "--route a: not a path"),
        ("/a:base=fast", "--route /a:base=fast: base: invalid duration `fast`"),
        ("/a:speed=9", "`speed=9` is no setting of a route"),
        ("/a:stall-every=1s,stall-for=2s", "--route /a: --stall-every 1s --stall-for 2s"),
    ] {
        let output =
            binary().args(["target", "--listen", "127.0.0.1:0", "--route", route]).output();
        let output = output.expect("the binary runs");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(words), "{route}: {text}");
    }
}
