//! Templates: requests with fields, whose values differ from one to the next. `{{seq}}` in a URL,
//! a header or a body is a field; a file's content never has any.
//!
//! A template is compiled before the run, to bytes and fields in the order in which they leave.
//! Until then a stand-in takes each field's place, so that a request with fields is checked and
//! rendered like any other: the field's position in double braces, which no other text of the
//! request can contain, since what isn't a field is refused.

use std::num::{IntErrorKind, ParseIntError};
use std::ops::Range;

use super::braces::{Form, Piece, form, has_fields, pieces};
use super::data::{Data, parsed};
use super::error::PlanError;
use super::plan::Plan;
use super::request::header_name;
use super::scenario::{COOKIES_LONGEST, VALUE_MAX};
use super::similar::nearest;

/// The most bytes of a request with fields: it is made where TLS records are made, too.
pub const MADE_MAX: usize = 32_768;
/// The most digits of such a request's Content-Length.
pub const LENGTH_DIGITS: usize = 5;
/// The fields that need nothing else.
const FORMS: [&str; 4] = ["seq", "rand 1 100", "zipf 1.1 1000", "uuid"];
/// The most columns that an error lists.
const COLUMNS_SHOWN: usize = 10;
/// The names of fields that aren't columns.
pub(super) const OTHERS: [&str; 6] = ["seq", "rand", "zipf", "uuid", "trace_id", "parent_id"];
/// The header of a session's cookies.
pub const COOKIE: &str = "Cookie";
/// The header of `--trace`.
const TRACE_HEADER: &str = "traceparent";

/// A request of which some bytes differ.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    parts: Vec<Part>,
    longest: usize,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// These of its bytes.
    Bytes(Range<usize>),
    /// A field's value.
    Field(Field),
    /// The length of what follows the head, in decimal digits.
    BodyLength,
}

/// A field of a template.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its value.
    pub value: Value,
    /// How its text is written.
    pub escape: Escape,
}

/// What a field's value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The request's number.
    Seq,
    /// A whole number between these two, which are possible values too.
    Rand {
        /// The lowest.
        low: i64,
        /// The highest.
        high: i64,
    },
    /// A whole number `k` from 1 to `most`, as likely as `k` to the power of minus the exponent.
    Zipf {
        /// The exponent.
        exponent: f64,
        /// The largest number.
        most: u32,
    },
    /// A random UUID.
    Uuid,
    /// A value of the request's row.
    Column {
        /// The position of the data among the plan's.
        data: usize,
        /// The position of the column.
        column: usize,
    },
    /// The request's trace id.
    TraceId,
    /// The id of the request's span.
    ParentId,
    /// What the session has captured in this place.
    Captured(usize),
    /// The session's cookies that the request's target is to get.
    Cookies,
}

/// How the text of a value is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Escape {
    /// As part of a JSON string.
    pub json: bool,
    /// Percent-encoded, or not.
    pub url: UrlEscape,
}

/// How a value is percent-encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UrlEscape {
    /// Not at all.
    #[default]
    None,
    /// All that means something in a URL.
    Text,
    /// What no URL can hold.
    Raw,
}

/// What the fields of a request may take their values from.
#[derive(Clone, Debug, Default)]
pub struct Scope<'a> {
    /// The plan's data.
    pub data: &'a [Data],
    /// What the session's steps capture, by place, and whether the request is sure to have it.
    pub captured: Vec<(&'a str, bool)>,
    /// True if the session keeps cookies.
    pub cookies: bool,
}

/// A request with stand-ins for its fields.
pub struct Compiled {
    /// The request, with its body as it was given.
    pub plan: Plan,
    /// The body with stand-ins, if it has fields.
    body: Option<String>,
    fields: Vec<Field>,
}

