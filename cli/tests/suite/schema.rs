//! `report.schema.json` describes the report's document: it is generated from the types, and
//! reports of many kinds are checked against it.

use std::path::Path;
use std::{env, fs};

use engine::report::Report;
use jsonschema::Validator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::support::{Target, binary, document, said};

/// The committed schema.
const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../report.schema.json");

/// Set to write the schema anew after a change to the report.
const UPDATE: &str = "UPDATE_SCHEMA";

fn generated() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Report>();
    schema.insert("title".to_owned(), json!("The report of a truetail run"));
    schema.into()
}

fn committed() -> Value {
    document(Path::new(COMMITTED))
}

fn validator() -> Validator {
    jsonschema::draft202012::new(&committed()).expect("a schema")
}

/// The schema's objections to a document.
fn refused(document: &Value) -> Vec<String> {
    let validator = validator();
    let errors = validator.iter_errors(document);
    errors.map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn the_schema_is_that_of_the_types() {
    let generated = generated();
    if env::var_os(UPDATE).is_some() {
        let text = serde_json::to_string_pretty(&generated).expect("a document");
        fs::write(COMMITTED, text + "\n").expect("it is written");
    }
    let same = committed() == generated;
    assert!(same, "write it anew: {UPDATE}=1 cargo test -p cli --test suite schema");
}

#[test]
fn reports_match_the_schema() {
    let target = Target::start(&["--base-latency", "1ms"]);
    let folder = tempfile::tempdir().expect("a folder");
    let all: [&[&str]; 4] = [
        &[
            &target.url,
            "--rate",
            "200",
            "--slo",
            "p50<1s,errors<1%",
            "--raw",
            "raw",
            "--tag",
            "a=b",
        ],
        &[&target.url, "--model", "closed", "--conns", "4", "--wait", "sleep", "--label", "closed"],
        &[&target.url, "--conns", "2", "--period", "20ms", "--keepalive", "off"],
        &[&target.url, "--rate", "100", "--stamps", "user", "--expect-status", "404"],
    ];
    for words in all {
        let path = folder.path().join("report.json");
        let mut run = binary();
        run.arg("run").args(words).args(["--duration", "1s", "--warmup", "200ms", "--quiet"]);
        run.args(["--settle", "0s", "--allow-invalid", "--out"]).arg(&path);
        let output = run.current_dir(folder.path()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", said(&output));
        let report = document(&path);
        assert_eq!(refused(&report), Vec::<String>::new(), "{words:?}");
    }
}

#[test]
fn other_documents_are_refused() {
    let target = Target::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.json");
    let mut run = binary();
    run.args(["run", &target.url, "--rate", "100", "--duration", "500ms", "--warmup", "0s"]);
    run.args(["--settle", "0s", "--allow-invalid", "--quiet", "--out"]).arg(&path);
    assert!(run.status().expect("it runs").success());
    let report = document(&path);
    for (pointer, wrong) in [
        ("/schema", json!("7")),
        ("/verdict/level", json!("fine")),
        ("/corrected/p99", json!("1 ms")),
        ("/corrected/intervals/needed", json!([])),
        ("/config/thresholds/busy", Value::Null),
        ("/counts/status", json!({"200": -1})),
        ("/series/unit", json!("ms")),
    ] {
        let mut changed = report.clone();
        *changed.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = wrong;
        let refused = refused(&changed);
        assert!(refused.iter().any(|error| error.starts_with(pointer)), "{pointer}: {refused:?}");
    }
}
