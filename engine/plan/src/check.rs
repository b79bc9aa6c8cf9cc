//! Checks of responses: what the content of a good answer is like, as written and compiled.
//!
//! Status codes are checked first, and apart (`status`). Then the checks are made in order, those of
//! headers before those of the body, and the first that fails is the request's cause. A body that
//! can't be checked, because it is too long or encoded, fails for that cause instead. Captures come
//! last, and one that finds nothing is a failed check, too.

use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::bufread::MultiGzDecoder;
use regex::bytes::Regex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::capture::{self, Capture, Found};
use super::content::{Body, Content, Fields};
use super::error::PlanError;
use super::json_pointer::Pointer;
use super::pattern::{NoPattern, header_name, regex};
use super::plan::Plan;
use super::redirect::{self, is_redirect};

/// The longest body that is kept for its checks if the plan sets no other limit, bytes.
pub const BODY_MAX_DEFAULT: u64 = 64 << 10;
/// The largest such limit, bytes: each connection has a buffer for a body.
pub const BODY_MAX_MAX: u64 = 16 << 20;
/// The most checks of a step, those of its body's length and encoding included: a sample has six
/// bits for the one that failed.
pub const CHECKS_MAX: usize = 63;

/// How a check of a body is written.
const OF_BODY: &str = "give `contains TEXT`, `regex PATTERN`, `json:/POINTER`, `json:/POINTER = \
                       VALUE` or `sha256 HEX`";
/// How a check of a header is written.
const OF_HEADER: &str =
    "give `Name`, `Name: VALUE`, `Name: contains TEXT` or `Name: regex PATTERN`";

/// The checks of one step's responses, compiled.
#[derive(Clone, Debug)]
pub struct Checks {
    /// Those of headers, then those of the body.
    each: Vec<Check>,
    captures: Vec<Capture>,
    /// True if the response's cookies are kept.
    pub cookies: bool,
    body_max: usize,
    decompress: bool,
}

/// The names of the checks of a request with these texts, in the order in which they are made: how
/// a report counts those that fail.
pub fn names(
    header: &[String],
    body: &[String],
    captures: &BTreeMap<String, String>,
    cookies: bool,
) -> Vec<String> {
    let is_kept = !body.is_empty() || captures.values().any(|text| capture::is_of_body(text));
    let own = if is_kept { &OF_ANY_BODY } else { &[][..] };
    let header = header.iter().map(|text| format!("header {text}"));
    let body = body.iter().map(|text| format!("body {text}"));
    let own = own.iter().map(|name| (*name).to_owned());
    let cookies = cookies.then(|| COOKIES_FAILED.to_owned());
    header.chain(own).chain(body).chain(capture::names(captures)).chain(cookies).collect()
}

/// A session would have more cookies than it may.
const COOKIES_FAILED: &str = "too_many_cookies";
/// The checks that any checked body has to pass first.
const OF_ANY_BODY: [&str; 2] = ["body_too_long", "body_encoded"];

#[derive(Clone, Debug)]
enum Check {
    /// A header of this name is there, with such a value.
    Header(String, TextRule),
    /// The body isn't longer than what is kept.
    BodyLength,
    /// The body isn't encoded, or is decompressed.
    BodyEncoding,
    /// The body is such a text.
    Body(TextRule),
    /// The pointer leads to a value of the body's JSON; to this one, if one is given.
    Json(Pointer, Option<Value>),
    /// The body's SHA-256.
    Sha256([u8; 32]),
}

#[derive(Clone, Debug)]
enum TextRule {
    Any,
    Equal(String),
    Matches(Regex),
}