impl Compiled {
    /// The compiled form of a plan's request; `None` if all its bytes are always the same.
    ///
    /// # Errors
    /// A field is unknown, or stands where it can't.
    pub fn new(plan: &Plan, scope: Scope<'_>) -> Result<Option<Compiled>, PlanError> {
        let data = scope.data;
        let cookies = scope.cookies;
        let mut fields = Fields { scope, traced: plan.trace.is_some(), all: Vec::new() };
        let mut request = plan.clone();
        let is =
            |name: &'static str| move |line: &String| header_name(line).eq_ignore_ascii_case(name);
        // A fragment is never sent.
        let sent = plan.target.split('#').next().unwrap_or_default();
        request.target = fields.stand_in(sent, Place::Url(&plan.target))?;
        if plan.trace.is_some() {
            if let Some(at) = plan.headers.iter().position(is(TRACE_HEADER)) {
                let problem = "--trace sets traceparent too";
                return Err(Place::Header(at).refuse(problem, "omit one of them"));
            }
            request
                .headers
                .push(format!("{TRACE_HEADER}: 00-{{{{trace_id}}}}-{{{{parent_id}}}}-01"));
        }
        for (at, line) in request.headers.iter_mut().enumerate() {
            let before = fields.all.len();
            *line = fields.stand_in(line, Place::Header(at))?;
            if before < fields.all.len() {
                fixed(line, at)?;
                fields.all[before..].iter().try_for_each(|field| header_value(field, data, at))?;
            }
        }
        if cookies {
            if let Some(at) = plan.headers.iter().position(is("Cookie")) {
                let problem = "the session's cookies are sent in Cookie too";
                let cure = "omit it, or give the scenario `cookies = false`";
                return Err(Place::Header(at).refuse(problem, cure));
            }
            request.headers.push(format!("{COOKIE}: {}", stand_in(fields.all.len())));
            fields.all.push(Field { value: Value::Cookies, escape: Escape::default() });
        }
        let text = plan.body.as_deref().filter(|body| !body.starts_with('@') && has_fields(body));
        let body = text.map(|text| fields.stand_in(text, Place::Body)).transpose()?;
        if body.is_some()
            && let Some(at) = plan.headers.iter().position(is("Content-Length"))
        {
            let problem = "the body's length differs between requests";
            return Err(Place::Header(at).refuse(problem, "omit it: it is added"));
        }
        let fields = fields.all;
        Ok((!fields.is_empty()).then_some(Compiled { plan: request, body, fields }))
    }

    /// The length of the body to render the head with.
    pub fn body_bytes(&self, body: u64) -> u64 {
        self.body.as_ref().map_or(body, |text| text.len() as u64)
    }

    /// The template, once the head has been rendered with the stand-ins; `body` is the body if it
    /// has no fields.
    ///
    /// # Errors
    /// The request may become too long.
    pub fn template(&self, head: &[u8], body: &[u8], data: &[Data]) -> Result<Template, PlanError> {
        let mut template = Template { bytes: Vec::new(), parts: Vec::new(), longest: 0 };
        let (head, rest) = match &self.body {
            None => (head, &b""[..]),
            Some(_) => {
                let name = b"\r\nContent-Length: ";
                let from = find(head, name).expect("a body has a length") + name.len();
                let digits = head[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                (&head[..from], &head[from + digits..])
            }
        };
        let mut left = self.fields.iter().enumerate();
        template.add(head, &mut left);
        if let Some(text) = &self.body {
            template.parts.push(Part::BodyLength);
            template.longest += LENGTH_DIGITS;
            template.add(rest, &mut left);
            template.add(text.as_bytes(), &mut left);
        } else {
            template.add(body, &mut left);
        }
        assert!(left.next().is_none(), "each field has its place");
        template.longest += self.fields.iter().map(|field| field.longest(data)).sum::<usize>();
        if MADE_MAX < template.longest { Err(self.too_long()) } else { Ok(template) }
    }

    /// The error for a request that may become too long.
    pub fn too_long(&self) -> PlanError {
        let place = match self.plan.body {
            Some(_) => Place::Body,
            None => Place::Url(&self.plan.target),
        };
        let problem = format!("a request with fields may have more than {MADE_MAX} bytes");
        place.refuse(&problem, "shorten it, or send it without fields")
    }
}

impl Template {
    /// Its constant bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The most bytes that a request may have.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// True if a value of the data at this position among the plan's is part of it.
    pub fn takes_from(&self, data: usize) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Field(Field { value: Value::Column { data: from, .. }, .. }) => *from == data,
            _ => false,
        })
    }

    /// Adds a text, in which the next fields have stand-ins.
    fn add<'a>(
        &mut self,
        text: &[u8],
        left: &mut (impl Iterator<Item = (usize, &'a Field)> + Clone),
    ) {
        let mut text = text;
        loop {
            let mut ahead = left.clone();
            let next = ahead.next().and_then(|(number, field)| {
                let stand_in = stand_in(number);
                Some((find(text, stand_in.as_bytes())?, stand_in.len(), field))
            });
            let end = next.map_or(text.len(), |(at, ..)| at);
            let from = self.bytes.len();
            self.bytes.extend_from_slice(&text[..end]);
            self.longest += end;
            if 0 < end {
                self.parts.push(Part::Bytes(from..from + end));
            }
            let Some((at, length, field)) = next else { return };
            self.parts.push(Part::Field(field.clone()));
            text = &text[at + length..];
            *left = ahead;
        }
    }
}

