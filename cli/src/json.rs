//! JSON documents. No other file of this crate knows JSON.

use std::io::{self, Read, Write};

use engine::report::{Report, SCHEMA};
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

/// Why a text isn't a report that can be read here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    /// What is wrong with it, and in which line.
    #[error("not a report ({0}); name a file written by `run --out`")]
    Text(#[from] serde_json::Error),
    /// It is one of another version.
    #[error(
        "a report of schema {0}, and this version reads schema {SCHEMA}; verify it with the version \
         that wrote it"
    )]
    Schema(u32),
}

/// All that reports of any version have in common.
#[derive(Deserialize)]
struct Versioned {
    schema: u32,
}

/// Reads a report.
///
/// # Errors
/// Its version, if that is another one, or what is wrong with the text.
pub(crate) fn read_report(reader: impl Read) -> Result<Report, ReportError> {
    let text = io::read_to_string(reader).map_err(serde_json::Error::io)?;
    // What another version lacks says nothing, so its number comes first.
    let Versioned { schema } = serde_json::from_str(&text)?;
    if schema != SCHEMA {
        return Err(ReportError::Schema(schema));
    }
    Ok(serde_json::from_str(&text)?)
}
