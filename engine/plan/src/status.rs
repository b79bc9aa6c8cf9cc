//! The status codes that count as success: `2xx,304`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use units::Scalar;

/// Upper bound of status codes, which have three digits.
pub const STATUS_MAX: usize = 1_000;

/// A set of status codes, written as codes and classes: `200,404` or `2xx`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(into = "String", from = "String")]
pub struct StatusSet {
    text: String,
    holds: Box<[bool]>,
}

impl StatusSet {
    /// True if the set has this code; no set has a code of more than three digits.
    #[inline]
    pub fn holds(&self, status: u16) -> bool {
        self.holds.get(usize::from(status)).is_some_and(|holds| *holds)
    }
}

impl StatusSet {
    /// This set and redirects.
    pub(super) fn with_redirects(&self) -> StatusSet {
        format!("{self},301,302,303,307,308").parse().expect("both are well-formed")
    }
}

impl Default for StatusSet {
    /// HTTP's success class, and the good answer to a conditional request. Redirects aren't
    /// followed, so a redirected request hasn't got its content.
    fn default() -> StatusSet {
        "2xx,304".parse().expect("the default is well-formed")
    }
}

/// A word that is neither a status code nor a class.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid status `{0}`: give codes and classes, e.g. 200,404 or 2xx,3xx")]
pub struct InvalidStatus(String);

impl FromStr for StatusSet {
    type Err = InvalidStatus;

    fn from_str(text: &str) -> Result<StatusSet, InvalidStatus> {
        let mut holds = vec![false; STATUS_MAX].into_boxed_slice();
        for word in text.split(',').map(str::trim) {
            let (first, count) = match (word.len(), word.get(1..), word.parse::<usize>()) {
                (3, Some("xx" | "XX"), _) => (word[..1].parse::<usize>().unwrap_or(0) * 100, 100),
                (3, _, Ok(code)) => (code, 1),
                _ => (0, 0),
            };
            if !(100..600).contains(&first) {
                return Err(InvalidStatus(word.to_owned()));
            }
            holds[first..first + count].fill(true);
        }
        Ok(StatusSet { text: text.to_owned(), holds })
    }
}

impl fmt::Display for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for StatusSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for StatusSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StatusSet, D::Error> {
        Scalar::parse(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_classes_are_read() {
        let set: StatusSet = "2xx, 404".parse().expect("a set");
        let held: Vec<bool> =
            [200, 299, 300, 404, 405].into_iter().map(|code| set.holds(code)).collect();
        assert_eq!(held, [true, true, false, true, false]);
        assert_eq!(
            [200, 301, 500].map(|code| StatusSet::default().holds(code)),
            [true, false, false]
        );
        for text in ["", "2", "20", "xxx", "2x", "099", "600", "200;201", "é0"] {
            assert!(text.parse::<StatusSet>().is_err(), "{text}");
        }
    }
}