fn stand_in(number: usize) -> String {
    format!("{{{{{number}}}}}")
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// The fields of a request, as they are found.
struct Fields<'a> {
    scope: Scope<'a>,
    traced: bool,
    all: Vec<Field>,
}

/// Where a field stands.
#[derive(Clone, Copy)]
enum Place<'a> {
    Url(&'a str),
    /// The position among the headers, from 0.
    Header(usize),
    Body,
}

impl Place<'_> {
    fn refuse(self, problem: &str, cure: &str) -> PlanError {
        let (flag, value) = match self {
            Place::Url(url) => ("--target", super::endpoint::shown(url)),
            Place::Header(at) => ("--header", format!("#{}", at + 1)),
            Place::Body => ("--body", "of the plan".to_owned()),
        };
        PlanError::new(flag, value, problem, cure)
    }

    /// How to send two braces that aren't a field's.
    fn literally(self) -> &'static str {
        match self {
            Place::Url(_) => "; two braces that aren't a field's are %7B%7B",
            Place::Header(_) => "; a header can't have other double braces",
            Place::Body => "; a body with other double braces goes into a file, --body @FILE",
        }
    }
}

impl Fields<'_> {
    /// The text with stand-ins for its fields.
    fn stand_in(&mut self, text: &str, place: Place<'_>) -> Result<String, PlanError> {
        let mut out = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) if has_fields(text) => {
                    let cure = format!("write }}}} after the field's name{}", place.literally());
                    return Err(place.refuse("{{ begins a field, and no }} ends it", &cure));
                }
                Piece::Text(text) => out.push_str(text),
                Piece::Field(inner) => {
                    out.push_str(&stand_in(self.all.len()));
                    let field = self.parse(inner.trim(), place)?;
                    self.all.push(field);
                }
            }
        }
        Ok(out)
    }

    fn parse(&self, inner: &str, place: Place<'_>) -> Result<Field, PlanError> {
        let example = |form: &str, example: &str| {
            let problem = format!("a field of this name is written {{{{{form}}}}}");
            Err(place.refuse(&problem, &format!("write it like {{{{{example}}}}}")))
        };
        let words: Vec<&str> = inner.split_whitespace().collect();
        let value = match words[..] {
            ["seq"] => Value::Seq,
            ["uuid"] => Value::Uuid,
            ["trace_id" | "parent_id"] if !self.traced => {
                let problem = format!("{{{{{inner}}}}} needs --trace, which makes it");
                return Err(place.refuse(&problem, "add --trace, or use {{uuid}}"));
            }
            ["trace_id"] => Value::TraceId,
            ["parent_id"] => Value::ParentId,
            ["rand", low, high] => match (low.parse(), high.parse()) {
                (Ok(low), Ok(high)) if low <= high => Value::Rand { low, high },
                (Ok(_), Ok(_)) => {
                    let problem =
                        format!("{{{{{inner}}}}} has its lowest number after its highest");
                    return Err(place.refuse(&problem, &format!("write {{{{rand {high} {low}}}}}")));
                }
                (Err(error), _) | (_, Err(error)) if is_too_large(&error) => {
                    let problem = format!("{{{{{inner}}}}} has a number beyond 64 bits");
                    let cure = format!("give numbers from {} to {}", i64::MIN, i64::MAX);
                    return Err(place.refuse(&problem, &cure));
                }
                _ => return example("rand LOW HIGH", "rand 1 100"),
            },
            ["rand", ..] => return example("rand LOW HIGH", "rand 1 100"),
            ["zipf", exponent, most] => match (parsed(exponent), most.parse()) {
                (Ok(exponent), Ok(most @ 1..)) => Value::Zipf { exponent, most },
                _ => return example("zipf EXPONENT HIGH", "zipf 1.1 1000"),
            },
            ["zipf", ..] => return example("zipf EXPONENT HIGH", "zipf 1.1 1000"),
            _ => return self.named(inner, place),
        };
        Ok(Field { value, escape: Escape::default() })
    }

    /// The field of a column or a captured value, perhaps as JSON.
    fn named(&self, inner: &str, place: Place<'_>) -> Result<Field, PlanError> {
        let (form, name) = form(inner);
        let json = form == Form::Json;
        let in_url = matches!(place, Place::Url(_));
        let of_name = |(captured, _): &(&str, bool)| *captured == name;
        if let Some(at) = self.scope.captured.iter().position(of_name) {
            if !self.scope.captured[at].1 {
                let problem = format!("{{{{{name}}}}} may not have been captured before");
                let cure = format!(
                    "capture it in an earlier step, or give this one `when = \"{{{{{name}}}}} is set\"`"
                );
                return Err(place.refuse(&problem, &cure));
            }
            let url = match form {
                Form::Raw if in_url => UrlEscape::Raw,
                Form::Raw => {
                    let problem = format!("{{{{{inner}}}}} stands outside of a URL");
                    return Err(place.refuse(&problem, "omit `raw:`: it is sent as it is"));
                }
                _ if in_url => UrlEscape::Text,
                _ => UrlEscape::None,
            };
            return Ok(Field { value: Value::Captured(at), escape: Escape { json, url } });
        }
        let column = self.columns().find(|(full, ..)| full == name && form != Form::Raw);
        let Some((_, data, column)) = column else {
            let first = name.split_whitespace().next().unwrap_or_default();
            if json && OTHERS.contains(&first) {
                let problem = format!("only a column can be escaped for JSON, not {{{{{first}}}}}");
                return Err(place.refuse(&problem, "omit `json:`: its value needs no escape"));
            }
            return Err(self.unknown(name, place));
        };
        let url = match in_url && !self.scope.data[data].is_encoded {
            true => UrlEscape::Text,
            false => UrlEscape::None,
        };
        Ok(Field { value: Value::Column { data, column }, escape: Escape { json, url } })
    }

    /// The names of all columns, each with the positions of its data and of itself.
    fn columns(&self) -> impl Iterator<Item = (String, usize, usize)> {
        self.scope.data.iter().enumerate().flat_map(|(at, data)| {
            let columns = data.table.columns().iter().enumerate();
            columns.map(move |(column, name)| (format!("{}.{name}", data.name), at, column))
        })
    }

    fn unknown(&self, name: &str, place: Place<'_>) -> PlanError {
        let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if let Some((data, column)) = name.split_once('.').filter(|_| self.scope.data.is_empty())
            && [data, column].iter().all(|part| !part.is_empty() && part.bytes().all(in_name))
        {
            let problem = format!("{{{{{name}}}}} is a column, and there is no data");
            return place.refuse(&problem, &format!("give the file: --data {data}=FILE.csv"));
        }
        let first = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
        let captured = || self.scope.captured.iter().map(|(name, _)| (*name).to_owned());
        let named = || captured().chain(self.columns().map(|(name, ..)| name));
        let meant = nearest(name, named()).or_else(|| {
            let word = nearest(&first(name), FORMS.map(first))?;
            FORMS.into_iter().find(|form| first(form) == word).map(str::to_owned)
        });
        let braced = |name: String| format!("{{{{{name}}}}}");
        // Other braces may stand for anything, even around a secret.
        let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"._-: ".contains(&byte);
        let shown = if name.len() <= 40 && name.bytes().all(is_bare) { name } else { "…" };
        let cure = match meant {
            Some(meant) => format!("the nearest known is {}", braced(meant)),
            None => {
                let own = named().take(COLUMNS_SHOWN);
                let known = FORMS.into_iter().map(str::to_owned).chain(own).map(braced);
                format!("choose from {}", known.collect::<Vec<String>>().join(", "))
            }
        };
        let cure = format!("{cure}{}", place.literally());
        place.refuse(&format!("{{{{{shown}}}}} isn't a field"), &cure)
    }
}

