//! Scenarios: the requests of a plan that makes more than one, and how often it makes each.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use units::Nanos;

use crate::expect::{Expect, ExpectTable};
use crate::slo::Objectives;
use crate::status::StatusSet;
use crate::think::Think;
use crate::when::When;

/// The most scenarios of a plan.
pub const SCENARIOS_MAX: usize = 1_000;
/// The longest value, as it is written into a request, bytes.
pub const VALUE_MAX: usize = 4 << 10;
/// The most bytes of all values of a session.
pub const VALUES_MAX: usize = 16 << 10;
/// The most captures of a scenario: a session has a bit for each.
pub const CAPTURES_MAX: usize = 64;
/// The most cookies of a session.
pub const COOKIES_MAX: usize = 20;
/// The most bytes of their names, values, domains and paths.
pub const COOKIES_BYTES_MAX: usize = 4 << 10;
/// The most bytes that a request's cookies take: `a=b; c=d`.
pub const COOKIES_LONGEST: usize = COOKIES_BYTES_MAX + 3 * COOKIES_MAX;
/// The most times that a step is repeated.
pub const REPEAT_MAX: u16 = 1_000;
/// The largest weight of a scenario.
pub const WEIGHT_MAX: u32 = 1_000_000;

/// One of the things that users do; each arrival picks one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The name of its results. Default: the method and path of its step.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How often it is picked, relative to the others' weights.
    #[serde(default = "Scenario::weight_default", deserialize_with = "weight")]
    pub weight: u32,
    /// How long a user thinks between two of its steps, unless a step has a time of its own.
    /// Default: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// How long a user waits for the whole of it, think times taken off, before the user gives up
    /// and sends no more. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Nanos>,
    /// Whether a session keeps the cookies that it is given, and sends them. Default: if it has
    /// several steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookies: Option<bool>,
    /// Which connections its sessions use. Default: any that is free, or in a closed model their
    /// user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionOf>,
    /// Its steps, in order, at least one: a session sends each when the one before was answered
    /// well.
    #[serde(deserialize_with = "steps")]
    pub step: Vec<Step>,
}

/// Which connections the sessions of a scenario use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum ConnectionOf {
    /// Each its own, opened as it begins and closed as it ends.
    Own,
}

impl TryFrom<String> for ConnectionOf {
    type Error = String;

    fn try_from(text: String) -> Result<ConnectionOf, String> {
        match text.as_str() {
            "own" => Ok(ConnectionOf::Own),
            _ => Err(format!("connection = {text:?} isn't known; give \"own\", or omit it")),
        }
    }
}

/// What a step does about redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Redirect {
    /// It follows up to five, on its own scheme, host and port.
    Follow,
    /// It follows up to five, to any scheme, host and port that the plan has requests to.
    Any,
}

impl TryFrom<String> for Redirect {
    type Error = String;

    fn try_from(text: String) -> Result<Redirect, String> {
        match text.as_str() {
            "follow" => Ok(Redirect::Follow),
            "any" => Ok(Redirect::Any),
            _ => Err(format!(
                "redirect = {text:?} isn't known; give \"follow\" or \"any\", or omit it"
            )),
        }
    }
}

/// One of a scenario's requests. Fields left out are the plan's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// The name of its results, after that of its scenario if that has several steps. Default: its
    /// method and path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// How long the user thinks before it, after the response to the step before. Default: the
    /// scenario's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// How often it is sent, one after the other: with `when`, at most. Default: once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u16>,
    /// Not sent unless this holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// Values that later steps take from its response, by name: `json:/POINTER`, `header:NAME`,
    /// `regex:PATTERN` or `status`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub capture: BTreeMap<String, String>,
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The URL; or path and query, on the host of the plan's URL.
    #[serde(alias = "path", skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers, each `Name: value`; they replace the plan's headers of the same name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// The body: literal text, `@FILE`, or `@data:;base64,` and bytes as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The status codes that count as success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_status: Option<StatusSet>,
    /// Checks of the response's headers, none if it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_header: Option<Vec<String>>,
    /// Checks of the response's body, none if it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_body: Option<Vec<String>>,
    /// Whether it follows redirects. Default: no, and a redirect is no good answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Redirect>,
    /// Another way to write these three in a plan file: `expect.body = "contains ok"`. A completed
    /// plan has none.
    #[serde(skip_serializing)]
    pub expect: Option<Expect>,
    /// Longest time from sending the request to the end of its response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Nanos>,
    /// Longest time from when the request was due to the end of its response; the user then gives
    /// up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Nanos>,
    /// The objectives that its requests must meet, besides the plan's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo: Option<Objectives>,
}

