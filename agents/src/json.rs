//! Documents as JSON: fields of messages that travel so, and reports that an agent keeps. These
//! fields are the engine's documents, and whatever both sides must read even if their versions
//! differ.
//!
//! A payload is bincode, which has neither a field's name nor whether it is present. The engine's
//! documents flatten some fields, omit others and accept several forms of one value, which takes a
//! format with names. So they travel as they appear in reports and plan files.

use std::io::{self, Write};

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserializer, Serialize, Serializer};

use crate::bytes::borrowed;

pub(crate) fn serialize<T: Serialize, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = serde_json::to_vec(value).map_err(S::Error::custom)?;
    serializer.serialize_bytes(&text)
}

pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    serde_json::from_slice(borrowed(deserializer)?).map_err(D::Error::custom)
}

/// Writes an indented document that ends with a newline.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write(document: &impl Serialize, mut writer: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut writer, document)?;
    writer.write_all(b"\n")
}
