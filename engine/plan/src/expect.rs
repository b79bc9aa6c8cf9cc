//! What a step of a plan file, or a line of targets, expects of its responses, as it is written.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::status::StatusSet;

/// What a scenario's step expects, as its table has it: the statuses alone, or a table.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[serde(untagged)]
pub enum Expect {
    /// The status codes that count as success.
    Status(StatusSet),
    /// These, and what the response's content is like.
    Table(ExpectTable),
}

impl<'de> Deserialize<'de> for Expect {
    /// Reads one or the other with its own errors.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Expect, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Expect;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("status codes, or a table of status, body and header")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Expect, E> {
                text.parse().map(Expect::Status).map_err(E::custom)
            }

            fn visit_u64<E: serde::de::Error>(self, code: u64) -> Result<Expect, E> {
                self.visit_str(&code.to_string())
            }

            fn visit_i64<E: serde::de::Error>(self, code: i64) -> Result<Expect, E> {
                self.visit_str(&code.to_string())
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Expect, A::Error> {
                let table = MapAccessDeserializer::new(table);
                ExpectTable::deserialize(table).map(Expect::Table)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// The table of what a step expects.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExpectTable {
    /// The status codes that count as success.
    pub status: Option<StatusSet>,
    /// The checks of the body, one or several; an empty list for none, whatever the plan has.
    pub body: Option<OneOrMore>,
    /// The checks of the headers, in the same way.
    #[serde(alias = "headers")]
    pub header: Option<OneOrMore>,
}

/// One text or several.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "not a check as text, or a list of such texts")]
pub enum OneOrMore {
    /// One.
    One(String),
    /// Any number.
    Several(Vec<String>),
}

impl OneOrMore {
    /// Its texts.
    pub fn texts(self) -> Vec<String> {
        match self {
            OneOrMore::One(text) => vec![text],
            OneOrMore::Several(texts) => texts,
        }
    }
}
