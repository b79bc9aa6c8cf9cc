//! The keys of the report's JSON document: what reads a report relies on each.

use std::collections::BTreeSet;

use engine::plan::Plan;
use engine::record::outcome::{Cause, Outcome, TimeoutKind, UnsentReason};
use engine::record::stamps::{Ending, StampedBy, Stamps};
use engine::record::tls::Agreed;
use engine::report::{Report, Samples, merge};
use engine::samples::{FileError, FileErrorKind, SampleFolder};
use engine::sys::units::{CoreList, Nanos};
use serde_json::Value;

use crate::made_up::{self, Fate};

/// Every path of the document, one a line and in order; `[]` stands for the elements of a list.
const KEYS: &str = include_str!("document_keys.txt");

const MS: u64 = 1_000_000;

/// A report that has every part that a report can have.
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
        recorder.connected(0, MS, true);
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

/// Of 100 requests one each is unsent, unconnected, timed out, abandoned and not a success.
fn fate(due_ns: u64) -> Fate {
    let noticed_ns = due_ns + 1_000;
    let stamps =
        Stamps { intended_ns: due_ns, noticed_ns, sent_ns: noticed_ns + 1_000, waited: false };
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
        4 => (stamps, Ending::at(sent_ns + MS), Outcome::Failed(Cause::Protocol("chunk_end"))),
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

/// The paths of all values. What is listed by name, such as statuses, has the names of this report;
/// of the environment, which differs from machine to machine, there are the topics.
fn paths(prefix: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if !prefix.starts_with("environment.") => {
            let point = if prefix.is_empty() { "" } else { "." };
            for (name, value) in fields {
                paths(&format!("{prefix}{point}{name}"), value, found);
            }
        }
        Value::Array(elements) if elements.iter().any(Value::is_object) => {
            for element in elements {
                paths(&format!("{prefix}[]"), element, found);
            }
        }
        _ => drop(found.insert(prefix.to_owned())),
    }
}

#[test]
fn a_report_has_the_keys_that_its_readers_know() {
    let report = complete();
    let mut document = serde_json::to_value(&report).expect("a report is a document");
    let fields = document.as_object_mut().expect("a document has fields");
    assert!(!fields.contains_key("per_agent"), "a run without agents is no agent's part");
    // What an agent has as the run has it goes by the same name.
    let mut agent = serde_json::to_value(&report.per_agent[0]).expect("a document");
    let own = agent.as_object_mut().expect("an agent's part has fields");
    own.retain(|key, value| fields.get(key) != Some(value));
    assert!(own.contains_key("config") && !own.contains_key("environment"), "{own:?}");
    let mut found = BTreeSet::new();
    paths("", &document, &mut found);
    paths("per_agent[]", &agent, &mut found);
    let known: BTreeSet<String> = KEYS.lines().map(str::to_owned).collect();
    let changed: Vec<&String> = known.symmetric_difference(&found).collect();
    assert!(changed.is_empty(), "new or missing: {changed:#?}");
}

#[test]
fn a_document_reads_back_as_the_report_that_it_was() {
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
