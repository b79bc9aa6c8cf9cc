//! Documents as JSON: fields of messages that travel so, and reports that an agent keeps. These
//! fields are the engine's documents, and whatever both sides must read even if their versions
//! differ.
//!
//! A payload is bincode, which has neither a field's name nor whether it is present. The engine's
//! documents flatten some fields, omit others and accept several forms of one value, which takes a
//! format with names. So they travel as they appear in reports and plan files.
//!
//! A document is taken only if it is written here as it came. So a field that this build doesn't
//! know, or one that another build doesn't write, ends the session instead of being lost.

use std::io::{self, Write};

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::bytes::borrowed;

pub(crate) fn serialize<T: Serialize, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = serde_json::to_vec(value).map_err(S::Error::custom)?;
    serializer.serialize_bytes(&text)
}

pub(crate) fn deserialize<'de, T: DeserializeOwned + Serialize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = borrowed(deserializer)?;
    let value = serde_json::from_slice(text).map_err(|error| {
        // The names of all fields that it might have been would fill a screen.
        let words = error.to_string();
        let problem = words.split(", expected one of").next().unwrap_or_default();
        D::Error::custom(problem)
    })?;
    match serde_json::to_vec(&value) {
        Ok(written) if written == text => Ok(value),
        _ => Err(D::Error::custom(difference(text, &value))),
    }
}

/// How a document differs from the one that this build would have written.
fn difference(text: &[u8], value: &impl Serialize) -> String {
    let came = serde_json::from_slice(text).unwrap_or_default();
    let known = serde_json::to_value(value).unwrap_or_default();
    let unknown = first_without("", &came, &known).map(|path| format!("unknown field `{path}`"));
    let missing = || first_without("", &known, &came).map(|path| format!("missing field `{path}`"));
    unknown.or_else(missing).unwrap_or_else(|| "written in another form".to_owned())
}

/// The path of the first field that one document has and the other lacks.
fn first_without(path: &str, has: &Value, lacks: &Value) -> Option<String> {
    let within =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (has, lacks) {
        (Value::Object(has), Value::Object(lacks)) => {
            has.iter().find_map(|(name, value)| match lacks.get(name) {
                None => Some(within(name)),
                Some(other) => first_without(&within(name), value, other),
            })
        }
        (Value::Array(has), Value::Array(lacks)) => {
            let pairs = has.iter().zip(lacks).enumerate();
            pairs
                .into_iter()
                .find_map(|(at, (has, lacks))| first_without(&format!("{path}[{at}]"), has, lacks))
        }
        _ => None,
    }
}

