//! How the values of a plan file are read: as the text that the flag takes, in quotes or not, one
//! or a list where the flag may be given several times.
//!
//! Nothing here repeats a value that may hold a secret.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::PathBuf;

use engine::plan::thresholds::Bound;
use engine::sys::units::Scalar;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use super::values::{
    WHOLE_MAX, by_name, credentials, file_name, ip_address, name_or_stdout, profile_name,
    prom_name, tag, whole_number,
};

/// A text.
pub(super) fn text<'de, D: Deserializer<'de>>(file: D) -> Result<Option<String>, D::Error> {
    parsed(file, |text| Ok::<_, Infallible>(text.to_owned()))
}

/// The name of a file.
pub(super) fn path<'de, D: Deserializer<'de>>(file: D) -> Result<Option<PathBuf>, D::Error> {
    parsed(file, file_name)
}

/// The name of a file, or `-` for standard output.
pub(super) fn path_or_stdout<'de, D: Deserializer<'de>>(
    file: D,
) -> Result<Option<PathBuf>, D::Error> {
    parsed(file, name_or_stdout)
}

/// A user's name and password.
pub(super) fn credentials_text<'de, D: Deserializer<'de>>(
    file: D,
) -> Result<Option<String>, D::Error> {
    parsed(file, credentials)
}

/// The name of a profile.
pub(super) fn profile<'de, D: Deserializer<'de>>(file: D) -> Result<Option<PathBuf>, D::Error> {
    parsed(file, profile_name)
}

/// The name of a file for Prometheus.
pub(super) fn prom<'de, D: Deserializer<'de>>(file: D) -> Result<Option<PathBuf>, D::Error> {
    parsed(file, prom_name)
}

/// A number of things.
pub(super) fn count<'de, const MIN: usize, const MAX: usize, D: Deserializer<'de>>(
    file: D,
) -> Result<Option<usize>, D::Error> {
    parsed(file, whole_number(MIN..=MAX))
}

/// A whole number.
pub(super) fn whole<'de, const MIN: u64, D: Deserializer<'de>>(
    file: D,
) -> Result<Option<u64>, D::Error> {
    parsed(file, whole_number(MIN..=WHOLE_MAX))
}

/// A choice by its name.
pub(super) fn choice<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    file: D,
) -> Result<Option<T>, D::Error> {
    parsed(file, by_name)
}

/// Choices by their names: one, a list, or a text with commas between them.
pub(super) fn choices<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    file: D,
) -> Result<Option<Vec<T>>, D::Error> {
    separated(file, by_name)
}

/// Headers, one or a list.
pub(super) fn headers<'de, D: Deserializer<'de>>(file: D) -> Result<Option<Vec<String>>, D::Error> {
    OneOrMany::deserialize(file)?.texts().map(Some)
}

/// Notes, NAME=VALUE, one or a list.
pub(super) fn tags<'de, D: Deserializer<'de>>(
    file: D,
) -> Result<Option<Vec<(String, String)>>, D::Error> {
    let texts = OneOrMany::deserialize(file)?.texts()?;
    let tags = texts.iter().map(|text| tag(text));
    tags.collect::<Result<_, _>>().map(Some).map_err(D::Error::custom)
}

/// Addresses, one, a list, or a text with commas between them.
pub(super) fn addresses<'de, D: Deserializer<'de>>(
    file: D,
) -> Result<Option<Vec<IpAddr>>, D::Error> {
    separated(file, ip_address)
}

/// Values, one, a list, or a text with commas between them.
fn separated<'de, T, E: Display, D: Deserializer<'de>>(
    file: D,
    parse: fn(&str) -> Result<T, E>,
) -> Result<Option<Vec<T>>, D::Error> {
    let texts = OneOrMany::deserialize(file)?.texts()?;
    let values = texts.iter().flat_map(|text| text.split(',')).map(parse);
    values.collect::<Result<_, _>>().map(Some).map_err(D::Error::custom)
}

/// Bounds of the verdict: a table, or NAME=VALUE, one or a list.
pub(super) fn bounds<'de, D: Deserializer<'de>>(file: D) -> Result<Option<Vec<Bound>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "invalid value: give a table, or a list of NAME=NUMBER")]
    enum Bounds {
        Table(BTreeMap<String, Scalar>),
        List(OneOrMany),
    }
    let texts = match Bounds::deserialize(file)? {
        Bounds::Table(table) => {
            let texts = table.into_iter().map(|(name, Scalar(value))| format!("{name}={value}"));
            not_empty(texts.collect())?
        }
        Bounds::List(list) => list.texts()?,
    };
    let bounds = texts.iter().map(|text| text.parse());
    bounds.collect::<Result<_, _>>().map(Some).map_err(D::Error::custom)
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "invalid value: give a text or a list of texts")]
enum OneOrMany {
    One(Scalar),
    Many(Vec<Scalar>),
}

impl OneOrMany {
    fn texts<E: serde::de::Error>(self) -> Result<Vec<String>, E> {
        not_empty(match self {
            OneOrMany::One(Scalar(text)) => vec![text],
            OneOrMany::Many(texts) => texts.into_iter().map(|Scalar(text)| text).collect(),
        })
    }
}

fn not_empty<E: serde::de::Error>(texts: Vec<String>) -> Result<Vec<String>, E> {
    if texts.is_empty() || texts.iter().any(String::is_empty) {
        return Err(E::custom("empty value: give one, or omit the key"));
    }
    Ok(texts)
}

fn parsed<'de, T, E: Display, D: Deserializer<'de>>(
    file: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, D::Error> {
    let Scalar(text) = Scalar::deserialize(file)?;
    parse(&text).map(Some).map_err(D::Error::custom)
}