/// Weights in the proportions of these counts; counts above the limit become smaller together.
pub fn weights_of(counts: &[u64]) -> Vec<u32> {
    let most = counts.iter().copied().max().unwrap_or(0);
    let weight = |count: &u64| match u64::from(WEIGHT_MAX) {
        max if most <= max => *count,
        max => (count * max).div_ceil(most),
    };
    counts.iter().map(|count| u32::try_from(weight(count)).expect("at most the limit")).collect()
}

impl Step {
    /// Writes what is expected in the one way that a completed plan has.
    ///
    /// # Errors
    /// What is expected twice.
    pub fn complete_expect(&mut self) -> Result<(), &'static str> {
        let table = match self.expect.take() {
            None => return Ok(()),
            Some(Expect::Status(status)) => {
                ExpectTable { status: Some(status), ..ExpectTable::default() }
            }
            Some(Expect::Table(table)) => table,
        };
        let ExpectTable { status, body, header } = table;
        if let Some(status) = status
            && self.expect_status.replace(status).is_some()
        {
            return Err("expect.status");
        }
        for (all, more, name) in [
            (&mut self.expect_body, body, "expect.body"),
            (&mut self.expect_header, header, "expect.header"),
        ] {
            let Some(more) = more else { continue };
            if all.replace(more.texts()).is_some() {
                return Err(name);
            }
        }
        Ok(())
    }
}

impl Default for Scenario {
    /// One without steps, of weight 1.
    fn default() -> Scenario {
        Scenario {
            name: String::new(),
            weight: 1,
            think: None,
            deadline: None,
            cookies: None,
            connection: None,
            step: Vec::new(),
        }
    }
}

impl Scenario {
    /// A scenario of one step.
    pub fn of_one(name: String, weight: u32, step: Step) -> Scenario {
        Scenario { name, weight, step: vec![step], ..Scenario::default() }
    }

    /// True if its arrivals start sessions, of several requests.
    pub fn has_sessions(&self) -> bool {
        1 < self.requests_max()
    }

    /// A first step that is repeated becomes two steps: the first is due when its session is, and
    /// the others when their user has thought.
    pub(super) fn split_repeated_start(&mut self) {
        let Some(times @ 2..) = self.step[0].repeat else { return };
        let again = match self.step[0].name.as_str() {
            "" => String::new(),
            name => format!("{name} again"),
        };
        let again = Step { name: again, repeat: Some(times - 1), ..self.step[0].clone() };
        (self.step[0].repeat, self.step[0].think) = (None, None);
        self.step.insert(1, again);
    }

    /// The most requests of a session.
    pub fn requests_max(&self) -> u64 {
        self.step.iter().map(|step| u64::from(step.repeat.unwrap_or(1))).sum()
    }

    /// True if a session keeps cookies.
    pub fn keeps_cookies(&self) -> bool {
        self.cookies.unwrap_or_else(|| self.has_sessions())
    }

    /// True if each of its sessions has a connection of its own.
    pub fn has_own_connections(&self) -> bool {
        self.connection == Some(ConnectionOf::Own)
    }

    /// The weight of a scenario that is given none.
    pub fn weight_default() -> u32 {
        1
    }
}

/// Reads a weight, with an error that says what one is.
///
/// # Errors
/// It isn't a whole number, or below 0.
pub fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    u32::deserialize(deserializer).map_err(|_| {
        D::Error::custom(format!("the weight isn't a whole number from 0 to {WEIGHT_MAX}"))
    })
}

/// Reads a scenario's steps.
fn steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    let steps = Vec::<Step>::deserialize(deserializer)?;
    match steps.is_empty() {
        true => Err(D::Error::custom("a scenario without steps; write a `[[scenario.step]]`")),
        false => Ok(steps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_beyond_the_limit_become_smaller_together() {
        let max = u64::from(WEIGHT_MAX);
        assert_eq!(weights_of(&[7, 0, max]), [7, 0, WEIGHT_MAX]);
        assert_eq!(weights_of(&[4 * max, max, 1, 0]), [WEIGHT_MAX, WEIGHT_MAX / 4, 1, 0]);
    }
}
