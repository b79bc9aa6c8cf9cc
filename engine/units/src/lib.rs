//! Durations, rates, samples and core lists as people write them: `1.5s`, `20k`, `1/1000`, `0-3`.
//!
//! The command line, plan files and reports all use the same notation, so each type parses and
//! prints itself, and [`Scalar`] reads that text from a document. `serde_with::PickFirst` would
//! also accept `5000` beside `"5k"`, but it answers a wrong value with the errors of all
//! alternatives; [`Scalar`] reports only the error that names the cure.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

/// A text, number or boolean of a document, as text, so that a type that parses itself accepts both
/// `5000` and `"5000"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar(pub String);

impl Scalar {
    /// Reads a scalar and parses its text.
    ///
    /// # Errors
    /// The document holds no scalar here, or the type refuses its text.
    pub fn parse<'de, T: FromStr<Err: fmt::Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        Scalar::deserialize(deserializer)?.0.parse().map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        // A format that doesn't describe its types holds the text as written.
        if !deserializer.is_human_readable() {
            return String::deserialize(deserializer).map(Scalar);
        }
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "invalid value: give one text or number")]
        enum Untyped {
            Text(String),
            Whole(u64),
            Negative(i64),
            Fraction(f64),
            Boolean(bool),
        }
        Ok(Scalar(match Untyped::deserialize(deserializer)? {
            Untyped::Text(text) => text,
            Untyped::Whole(number) => number.to_string(),
            Untyped::Negative(number) => number.to_string(),
            Untyped::Fraction(number) => number.to_string(),
            Untyped::Boolean(boolean) => boolean.to_string(),
        }))
    }
}

/// A length of time in whole nanoseconds, written with a unit: `250us`, `5ms`, `1.5s`, `2m`, `1h`,
/// or a sum, `1m30s`. A number alone is seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(into = "String", from = "String")]
pub struct Nanos(pub u64);

/// One second in nanoseconds.
pub const SECOND_NS: u64 = 1_000_000_000;

/// Units, longest first: the order in which [`Nanos`] prints them.
const UNITS: [(&str, u64); 6] = [
    ("h", 3_600 * SECOND_NS),
    ("m", 60 * SECOND_NS),
    ("s", SECOND_NS),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl Nanos {
    /// The length in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / SECOND_NS as f64
    }

    /// The same length as the standard library's type.
    pub fn as_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }

    /// A length of whole seconds.
    pub const fn from_secs(seconds: u64) -> Nanos {
        Nanos(seconds * SECOND_NS)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        // Whole seconds are printed part by part; anything else reads better as one unit with a
        // fraction.
        if self.0.is_multiple_of(SECOND_NS) {
            let mut rest = self.0;
            for (name, length_ns) in &UNITS[..3] {
                if rest / length_ns > 0 {
                    write!(f, "{}{name}", rest / length_ns)?;
                    rest %= length_ns;
                }
            }
            return Ok(());
        }
        let (name, length_ns) = UNITS[2..]
            .iter()
            .find(|(_, length_ns)| *length_ns <= self.0)
            .expect("1 ns is the smallest unit and the length is not zero");
        let whole = self.0 / length_ns;
        let fraction =
            format!("{:0width$}", self.0 % length_ns, width = length_ns.ilog10() as usize);
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{whole}{name}"),
            digits => write!(f, "{whole}.{digits}{name}"),
        }
    }
}

/// A text that isn't a duration, or is one beyond 584 years.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid duration `{0}`: give seconds, or a unit (ns, us, ms, s, m, h), e.g. 30s or 1.5ms")]
pub struct InvalidDuration(String);

