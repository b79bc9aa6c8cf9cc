//! The thresholds of the verdict: their names, defaults and ranges.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::plan::PlanError;
use crate::sys::leaves::leaves;

/// The thresholds beyond which a run is suspect or invalid. Shares are fractions of 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// Share of the intended requests that may be missing among the sent ones.
    pub unsent: f64,
    /// How far the offered rate may be off the plan's, as a share, unless chance explains more. Of
    /// a paced loop, share of the intended requests that may be sent after the window's end.
    pub offered: f64,
    /// Pacer lateness p99, or the highest percentile known below it, against corrected p50. The
    /// mean time to connect against the same, from which a pool that grew may be invalid.
    pub lateness: f64,
    /// Pacer lateness p99 that never counts against a run, µs. The gaps between sends may be off by
    /// as much as this lateness explains.
    pub lateness_floor_us: f64,
    /// Pacer lateness p99.9 against corrected p99.9.
    pub lateness_tail: f64,
    /// Pacer lateness p99.9 that never counts against a run, µs.
    pub lateness_tail_floor_us: f64,
    /// Pacer lateness p99 as a share of corrected p99, from which the run is invalid.
    pub lateness_invalid: f64,
    /// What the generator added to the requests at corrected p50, or at p99 if it is above
    /// [`Thresholds::lateness_floor_us`], as a share of their latency; and receive lateness against
    /// naive at the same percentiles, where latencies contain it.
    pub client_share: f64,
    /// Share of the window for which a shard stalled, counting stalls of more than 10 ms.
    pub stopped: f64,
    /// The same, from which the run is invalid.
    pub stopped_invalid: f64,
    /// Busy share of a shard; of a closed loop only if its users wait for it for more than
    /// [`Thresholds::generator_bound`].
    pub busy: f64,
    /// Busy share of a shard while an open load falls behind, if the planned rate would need more
    /// than [`Thresholds::busy`].
    pub busy_behind: f64,
    /// Requests sent per second as a share of the capacity that was calibrated on this machine.
    pub near_ceiling: f64,
    /// The latency of a target that costs nothing, as it was calibrated on this machine, as a share
    /// of corrected p50.
    pub below_floor: f64,
    /// Share of their time for which the users of a closed loop may wait for the generator.
    pub generator_bound: f64,
    /// Share of the arrivals that may wait at the cap.
    pub capped: f64,
    /// Probability, in each test of the intended arrivals, below which they don't follow the plan.
    pub schedule_p: f64,
    /// How far the sends' index of dispersion, their gaps' Kolmogorov–Smirnov distance from the
    /// intended ones and their lag-1 autocorrelation may be off those of the intended times of the
    /// same requests, beyond what [`Thresholds::lateness_floor_us`] explains.
    pub sends_effect: f64,
    /// Standard deviations that such lateness may move the sends' index of dispersion by.
    pub sends_deviations: f64,
    /// The distance of the gaps that no lateness explains.
    pub sends_distance: f64,
    /// Residual of Little's law.
    pub littles_law: f64,
    /// Share of the latencies that may differ by more than 5 % between the window's first and last
    /// quarter, beyond chance.
    pub drift: f64,
    /// Factor between the p99 of these quarters, in either direction, that counts as a change if
    /// their confidence intervals don't overlap.
    pub drift_p99: f64,
    /// The percentile that a run has to have samples for.
    pub percentile: f64,
    /// Share of a shard's time that others may take: stolen by the hypervisor, waiting for its
    /// core, or while its core served the interface's interrupts.
    pub stolen: f64,
    /// The same, from which the run is invalid; and the busy share of a sibling of a shard's core.
    pub stolen_invalid: f64,
    /// Share of the window for which the control group may be throttled.
    pub throttled: f64,
    /// Share of the users that may be blocked for half of the window or more.
    pub starved: f64,
    /// The same, from which the run is invalid.
    pub starved_invalid: f64,
    /// Connections by which the pool may grow in the window, as a share of the intended requests;
    /// one for each shard is always allowed.
    pub pool_grew: f64,
    /// The same, from which the run is invalid if connecting took long, see
    /// [`Thresholds::lateness`].
    pub pool_grew_invalid: f64,
    /// Share of the connections that a pool which hadn't settled may add in the window, from which
    /// the run is invalid.
    pub not_settled_invalid: f64,
    /// Receives that found no free buffer, as a share of all responses.
    pub buffers: f64,
    /// Share of the intended requests without a good answer.
    pub errors: f64,
    /// The same, from which the run is invalid: its percentiles are those of the few.
    pub errors_invalid: f64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            unsent: 0.001,
            offered: 0.02,
            lateness: 0.05,
            lateness_floor_us: 20.0,
            lateness_tail: 0.1,
            lateness_tail_floor_us: 1_000.0,
            lateness_invalid: 0.5,
            client_share: 0.05,
            stopped: 0.01,
            stopped_invalid: 0.1,
            busy: 0.95,
            busy_behind: 0.6,
            near_ceiling: 0.8,
            below_floor: 0.8,
            generator_bound: 0.1,
            capped: 0.001,
            schedule_p: 1e-4,
            sends_effect: 0.05,
            sends_deviations: 3.0,
            sends_distance: 0.5,
            littles_law: 0.01,
            drift: 0.1,
            drift_p99: 1.5,
            percentile: 0.99,
            stolen: 0.01,
            stolen_invalid: 0.1,
            throttled: 0.001,
            starved: 0.01,
            starved_invalid: 0.1,
            pool_grew: 0.001,
            pool_grew_invalid: 0.1,
            not_settled_invalid: 0.1,
            buffers: 0.001,
            errors: 0.01,
            errors_invalid: 0.5,
        }
    }
}

impl Thresholds {
    /// The bounds by name, in the order of their declaration.
    pub fn entries(&self) -> Vec<(String, f64)> {
        let entries = leaves(self).into_iter();
        // A number that isn't finite is null in JSON.
        entries.map(|(name, value)| (name, value.as_f64().unwrap_or(f64::NAN))).collect()
    }

    /// Changes one bound.
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
                "percentile" | "schedule_p" => {
                    (0.0 < value && value < 1.0, "a number between 0 and 1")
                }
                "drift_p99" => (1.0 <= value, "a factor of at least 1"),
                _ => (0.0 <= value, "a number of at least 0"),
            };
            if !ok {
                let shown = format!("{name}={value}");
                return Err(PlanError::new(
                    "--threshold",
                    shown,
                    "out of range",
                    format!("give {range}"),
                ));
            }
        }
        Ok(())
    }
}

/// One bound by its name: `busy=0.9`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    name: String,
    value: f64,
}

/// What can be shown of a text that isn't a bound. A header given by mistake may hold a secret; a
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
    /// Name or value is missing, or the value isn't a number.
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
    fn a_bound_is_a_known_name_and_a_number() {
        for (text, message) in [
            ("busy", "invalid threshold `busy`: give NAME=VALUE, e.g. busy=0.9"),
            ("busy=", "invalid threshold `busy=`: give"),
            ("busy=much", "invalid threshold `busy=…`: give"),
            ("Authorization=pa55", "unknown threshold `…`: choose"),
            ("Authorization: pa55", "invalid threshold `…`: give"),
            ("authorization=5", "unknown threshold `authorization=5`: choose"),
            ("busy=nan", "invalid threshold `busy=nan`: give"),
            ("speed=1", "unknown threshold `speed=1`: choose from unsent, offered, "),
            ("", "invalid threshold ``: give"),
        ] {
            let error = text.parse::<Bound>().expect_err(text);
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }
}
