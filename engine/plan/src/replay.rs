//! How a log is sent again: its speed, and how its seconds are spread.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use units::Scalar;

/// The name of a replayed log in fields.
pub const LOG: &str = "log";

/// How much faster than in the log requests come, in millionths. As text `2x` or `2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct Speed {
    micro: u64,
}

/// How the requests of one second are spread, in a log that has only whole seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// Over the second.
    #[default]
    Even,
    /// Not at all: they come together.
    None,
}

/// A text that isn't a speed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid speed `{0}`: give a number from 0.001 to 1000, e.g. 2x")]
pub struct InvalidSpeed(String);

impl Speed {
    /// As fast as in the log.
    pub const ONE: Speed = Speed { micro: 1_000_000 };

    /// The speed in millionths.
    pub fn micro(self) -> u64 {
        self.micro
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x", self.micro as f64 / 1e6)
    }
}

impl FromStr for Speed {
    type Err = InvalidSpeed;

    fn from_str(text: &str) -> Result<Speed, InvalidSpeed> {
        let number = text.trim().trim_end_matches('x').parse::<f64>().ok();
        let number = number.filter(|number| (0.001..=1_000.0).contains(number));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "held in range"
        )]
        let micro = number.map(|number| (number * 1e6).round() as u64);
        micro.map(|micro| Speed { micro }).ok_or_else(|| InvalidSpeed(text.to_owned()))
    }
}

impl Serialize for Speed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Speed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Speed, D::Error> {
        Scalar::parse(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_and_printed() {
        for (text, shown, micro) in
            [("2x", "2x", 2_000_000), ("0.5", "0.5x", 500_000), (" 10x", "10x", 10_000_000)]
        {
            let speed: Speed = text.parse().expect(text);
            assert_eq!((speed.to_string().as_str(), speed.micro()), (shown, micro));
        }
        for text in ["", "x", "0", "-1", "1001", "fast", "NaN", "inf"] {
            let error = text.parse::<Speed>().expect_err(text).to_string();
            assert!(error.contains("give a number from 0.001 to 1000"), "{error}");
        }
    }
}