impl FromStr for Nanos {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Nanos, InvalidDuration> {
        let invalid = || InvalidDuration(text.to_owned());
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(invalid());
        }
        if rest.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit()) {
            return decimal_times(rest, SECOND_NS).map(Nanos).ok_or_else(invalid);
        }
        let mut total_ns = 0_u64;
        while !rest.is_empty() {
            let digits =
                rest.find(|c: char| c != '.' && !c.is_ascii_digit()).ok_or_else(invalid)?;
            let unit_text = &rest[digits..];
            let unit_end =
                unit_text.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(unit_text.len());
            let unit_name = match &unit_text[..unit_end] {
                "µs" => "us",
                name => name,
            };
            let (_, length_ns) =
                UNITS.iter().find(|(name, _)| *name == unit_name).ok_or_else(invalid)?;
            let part_ns = decimal_times(&rest[..digits], *length_ns).ok_or_else(invalid)?;
            total_ns = total_ns.checked_add(part_ns).ok_or_else(invalid)?;
            rest = &unit_text[unit_end..];
        }
        Ok(Nanos(total_ns))
    }
}

/// A decimal number times a whole number, in integers, rounded down.
fn decimal_times(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut product = whole.checked_mul(factor)?;
    let mut place = factor;
    for digit in fraction.chars() {
        place /= 10;
        product = product.checked_add(u64::from(digit.to_digit(10)?) * place)?;
    }
    Some(product)
}

impl Serialize for Nanos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        Scalar::parse(deserializer)
    }
}

/// Requests per second, kept in whole millionths so that a schedule can count in integers: `20k`,
/// `1.5M`, `0.5`, `1e4`; also written `1000/s`, or per minute, `6000/m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(into = "f64", from = "f64")]
pub struct Rate {
    micro: u64,
}

impl Rate {
    /// The highest rate of a plan, per second: more than a machine's loopback can carry.
    pub const MAX_PER_SECOND: u64 = 100_000_000;

    /// No requests at all: the start of a ramp, or a pause. No text parses to it.
    pub const ZERO: Rate = Rate { micro: 0 };

    /// The rate in millionths of a request per second.
    pub fn micro_per_second(self) -> u64 {
        self.micro
    }

    /// The rate per second.
    pub fn per_second(self) -> f64 {
        self.micro as f64 / 1e6
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.per_second())
    }
}

/// A text that isn't a rate that requests can be sent at.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidRate {
    /// It isn't a number.
    #[error("invalid rate `{0}`: give requests per second, e.g. 500, 20k or 1.5M")]
    NotANumber(String),
    /// It is zero, or less than a millionth.
    #[error("invalid rate `{0}`: must be above 0 requests per second, e.g. 500, 20k or 1.5M")]
    Zero(String),
    /// It is above [`Rate::MAX_PER_SECOND`].
    #[error(
        "invalid rate `{0}`: must be at most {max} requests per second",
        max = Rate::MAX_PER_SECOND
    )]
    TooHigh(String),
}

impl FromStr for Rate {
    type Err = InvalidRate;

    fn from_str(text: &str) -> Result<Rate, InvalidRate> {
        let not_a_number = || InvalidRate::NotANumber(text.to_owned());
        let (amount, seconds) = match text.trim().split_once('/') {
            None => (text.trim(), 1),
            Some((amount, "s" | "1s")) => (amount, 1),
            Some((amount, "m" | "1m")) => (amount, 60),
            Some(_) => return Err(not_a_number()),
        };
        let micro = millionths(amount).ok_or_else(not_a_number)? / seconds;
        if micro == 0 {
            return Err(InvalidRate::Zero(text.to_owned()));
        }
        if Rate::MAX_PER_SECOND * 1_000_000 < micro {
            return Err(InvalidRate::TooHigh(text.to_owned()));
        }
        Ok(Rate { micro })
    }
}

/// A whole number, in the same notation as a rate: `500`, `20k`, `1.5M`, `1e4`.
pub fn whole_number(text: &str) -> Option<u64> {
    let written_out = text.parse().ok();
    written_out
        .or_else(|| millionths(text).filter(|it| it % 1_000_000 == 0).map(|it| it / 1_000_000))
}