impl Checks {
    /// The checks of a plan that makes one request, with its step's captures, and whether its
    /// cookies are kept; `None` if there is nothing to look at.
    ///
    /// # Errors
    /// A text that is no check.
    pub fn of_request(
        plan: &Plan,
        captures: Vec<Capture>,
        cookies: bool,
    ) -> Result<Option<Checks>, PlanError> {
        let captures_body = captures.iter().any(Capture::is_of_body);
        let mut each = Vec::new();
        for text in &plan.expect_header {
            let check = header_check(text).map_err(|it| refused(it, "--expect-header", text))?;
            each.push(check);
        }
        if !plan.expect_body.is_empty() || captures_body {
            each.extend([Check::BodyLength, Check::BodyEncoding]);
        }
        for text in &plan.expect_body {
            each.push(body_check(text).map_err(|it| refused(it, "--expect-body", text))?);
        }
        let own = each.len() + Found::WAYS_COUNT * captures.len() + usize::from(cookies);
        if CHECKS_MAX < own {
            let problem = format!(
                "more than {CHECKS_MAX} checks of one request; a capture counts as {}",
                Found::WAYS_COUNT
            );
            let flag = if captures.is_empty() { "--expect-body" } else { "capture" };
            return Err(PlanError::new(flag, own, problem, "leave some out"));
        }
        if !plan.expect_body.is_empty() && plan.method == "HEAD" {
            let problem = "a response to HEAD has no body to check";
            let value = format!("{:?}", plan.expect_body[0]);
            return Err(PlanError::new("--expect-body", value, problem, "omit it, or use GET"));
        }
        if captures_body && plan.method == "HEAD" {
            let problem = "a response to HEAD has no body to take a value from";
            return Err(PlanError::new("capture", "of a HEAD", problem, "omit it, or use GET"));
        }
        let body_max = plan.body_max.unwrap_or(BODY_MAX_DEFAULT);
        let body_max = usize::try_from(body_max).expect("an address has 64 bits");
        let decompress = plan.decompress;
        let is_any = cookies || !each.is_empty() || !captures.is_empty();
        Ok(is_any.then_some(Checks { each, captures, cookies, body_max, decompress }))
    }

    /// The most bytes of a body that they need, 0 if none is about the body.
    pub fn body_max(&self) -> usize {
        let is_of_body = |check: &Check| !matches!(check, Check::Header(..));
        if self.each.iter().any(is_of_body) { self.body_max } else { 0 }
    }

    /// The index of the check that a session has no more cookies than it may.
    pub fn cookies_failed(&self) -> u8 {
        let before = self.each.len() + Found::WAYS_COUNT * self.captures.len();
        u8::try_from(before).expect("a step has few checks")
    }

    /// True if a response of this status is followed.
    pub fn follows(&self, status: u16) -> bool {
        is_redirect(status) && self.captures.iter().any(Capture::is_redirect)
    }

    /// True if a session carries something of the response to its next steps.
    pub fn are_carried(&self) -> bool {
        self.cookies || !self.captures.is_empty()
    }

    /// The index of the first check that this response fails; `scratch` is memory to decompress
    /// into. `take` gets what each capture found, by its place, and returns false if there is no
    /// room for it.
    pub fn failed(
        &self,
        content: Content<'_>,
        scratch: &mut Vec<u8>,
        mut take: impl FnMut(usize, Option<Vec<u8>>) -> bool,
    ) -> Option<u8> {
        let first_of = |at: usize| self.each.len() + Found::WAYS_COUNT * at;
        let index = |at: usize| u8::try_from(at).expect("a step has few checks");
        for (at, capture) in self.captures.iter().enumerate() {
            // What leads elsewhere isn't the answer yet.
            match capture.redirect(content) {
                None => {}
                Some(Ok(path)) => {
                    // Only one of the ways on is open.
                    let ways = self.captures.iter().filter(|capture| capture.is_redirect());
                    ways.for_each(|way| {
                        take(way.place, None);
                    });
                    let is_room = take(capture.place, Some(path));
                    return (!is_room).then(|| index(first_of(at) + redirect::UNFIT));
                }
                Some(Err(failure)) => return Some(index(first_of(at) + failure)),
            }
        }
        let headers = |check: &Check| match check {
            Check::Header(name, rule) => {
                !content.fields.values(name).any(|value| rule.holds(value))
            }
            _ => false,
        };
        let failed = self.each.iter().position(headers).or_else(|| {
            let body = match self.body_max() {
                0 => Body { is_readable: true, bytes: None },
                _ => self.body(content, scratch),
            };
            let failed = self.each.iter().position(|check| !check.holds(&body));
            failed.or_else(|| {
                let mut captures = self.captures.iter().enumerate();
                captures.find_map(|(at, capture)| {
                    let mut found = capture.find(content, &body);
                    let value = match &mut found {
                        Found::Value(value) => Some(std::mem::take(value)),
                        _ => None,
                    };
                    if !take(capture.place, value) {
                        found = Found::TooLong;
                    }
                    Some(first_of(at) + found.failure(capture.is_optional)?)
                })
            })
        });
        failed.map(index)
    }

