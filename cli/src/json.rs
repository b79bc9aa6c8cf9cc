//! JSON documents. No other file of this crate knows JSON, and the engine neither reads nor writes
//! it.

use std::io::{self, Read, Write};

use std::collections::HashMap;

use calibration::floor::{self, Calibration};
use engine::report::{Report, SCHEMA};
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
    /// It compares several reports.
    #[error("a comparison, not a report; name the reports that it is of")]
    Comparison,
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

/// Reads a document, recognised by its fields: a sweep's has a knee, a search's the side that ended
/// it, a ceiling's a proof, and a run's report none of these.
///
/// # Errors
/// It is of another version, or malformed.
pub(crate) fn read_document(reader: impl Read) -> Result<Document, DocumentError> {
    let text = io::read_to_string(reader).map_err(serde_json::Error::io)?;
    let keys: HashMap<String, IgnoredAny> = serde_json::from_str(&text)?;
    if keys.contains_key("clocks") {
        return Err(DocumentError::Calibration);
    }
    if keys.contains_key("margin") {
        return Err(DocumentError::Comparison);
    }
    let (kind, read) = match () {
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
        _ => Document::Report(serde_json::from_str(&text)?),
    })
}
