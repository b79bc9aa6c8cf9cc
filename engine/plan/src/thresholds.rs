//! The thresholds of the verdict: their names, defaults and ranges.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::PlanError;
use crate::flatten::flatten;

/// The thresholds beyond which a run is suspect or invalid, as far as a plan may change them.
/// Shares are fractions of 1. Bounds that no plan needs to change are defined with their rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// Share of intended requests that may remain unsent.
    pub unsent: f64,
    /// What the generator may add to requests at p90 and above, whatever their latency, µs. Sends
    /// may be burstier than planned by as much as this explains.
    pub lateness_floor_us: f64,
    /// What the generator may add to requests at corrected p50, and at p90, p99 and p99.9 if it
    /// exceeds [`Thresholds::lateness_floor_us`], as a share of their latency. The same bound
    /// applies to receive lateness against naive p50 and p99 where latencies include it.
    pub client_share: f64,
    /// Busy share of a shard; in a closed loop, only if its users wait for the generator.
    pub busy: f64,
    /// Share of latencies that may differ by more than 5 % between the window's first and last
    /// quarter, beyond chance.
    pub drift: f64,
    /// The percentile for which a run needs enough samples.
    pub percentile: f64,
    /// Share of a shard's time that may be lost to others: stolen by the hypervisor, spent waiting
    /// for its core, or spent on the interface's interrupts on its core.
    pub stolen: f64,
    /// Share of the intended requests without a good answer.
    pub errors: f64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            unsent: 0.001,
            lateness_floor_us: 20.0,
            client_share: 0.05,
            busy: 0.95,
            drift: 0.1,
            percentile: 0.99,
            stolen: 0.01,
            errors: 0.01,
        }
    }
}

impl Thresholds {
    /// The bounds by name, in the order of their declaration.
    pub fn entries(&self) -> Vec<(String, f64)> {
        let entries = flatten(self).into_iter();
        // A number that isn't finite is null in JSON.
        entries.map(|(name, value)| (name, value.as_f64().unwrap_or(f64::NAN))).collect()
    }

    /// Sets one bound.
    pub fn set(&mut self, bound: &Bound) {
        let mut fields = serde_json::to_value(&*self).expect("bounds are numbers");
        fields[&bound.name] = bound.value.into();
        *self = serde_json::from_value(fields).expect("a bound has a known name");
    }

    /// Checks that every threshold is in its range.
    ///
    /// # Errors
    /// The first bound out of its range.
    pub fn validate(&self) -> Result<(), PlanError> {
        for (name, value) in self.entries() {
            let (ok, range) = match name.as_str() {
                "percentile" => (0.0 < value && value < 1.0, "between 0 and 1, e.g. 0.99 for p99"),
                name if name.ends_with("_us") => (0.0 <= value, "of at least 0"),
                _ => ((0.0..=1.0).contains(&value), "from 0 to 1, e.g. 0.05 for 5 %"),
            };
            if !ok {
                let shown = format!("{name}={value}");
                let cure = format!("give a number {range}");
                return Err(PlanError::new("--threshold", shown, "out of range", cure));
            }
        }
        Ok(())
    }
}

/// A bound by name: `busy=0.9`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    name: String,
    value: f64,
}

/// The part of a wrong bound that an error may show. A header given by mistake may hold a secret; a
/// name or a number doesn't.
fn shown(text: &str) -> String {
    let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let is_number = |text: &str| text.is_empty() || text.parse::<f64>().is_ok();
    match text.split_once('=') {
        _ if is_word(text) || is_number(text) => text.to_owned(),
        Some((name, value)) if is_word(name) && is_number(value) => text.to_owned(),
        Some((name, _)) if is_word(name) => format!("{name}=…"),
        _ => "…".to_owned(),
    }
}

/// A text that isn't a bound.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidBound {
    /// The name or the value is missing, or the value isn't a number.
    #[error("invalid threshold `{}`: give NAME=VALUE, e.g. busy=0.9", shown(.0))]
    Malformed(String),
    /// No bound has this name.
    #[error("unknown threshold `{}`: choose from {names}", shown(.0), names = names())]
    Unknown(String),
}

fn names() -> String {
    let names = Thresholds::default().entries().into_iter().map(|(name, _)| name);
    names.collect::<Vec<_>>().join(", ")
}

impl FromStr for Bound {
    type Err = InvalidBound;

    fn from_str(text: &str) -> Result<Bound, InvalidBound> {
        let malformed = || InvalidBound::Malformed(text.to_owned());
        let (name, value) = text.split_once('=').ok_or_else(malformed)?;
        if !Thresholds::default().entries().iter().any(|(known, _)| known == name) {
            return Err(InvalidBound::Unknown(text.to_owned()));
        }
        let value: f64 = value.trim().parse().map_err(|_| malformed())?;
        if !value.is_finite() {
            return Err(malformed());
        }
        Ok(Bound { name: name.to_owned(), value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_is_set_by_its_name() {
        let mut bounds = Thresholds::default();
        for (at, (name, _)) in bounds.entries().into_iter().enumerate() {
            bounds.set(&format!("{name}={at}.5").parse().expect("a bound"));
        }
        for (at, (name, value)) in bounds.entries().into_iter().enumerate() {
            assert_eq!(value, at as f64 + 0.5, "{name}");
        }
        assert_eq!(bounds.unsent, 0.5);
    }

    #[test]
    fn a_share_is_at_most_one() {
        let with = |text: &str| {
            let mut bounds = Thresholds::default();
            bounds.set(&text.parse().expect("a bound"));
            bounds.validate()
        };
        for (name, _) in Thresholds::default().entries() {
            let found = with(&format!("{name}=5"));
            if name.ends_with("_us") {
                assert_eq!(found, Ok(()));
                continue;
            }
            let error = found.expect_err(&name).to_string();
            let start = format!("--threshold {name}=5: out of range; give a number ");
            assert!(error.starts_with(&start) && error.contains(", e.g. 0."), "{error}");
        }
        for text in ["busy=0", "errors=1", "lateness_floor_us=0"] {
            assert_eq!(with(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_bound_is_a_known_name_and_a_number() {
        for (text, message) in [
            ("busy", "invalid threshold `busy`: give NAME=VALUE, e.g. busy=0.9"),
            ("busy=", "invalid threshold `busy=`: give"),
            ("busy=much", "invalid threshold `busy=…`: give"),
            ("Authorization=pa55", "unknown threshold `…`: choose"),
            ("Authorization: pa55", "invalid threshold `…`: give"),
            ("authorization=5", "unknown threshold `authorization=5`: choose"),
            ("busy=nan", "invalid threshold `busy=nan`: give"),
            ("speed=1", "unknown threshold `speed=1`: choose from unsent, lateness_floor_us, "),
            ("", "invalid threshold ``: give"),
        ] {
            let error = text.parse::<Bound>().expect_err(text);
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }
}
