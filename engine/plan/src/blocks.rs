//! A plan's requests as HTTP/2 sends them: header blocks, made from the heads that HTTP/1.1 has.
//!
//! Each request is rendered for HTTP/1.1 first, which adds what every request needs and refuses
//! what can't be sent. The values of fields come from the text that HTTP/1.1 would send as well, so
//! both versions send the same values for a number.

use http2::request::{RequestError, RequestSpec, Requests, Value};

use super::error::PlanError;
use super::plan::Plan;
use super::template::{COOKIE, Part, Template};

/// The most fields of a header block whose values differ between requests.
const VARYING_MAX: usize = 64;

/// The requests of a plan.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Them, by step.
    pub requests: Requests,
    steps: Vec<Varying>,
}

/// One of them, as HTTP/1.1 has it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// A plan of this request alone.
    pub plan: &'a Plan,
    /// True for https.
    pub secure: bool,
    /// Its head, with stand-ins for its fields.
    pub bytes: &'a [u8],
    /// What it is made of, if it has fields.
    pub template: Option<&'a Template>,
}

/// Where the values of a request that differ from the others' stand in its head.
#[derive(Clone, Debug, Default)]
struct Varying {
    /// The lines, from 0, in the order of the block.
    lines: Vec<usize>,
}

/// The varying values of one request, and its body.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    each: [&'a [u8]; VARYING_MAX],
    count: usize,
    /// Its body.
    pub body: &'a [u8],
}

impl<'a> Values<'a> {
    /// The values, in the order of the block.
    pub fn each(&self) -> &[&'a [u8]] {
        &self.each[..self.count]
    }
}

impl Blocks {
    /// Renders requests.
    ///
    /// # Errors
    /// The place of the first that HTTP/2 can't send, and why.
    pub fn new(heads: &[Head<'_>]) -> Result<Blocks, (usize, PlanError)> {
        let texts: Vec<Text<'_>> = heads.iter().map(Text::of).collect();
        let headers: Vec<Vec<(&str, Value<'_>)>> = texts.iter().map(Text::headers).collect();
        let specs: Vec<RequestSpec<'_>> =
            texts.iter().zip(&headers).map(|(text, headers)| text.spec(headers)).collect();
        let requests = Requests::render(&specs)
            .map_err(|(at, error)| (at, refused(heads[at].plan, &error)))?;
        let mut steps = Vec::new();
        for (at, (text, head)) in texts.iter().zip(heads).enumerate() {
            let varying = text.varying();
            if VARYING_MAX < varying.lines.len() {
                let problem = format!("more than {VARYING_MAX} of them have fields");
                let count = head.plan.headers.len();
                let place = format!("#{count}");
                let cure = "give fewer with fields, or --http 1.1";
                return Err((at, PlanError::new("--header", place, problem, cure)));
            }
            steps.push(varying);
        }
        Ok(Blocks { requests, steps })
    }

    /// The varying values of the request of this step that HTTP/1.1 would send as `text`.
    pub fn values<'a>(&self, step: usize, text: &'a [u8]) -> Values<'a> {
        let mut values = Values { each: [&[]; VARYING_MAX], count: 0, body: &[] };
        let wanted = &self.steps[step].lines;
        let mut rest = text;
        for number in 0.. {
            let length = rest.windows(2).position(|two| two == b"\r\n").expect("a line has an end");
            let line = &rest[..length];
            rest = &rest[length + 2..];
            if line.is_empty() {
                break;
            }
            if let Some(place) = wanted.iter().position(|wanted| *wanted == number) {
                values.each[place] = if number == 0 { path(line) } else { value(line) };
            }
        }
        (values.count, values.body) = (wanted.len(), rest);
        values
    }
}

/// The path of a request line.
fn path(line: &[u8]) -> &[u8] {
    let from = line.iter().position(|byte| *byte == b' ').map_or(0, |at| at + 1);
    let to = line.iter().rposition(|byte| *byte == b' ').unwrap_or(line.len());
    &line[from..to]
}

