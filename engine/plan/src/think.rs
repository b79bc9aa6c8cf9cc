//! Think times: how long a user waits between the response to one step and the next step.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use units::{Nanos, Scalar};

/// A think time, drawn anew for each session: `1s`, `exp 1s` or `uniform 0.5s 2s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(into = "String", from = "String")]
pub enum Think {
    /// Always as long.
    Constant(Nanos),
    /// Exponentially distributed, with this mean.
    Exponential(Nanos),
    /// Evenly distributed between two times.
    Uniform(Nanos, Nanos),
}

impl Think {
    /// The longest time in its text.
    pub fn longest(self) -> Nanos {
        match self {
            Think::Constant(time) | Think::Exponential(time) | Think::Uniform(_, time) => time,
        }
    }

    /// Its mean, ns.
    pub fn mean_ns(self) -> u64 {
        match self {
            Think::Constant(Nanos(ns)) | Think::Exponential(Nanos(ns)) => ns,
            Think::Uniform(Nanos(from), Nanos(to)) => from.midpoint(to),
        }
    }
}

/// A text that is no think time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid think time `{0}`: give `1s`, `exp 1s` or `uniform 0.5s 2s`")]
pub struct InvalidThink(String);

impl FromStr for Think {
    type Err = InvalidThink;

    fn from_str(text: &str) -> Result<Think, InvalidThink> {
        let invalid = || InvalidThink(text.to_owned());
        let time = |word: &str| word.parse::<Nanos>().map_err(|_| invalid());
        match text.split_whitespace().collect::<Vec<_>>().as_slice() {
            [one] => Ok(Think::Constant(time(one)?)),
            ["exp", mean] => Ok(Think::Exponential(time(mean)?)),
            ["uniform", from, to] => match (time(from)?, time(to)?) {
                (from, to) if from <= to => Ok(Think::Uniform(from, to)),
                _ => Err(invalid()),
            },
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Think::Constant(time) => write!(f, "{time}"),
            Think::Exponential(mean) => write!(f, "exp {mean}"),
            Think::Uniform(from, to) => write!(f, "uniform {from} {to}"),
        }
    }
}

impl Serialize for Think {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Think {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Think, D::Error> {
        Scalar::parse(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_times_are_read_and_written() {
        for (text, mean_ns) in
            [("1s", 1_000_000_000), ("exp 20ms", 20_000_000), ("uniform 500ms 2s", 1_250_000_000)]
        {
            let think: Think = text.parse().expect(text);
            assert_eq!((think.to_string().as_str(), think.mean_ns()), (text, mean_ns));
        }
        for text in ["", "exp", "exp 1s 2s", "uniform 1s", "uniform 2s 1s", "2 s", "often"] {
            assert!(text.parse::<Think>().is_err(), "{text}");
        }
    }
}
