//! JSON documents. No other file of this crate knows JSON, and the engine neither reads nor writes
//! it.

use std::io::{self, Read, Write};

use std::collections::HashMap;

use calibration::floor::{self, Calibration};
use engine::report::{Report, SCHEMA};
use judge::suite::{self, Suite};
use probe::ab::AbDocument;
use probe::compare::{self, Comparison};
use probe::document::{self, CeilingDocument, SearchDocument, SweepDocument};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

/// Writes an indented document that ends with a newline.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write(document: &impl Serialize, mut writer: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut writer, document)?;
    writer.write_all(b"\n")
}

/// Writes a document on one line, as in JSON Lines.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write_line(document: &impl Serialize, mut writer: impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut writer, document)?;
    writer.write_all(b"\n")
}

/// Parses a value.
///
/// # Errors
/// It is malformed, or can't be read.
pub(crate) fn read<T: DeserializeOwned>(reader: impl Read) -> Result<T, serde_json::Error> {
    let text = io::read_to_string(reader).map_err(serde_json::Error::io)?;
    serde_json::from_str(&text)
}

/// Parses a value on one line.
///
/// # Errors
/// It is malformed.
pub(crate) fn read_line<T: DeserializeOwned>(line: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(line)
}

/// Why a text isn't a readable document.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocumentError {
    /// It is malformed, at the line in the error.
    #[error("not a report ({0}); name a file written by `run --out`")]
    Text(#[from] serde_json::Error),
    /// It is a calibration.
    #[error("a calibration, not a report; use it with `run --calibration`")]
    Calibration,
    /// It is of another version.
    #[error(
        "a {kind} of schema {found}, and this version reads schema {read}; read it with the \
         version that wrote it"
    )]
    Schema {
        /// Its kind.
        kind: &'static str,
        /// Its version.
        found: u32,
        /// This program's.
        read: u32,
    },
}

/// A document that can be verified.
#[derive(Debug)]
pub(crate) enum Document {
    /// Of `run --out`.
    Report(Box<Report>),
    /// Of `sweep --out`.
    Sweep(Box<SweepDocument>),
    /// Of `search --out`.
    Search(Box<SearchDocument>),
    /// Of `ceiling --out`.
    Ceiling(Box<CeilingDocument>),
    /// Of `compare --out`.
    Comparison(Box<Comparison>),
    /// Of `ab --out`.
    Ab(Box<AbDocument>),
}

/// Why a text isn't a readable calibration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CalibrationError {
    /// It is malformed, at the line in the error.
    #[error("not a calibration ({0}); name a file written by `truetail calibrate --out`")]
    Text(#[from] serde_json::Error),
    /// It is of another version.
    #[error(
        "a calibration of schema {0}, and this version reads schema {SCHEMA}; make another with \
         `truetail calibrate --out`",
        SCHEMA = floor::SCHEMA
    )]
    Schema(u32),
}

/// Reads a calibration.
///
/// # Errors
/// It is of another version, or malformed.
pub(crate) fn read_calibration(reader: impl Read) -> Result<Calibration, CalibrationError> {
    let text = io::read_to_string(reader).map_err(serde_json::Error::io)?;
    let Versioned { schema } = serde_json::from_str(&text)?;
    if schema != floor::SCHEMA {
        return Err(CalibrationError::Schema(schema));
    }
    Ok(serde_json::from_str(&text)?)
}

/// Why a text isn't a readable result of `judge`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JudgedError {
    /// It is malformed, at the line in the error.
    #[error("not a result of `judge` ({0}); name a result.json that it wrote")]
    Text(#[from] serde_json::Error),
    /// It is of another version.
    #[error(
        "a result of schema {0}, and this version reads schema {SCHEMA}; judge the tool again",
        SCHEMA = suite::SCHEMA
    )]
    Schema(u32),
    /// It has a case that this version lacks.
    #[error("case {0}: this version has no such case; judge the tool again")]
    Case(String),
}

/// Reads a result of `judge`.
///
/// # Errors
/// It is of another version, or malformed.
pub(crate) fn read_judged(reader: impl Read) -> Result<Suite, JudgedError> {
    let text = io::read_to_string(reader).map_err(serde_json::Error::io)?;
    let Versioned { schema } = serde_json::from_str(&text)?;
    if schema != suite::SCHEMA {
        return Err(JudgedError::Schema(schema));
    }
    let suite: Suite = serde_json::from_str(&text)?;
    let names: Vec<String> = suite.cases.iter().map(|result| result.case.clone()).collect();
    suite::named(&names).map_err(JudgedError::Case)?;
    Ok(suite)
}

/// The spelling of a choice in documents and flags.
pub(crate) fn name(choice: &impl Serialize) -> String {
    let name = serde_json::to_value(choice).expect("a choice is a text");
    name.as_str().expect("a choice is a text").to_owned()
}

/// The field that documents of any version share.
#[derive(Deserialize)]
struct Versioned {
    schema: u32,
}