    /// The body, decompressed if need be.
    fn body<'a>(&self, content: Content<'a>, scratch: &'a mut Vec<u8>) -> Body<'a> {
        match (Encoding::of(content.fields), content.body) {
            (_, Some(b"")) => Body { is_readable: true, bytes: Some(b"") },
            (Encoding::Gzip, Some(bytes)) if self.decompress => {
                let most = self.body_max as u64;
                scratch.clear();
                let read = MultiGzDecoder::new(bytes).take(most + 1).read_to_end(scratch);
                let fits = scratch.len() as u64 <= most;
                Body { is_readable: read.is_ok(), bytes: fits.then_some(scratch.as_slice()) }
            }
            (encoding, bytes) => Body { is_readable: encoding == Encoding::None, bytes },
        }
    }
}

/// How a body is encoded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    None,
    Gzip,
    Other,
}

impl Encoding {
    fn of(fields: &Fields) -> Encoding {
        let of_name =
            |name| fields.values(name).flat_map(|value| value.split(|byte| *byte == b','));
        let is_plain = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
        if of_name("Transfer-Encoding").any(|coding| !is_plain(coding.trim_ascii())) {
            return Encoding::Other;
        }
        let codings = of_name("Content-Encoding").map(|coding| coding.trim_ascii());
        codings.fold(Encoding::None, |found, coding| {
            match (found, coding.to_ascii_lowercase().as_slice()) {
                (found, b"" | b"identity") => found,
                (Encoding::None, b"gzip" | b"x-gzip") => Encoding::Gzip,
                _ => Encoding::Other,
            }
        })
    }
}

impl Check {
    /// True if it is about the body and the body passes, or about something else.
    fn holds(&self, body: &Body<'_>) -> bool {
        match self {
            Check::Header(..) => true,
            Check::BodyLength => body.bytes.is_some(),
            Check::BodyEncoding => body.is_readable,
            Check::Body(rule) => body.bytes.is_some_and(|bytes| rule.holds(bytes)),
            Check::Json(pointer, wanted) => {
                let found = body.bytes.and_then(|bytes| pointer.find(bytes));
                found.is_some_and(|found| wanted.as_ref().is_none_or(|it| is_same(found, it)))
            }
            Check::Sha256(wanted) => {
                body.bytes.is_some_and(|bytes| Sha256::digest(bytes).as_slice() == wanted)
            }
        }
    }
}

/// True if this JSON text is this value.
fn is_same(text: &str, wanted: &Value) -> bool {
    serde_json::from_str(text).is_ok_and(|found: Value| are_same(&found, wanted))
}

/// True if both are the same value. Of two numbers of which one has a fraction or an exponent, 1.50
/// and 1.5 are the same; whole ones are compared digit by digit.
fn are_same(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Number(one), Value::Number(other)) if one.is_f64() || other.is_f64() => {
            one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, it)| are_same(one, it))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(name, one)| other.get(name).is_some_and(|it| are_same(one, it));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => found == wanted,
    }
}

impl TextRule {
    fn holds(&self, bytes: &[u8]) -> bool {
        match self {
            TextRule::Any => true,
            TextRule::Equal(text) => bytes == text.as_bytes(),
            TextRule::Matches(regex) => regex.is_match(bytes),
        }
    }

    /// `contains TEXT` or `regex PATTERN`; `None` if the text begins with neither.
    fn of(text: &str) -> Result<Option<TextRule>, NoPattern> {
        if let Some(text) = text.strip_prefix("contains ") {
            return match text.trim() {
                "" => Err(NoPattern::new("nothing is to be contained")),
                _ => regex(&regex::escape(text)).map(|regex| Some(TextRule::Matches(regex))),
            };
        }
        let regex = text.strip_prefix("regex ").map(regex).transpose()?;
        Ok(regex.map(TextRule::Matches))
    }
}

/// The error for a text that is no check.
fn refused(error: NoPattern, flag: &'static str, text: &str) -> PlanError {
    let usual = if flag == "--expect-header" { OF_HEADER } else { OF_BODY };
    error.refuse(flag, &format!("{text:?}"), usual)
}

fn header_check(text: &str) -> Result<Check, NoPattern> {
    let (name, value) =
        text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let name = header_name(name)?;
    let rule = match value.map(str::trim_start) {
        None => TextRule::Any,
        Some(value) => match TextRule::of(value)? {
            Some(rule) => rule,
            None => TextRule::Equal(value.trim_end().to_owned()),
        },
    };
    Ok(Check::Header(name.to_owned(), rule))
}