/// True if a whole number has too many digits.
fn is_too_large(error: &ParseIntError) -> bool {
    matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow)
}

/// Checks that a header with fields doesn't decide how the connection is used.
fn fixed(line: &str, at: usize) -> Result<(), PlanError> {
    let name = header_name(line);
    let is_fixed = ["connection", "content-length", "transfer-encoding"];
    match is_fixed.iter().any(|fixed| fixed.eq_ignore_ascii_case(name)) {
        true => {
            let problem = format!("{name} can't differ between requests");
            Err(Place::Header(at).refuse(&problem, "give it without a field"))
        }
        false => Ok(()),
    }
}

/// Checks that a header can hold all values of a field.
fn header_value(field: &Field, data: &[Data], at: usize) -> Result<(), PlanError> {
    let Value::Column { data: from, column } = field.value else { return Ok(()) };
    let from = &data[from];
    let is_control = |byte: u8| byte.is_ascii_control() && byte != b'\t';
    let holds =
        |text: &str| field.escape.json && !text.contains('\u{7f}') || !text.bytes().any(is_control);
    let Some(row) = from.table.values(column).position(|text| !holds(text)) else { return Ok(()) };
    let problem = format!(
        "row {} has a control character, such as a line feed, in {:?}, which header #{} can't hold",
        row + 1,
        from.table.columns()[column],
        at + 1
    );
    Err(from.refuse(problem, "correct that row"))
}

