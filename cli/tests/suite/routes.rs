//! Several routes through the binary: against `target --route`, whose ledger counts each of them,
//! and on agents.

use std::fs;
use std::path::Path;

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
    let output = binary()
        .args(["run", url, "--targets", "targets.json", "--warmup", "0s", "--quiet"])
        .args(["--allow-invalid", "--out", "run.json"])
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