fn body_check(text: &str) -> Result<Check, NoPattern> {
    if let Some(rule) = TextRule::of(text)? {
        return Ok(Check::Body(rule));
    }
    if let Some(rest) = text.strip_prefix("json:") {
        let (pointer, wanted) = match rest.split_once(" = ") {
            None if rest.contains('=') => {
                return Err(NoPattern {
                    problem: "no blanks around =".to_owned(),
                    cure: Some("write it as in json:/ok = true"),
                });
            }
            None => (rest, None),
            Some((pointer, wanted)) => (pointer, Some(wanted)),
        };
        let pointer = Pointer::parse(pointer.trim()).map_err(NoPattern::new)?;
        let no_json = |_| NoPattern {
            problem: "the value isn't JSON".to_owned(),
            cure: Some("give JSON, with quotes around a text: json:/name = \"x\""),
        };
        let wanted = wanted.map(serde_json::from_str).transpose().map_err(no_json)?;
        return Ok(Check::Json(pointer, wanted));
    }
    let Some(hex) = text.strip_prefix("sha256 ") else {
        return Err(NoPattern::new("not a check of a body"));
    };
    let bytes = (0..hex.len()).step_by(2).map(|at| {
        let digits = hex.get(at..at + 2).filter(|digits| !digits.starts_with('+'))?;
        u8::from_str_radix(digits, 16).ok()
    });
    let digest: Option<Vec<u8>> = bytes.collect();
    match digest.map(<[u8; 32]>::try_from) {
        Some(Ok(digest)) => Ok(Check::Sha256(digest)),
        _ => Err(NoPattern::new("a SHA-256 has 64 hexadecimal digits")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const HEAD: &[(&str, &str)] = &[("Content-Type", "application/json"), ("X-Id", " 7 ")];

    fn plan(header: &[&str], body: &[&str]) -> Plan {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Plan { expect_header: own(header), expect_body: own(body), ..Plan::default() }
    }

    fn checks(plan: &Plan) -> Checks {
        let checks = Checks::of_request(plan, Vec::new(), false);
        checks.expect("they are checks").expect("there are some")
    }

    /// The name of the check that a response fails.
    fn failed(plan: &Plan, head: &[(&str, &str)], body: Option<&[u8]>) -> Option<String> {
        let mut fields = Fields::default();
        head.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
        let content = Content { status: 200, path: b"", is_last: true, fields: &fields, body };
        let failed = checks(plan).failed(content, &mut Vec::new(), |_, _| true)?;
        let names = names(&plan.expect_header, &plan.expect_body, &BTreeMap::new(), false);
        names.get(usize::from(failed)).cloned()
    }

    #[test]
    fn a_response_fails_the_first_check_that_does_not_hold() {
        let body = br#"{"ok": true, "id": 7, "price": 1.50, "name": "a\u0062",
            "big": 9007199254740993, "list": [1, {"b": 2.0}]}"#;
        for (text, holds) in [
            ("contains \"ok\": true", true),
            ("contains OK", false),
            ("regex \"id\": [0-9]+,", true),
            ("regex ^[0-9]+$", false),
            ("json:/ok = true", true),
            ("json:/ok = false", false),
            ("json:/ok", true),
            ("json:/no", false),
            ("json:/price = 1.5", true),
            ("json:/id = 7.0", true),
            ("json:/big = 9007199254740993", true),
            ("json:/big = 9007199254740992", false),
            ("json:/list = [1.0, {\"b\": 2}]", true),
            ("json:/list = [1.0, {\"b\": 3}]", false),
            ("json:/name = \"ab\"", true),
            ("json:/name = \"a\"", false),
            ("sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", false),
        ] {
            let found = failed(&plan(&[], &[text]), HEAD, Some(body));
            assert_eq!(found, (!holds).then(|| format!("body {text}")), "{text}");
        }
        for (text, holds) in [
            ("content-type", true),
            ("X-Other", false),
            ("X-Id: 7", true),
            ("X-Id: 70", false),
            ("Content-Type: contains json", true),
            ("Content-Type: regex ^application/[a-z]+$", true),
            ("Content-Type: regex ^text/", false),
        ] {
            let found = failed(&plan(&[text], &[]), HEAD, Some(b""));
            assert_eq!(found, (!holds).then(|| format!("header {text}")), "{text}");
        }
        let several = plan(&["X-Id"], &["contains a", "contains b"]);
        assert_eq!(failed(&several, HEAD, Some(b"a")).as_deref(), Some("body contains b"));
        assert_eq!(failed(&several, &[], Some(b"")).as_deref(), Some("header X-Id"));
    }

    #[test]
    fn a_body_that_cannot_be_checked_has_causes_of_its_own() {
        let of = |plan: &Plan, encoding: &str, body| {
            failed(plan, &[("Content-Encoding", encoding)], body)
        };
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(b"it is ok").expect("memory");
        let gzip = gzip.finish().expect("memory");
        let plain = plan(&[], &["contains ok"]);
        let decompressed = Plan { decompress: true, body_max: Some(8), ..plain.clone() };
        let short = Plan { body_max: Some(7), ..decompressed.clone() };
        assert_eq!(of(&plain, "identity", None).as_deref(), Some("body_too_long"));
        assert_eq!(of(&plain, "gzip", Some(&gzip)).as_deref(), Some("body_encoded"));
        assert_eq!(of(&decompressed, "gzip", Some(&gzip)), None);
        assert_eq!(of(&decompressed, "x-gzip", Some(&gzip)), None);
        assert_eq!(of(&short, "gzip", Some(&gzip)).as_deref(), Some("body_too_long"));
        let cut = &gzip[..gzip.len() - 9];
        assert_eq!(of(&decompressed, "gzip", Some(cut)).as_deref(), Some("body_encoded"));
        let several = [&gzip[..], &gzip[..]].concat();
        let long = Plan { body_max: Some(16), ..decompressed.clone() };
        let twice = Plan { expect_body: vec!["regex ok.*ok".to_owned()], ..long };
        assert_eq!(of(&twice, "gzip", Some(&several)), None, "members follow each other");
        let junk = [&gzip[..], b"junk"].concat();
        assert_eq!(of(&decompressed, "gzip", Some(&junk)).as_deref(), Some("body_encoded"));
        assert_eq!(of(&plain, "gzip", Some(b"")).as_deref(), Some("body contains ok"));
        let transferred = [("Transfer-Encoding", "gzip, chunked")];
        let found = failed(&plain, &transferred, Some(&gzip));
        assert_eq!(found.as_deref(), Some("body_encoded"));
        assert_eq!(failed(&plain, &[("Transfer-Encoding", "chunked")], Some(b"ok")), None);
        for other in ["br", "gzip, br"] {
            let found = of(&decompressed, other, Some(&gzip));
            assert_eq!(found.as_deref(), Some("body_encoded"), "{other}");
        }
    }

    #[test]
    fn a_bomb_is_decompressed_only_up_to_the_limit() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&vec![0; 10 << 20]).expect("memory");
        let bomb = gzip.finish().expect("memory");
        let checks = checks(&Plan { decompress: true, ..plan(&[], &["contains ok"]) });
        let mut scratch = Vec::new();
        let mut fields = Fields::default();
        fields.push(b"content-encoding", b"gzip");
        let body = Some(bomb.as_slice());
        let content = Content { status: 200, path: b"", is_last: true, fields: &fields, body };
        let failed = checks.failed(content, &mut scratch, |_, _| true);
        assert_eq!(failed, Some(0));
        assert!(scratch.capacity() < 4 * 65_536, "{}", scratch.capacity());
    }

    #[test]
    fn a_text_that_is_no_check_is_refused_with_the_cure() {
        for (header, body, says) in [
            ("", "ok", "not a check of a body; give `contains TEXT`"),
            ("", "contains ", "nothing is to be contained"),
            ("", "regex (", "not a regular expression (unclosed group)"),
            ("", "json:a", "the JSON pointer a doesn't begin with /"),
            ("", "json:/a=1", "no blanks around =; write it as in json:/ok = true"),
            ("X: contains ", "", "nothing is to be contained"),
            ("", "json:/a = yes", "the value isn't JSON; give JSON, with quotes around a text"),
            ("", "sha256 12", "a SHA-256 has 64 hexadecimal digits"),
            (": x", "", "no header has such a name; give `Name`"),
            ("X y: x", "", "no header has such a name"),
            ("X: regex [", "", "not a regular expression"),
        ] {
            let one = |text: &str| if text.is_empty() { vec![] } else { vec![text.to_owned()] };
            let plan =
                Plan { expect_header: one(header), expect_body: one(body), ..Plan::default() };
            let error = Checks::of_request(&plan, Vec::new(), false).expect_err(body).to_string();
            assert!(error.contains(says), "{error}");
        }
        let many = plan(&[], &["contains a"; CHECKS_MAX - 1]);
        let error = Checks::of_request(&many, Vec::new(), false).expect_err("too many").to_string();
        assert!(error.contains("more than 63 checks"), "{error}");
    }
}
