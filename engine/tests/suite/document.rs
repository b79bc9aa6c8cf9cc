//! The report's JSON document: its keys are those of its schema, and it reads back unchanged.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use engine::plan::Plan;
use engine::record::outcome::{Cause, Outcome, TimeoutKind, UnsentReason};
use engine::record::samples::{FileError, FileErrorKind, SampleFolder};
use engine::record::stamps::{Ending, StampedBy, Stamps};
use engine::record::tls::Agreed;
use engine::report::{Report, Samples, merge};
use engine::sys::units::{CoreList, Nanos};
use serde_json::{Value, json};

use crate::made_up::{self, Fate};

const MS: u64 = 1_000_000;

/// A report with every possible part.
fn complete() -> Report {
    let plan = Plan {
        target: "https://127.0.0.1:1/".to_owned(),
        rate: Some("500".parse().expect("a rate")),
        duration: Nanos::from_secs(8),
        warmup: Nanos::from_secs(1),
        cores: Some(CoreList::new(vec![0, 1])),
        slo: Some("p99<20ms".parse().expect("objectives")),
        ..Plan::default()
    }
    .complete(&[0, 1])
    .expect("a plan that runs");
    let mut recorded: Vec<_> =
        (0..2).map(|shard| made_up::record(&plan, (shard, 2), fate, |_, _, _| {})).collect();
    for (recorder, _) in &mut recorded {
        // A note that appears on any machine.
        recorder.counts.setup.settled = Some(false);
        recorder.connected(0, 0, MS, true);
        recorder.times.handshake_time.record(MS);
        recorder.tls.shook_hands(Agreed { version: 0x0304, cipher: 0x1301, group: 0x1d }, false);
    }
    let (kind, folder) = (FileErrorKind::NoRoom, SampleFolder::Raw);
    let error = Some(FileError { kind, text: "no room".to_owned(), folder });
    let samples = Samples { file: Some("raw.bin".to_owned()), written: 1, lost: 0, error };
    let mut report = made_up::report(&plan, recorded, Some(samples));
    merge::add_profile(&mut report, made_up::profile());
    let calibrated = made_up::calibrated(&report);
    merge::hold_against(&mut report, calibrated);
    report.label = Some("nightly".to_owned());
    report.tags.insert("commit".to_owned(), "1a2b3c".to_owned());
    report
}

/// Of every 100 requests, one each is unsent, unconnected, timed out, abandoned and not a success.
fn fate(due_ns: u64) -> Fate {
    let noticed_ns = due_ns + 1_000;
    let stamps = Stamps {
        intended_ns: due_ns,
        noticed_ns,
        sent_ns: noticed_ns + 1_000,
        waited: false,
        step: 0,
        session: None,
    };
    let sent_ns = stamps.sent_ns;
    match due_ns / 1_000 % 100 {
        0 => (
            Stamps { noticed_ns: due_ns, sent_ns: due_ns, ..stamps },
            Ending::at(due_ns + MS),
            Outcome::Unsent(UnsentReason::Dropped),
        ),
        1 => (
            Stamps { noticed_ns: due_ns, sent_ns: due_ns, ..stamps },
            Ending::at(due_ns + MS),
            Outcome::Unsent(UnsentReason::End),
        ),
        2 => (stamps, Ending::at(sent_ns), Outcome::Failed(Cause::ConnectRefused)),
        3 => (stamps, Ending::at(sent_ns + MS), Outcome::TimedOut(TimeoutKind::Timeout)),
        4 => (stamps, Ending::at(sent_ns + MS), Outcome::Failed(made_up::broken_chunk())),
        5 => (stamps, Ending::at(sent_ns + MS), Outcome::Abandoned),
        6 => (stamps, Ending::at(sent_ns + MS), Outcome::Answered(503)),
        _ => {
            let received_ns = sent_ns + MS + due_ns % MS;
            let handled_ns = received_ns + due_ns % 7_000;
            let ending = Ending { received_ns, handled_ns, stamped_by: StampedBy::Kernel };
            (stamps, ending, Outcome::Answered(200))
        }
    }
}

/// Adds to `found` each key that is in a document but not in its schema, or that the schema
/// requires but the document lacks.
fn compare(path: &str, value: &Value, schema: &Value, root: &Value, found: &mut BTreeSet<String>) {
    let schema = resolved(schema, root);
    // Lists by name, such as the statuses, have no properties.
    if let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) {
        for (name, value) in fields {
            match known.get(name) {
                Some(schema) => compare(&format!("{path}.{name}"), value, schema, root, found),
                None => drop(found.insert(format!("{path}.{name} is new"))),
            }
        }
        let required = schema["required"].as_array().into_iter().flatten();
        let missing = required.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name));
        found.extend(missing.map(|name| format!("{path}.{name} is missing")));
    }
    for element in value.as_array().into_iter().flatten() {
        compare(&format!("{path}[]"), element, &schema["items"], root, found);
    }
}

/// Resolves a schema that refers to another, or that may also be null.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str() {
        return resolved(root.pointer(&name[1..]).expect("a definition"), root);
    }
    let alternatives = schema["anyOf"].as_array().into_iter().flatten();
    let mut others = alternatives.filter(|schema| schema["type"] != "null");
    others.next().map_or(schema, |schema| resolved(schema, root))
}

#[test]
fn a_report_has_the_keys_that_its_schema_describes() {
    let report = complete();
    let mut document = serde_json::to_value(&report).expect("a report is a document");
    let fields = document.as_object_mut().expect("a document has fields");
    assert!(!fields.contains_key("per_agent"), "a run without agents has no agents' parts");
    fields.insert("per_agent".to_owned(), json!([report.per_agent[0]]));
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report.schema.json");
    let schema = fs::read_to_string(schema).expect("report.schema.json");
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    let found = |document: &Value| {
        let mut found = BTreeSet::new();
        compare("", document, &schema, &schema, &mut found);
        found
    };
    assert_eq!(found(&document), BTreeSet::new());
    let counts = document["counts"].as_object_mut().expect("fields");
    let sent = counts.remove("sent").expect("a count");
    counts.insert("gesendet".to_owned(), sent);
    assert!(found(&document).iter().eq([".counts.gesendet is new", ".counts.sent is missing"]));
}

#[test]
fn a_document_reads_back_as_the_same_report() {
    let report = complete();
    let text = serde_json::to_string(&report).expect("a report is a document");
    let read: Report = serde_json::from_str(&text).expect("a document is a report");
    assert_eq!(read, report);
    assert_eq!(serde_json::to_string(&read).expect("a document"), text);
}

#[test]
fn a_document_without_the_times_of_cores_reads_back_without_them() {
    let mut document = serde_json::to_value(complete()).expect("a report is a document");
    let machine = document["generator"]["machine"].as_object_mut().expect("fields");
    assert!(machine.remove("cores").is_some());
    for core in document["environment"]["cores"].as_array_mut().expect("cores") {
        assert!(core.as_object_mut().expect("fields").remove("node").is_some());
    }
    let network = document["environment"]["network"].as_object_mut().expect("fields");
    for key in ["node", "interrupt_cores"] {
        assert!(network.remove(key).is_some(), "{key}");
    }
    let read: Report = serde_json::from_value(document).expect("a document is a report");
    assert_eq!(read.generator.machine.expect("one machine").cores, []);
    assert_eq!(read.environment.network.interrupt_cores, None);
}