/// Writes an indented document that ends with a newline.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write(document: &impl Serialize, mut writer: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut writer, document)?;
    writer.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use engine::host::check::Severity;
    use engine::host::environment::environment;
    use engine::plan::Plan;
    use engine::plan::address::Address;
    use engine::plan::body::Body;
    use engine::plan::redact::Redacted;
    use engine::report::collected::CollectedHead;
    use engine::report::environment::ControlCore;
    use engine::report::machine::Machine;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::bytes::Bytes;
    use crate::codec;
    use crate::message::{Finding, Hello};
    use crate::refusal::Refusal;
    use crate::versions::{Versions, VersionsDiffer};

    /// A document in a payload.
    #[derive(Debug, Serialize, Deserialize)]
    struct Field<T: Serialize + DeserializeOwned>(#[serde(with = "super")] T);

    /// What becomes of a document that comes like this.
    fn taken<T: Serialize + DeserializeOwned>(document: &Value) -> Result<T, String> {
        let text = serde_json::to_vec(document).expect("text");
        let payload = codec::encode(&Bytes::from(text));
        let taken = codec::decode::<Field<T>>(&payload).map(|field| field.0);
        taken.map_err(|error| error.to_string())
    }

    /// Tables whose names are data.
    const MAPS: [&str; 3] = ["capture", "data", "mitigations"];

    /// The document with one more field, once for each of its tables.
    fn with_one_more(document: &Value) -> Vec<Value> {
        let mut all = Vec::new();
        if let Value::Object(fields) = document {
            let mut fields = fields.clone();
            fields.insert("of_next_year".to_owned(), json!(1));
            all.push(Value::Object(fields));
        }
        let keys: Vec<String> = match document {
            Value::Object(fields) => fields.keys().map(|name| format!("/{name}")).collect(),
            Value::Array(parts) => (0..parts.len()).map(|at| format!("/{at}")).collect(),
            _ => vec![],
        };
        for key in keys.iter().filter(|key| !MAPS.contains(&&key[1..])) {
            let changed = |part| {
                let mut document = document.clone();
                *document.pointer_mut(key).expect("it has the part") = part;
                document
            };
            all.extend(
                with_one_more(document.pointer(key).expect("it has the part"))
                    .into_iter()
                    .map(changed),
            );
        }
        all
    }

    /// Checks that a document comes back, but none with one more field; returns how many tables it
    /// has.
    fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(document: &T) -> usize {
        let written = serde_json::to_value(document).expect("a document");
        assert_eq!(taken::<T>(&written).as_ref(), Ok(document));
        let longer = with_one_more(&written);
        for document in &longer {
            let problem = taken::<T>(document).expect_err("another build wrote it");
            assert!(problem.len() < 200, "{problem}");
        }
        longer.len()
    }

    /// A plan with every table that a plan can have.
    fn plan() -> Plan {
        serde_json::from_value(json!({
            "target": "http://127.0.0.1:8080/",
            "model": "closed",
            "stage": [
                {"name": "a", "users": 3, "duration": "10s"},
                {"from": 0.0, "to": 7.0, "duration": "1m30s"},
            ],
            "period": "1s500ms",
            "headers": ["A: b"],
            "scenario": [{
                "name": "buy",
                "weight": 3,
                "think": "uniform 500ms 2s",
                "deadline": "20s",
                "cookies": true,
                "connection": "own",
                "step": [
                    {"capture": {"id": "json:/id"}, "expect_status": "200,404"},
                    {
                        "think": "exp 1s",
                        "when": "{{id}} is set",
                        "url": "/{{id}}",
                        "expect_body": ["contains ok"],
                        "redirect": "follow",
                        "slo": "p99<20ms,errors<0.1%",
                    },
                ],
            }],
            "data": {"users": "users.csv,zipf=1.1"},
            "slo": "p99<20ms",
            "thresholds": {"busy": 0.9},
        }))
        .expect("a plan")
    }

    #[test]
    fn a_document_with_an_unknown_field_at_any_level_is_not_taken() {
        // The plan, two stages, a scenario, its two steps, and the thresholds.
        assert_eq!(check(&plan()), 7);
        let target = "http://127.0.0.1/".to_owned();
        let completed = Plan { target, ..Plan::default() }.complete(&[0]).expect("a plan");
        let address = "127.0.0.1:8080".parse().expect("an address");
        let mut here = environment(&[0], Vec::new(), Some(address));
        here.control_core = Some(ControlCore { core: 1, shared: false });
        let head = CollectedHead {
            plan: Redacted::new(&completed, &Body::of_bytes(Vec::new())),
            addresses: vec![Address::Ip(address)],
            environment: here,
            machine: Machine::default(),
            interrupted: false,
            until_ns: 1,
            epoch_ns: 2,
            samples: None,
        };
        // The head, its plan with the thresholds, the environment with at least four tables, and
        // the machine.
        assert!(8 <= check(&head));
        let finding = Finding { severity: Severity::Warning, text: "swap: is on".to_owned() };
        assert_eq!(check(&Hello::here("ann@desk".to_owned(), vec![finding])), 4);
        let (here, there) = (Versions::here(), Versions::here());
        assert_eq!(check(&Refusal::Versions(VersionsDiffer { here, there })), 4);
    }

    #[test]
    fn the_field_is_named() {
        let mut document = serde_json::to_value(plan()).expect("a document");
        document["scenario"][0]["step"][1]["pause"] = json!("1s");
        assert_eq!(taken::<Plan>(&document).expect_err("unknown"), "unknown field `pause`");
        let mut hello = serde_json::to_value(Hello::here(String::new(), vec![])).expect("text");
        hello["host"]["sockets"] = json!(2);
        let problem = taken::<Hello>(&hello).expect_err("unknown");
        assert_eq!(problem, "unknown field `host.sockets`");
        let mut plan = serde_json::to_value(plan()).expect("a document");
        let fields = plan.as_object_mut().expect("a table");
        fields.shift_remove("settle");
        let problem = taken::<Plan>(&plan).expect_err("missing");
        assert_eq!(problem, "missing field `settle`");
    }
}
