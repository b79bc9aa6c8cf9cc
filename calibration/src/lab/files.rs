//! The files of an experiment: the documents of its processes, and its own output.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Write as _};
use std::path::Path;

use engine::sys::whole_file::WholeFile;
use serde::de::DeserializeOwned;

use super::error::LabError;

/// Reads a JSON document.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, LabError> {
    let file = File::open(path).map_err(|error| LabError::file(path, error))?;
    serde_json::from_reader(BufReader::new(file))
        .map_err(|error| LabError::Document { path: path.to_owned(), problem: error.to_string() })
}

/// Writes a file that appears whole or not at all.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), LabError> {
    let whole = WholeFile::create(path).map_err(|error| LabError::file(path, io_error(error)))?;
    whole.file().write_all(text.as_bytes()).map_err(|error| LabError::file(path, error))?;
    whole.publish().map(drop).map_err(|error| LabError::file(path, io_error(error)))
}

fn io_error(error: impl fmt::Display) -> std::io::Error {
    std::io::Error::other(error.to_string())
}
