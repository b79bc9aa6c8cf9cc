//! JSON documents. No other file of this crate knows JSON.

use std::io::{self, Read, Write};

use engine::report::Report;
use serde::Serialize;

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

/// Reads a report.
///
/// # Errors
/// What is wrong with the text, and in which line.
pub(crate) fn read_report(reader: impl Read) -> serde_json::Result<Report> {
    serde_json::from_reader(reader)
}