/// The millionths of a number such as `500`, `20k`, `1.5M` or `1e4`.
fn millionths(amount: &str) -> Option<u64> {
    let (number, factor) = match amount.char_indices().last() {
        Some((at, 'k' | 'K')) => (&amount[..at], 1_000_u64),
        Some((at, 'm' | 'M')) => (&amount[..at], 1_000_000),
        _ => match amount.split_once(['e', 'E']) {
            Some((number, power)) => (number, 10_u64.checked_pow(power.parse().ok()?)?),
            None => (amount, 1),
        },
    };
    decimal_times(number, factor.checked_mul(1_000_000)?)
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.per_second())
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        Scalar::parse(deserializer)
    }
}

/// A sample: one in N, written `1/1000`, or none, written `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(into = "String", from = "String")]
pub struct OneIn(Option<NonZeroU32>);

impl OneIn {
    /// No sample.
    pub const OFF: OneIn = OneIn(None);

    /// A sample of one in `count`.
    pub const fn new(count: NonZeroU32) -> OneIn {
        OneIn(Some(count))
    }

    /// The N of one in N; `None` if none is taken.
    pub fn count(self) -> Option<NonZeroU32> {
        self.0
    }
}

impl fmt::Display for OneIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(count) => write!(f, "1/{count}"),
            None => f.write_str("off"),
        }
    }
}

/// A text that isn't a sample.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid sample `{0}`: give one in N, e.g. 1/1000, 1/1 for all, or off")]
pub struct InvalidOneIn(String);

impl FromStr for OneIn {
    type Err = InvalidOneIn;

    fn from_str(text: &str) -> Result<OneIn, InvalidOneIn> {
        if text.trim() == "off" {
            return Ok(OneIn::OFF);
        }
        let parts = text.split_once('/').filter(|(one, _)| one.trim() == "1");
        let count = parts.and_then(|(_, count)| count.trim().parse().ok());
        count.map(OneIn::new).ok_or_else(|| InvalidOneIn(text.to_owned()))
    }
}

impl Serialize for OneIn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OneIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneIn, D::Error> {
        Scalar::parse(deserializer)
    }
}

/// A list of core numbers in ascending order without duplicates: `0,1` or `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(into = "String", from = "String")]
pub struct CoreList(Vec<usize>);

/// The highest core number that a list may name; the kernel's own limit is lower.
const CORE_MAX: usize = 65_535;

impl CoreList {
    /// A list of these numbers, in any order and with repeats.
    pub fn new(mut cores: Vec<usize>) -> CoreList {
        cores.sort_unstable();
        cores.dedup();
        CoreList(cores)
    }

    /// The numbers in ascending order.
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// The number of cores in the list.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for CoreList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = 0;
        while at < self.0.len() {
            let mut end = at;
            while end + 1 < self.0.len() && self.0[end + 1] == self.0[end] + 1 {
                end += 1;
            }
            let comma = if at == 0 { "" } else { "," };
            if at == end {
                write!(f, "{comma}{}", self.0[at])?;
            } else {
                write!(f, "{comma}{}-{}", self.0[at], self.0[end])?;
            }
            at = end + 1;
        }
        Ok(())
    }
}

/// A text that isn't a list of cores.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid core list `{0}`: give numbers and ranges, e.g. 0,1 or 0-3")]
pub struct InvalidCoreList(String);

impl FromStr for CoreList {
    type Err = InvalidCoreList;

    fn from_str(text: &str) -> Result<CoreList, InvalidCoreList> {
        let invalid = || InvalidCoreList(text.to_owned());
        let number = |word: &str| {
            word.trim().parse::<usize>().ok().filter(|core| *core <= CORE_MAX).ok_or_else(invalid)
        };
        // Ranges may overlap; a long list of them mustn't take more memory than one does.
        let mut named = vec![false; CORE_MAX + 1];
        for part in text.split(',') {
            match part.split_once('-') {
                None => named[number(part)?] = true,
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if last < first {
                        return Err(invalid());
                    }
                    named[first..=last].fill(true);
                }
            }
        }
        Ok(CoreList((0..=CORE_MAX).filter(|core| named[*core]).collect()))
    }
}