impl Field {
    /// The most bytes of its value.
    fn longest(&self, data: &[Data]) -> usize {
        let digits = |number: i64| number.to_string().len();
        match self.value {
            Value::Seq => u64::MAX.to_string().len(),
            Value::Rand { low, high } => digits(low).max(digits(high)),
            Value::Zipf { most, .. } => digits(most.into()),
            Value::Uuid => 36,
            Value::TraceId => 32,
            Value::ParentId => 16,
            Value::Captured(_) => VALUE_MAX,
            Value::Cookies => COOKIES_LONGEST,
            Value::Column { data: from, column } if self.escape == Escape::default() => {
                data[from].table.longest(column)
            }
            Value::Column { data: from, column } => {
                let mut written = Vec::new();
                let lengths = data[from].table.values(column).map(|text| {
                    written.clear();
                    self.escape.write(text.as_bytes(), &mut written);
                    written.len()
                });
                lengths.max().unwrap_or(0)
            }
        }
    }
}

impl Escape {
    /// Writes a text at the end of `out`.
    #[inline]
    pub fn write(self, text: &[u8], out: &mut Vec<u8>) {
        if self == Escape::default() {
            return out.extend_from_slice(text);
        }
        for &byte in text {
            let mut digits = [0; 6];
            let written = match byte {
                b'"' if self.json => &b"\\\""[..],
                b'\\' if self.json => b"\\\\",
                b'\n' if self.json => b"\\n",
                b'\r' if self.json => b"\\r",
                b'\t' if self.json => b"\\t",
                0..0x20 if self.json => {
                    digits = [b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), hex(byte)];
                    &digits
                }
                _ => {
                    digits[0] = byte;
                    &digits[..1]
                }
            };
            match self.url {
                UrlEscape::None => out.extend_from_slice(written),
                url => written.iter().for_each(|byte| match byte {
                    b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                        out.push(*byte);
                    }
                    b'!'..=b'~' if url == UrlEscape::Raw && *byte != b'#' => out.push(*byte),
                    byte => out.extend_from_slice(&[
                        b'%',
                        hex(byte >> 4).to_ascii_uppercase(),
                        hex(*byte).to_ascii_uppercase(),
                    ]),
                }),
            }
        }
    }
}

