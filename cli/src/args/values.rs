//! Parses the values of flags.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use engine::plan::data::DataFile;
use engine::plan::stage::Stage;
use engine::sys::units;
use profile::Format;
use serde::Deserialize;
use serde::de::value::Error as NameError;
use serde::de::{DeserializeOwned, IntoDeserializer as _};

use crate::output::STDOUT;

/// The ways in which a shard can wait, by name.
pub(super) const WAITS: [&str; 3] = ["sleep", "hybrid", "spin"];

/// The kinds of faults of a target, by name.
pub(super) const FAULT_KINDS: [&str; 3] = ["reset", "short", "repeat"];

/// A choice of these names, which are serde's.
pub(super) fn choice<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    names: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names).try_map(|name| by_name(&name))
}

/// A path to a file.
pub(super) fn file() -> impl TypedValueParser<Value = PathBuf> {
    path(file_name)
}

/// A path parsed by this function.
pub(super) fn path(
    read: fn(&OsStr) -> Result<PathBuf, String>,
) -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(move |word| read(&word))
}

/// Stages as a list, or as the tables of a plan file, whose text ends with a line feed.
pub(super) fn stages(given: &str) -> Result<Vec<Stage>, String> {
    #[derive(Deserialize)]
    struct Tables {
        stage: Vec<Stage>,
    }
    if given.ends_with('\n') {
        let tables = toml::from_str::<Tables>(given);
        return tables.map(|it| it.stage).map_err(|error| error.message().to_owned());
    }
    let stages = given.split(',').map(str::parse::<Stage>);
    stages.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// The name of a file, or `-` for standard output.
pub(super) fn name_or_stdout(word: &OsStr) -> Result<PathBuf, String> {
    if word == STDOUT { Ok(PathBuf::from(word)) } else { file_name(word) }
}

/// The intended URL: without a scheme it is http.
pub(crate) fn url(given: &str) -> String {
    let host_end = given.find(['/', '?', '#']).unwrap_or(given.len());
    let (host, rest) = given.split_at(host_end);
    // A scheme is a name and a colon before `//`, so the part before the slash ends with a colon.
    let has_scheme = host.ends_with(':') && rest.starts_with("//");
    match host.parse::<Ipv6Addr>() {
        _ if has_scheme || given.is_empty() => given.to_owned(),
        Ok(address) => format!("http://[{address}]{rest}"),
        Err(_) => format!("http://{given}"),
    }
}

/// A user's name and password. The error shows neither.
pub(super) fn credentials(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some(_) => Ok(text.to_owned()),
        None => Err("no colon after the user name; give USER:PASSWORD".to_owned()),
    }
}

/// True if a header has this name.
pub(crate) fn is_named(line: &str, name: &str) -> bool {
    line.split_once(':').is_some_and(|(found, _)| found.trim_end().eq_ignore_ascii_case(name))
}

/// The name of a file.
pub(super) fn file_name(word: &OsStr) -> Result<PathBuf, String> {
    let Some(text) = word.to_str() else { return Ok(PathBuf::from(word)) };
    match text.strip_prefix('-') {
        Some("") => Err(format!(
            "invalid file name `{text}`: standard input and output can't be used here, name a file"
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

/// A data file with its name in fields. The text may be meant as a body, and a secret.
pub(super) fn data(text: &str) -> Result<(String, DataFile), String> {
    let form = "give NAME=FILE.csv, e.g. users=users.csv (a request's body is --body)";
    let is_name = |name: &str| {
        let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        !name.is_empty() && name.bytes().all(in_name)
    };
    match text.split_once('=').filter(|(name, _)| is_name(name)) {
        Some((name, file)) => match file.parse() {
            Ok(file) => Ok((name.to_owned(), file)),
            Err(error) => Err(error.to_string()),
        },
        None => Err(format!("invalid value: {form}")),
    }
}

/// What `--trace` means without a number: another one for each run.
pub(super) const NEW_TRACE: &str = "new";

/// The number of a run's traces; `None` for none.
pub(super) fn trace(text: &str) -> Result<Option<u64>, String> {
    match text {
        NEW_TRACE | "true" => Ok(Some(RandomState::new().build_hasher().finish() >> 32)),
        "false" => Ok(None),
        number => whole_amount(0..=WHOLE_MAX)(number).map(Some),
    }
}

/// The name of a profile, whose ending decides its format.
pub(super) fn profile_name(word: &OsStr) -> Result<PathBuf, String> {
    let path = file_name(word)?;
    let shown = path.display();
    match Format::of(&path) {
        Some(_) => Ok(path),
        None => Err(format!("invalid file name `{shown}`: it must end in {}", Format::ENDINGS)),
    }
}

/// The name of a file that the node exporter's textfile collector reads.
pub(super) fn prom_name(word: &OsStr) -> Result<PathBuf, String> {
    let path = file_name(word)?;
    let shown = path.display();
    match path.extension() {
        Some(ending) if ending == "prom" => Ok(path),
        _ => Err(format!("invalid file name `{shown}`: it must end in .prom for the collector")),
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
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| not_in(text, &range))
    }
}

/// A whole number in a range, which may be written like a rate: `10k`.
pub(super) fn whole_amount<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: TryFrom<u64> + PartialOrd + fmt::Display + Clone,
{
    move |text| {
        let number = units::whole_number(text).and_then(|number| T::try_from(number).ok());
        number.filter(|number| range.contains(number)).ok_or_else(|| not_in(text, &range))
    }
}

fn not_in(text: &str, range: &RangeInclusive<impl fmt::Display>) -> String {
    let (min, max) = (range.start(), range.end());
    format!("invalid number `{text}`: give a whole number from {min} to {max}")
}

/// The largest count of anything on one machine; the code that uses it has a limit of its own.
pub(super) const COUNT_MAX: usize = u32::MAX as usize;
/// The largest integer of a plan file: TOML's are signed.
pub(super) const WHOLE_MAX: u64 = i64::MAX.cast_unsigned();

/// A choice by its name in serde.
pub(super) fn by_name<T: DeserializeOwned>(name: &str) -> Result<T, NameError> {
    T::deserialize(name.into_deserializer())
}

/// One of this machine's addresses.
pub(super) fn ip_address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| {
        format!("invalid address `{text}`: give IP addresses of this machine, e.g. 127.0.0.2")
    })
}

/// A fraction; the code that uses it checks its range.
pub(super) fn fraction(text: &str) -> Result<f64, String> {
    text.parse()
        .map_err(|_| format!("invalid fraction `{text}`: give a number from 0 to 1, e.g. 0.01"))
}

/// An address to listen on.
pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("invalid address `{text}`: give IP:PORT, e.g. 127.0.0.1:8080"))
}
