//! The condition of a step: that a value was captured.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// The name of the value that must have been captured. As text `{{NAME}} is set`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct When(pub String);

/// A text that is no condition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid condition `{0}`: give `{{{{NAME}}}} is set`, with a name that a step captures")]
pub struct InvalidWhen(String);

impl FromStr for When {
    type Err = InvalidWhen;

    fn from_str(text: &str) -> Result<When, InvalidWhen> {
        let name = text.trim().strip_prefix("{{").and_then(|rest| {
            let (name, rest) = rest.split_once("}}")?;
            rest.split_whitespace().eq(["is", "set"]).then_some(name.trim())
        });
        match name {
            Some(name) if !name.is_empty() => Ok(When(name.to_owned())),
            _ => Err(InvalidWhen(text.to_owned())),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{{}}}}} is set", self.0)
    }
}

impl Serialize for When {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<When, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_that_a_value_is_set() {
        let when: When = " {{ next }}  is set".parse().expect("a condition");
        assert_eq!((when.to_string().as_str(), when.0.as_str()), ("{{next}} is set", "next"));
        for text in ["", "next", "{{next}}", "{{next}} is", "{{next}} is not set", "{{}} is set"] {
            let error = text.parse::<When>().expect_err(text).to_string();
            assert!(error.ends_with("give `{{NAME}} is set`, with a name that a step captures"));
        }
    }
}