/// The lower four bits as a hexadecimal digit.
pub fn hex(byte: u8) -> u8 {
    b"0123456789abcdef"[usize::from(byte & 15)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Table;

    fn users() -> Vec<Data> {
        let table = Table::of_text("id,name,note\n7,J \"B\",\"a\nb\"\n12,é/ö,c\n");
        vec![Data {
            name: "users".to_owned(),
            of: "users.csv".parse().expect("a data file"),
            table: table.expect("a table").into(),
            is_encoded: false,
        }]
    }

    fn scope(data: &[Data]) -> Scope<'_> {
        Scope { data, ..Scope::default() }
    }

    fn plan(path: &str, headers: &[&str], body: Option<&str>) -> Plan {
        Plan {
            target: format!("http://h{path}"),
            headers: headers.iter().map(|&line| line.to_owned()).collect(),
            body: body.map(str::to_owned),
            ..Plan::default()
        }
    }

    fn refused(plan: &Plan) -> String {
        Compiled::new(plan, scope(&users())).map(|_| ()).expect_err("refused").to_string()
    }

    #[test]
    fn a_request_is_cut_into_bytes_and_fields() {
        let plan = plan(
            "/{{users.id}}?a={{ rand -1  10 }}",
            &["B: {{uuid}}{{seq}}"],
            Some("{{zipf 1 9}}!"),
        );
        let compiled = Compiled::new(&plan, scope(&users())).expect("fields").expect("some");
        assert_eq!(compiled.plan.target, "http://h/{{0}}?a={{1}}");
        assert_eq!(compiled.plan.headers, ["B: {{2}}{{3}}"]);
        let head =
            b"GET /{{0}}?a={{1}} HTTP/1.1\r\nB: {{2}}{{3}}\r\nContent-Length: 6\r\nC: d\r\n\r\n";
        let template = compiled.template(head, b"", &users()).expect("it is short");
        let shown = template.parts().iter().map(|part| match part {
            Part::Bytes(bytes) => {
                String::from_utf8_lossy(&template.bytes()[bytes.clone()]).into_owned()
            }
            Part::Field(field) => format!("<{:?}>", field.value),
            Part::BodyLength => "<length>".to_owned(),
        });
        assert_eq!(
            shown.collect::<String>(),
            "GET /<Column { data: 0, column: 0 }>?a=<Rand { low: -1, high: 10 }> HTTP/1.1\r\n\
             B: <Uuid><Seq>\r\nContent-Length: <length>\r\nC: d\r\n\r\n\
             <Zipf { exponent: 1.0, most: 9 }>!"
        );
        let bytes = "GET /?a= HTTP/1.1\r\nB: \r\nContent-Length: \r\nC: d\r\n\r\n!".len();
        assert_eq!(template.longest(), bytes + 2 + 2 + 36 + 20 + LENGTH_DIGITS + 1);
    }

    #[test]
    fn a_column_without_data_is_refused_with_the_flag_that_gives_it() {
        let refused = |path: &str| {
            let found = Compiled::new(&plan(path, &[], None), Scope::default());
            found.map(|_| ()).expect_err("refused").to_string()
        };
        let error = refused("/{{users.id}}");
        let words = "{{users.id}} is a column, and there is no data; give the file: --data \
                     users=FILE.csv";
        assert_eq!(error, format!("--target http://h/{{{{users.id}}}}: {words}"));
        assert!(refused("/{{a b.c}}").contains("isn't a field; choose from {{seq}}, {{rand 1"));
    }

    #[test]
    fn a_request_without_fields_is_left_alone() {
        for body in [None, Some("@{{seq}}"), Some("{\"a\":{\"b\":{}}}"), Some("no }} start")] {
            let compiled = Compiled::new(&plan("/#{{seq}}", &["A: b"], body), scope(&users()));
            assert!(compiled.expect("nothing is wrong").is_none(), "{body:?}");
        }
    }

    #[test]
    fn trace_adds_a_header_of_two_fields() {
        let traced = Plan { trace: Some(1), ..plan("/", &["A: b"], None) };
        let compiled = Compiled::new(&traced, Scope::default()).expect("fields").expect("some");
        assert_eq!(compiled.plan.headers, ["A: b", "traceparent: 00-{{0}}-{{1}}-01"]);
        let values: Vec<&Value> = compiled.fields.iter().map(|field| &field.value).collect();
        assert_eq!(values, [&Value::TraceId, &Value::ParentId]);
        let own = Plan { trace: Some(1), ..plan("/", &["TraceParent: x"], None) };
        assert!(refused(&own).starts_with("--header #1: --trace sets traceparent too"));
    }

    #[test]
    fn what_is_no_field_is_refused_with_the_nearest() {
        for (plan, words) in [
            (
                plan("/{{usr.id}}", &[], None),
                "--target http://h/{{usr.id}}: {{usr.id}} isn't a field; the nearest known is \
                 {{users.id}}; two",
            ),
            (
                plan("/", &["A: b", "C: {{sequence}}"], None),
                "--header #2: {{sequence}} isn't a field; the nearest known is {{seq}}",
            ),
            (
                plan("/", &[], Some("{{json:users.nam}}")),
                "--body of the plan: {{users.nam}} isn't a field; the nearest known is \
                 {{users.name}}; a body",
            ),
            (plan("/", &[], Some("{{\"password\":\"pa55\"}}")), "{{…}} isn't a field"),
            (
                plan("/?a={{foo}}", &[], None),
                "{{foo}} isn't a field; choose from {{seq}}, {{rand 1 100}}, {{zipf 1.1 1000}}, \
                 {{uuid}}, {{users.id}}, {{users.name}}, {{users.note}}; two braces",
            ),
            (plan("/{{random 1 5}}", &[], None), "the nearest known is {{rand 1 100}}; two"),
            (
                plan("/{{seq}?a", &[], None),
                "--target http://h/{{seq}?…: {{ begins a field, and no }} ends it; write }} after \
                 the field's name; two braces that aren't a field's are %7B%7B",
            ),
            (plan("/", &["A: {{seq}} {{"], None), "--header #1: {{ begins a field"),
            (
                plan("/", &[], Some("pa55 {{seq}")),
                "--body of the plan: {{ begins a field, and no }} ends it; write }} after the \
                 field's name; a body with other double braces goes into a file",
            ),
            (
                plan("/{{rand 5}}", &[], None),
                "is written {{rand LOW HIGH}}; write it like {{rand 1 100}}",
            ),
            (plan("/{{rand 5 x}}", &[], None), "is written {{rand LOW HIGH}}"),
            (
                plan("/{{rand 5 4}}", &[], None),
                "{{rand 5 4}} has its lowest number after its highest; write {{rand 4 5}}",
            ),
            (
                plan("/{{rand 0 18446744073709551615}}", &[], None),
                "beyond 64 bits; give numbers from -9223372036854775808 to 9223372036854775807",
            ),
            (
                plan("/", &["A: {{json:rand 1 5}}"], None),
                "only a column can be escaped for JSON, not {{rand}}; omit `json:`",
            ),
            (plan("/{{zipf 1.1 0}}", &[], None), "is written {{zipf EXPONENT HIGH}}"),
            (plan("/{{trace_id}}", &[], None), "{{trace_id}} needs --trace"),
            (plan("/", &["Connection: {{seq}}"], None), "--header #1: Connection can't differ"),
            (
                plan("/", &["Content-Length: 1"], Some("{{seq}}")),
                "--header #1: the body's length differs",
            ),
            (
                plan("/", &["A: {{users.note}}"], None),
                "--data users: row 1 has a control character",
            ),
        ] {
            let error = refused(&plan);
            assert!(error.contains(words) && !error.contains("pa55"), "{error}");
        }
        let other = plan("/", &["Content-Length-Limit: 1"], Some("{{seq}}"));
        assert!(
            Compiled::new(&other, scope(&users())).is_ok(),
            "that header isn't the body's length"
        );
        let escaped = plan("/", &["A: {{json:users.note}}"], None);
        assert!(
            Compiled::new(&escaped, scope(&users())).is_ok(),
            "JSON has no line's end in a string"
        );
    }

    #[test]
    fn a_request_that_may_become_too_long_is_refused() {
        let body = format!("{{{{seq}}}}{}", "x".repeat(MADE_MAX));
        let plan = plan("/", &[], Some(&body));
        let compiled = Compiled::new(&plan, Scope::default()).expect("fields").expect("some");
        let error = compiled.template(b"POST\r\nContent-Length: 9\r\n\r\n", b"", &[]);
        let error = error.expect_err("too long").to_string();
        assert!(
            error.starts_with("--body of the plan: a request with fields may have more than 32768")
        );
    }

    #[test]
    fn texts_are_written_for_their_place() {
        let text = "a/b \"c\"\\\n\u{1f}é~";
        for (json, url, written) in [
            (false, false, text),
            (true, false, "a/b \\\"c\\\"\\\\\\n\\u001fé~"),
            (false, true, "a%2Fb%20%22c%22%5C%0A%1F%C3%A9~"),
            (true, true, "a%2Fb%20%5C%22c%5C%22%5C%5C%5Cn%5Cu001f%C3%A9~"),
        ] {
            let mut out = Vec::new();
            let url = if url { UrlEscape::Text } else { UrlEscape::None };
            Escape { json, url }.write(text.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), written);
        }
    }
}
