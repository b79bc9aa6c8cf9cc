//! How the values of flags are read from text.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PathBufValueParser, TypedValueParser};
use profile::Format;
use serde::de::value::Error as NameError;
use serde::de::{DeserializeOwned, IntoDeserializer as _};

use crate::output::STDOUT;

/// A path to a file.
pub(super) fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.to_str() {
        Some(name) => file_name(name),
        None => Ok(path),
    })
}

/// A path to a file, or `-` for standard output.
pub(super) fn file_or_stdout() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.to_str() {
        Some(name) => name_or_stdout(name),
        None => Ok(path),
    })
}

/// The name of a file, or `-` for standard output.
pub(super) fn name_or_stdout(text: &str) -> Result<PathBuf, String> {
    if text == STDOUT { Ok(PathBuf::from(text)) } else { file_name(text) }
}

/// A user's name and password. The error shows neither.
pub(super) fn credentials(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some(_) => Ok(text.to_owned()),
        None => Err("no colon after the user's name; give USER:PASSWORD".to_owned()),
    }
}

/// A path that has to be text.
pub(super) fn file_name(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix('-') {
        Some("") => Err(format!(
            "invalid file name `{text}`: standard input and output can't take its place, name a file"
        )),
        Some(_) => Err(format!("invalid file name `{text}`: looks like a flag, write ./{text}")),
        None if text.is_empty() => Err("invalid file name ``: name a file".to_owned()),
        None => Ok(PathBuf::from(text)),
    }
}

/// A note, NAME=VALUE.
pub(super) fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("invalid tag `{text}`: give NAME=VALUE, e.g. commit=1a2b3c")),
    }
}

/// The name of a profile, whose ending decides its format.
pub(super) fn profile_name(text: &str) -> Result<PathBuf, String> {
    let path = file_name(text)?;
    match Format::of(&path) {
        Some(_) => Ok(path),
        None => Err(format!("invalid file name `{text}`: it must end in {}", Format::ENDINGS)),
    }
}

/// The name of a file that the node exporter's textfile collector reads.
pub(super) fn prom_name(text: &str) -> Result<PathBuf, String> {
    let path = file_name(text)?;
    match path.extension() {
        Some(ending) if ending == "prom" => Ok(path),
        _ => Err(format!("invalid file name `{text}`: it must end in .prom, as collectors ask")),
    }
}

/// A whole number in a range.
pub(super) fn whole_number<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + fmt::Display + Clone,
{
    move |text| {
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (min, max) = (range.start(), range.end());
            format!("invalid number `{text}`: give a whole number from {min} to {max}")
        })
    }
}

/// The largest count of anything on one machine; its use decides how many are too many.
pub(super) const COUNT_MAX: usize = u32::MAX as usize;
/// The largest integer of a plan file: TOML's are signed.
pub(super) const WHOLE_MAX: u64 = i64::MAX.cast_unsigned();

/// A choice by the name that serde knows it by.
pub(super) fn by_name<T: DeserializeOwned>(name: &str) -> Result<T, NameError> {
    T::deserialize(name.into_deserializer())
}

/// One of this machine's addresses.
pub(super) fn ip_address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| {
        format!("invalid address `{text}`: give IP addresses of this machine, e.g. 127.0.0.2")
    })
}

/// A fraction; its use decides its range.
pub(super) fn fraction(text: &str) -> Result<f64, String> {
    text.parse()
        .map_err(|_| format!("invalid fraction `{text}`: give a number from 0 to 1, e.g. 0.01"))
}

/// An address to listen on.
pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("invalid address `{text}`: give IP:PORT, e.g. 127.0.0.1:8080"))
}