/// Reads a document, recognised by its fields: a comparison's has a margin and one by slices has
/// these, too; a sweep's has a knee, a search's the side that ended it, a ceiling's a proof, and a
/// run's report none of these.
///
/// # Errors
/// It is of another version, or malformed.
pub(crate) fn read_document(reader: impl Read) -> Result<Document, DocumentError> {
    let text = io::read_to_string(reader).map_err(serde_json::Error::io)?;
    let keys: HashMap<String, IgnoredAny> = serde_json::from_str(&text)?;
    if keys.contains_key("clocks") {
        return Err(DocumentError::Calibration);
    }
    let (kind, read) = match () {
        () if keys.contains_key("slices") => ("comparison by slices", compare::SCHEMA),
        () if keys.contains_key("margin") => ("comparison", compare::SCHEMA),
        () if keys.contains_key("proof") => ("ceiling", document::SCHEMA),
        () if keys.contains_key("knee") => ("sweep", document::SCHEMA),
        () if keys.contains_key("ended_by") => ("search", document::SCHEMA),
        () => ("report", SCHEMA),
    };
    // Another version may lack other fields, so its number is checked first.
    let Versioned { schema: found } = serde_json::from_str(&text)?;
    if found != read {
        return Err(DocumentError::Schema { kind, found, read });
    }
    Ok(match kind {
        "sweep" => Document::Sweep(serde_json::from_str(&text)?),
        "search" => Document::Search(serde_json::from_str(&text)?),
        "ceiling" => Document::Ceiling(serde_json::from_str(&text)?),
        "comparison" => Document::Comparison(serde_json::from_str(&text)?),
        "comparison by slices" => Document::Ab(serde_json::from_str(&text)?),
        _ => Document::Report(serde_json::from_str(&text)?),
    })
}

#[cfg(test)]
mod tests {
    use engine::plan::Plan;
    use engine::record::outcome::Outcome;
    use engine::record::stamps::{Ending, StampedBy, Stamps};
    use engine::report::machine::{Contender, CoreTime};
    use engine::report::{Report, judge};
    use engine::sys::units::{CoreList, Nanos};
    use probe::step::Step;
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use crate::text::made_up;

    /// The report of an open run of 6 s at 100/s, on a core that others used too.
    fn report() -> Report {
        let plan = Plan {
            target: "http://127.0.0.1:1/".to_owned(),
            rate: Some("100".parse().expect("a rate")),
            duration: Nanos::from_secs(6),
            warmup: Nanos(0),
            cores: Some(CoreList::new(vec![0])),
            ..Plan::default()
        };
        let plan = plan.complete(&[0]).expect("a plan that runs");
        let answered = |due_ns: u64| {
            let (noticed_ns, sent_ns) = (due_ns + 100, due_ns + 200);
            let stamps = Stamps {
                intended_ns: due_ns,
                noticed_ns,
                sent_ns,
                waited: false,
                step: 0,
                session: None,
            };
            let (received_ns, handled_ns) = (due_ns + 100_000, due_ns + 120_000);
            let ending = Ending { received_ns, handled_ns, stamped_by: StampedBy::Kernel };
            // One in eight fails.
            let status = if due_ns.is_multiple_of(8) { 503 } else { 200 };
            (stamps, ending, Outcome::Answered(status))
        };
        let recorded = made_up::record(&plan, (0, 1), answered, |_, _, _| {});
        let mut report = made_up::report(&plan, vec![recorded], None);
        let shard = &mut report.generator.shards[0];
        (shard.cpu_user_s, shard.cpu_system_s, shard.run_queue_delay_s) = (1.0, 2.0, 0.5);
        let machine = report.generator.machine.as_mut().expect("that of one run");
        (machine.observed_s, machine.steal, machine.throttled_s) = (6.0, Some(0.1), Some(0.1));
        machine.cores =
            vec![CoreTime { core: 0, busy: 0.9, interrupts: 0.2, soft_interrupts: 0.1 }];
        let name = "other".to_owned();
        machine.contenders = vec![Contender { name, pid: 7, cpu_s: 0.3, core: 3 }];
        report
    }

    /// The places of all numbers that a run found.
    fn numbers(value: &Value, place: &str, into: &mut Vec<String>) {
        match value {
            Value::Number(_) => into.push(place.to_owned()),
            Value::Array(all) => {
                let each = all.iter().enumerate();
                each.for_each(|(at, one)| numbers(one, &format!("{place}/{at}"), into));
            }
            Value::Object(all) => {
                let found = all.iter().filter(|(name, _)| !place.is_empty() || *name != "config");
                found.for_each(|(name, one)| numbers(one, &format!("{place}/{name}"), into));
            }
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }

    fn comes_back<T: Serialize + DeserializeOwned>(value: &T, changed: &str) {
        let text = serde_json::to_string(value).expect("it is written");
        let again: Result<T, _> = serde_json::from_str(&text);
        assert!(again.is_ok(), "{changed}: {:?}", again.err());
    }

    #[test]
    fn what_is_computed_of_a_run_can_be_read_whatever_was_zero() {
        let whole = serde_json::to_value(report()).expect("a document");
        let mut places = Vec::new();
        numbers(&whole, "", &mut places);
        assert!(300 < places.len(), "{}", places.len());
        let mut read = 0;
        for place in &places {
            let mut changed = whole.clone();
            let number = changed.pointer_mut(place).expect("it is there");
            *number = if number.is_u64() { Value::from(0) } else { Value::from(0.0) };
            let Ok(changed) = serde_json::from_value::<Report>(changed) else { continue };
            read += 1;
            comes_back(&Step::new(&changed), place);
            comes_back(&judge(&changed), place);
        }
        assert!(places.len() / 2 < read, "{read} of {}", places.len());
    }
}