impl Serialize for CoreList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CoreList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CoreList, D::Error> {
        Scalar::parse(deserializer)
    }
}

/// A document's time, whole ns in microseconds, converted back to ns.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates: an impossible time becomes one that no check accepts"
)]
pub fn us_to_ns(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

/// A document's point in time, seconds since the epoch, in ns. A double holds every ns of a hundred
/// days.
pub fn seconds_to_ns(seconds: f64) -> u64 {
    us_to_ns(seconds * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_printed() {
        for (text, ns, printed) in [
            ("30s", 30 * SECOND_NS, "30s"),
            ("1.5s", 1_500_000_000, "1.5s"),
            ("1m30s", 90 * SECOND_NS, "1m30s"),
            ("250us", 250_000, "250us"),
            ("250µs", 250_000, "250us"),
            ("1.25ms", 1_250_000, "1.25ms"),
            ("7ns", 7, "7ns"),
            ("1h", 3_600 * SECOND_NS, "1h"),
            ("0s", 0, "0s"),
            ("0", 0, "0s"),
            (".5s", 500_000_000, "500ms"),
            ("10", 10 * SECOND_NS, "10s"),
            ("2.5", 2_500_000_000, "2.5s"),
            ("90s", 90 * SECOND_NS, "1m30s"),
        ] {
            let read: Nanos = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.0, ns, "{text}");
            assert_eq!(read.to_string(), printed, "{text}");
            assert_eq!(printed.parse::<Nanos>(), Ok(read), "{text} comes back");
        }
        for text in
            ["", "s", ".", "1.2.3", "ten s", "1x", "1s x", "-1s", "99999999999h", "1..5s", "1é"]
        {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_sample_is_one_in_so_many() {
        for (text, count, printed) in
            [("1/1000", 1_000, "1/1000"), (" 1 / 1 ", 1, "1/1"), ("off", 0, "off")]
        {
            let read: OneIn = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.count(), NonZeroU32::new(count), "{text}");
            assert_eq!(read.to_string(), printed, "{text}");
        }
        for text in ["", "1", "1/", "1/0", "2/1000", "/9", "1/-1", "1/1e3", "0.001", "1/4294967296"]
        {
            assert!(text.parse::<OneIn>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_read_in_millionths() {
        for (text, micro) in [
            ("20k", 20_000_000_000),
            ("1.5M", 1_500_000_000_000),
            ("0.5", 500_000),
            ("333.333333", 333_333_333),
            ("5k/s", 5_000_000_000),
            ("50/1s", 50_000_000),
            ("6000/m", 100_000_000),
            ("6k/1m", 100_000_000),
            ("1000/m", 16_666_666),
            ("1e4", 10_000_000_000),
            ("1.5e3/s", 1_500_000_000),
        ] {
            assert_eq!(text.parse::<Rate>().map(Rate::micro_per_second), Ok(micro), "{text}");
        }
        for text in [
            "0",
            "0k",
            "-5",
            "",
            "k",
            "fast",
            "1e",
            "e3",
            "1e-3",
            "1e99",
            "1000M",
            "0.0000001",
            "5/h",
            "5/",
            "/s",
            "5/s/s",
            "5/5s",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn core_lists_are_sets_in_order() {
        for (text, printed) in
            [("0", "0"), ("0,1", "0-1"), ("3,0-1", "0-1,3"), ("2,2", "2"), ("0-3,8", "0-3,8")]
        {
            assert_eq!(text.parse::<CoreList>().expect(text).to_string(), printed);
        }
        for text in ["", "a", "3-1", "1,", "-1", "999999"] {
            assert!(text.parse::<CoreList>().is_err(), "{text}");
        }
        let overlapping = vec!["0-65535"; 1_000].join(",");
        assert_eq!(overlapping.parse::<CoreList>().expect("a list").len(), CORE_MAX + 1);
    }
}
