//! Captures: what a step takes from its response for the steps after it, as written and compiled.
//!
//! A scenario's captures have places, in the order of their names' first use, and a session has a
//! value or none in each. A capture that finds nothing fails its step, unless a later step asks by
//! `when` whether it did.

use std::collections::BTreeMap;

use regex::bytes::Regex;

use super::braces::{Form, Piece, form, pieces};
use super::content::{Body, Content};
use super::endpoint::Endpoint;
use super::error::PlanError;
use super::json_pointer::Pointer;
use super::pattern::{NoPattern, header_name, regex};
use super::plan::Plan;
use super::redirect::{self, Origin, Target, is_redirect};
use super::scenario::{CAPTURES_MAX, Scenario, Step, VALUE_MAX};
use super::template::{Escape, OTHERS, UrlEscape};

/// How a capture is written.
const FORMS: &str = "give `json:/POINTER`, `header:NAME`, `regex:PATTERN` or `status`";

/// One of a step's captures, compiled.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The place of its value in a session.
    pub place: usize,
    /// True if it may find nothing.
    pub is_optional: bool,
    source: Source,
    use_: Use,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
enum Source {
    Header(String),
    /// A value of the body's JSON.
    Json(Pointer),
    /// The first group of the body's first match, or the whole match without a group.
    Regex(Regex),
    Status,
    /// The path to which a redirect leads.
    Redirect {
        origin: Origin,
        /// On this host.
        to: Endpoint,
        /// The hosts on which other captures take it; `None` if another one fails where none does.
        others: Option<Vec<Endpoint>>,
        /// True if the step itself follows one.
        is_hop: bool,
    },
}

/// How later steps use a value.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// In a header as it is, which can't hold control characters.
    in_header: bool,
    /// In a URL, or as JSON, which makes it longer.
    in_url: bool,
    as_json: bool,
}

/// What a capture found.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// A value.
    Value(Vec<u8>),
    /// Nothing.
    Nothing,
    /// A value that is too long.
    TooLong,
    /// A value that no header can hold, and a later step has it in one.
    Unfit,
}

/// True if this text is a capture from the body.
pub(super) fn is_of_body(text: &str) -> bool {
    text.starts_with("json:") || text.starts_with("regex:")
}

/// The names of the ways in which a capture fails, in the order of [`Found`].
const WAYS: [&str; 3] = ["capture_missing", "capture_too_long", "capture_unfit"];

/// The names under which a report counts the failed captures of a step: three for each.
pub fn names(captures: &BTreeMap<String, String>) -> impl Iterator<Item = String> {
    captures.iter().flat_map(|(name, text)| match redirect::host_of(name, text) {
        Some("") => redirect::WAYS.map(str::to_owned),
        Some(host) => redirect::WAYS.map(|way| format!("{way} {host}")),
        None => WAYS.map(|way| format!("{way} {name}")),
    })
}

impl Found {
    /// The failure among those of [`names`]; `None` if it isn't one.
    pub fn failure(&self, is_optional: bool) -> Option<usize> {
        match self {
            Found::Value(_) => None,
            Found::Nothing if is_optional => None,
            Found::Nothing => Some(0),
            Found::TooLong => Some(1),
            Found::Unfit => Some(2),
        }
    }

    /// The number of ways in which a capture may fail.
    pub const WAYS_COUNT: usize = WAYS.len();
}