/// The value of a header line, without blanks around it, which HTTP/2 forbids.
fn value(line: &[u8]) -> &[u8] {
    let from = line.iter().position(|byte| *byte == b':').map_or(0, |at| at + 1);
    line[from..].trim_ascii()
}

/// A head, taken apart.
struct Text<'a> {
    method: &'a str,
    secure: bool,
    path: &'a str,
    /// Name and value of each header, by its line, and whether its value differs.
    lines: Vec<(usize, &'a str, &'a str, bool)>,
}

impl<'a> Text<'a> {
    fn of(head: &Head<'a>) -> Text<'a> {
        let Head { plan, secure, bytes, template } = *head;
        let text = std::str::from_utf8(bytes).expect("a head is rendered from text");
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let has_length = template.is_some_and(|it| it.parts().contains(&Part::BodyLength));
        // HTTP/1.1 without keep-alive adds a line that HTTP/2 doesn't have.
        let is_own = |name: &str| {
            let given = |line: &String| line.to_lowercase().starts_with("connection");
            name == "Connection" && !plan.headers.iter().any(given)
        };
        let header = |(number, line): (usize, &'a str)| {
            let (name, value) = line.split_once(':')?;
            let varies =
                value.contains("{{") || has_length && name.eq_ignore_ascii_case("content-length");
            (!is_own(name)).then_some((number + 1, name, value.trim_ascii(), varies))
        };
        let lines = lines.enumerate().filter_map(header).collect();
        Text { method, secure, path, lines }
    }

    fn is_host(name: &str) -> bool {
        name.eq_ignore_ascii_case("host")
    }

    fn host(&self) -> Option<&(usize, &'a str, &'a str, bool)> {
        self.lines.iter().find(|(_, name, ..)| Text::is_host(name))
    }

    fn headers(&self) -> Vec<(&'a str, Value<'a>)> {
        let others = self.lines.iter().filter(|(_, name, ..)| !Text::is_host(name));
        let of = |name: &str, value, varies| match of_field(value, varies) {
            Value::Varies if name == COOKIE => Value::Optional,
            other => other,
        };
        others.map(|(_, name, value, varies)| (*name, of(name, value, *varies))).collect()
    }

    fn spec<'b>(&'b self, headers: &'b [(&'b str, Value<'b>)]) -> RequestSpec<'b> {
        RequestSpec {
            method: self.method,
            scheme: if self.secure { "https" } else { "http" },
            authority: self
                .host()
                .map_or(Value::Constant(""), |(_, _, value, varies)| of_field(value, *varies)),
            path: of_field(self.path, self.path.contains("{{")),
            headers,
        }
    }

    /// The authority comes before the path, and both before the other fields.
    fn varying(&self) -> Varying {
        let host = self.host().filter(|(.., varies)| *varies).map(|(number, ..)| *number);
        let path = self.path.contains("{{").then_some(0);
        let others =
            self.lines.iter().filter(|(_, name, _, varies)| *varies && !Text::is_host(name));
        let others = others.map(|(number, ..)| *number);
        Varying { lines: host.into_iter().chain(path).chain(others).collect() }
    }
}

fn of_field(value: &str, varies: bool) -> Value<'_> {
    if varies { Value::Varies } else { Value::Constant(value) }
}

/// The error for a request that HTTP/1.1 could send.
fn refused(plan: &Plan, error: &RequestError) -> PlanError {
    let problem = error.to_string();
    let cure = "omit it, or give --http 1.1";
    match error {
        RequestError::Method(_) | RequestError::Connect => {
            PlanError::new("--method", &plan.method, problem, "use e.g. GET or POST")
        }
        RequestError::HeaderName(name)
        | RequestError::Value(name)
        | RequestError::ConnectionField(name) => {
            let is_it = |line: &String| {
                line.split(':').next().unwrap_or_default().trim().eq_ignore_ascii_case(name)
            };
            let place = plan.headers.iter().position(is_it).map_or(0, |at| at + 1);
            PlanError::new("--header", format!("#{place}"), problem, cure)
        }
        RequestError::Host => unreachable!("the host is the authority"),
    }
}

#[cfg(test)]
mod tests {
    use http2::client::Client;

    use super::*;
    use crate::endpoint::Endpoint;
    use crate::request::render_request;
    use crate::template::{Compiled, Scope};

    /// The header block of a plan's request, and its body, if HTTP/1.1 would send it as `text`.
    fn values(plan: &Plan, text: &str) -> (Vec<String>, String) {
        let compiled = Compiled::new(plan, Scope::default()).expect("fields").expect("some");
        let endpoint = Endpoint::parse(&compiled.plan.target).expect("a URL");
        let length = compiled.body_bytes(0);
        let head = render_request(&compiled.plan, &endpoint, length).expect("a request");
        let template = compiled.template(head.head_bytes(), b"", &[]).expect("it is short");
        let head = Head {
            plan: &compiled.plan,
            secure: false,
            bytes: head.head_bytes(),
            template: Some(&template),
        };
        let blocks = Blocks::new(&[head]).expect("it can be sent");
        let values = blocks.values(0, text.as_bytes());
        // As many as the block has holes for.
        let mut client = Client::new(1);
        client.receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        let (requests, each) = (&blocks.requests, values.each());
        client.begin(requests, 0, each, 0, 0, &mut Vec::new()).expect("there is room");
        let text = |bytes: &&[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        (values.each().iter().map(text).collect(), text(&values.body))
    }

    #[test]
    fn the_values_of_fields_are_those_of_http_1() {
        let headers = ["A: b", "X-Id: {{uuid}}", "C: d", "E: x{{seq}}y"].map(str::to_owned);
        let plan = Plan {
            target: "http://h/{{seq}}?a".to_owned(),
            method: "POST".to_owned(),
            headers: headers.into(),
            body: Some("{{seq}}".to_owned()),
            ..Plan::default()
        };
        let text = "POST /7?a HTTP/1.1\r\nHost: h\r\nUser-Agent: t\r\nA: b\r\nX-Id:  u \r\nC: d\r\n\
            E: x7y\r\nContent-Length: 1\r\n\r\n7\r\n\r\n8";
        let (each, body) = values(&plan, text);
        assert_eq!(each, ["/7?a", "u", "x7y", "1"]);
        assert_eq!(body, "7\r\n\r\n8");
    }

    #[test]
    fn what_only_http_1_has_is_refused_by_its_position() {
        let block = |headers: &[&str], keepalive| {
            let headers = headers.iter().map(|line| (*line).to_owned()).collect();
            let target = "http://h/".to_owned();
            let plan = Plan { target, headers, keepalive, ..Plan::default() };
            let endpoint = Endpoint::parse(&plan.target).expect("a URL");
            let head = render_request(&plan, &endpoint, 0).expect("HTTP/1.1 can send it");
            let (bytes, plan) = (head.head_bytes(), &plan);
            Blocks::new(&[Head { plan, secure: false, bytes, template: None }]).map(|_| ())
        };
        for (headers, place) in [
            (&["A: b", "Connection: close"][..], "#2"),
            (&["Upgrade: h2c"], "#1"),
            (&["A: b", "C: d", "keep-alive: 5"], "#3"),
            (&["TE: gzip"], "#1"),
        ] {
            let (step, error) = block(headers, crate::Switch::On).expect_err(place);
            assert_eq!((step, error.flag, error.value.as_str()), (0, "--header", place));
            assert!(error.to_string().ends_with("or give --http 1.1"), "{error}");
        }
        assert_eq!(block(&["Host: x", "TE: trailers"], crate::Switch::Off), Ok(()));
    }
}