impl Scenario {
    /// The names that its steps capture, by their places.
    pub fn captures(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.step.iter().flat_map(|step| step.capture.keys()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// The captures of this step of its, compiled; its steps make these requests, with all that
    /// they have from the plan.
    ///
    /// # Errors
    /// A text that is no capture.
    pub fn captures_of(&self, step: usize, requests: &[Plan]) -> Result<Vec<Capture>, PlanError> {
        let names = self.captures();
        let own = &self.step[step].capture;
        let hosts = own.iter().filter_map(|(name, text)| redirect::host_of(name, text));
        let others: Vec<Endpoint> = hosts.filter_map(|host| Endpoint::parse(host).ok()).collect();
        // The first hop is on the host of the step that is redirected.
        let hops = self.hops(step);
        let home = if hops.is_empty() { step } else { hops.start };
        let each = own.iter().map(|(name, text)| {
            let refuse = |it: NoPattern| it.refuse("capture", &format!("{name} = {text:?}"), FORMS);
            let place = names.iter().position(|other| other == name).expect("it is one of them");
            Ok(Capture {
                place,
                is_optional: self.is_optional(name),
                source: match redirect::host_of(name, text) {
                    Some(host) => Source::Redirect {
                        origin: Origin::of(&requests[step]),
                        to: Endpoint::parse(match host {
                            "" => &requests[home].target,
                            host => host,
                        })?,
                        others: host.is_empty().then(|| others.clone()),
                        is_hop: !hops.is_empty(),
                    },
                    None => Source::parse(text).map_err(refuse)?,
                },
                use_: use_of(name, requests),
            })
        });
        each.collect()
    }

    /// True if one of its steps asks whether this was captured, so that it may not be.
    fn is_optional(&self, name: &str) -> bool {
        self.step.iter().any(|step| step.when_set() == Some(name))
    }

    /// Refuses captures that can't be made, and steps that use a value that they may not have.
    ///
    /// # Errors
    /// The first of them.
    pub(super) fn check_captures(&self) -> Result<(), (usize, PlanError)> {
        let names = self.captures();
        for (at, step) in self.step.iter().enumerate() {
            let refuse = |value: &str, problem: &str, cure: &str| {
                Err((at, PlanError::new("capture", value, problem, cure)))
            };
            for (name, text) in &step.capture {
                // No plan has such a name before it is completed.
                if redirect::host_of(name, text).is_some() {
                    continue;
                }
                let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                if name.is_empty() || !name.bytes().all(in_name) {
                    let problem = "not the name of a value";
                    return refuse(name, problem, "use letters, digits, _ and -");
                }
                if OTHERS.contains(&name.as_str()) {
                    let problem = "a field of another kind has this name";
                    return refuse(name, problem, "choose another");
                }
            }
            if CAPTURES_MAX < names.len() {
                let problem = format!("more than {CAPTURES_MAX} names in one scenario");
                return refuse(names[CAPTURES_MAX], &problem, "capture fewer");
            }
            let Some(name) = step.when_set() else { continue };
            if !self.step[..at].iter().any(|step| step.capture.contains_key(name)) {
                let problem = format!("no step before it captures {name}");
                let value = format!("{{{{{name}}}}} is set");
                let cure = "name a value that an earlier step captures";
                return Err((at, PlanError::new("when", value, problem, cure)));
            }
        }
        Ok(())
    }

    /// The values that its steps capture, by their places, and whether this step is sure to have
    /// them.
    pub fn captured_before(&self, step: usize) -> Vec<(&str, bool)> {
        let of = &self.step[step];
        let is_sure = |name: &str| {
            let mut before = self.step[..step].iter();
            let always = !self.is_optional(name)
                && before.any(|step| step.capture.contains_key(name) && step.when.is_none());
            always || of.when_set() == Some(name)
        };
        self.captures().into_iter().map(|name| (name, is_sure(name))).collect()
    }
}

impl Step {
    /// The captured value that it depends on, if it does.
    pub fn when_set(&self) -> Option<&str> {
        self.when.as_ref().map(|when| when.0.as_str())
    }
}

/// How requests use a captured value.
fn use_of(name: &str, requests: &[Plan]) -> Use {
    let mut found = Use::default();
    let mut of_text = |text: &str, in_url: bool, in_header: bool| {
        for piece in pieces(text) {
            let Piece::Field(inner) = piece else { continue };
            let (form, inner) = form(inner.trim());
            if inner == name {
                found.in_url |= in_url;
                found.as_json |= form == Form::Json;
                found.in_header |= in_header && form != Form::Json;
            }
        }
    };
    for request in requests {
        of_text(&request.target, true, false);
        request.headers.iter().for_each(|text| of_text(text, false, true));
        request.body.iter().for_each(|text| of_text(text, false, false));
    }
    found
}

impl Source {
    fn parse(text: &str) -> Result<Source, NoPattern> {
        if text == "status" {
            return Ok(Source::Status);
        }
        match text.split_once(':') {
            Some(("json", pointer)) => {
                Pointer::parse(pointer.trim()).map(Source::Json).map_err(NoPattern::new)
            }
            Some(("header", name)) => {
                header_name(name.trim()).map(|name| Source::Header(name.to_owned()))
            }
            Some(("regex", pattern)) => regex(pattern).map(Source::Regex),
            _ => Err(NoPattern::new("not a capture")),
        }
    }
}

impl Capture {
    /// Where the response redirects to, if this is what it captures and if it redirects, or the
    /// failure among those of [`names`]. `path` is its request's; the last hop must not redirect.
    pub fn redirect(&self, content: Content<'_>) -> Option<Result<Vec<u8>, usize>> {
        let Source::Redirect { origin, to, others, is_hop } = &self.source else { return None };
        let Content { status, fields, path, is_last, .. } = content;
        if !is_redirect(status) {
            return None;
        }
        let [elsewhere, unfit, too_many] = [0, 1, 2].map(Err);
        let target = origin.target(status, fields.values("Location").next(), path);
        let path = match (target, others) {
            (Target::To(it), _) if it.is_same_host(to) => it.path,
            // It is another capture's, or has failed as one.
            (_, None) => return None,
            (Target::To(it), Some(others)) if others.iter().any(|other| it.is_same_host(other)) => {
                return None;
            }
            (Target::To(_) | Target::Elsewhere, _) => return Some(elsewhere),
            (Target::Unfit, _) => return Some(unfit),
        };
        Some(match self.fitting(path.into_bytes()) {
            _ if *is_hop && is_last => too_many,
            Found::Value(path) => Ok(path),
            _ => unfit,
        })
    }

    /// True if it captures where a redirect leads.
    pub fn is_redirect(&self) -> bool {
        matches!(self.source, Source::Redirect { .. })
    }

    /// True if it takes its value from the body.
    pub fn is_of_body(&self) -> bool {
        matches!(self.source, Source::Json(_) | Source::Regex(_))
    }

    /// What it finds in a response.
    pub fn find(&self, content: Content<'_>, body: &Body<'_>) -> Found {
        match self.source.value(content, body) {
            None => Found::Nothing,
            Some(value) => self.fitting(value),
        }
    }

    /// A value, if it fits.
    fn fitting(&self, value: Vec<u8>) -> Found {
        let Use { in_header, in_url, as_json } = self.use_;
        // At most so much longer: %XX, and \u00XX.
        let each = if in_url { 3 } else { 1 } * if as_json { 6 } else { 1 };
        let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
        if VALUE_MAX < value.len() * each && VALUE_MAX < self.use_.longest(&value) {
            Found::TooLong
        } else if in_header && value.iter().any(is_control) {
            Found::Unfit
        } else {
            Found::Value(value)
        }
    }
}

impl Use {
    /// The most bytes of a value, in any of its uses.
    fn longest(self, value: &[u8]) -> usize {
        let url = if self.in_url { UrlEscape::Text } else { UrlEscape::None };
        let mut written = Vec::new();
        Escape { json: self.as_json, url }.write(value, &mut written);
        written.len()
    }
}

impl Source {
    fn value(&self, content: Content<'_>, body: &Body<'_>) -> Option<Vec<u8>> {
        match self {
            // It doesn't redirect: the value is taken away, which ends the hops.
            Source::Redirect { .. } => None,
            Source::Status => Some(content.status.to_string().into_bytes()),
            Source::Header(name) => content.fields.values(name).next().map(<[u8]>::to_vec),
            Source::Json(pointer) => match pointer.find(body.bytes?)? {
                "null" => None,
                text if text.starts_with('"') => {
                    serde_json::from_str::<String>(text).ok().map(String::into_bytes)
                }
                text => Some(text.as_bytes().to_vec()),
            },
            Source::Regex(regex) => {
                let found = regex.captures(body.bytes?)?;
                let group = found.get(1).or_else(|| found.get(0).filter(|_| found.len() == 1))?;
                Some(group.as_bytes().to_vec())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Fields;
    use crate::plan::Plan;

    /// A scenario whose first step has these captures, and whose second has this URL and header.
    fn scenario(captures: &[(&str, &str)], url: &str, header: &str) -> Scenario {
        let of = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        let first = Step {
            url: Some("/".to_owned()),
            capture: captures.iter().map(of).collect(),
            ..Step::default()
        };
        let second = Step {
            url: Some(url.to_owned()),
            headers: vec![format!("X: {header}")],
            ..Step::default()
        };
        Scenario { step: vec![first, second], ..Scenario::default() }
    }

    fn plan(scenario: Scenario) -> Plan {
        let target = "http://h/".to_owned();
        let rate = Some("1".parse().expect("a rate"));
        Plan { target, rate, scenario: vec![scenario], ..Plan::default() }
    }

    /// What the first step's captures find, by name, and the name of the check that fails.
    fn found(scenario: &Scenario, body: &[u8]) -> (Vec<Option<String>>, Option<String>) {
        let plan = plan(scenario.clone()).complete(&[0]).expect("it runs");
        let checks = plan.checks().expect("captures")[0].clone().expect("captures");
        let mut fields = Fields::default();
        fields.push(b"Location", b" /orders/7?a=b ");
        let content =
            Content { status: 201, path: b"", is_last: true, fields: &fields, body: Some(body) };
        let mut all = vec![None; scenario.captures().len()];
        let failed = checks.failed(content, &mut Vec::new(), |place, value| {
            all[place] = value.map(|value| String::from_utf8(value).expect("text"));
            true
        });
        let name = failed.map(|at| plan.check_names()[0][usize::from(at)].clone());
        (all, name)
    }

    #[test]
    fn a_value_comes_from_the_body_a_header_or_the_status() {
        let body = br#"{"token": "a\u0062\"", "id": 7, "list": [1, {"b": 2}], "none": null}"#;
        for (text, value) in [
            ("json:/token", Some("ab\"")),
            ("json:/id", Some("7")),
            ("json:/list", Some("[1, {\"b\": 2}]")),
            ("json:/none", None),
            ("json:/other", None),
            ("header:location", Some("/orders/7?a=b")),
            ("header:X-Other", None),
            ("regex:\"id\": ([0-9]+)", Some("7")),
            ("regex:\"id\": [0-9]+", Some("\"id\": 7")),
            ("regex:\"id\": ([a-z])?", None),
            ("regex:absent", None),
            ("status", Some("201")),
        ] {
            let (all, failed) = found(&scenario(&[("x", text)], "/", "a"), body);
            assert_eq!(all, [value.map(str::to_owned)], "{text}");
            let missing = value.is_none().then(|| "capture_missing x".to_owned());
            assert_eq!(failed, missing, "{text}");
        }
        let (_, failed) = found(&scenario(&[("x", "json:/a")], "/", "a"), b"{\"a\": ");
        assert_eq!(failed.as_deref(), Some("capture_missing x"), "it is no JSON");
    }

    #[test]
    fn a_value_that_a_later_step_asks_about_may_be_missing() {
        let mut optional = scenario(&[("x", "json:/x"), ("y", "status")], "/", "a");
        optional.step[1].when = Some("{{x}} is set".parse().expect("a condition"));
        assert_eq!(found(&optional, b"{}"), (vec![None, Some("201".to_owned())], None));
    }

    #[test]
    fn a_value_has_to_fit_its_uses() {
        let of = |url: &str, header: &str, value: &str| {
            let body = serde_json::json!({ "x": value }).to_string();
            found(&scenario(&[("x", "json:/x")], url, header), body.as_bytes()).1
        };
        let (long, spaces) = ("x".repeat(VALUE_MAX), " ".repeat(VALUE_MAX / 3));
        assert_eq!(of("/", "{{x}}", &long), None);
        assert_eq!(of("/", "{{x}}", &format!("{long}x")).as_deref(), Some("capture_too_long x"));
        assert_eq!(of("/{{x}}", "a", &spaces), None);
        let longer = format!("{spaces}  ");
        assert_eq!(of("/{{x}}", "a", &longer).as_deref(), Some("capture_too_long x"));
        assert_eq!(of("/", "{{x}}", "a\r\nB: c").as_deref(), Some("capture_unfit x"));
        assert_eq!(of("/{{x}}", "{{json:x}}", "a\r\nB: c"), None);
        assert_eq!(of("/", "{{x}}", "a\tb"), None);
        // What steps have from the plan counts as well.
        let two = scenario(&[("x", "json:/x")], "/", "a");
        let of_plan = Plan { headers: vec!["Y: {{x}}".to_owned()], ..plan(two) };
        let checks = of_plan.complete(&[0]).expect("it runs").checks().expect("captures");
        let content = Content {
            status: 200,
            path: b"",
            is_last: true,
            fields: &Fields::default(),
            body: Some(b"{\"x\": \"a\\r\\nB: c\"}"),
        };
        let checks = checks[0].clone().expect("captures");
        let failed = checks.failed(content, &mut Vec::new(), |_, _| true);
        assert_eq!(failed, Some(4), "it is unfit, after the two checks of any body");
    }

    #[test]
    fn what_cannot_be_captured_or_used_is_refused_with_the_cure() {
        let refused = |scenario: Scenario| {
            let error = plan(scenario).complete(&[0]).expect_err("refused");
            error.to_string()
        };
        for (name, text, says) in [
            (
                "x",
                "body",
                "capture x = \"body\": not a capture; give `json:/POINTER`, `header:NAME`",
            ),
            ("x", "json:a", "the JSON pointer a doesn't begin with /"),
            ("x", "regex:(", "not a regular expression (unclosed group)"),
            ("x", "header:a b", "no header has such a name"),
            ("a b", "status", "not the name of a value; use letters, digits, _ and -"),
            ("uuid", "status", "a field of another kind has this name; choose another"),
        ] {
            let error = refused(scenario(&[(name, text)], "/", "a"));
            assert!(error.starts_with("[[scenario]] #1") || error.contains(says), "{error}");
            assert!(error.contains(says), "{error}");
        }
        let mut early = scenario(&[("x", "status")], "/", "a");
        early.step[0].when = Some("{{x}} is set".parse().expect("a condition"));
        let error = refused(early);
        assert!(error.contains("when {{x}} is set: no step before it captures x"), "{error}");
    }

    #[test]
    fn a_step_may_use_what_it_is_sure_to_have() {
        let mut all = scenario(&[("x", "status"), ("y", "status")], "/", "a");
        let third = Step { when: "{{y}} is set".parse().ok(), ..all.step[1].clone() };
        all.step.push(third);
        let sure = |step: usize| all.captured_before(step).into_iter().map(|(_, is_sure)| is_sure);
        assert_eq!(sure(0).collect::<Vec<_>>(), [false, false]);
        assert_eq!(sure(1).collect::<Vec<_>>(), [true, false], "y may be missing");
        assert_eq!(sure(2).collect::<Vec<_>>(), [true, true]);
    }
}
