//! Parses a file of targets: the scenarios of a plan, one for each request in the file.
//!
//! It is a list of URLs, vegeta's `http` format, or vegeta's JSON lines, whose records may add a
//! name, a weight, the expected statuses and objectives. The first line that isn't blank or a
//! comment decides which.

use std::collections::BTreeMap;
use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use engine::plan::endpoint::Endpoint;
use engine::plan::expect::Expect;
use engine::plan::request::render_request;
use engine::plan::scenario::{self, Scenario, Step};
use engine::plan::slo::Objectives;
use engine::plan::{Plan, PlanError, body};
use engine::sys::units::Nanos;
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::values::is_named;
use crate::failure::Failure;
use crate::text::figures::things;

/// The most bad lines that an error shows.
const SHOWN_MAX: usize = 5;

/// A line that can't be a request, with the reason.
struct Bad {
    line: usize,
    problem: String,
}

/// A request, with the line at which it begins.
struct Found {
    line: usize,
    scenario: Scenario,
}

/// The tables of a plan file that hold the requests instead of a file of targets.
#[derive(Deserialize)]
struct Tables {
    scenario: Vec<toml::Value>,
}

/// The value of `--targets` before its file is read: the file's name, or the text of tables, which
/// ends with a line feed.
///
/// # Errors
/// The tables aren't scenarios.
pub(super) fn checked(given: String) -> Result<String, String> {
    of_tables(&given).transpose().map(|_| given)
}

fn of_tables(given: &str) -> Option<Result<Vec<Scenario>, String>> {
    let tables = given.ends_with('\n').then(|| toml::from_str::<Tables>(given))?;
    let scenario = |(number, table)| {
        let read = Scenario::deserialize::<toml::Value>(table);
        read.map_err(|error| format!("scenario #{number}: {}", without_text(error.message())))
    };
    let scenarios = |tables: Tables| (1..).zip(tables.scenario).map(scenario).collect();
    Some(tables.map_err(|error| error.message().to_owned()).and_then(scenarios))
}

/// A message of serde without the text that has the wrong type, which may be a secret.
fn without_text(message: &str) -> String {
    let quoted = message.split_once("string \"");
    match quoted.and_then(|(before, rest)| Some((before, rest.rsplit_once('"')?.1))) {
        Some((before, after)) => format!("{before}string{after}"),
        None => message.to_owned(),
    }
}

/// The scenarios of the file of this name, of standard input for `-`, or of tables; for a file,
/// with a line on what it was taken for.
///
/// # Errors
/// The flag with the problem.
pub(crate) fn scenarios(given: &str) -> Result<(Vec<Scenario>, Option<String>), Failure> {
    if let Some(scenarios) = of_tables(given) {
        let refuse = |problem| format!("--targets: {problem}; see `truetail run --help`");
        return Ok((scenarios.map_err(|problem| Failure::Usage(refuse(problem)))?, None));
    }
    let refuse = |problem: String, cure: &str| {
        Failure::Usage(format!("--targets {given}: {problem}; {cure}"))
    };
    let name = if given == "-" { "/dev/stdin" } else { given };
    let text = fs::read_to_string(name)
        .map_err(|error| refuse(format!("can't be read ({error})"), "name a readable text file"))?;
    let (scenarios, format) =
        parse(&text).map_err(|(problem, format)| refuse(problem, format.cure()))?;
    let requests = things(scenarios.len() as u64, "request");
    Ok((scenarios, Some(format!("targets: {requests}, {}", format.name()))))
}

/// The formats of a file of targets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Urls,
    Vegeta,
    Json,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Urls => "a URL a line",
            Format::Vegeta => "vegeta's http format",
            Format::Json => "JSON lines",
        }
    }

    /// The cure for a file that seems to have this format.
    fn cure(self) -> &'static str {
        match self {
            // Any other text is taken for this.
            Format::Urls => "give a URL a line, vegeta's http format, or its JSON lines",
            Format::Vegeta => "write GET http://host/path, then headers and @FILE, a line each",
            Format::Json => {
                r#"write each like {"url": "/search?q=1", "name": "search", "weight": 3}"#
            }
        }
    }
}

/// The scenarios of a file with this text and its format, or the problem and the format.
fn parse(text: &str) -> Result<(Vec<Scenario>, Format), (String, Format)> {
    // Some programs begin a file with a byte-order mark.
    let text = text.trim_start_matches('\u{feff}');
    let lines = || text.lines().map(str::trim).enumerate().map(|(at, line)| (at + 1, line));
    let has_text = |line: &str| !line.is_empty() && !line.starts_with('#');
    let Some((_, first)) = lines().find(|(_, line)| has_text(line)) else {
        return Err(("has no request".to_owned(), Format::Urls));
    };
    let mut all = Vec::new();
    let mut bad = Vec::new();
    let format = if first.starts_with('{') {
        for (line, text) in lines().filter(|(_, line)| has_text(line)) {
            match of_json(text) {
                Ok(scenario) => all.push(Found { line, scenario }),
                Err(problem) => bad.push(Bad { line, problem }),
            }
        }
        Format::Json
    } else if of_request_line(first).is_some() {
        of_vegeta(lines(), &mut all, &mut bad);
        Format::Vegeta
    } else {
        for (line, url) in lines().filter(|(_, line)| has_text(line)) {
            let scenario = scenario(Step { url: Some(url.to_owned()), ..Step::default() });
            all.push(Found { line, scenario });
        }
        Format::Urls
    };
    for Found { line, scenario } in &mut all {
        let step = &mut scenario.step[0];
        authorize(step);
        bad.extend(unsendable(step).map(|problem| Bad { line: *line, problem }));
    }
    if bad.is_empty() {
        return Ok((all.into_iter().map(|found| found.scenario).collect(), format));
    }
    bad.sort_by_key(|bad| bad.line);
    Err((listed(&bad), format))
}

fn listed(bad: &[Bad]) -> String {
    let shown = bad.iter().take(SHOWN_MAX).map(|bad| format!("line {}: {}", bad.line, bad.problem));
    let shown = shown.collect::<Vec<String>>().join("; ");
    match bad.len() {
        1 => shown,
        all if all <= SHOWN_MAX => format!("{all} bad lines: {shown}"),
        all => format!("{all} bad lines: {shown}; and {} more", all - SHOWN_MAX),
    }
}

/// Moves the credentials of a URL to a header, unless the request has one for them already, as
/// vegeta does.
fn authorize(step: &mut Step) {
    // A path may have a URL in its query.
    let Some(url) = step.url.as_ref().filter(|url| !url.starts_with('/')) else { return };
    let Some((scheme, rest)) = url.split_once("://") else { return };
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let Some((user, _)) = rest[..host_end].rsplit_once('@') else { return };
    let without = format!("{scheme}://{}", &rest[user.len() + 1..]);
    if !step.headers.iter().any(|line| is_named(line, "Authorization")) {
        let user = if user.contains(':') { user.to_owned() } else { format!("{user}:") };
        let user: Vec<u8> = percent_decode_str(&user).collect();
        step.headers.push(format!("Authorization: Basic {}", BASE64_STANDARD.encode(user)));
    }
    step.url = Some(without);
}

/// The reason why a step can't be sent, whatever the rest of the plan. A text with fields is
/// checked with them, and a body's length once the body has been read.
pub(crate) fn unsendable(step: &Step) -> Option<String> {
    let url = step.url.as_deref().unwrap_or_default();
    let target = match url.starts_with('/') {
        true => format!("http://host{url}"),
        false if url.contains("://") => url.to_owned(),
        false => return Some("neither a URL nor a path".to_owned()),
    };
    let is_sendable = |line: &&String| !line.contains("{{") && !is_named(line, "Content-Length");
    let plan = Plan {
        method: step.method.clone().unwrap_or_else(|| Plan::default().method),
        headers: step.headers.iter().filter(is_sendable).cloned().collect(),
        ..Plan::default()
    };
    let of_url = |error: PlanError| error.problem;
    let endpoint = match Endpoint::parse(&target) {
        Ok(endpoint) if endpoint.path.contains("{{") => Endpoint { path: "/".into(), ..endpoint },
        Ok(endpoint) => endpoint,
        Err(error) => return Some(of_url(error)),
    };
    let error = render_request(&plan, &endpoint, 0).err()?;
    match error.flag {
        "--target" => Some(of_url(error)),
        "--header" => Some(format!("header {}: {}", error.value, error.problem)),
        flag => {
            Some(format!("{} {}: {}", flag.trim_start_matches('-'), error.value, error.problem))
        }
    }
}

fn scenario(step: Step) -> Scenario {
    Scenario {
        name: String::new(),
        weight: Scenario::weight_default(),
        step: vec![step],
        ..Scenario::default()
    }
}

/// Method and URL of the line that begins a target in vegeta's format. A method in small letters is
/// one too, so that it can be refused as what it is.
fn of_request_line(line: &str) -> Option<(&str, &str)> {
    let (method, url) = line.split_once([' ', '\t'])?;
    let url = url.trim_start();
    let is_word = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_url = url.starts_with('/') || url.contains("://");
    (is_word && (is_url || !has_small(method))).then_some((method, url))
}

fn has_small(method: &str) -> bool {
    method.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Vegeta's `http` format: a request line, headers, and `@` with the file of the body, which ends
/// the target, as a blank line does. Comments may stand anywhere. Unlike vegeta's own parser, a
/// request line needs no blank line before it.
fn of_vegeta<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    all: &mut Vec<Found>,
    bad: &mut Vec<Bad>,
) {
    // True while headers and a body may still follow for the last target.
    let mut is_open = false;
    for (line, text) in lines.filter(|(_, text)| !text.starts_with('#')) {
        let last = all.last_mut().filter(|_| is_open).map(|it| &mut it.scenario.step[0]);
        let mut refuse = |problem: &str| bad.push(Bad { line, problem: problem.to_owned() });
        if text.is_empty() {
            is_open = false;
        } else if let Some((method, url)) = of_request_line(text) {
            if has_small(method) {
                refuse("the method isn't in capitals, as in GET http://host/path");
            }
            let (method, url) = (Some(method.to_owned()), Some(url.to_owned()));
            all.push(Found { line, scenario: scenario(Step { method, url, ..Step::default() }) });
            is_open = true;
        } else if let Some(step) = last {
            match text.split_once(':') {
                _ if text.starts_with('@') => {
                    step.body = Some(text.to_owned());
                    is_open = false;
                }
                Some(("", _)) => refuse("a header without a name"),
                Some((name, value)) => {
                    step.headers.push(format!("{}: {}", name.trim(), value.trim()));
                }
                None => refuse("neither a request line, a header nor @FILE"),
            }
        } else {
            refuse("no request line before it, such as GET http://host/path");
        }
    }
}

/// A record of vegeta's JSON format; those from `name` on are ours.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    method: Option<String>,
    url: String,
    body: Option<String>,
    #[serde(default)]
    header: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    name: String,
    #[serde(default = "Scenario::weight_default", deserialize_with = "scenario::weight")]
    weight: u32,
    expect: Option<Expect>,
    timeout: Option<Nanos>,
    slo: Option<Objectives>,
}

fn of_json(text: &str) -> Result<Scenario, String> {
    let Record { method, url, body, header, name, weight, expect, timeout, slo } =
        crate::json::read_line(text).map_err(|error| {
            // It calls each line the first, and its place would be read as part of a cure.
            let message = without_text(&error.to_string());
            match message.rsplit_once(" at line 1 column ") {
                Some((message, column)) => format!("{message} (column {column})"),
                None => message,
            }
        })?;
    let of_base64 = |text: String| match BASE64_STANDARD.decode(text) {
        Ok(bytes) => Ok(body::text_of(bytes)),
        Err(error) => Err(format!("body: not base64 ({error})")),
    };
    let body = body.map(of_base64).transpose()?;
    let lines = |(name, values): (String, Vec<String>)| {
        values.into_iter().map(move |value| format!("{name}: {value}"))
    };
    let headers = header.into_iter().flat_map(lines).collect();
    let url = Some(url);
    let mut step = Step { method, url, headers, body, expect, timeout, slo, ..Step::default() };
    step.complete_expect().map_err(|twice| format!("{twice} is there twice"))?;
    Ok(Scenario { name, weight, step: vec![step], ..Scenario::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(method: Option<&str>, url: &str, headers: &[&str], body: Option<&str>) -> Step {
        Step {
            method: method.map(str::to_owned),
            url: Some(url.to_owned()),
            headers: headers.iter().map(|line| (*line).to_owned()).collect(),
            body: body.map(str::to_owned),
            ..Step::default()
        }
    }

    fn steps(text: &str) -> Vec<Step> {
        let (scenarios, _) = parse(text).expect("targets");
        assert!(scenarios.iter().all(|it| it.weight == 1 && it.name.is_empty()));
        scenarios.into_iter().flat_map(|scenario| scenario.step).collect()
    }

    #[test]
    fn a_list_has_a_url_a_line() {
        let text = "# routes\n\nhttp://h/a?b=c\n  /d\n";
        let expected = [step(None, "http://h/a?b=c", &[], None), step(None, "/d", &[], None)];
        assert_eq!(steps(text), expected);
    }

    #[test]
    fn vegetas_examples_are_read_as_vegeta_reads_them() {
        // From its README.
        let text = "GET http://goku:9090/path/to/dragon?item=ball\n\
            GET http://user:password@goku:9090/path/to\nHEAD http://goku:9090/path/to/success\n\n\
            # a comment\nPOST http://goku:9090/things\nX-Account-ID: 99\nX-account-id: 100\n\
            @/path/to/newthing.json\n\nPATCH http://goku:9090/thing/71988591\n\
            Confirmation-Token: 90215\nAuthorization: Token DEADBEEF\n@/path/to/thing.json\n";
        let expected = [
            step(Some("GET"), "http://goku:9090/path/to/dragon?item=ball", &[], None),
            step(
                Some("GET"),
                "http://goku:9090/path/to",
                &["Authorization: Basic dXNlcjpwYXNzd29yZA=="],
                None,
            ),
            step(Some("HEAD"), "http://goku:9090/path/to/success", &[], None),
            step(
                Some("POST"),
                "http://goku:9090/things",
                &["X-Account-ID: 99", "X-account-id: 100"],
                Some("@/path/to/newthing.json"),
            ),
            step(
                Some("PATCH"),
                "http://goku:9090/thing/71988591",
                &["Confirmation-Token: 90215", "Authorization: Token DEADBEEF"],
                Some("@/path/to/thing.json"),
            ),
        ];
        assert_eq!(steps(text), expected);
        let text = "{\"method\":\"GET\", \"url\":\"http://goku\", \"body\":\"UHVuY2ghCg==\", \
            \"header\":{\"Content-Type\":[\"text/plain\"]}}\n\
            {\"url\":\"http://goku/b\",\"body\":\"/w==\"}\n\
            {\"url\":\"http://goku/c\",\"body\":\"QGE=\"}\n";
        let expected = [
            step(Some("GET"), "http://goku", &["Content-Type: text/plain"], Some("Punch!\n")),
            step(None, "http://goku/b", &[], Some("@data:;base64,/w==")),
            step(None, "http://goku/c", &[], Some("@data:;base64,QGE=")),
        ];
        assert_eq!(steps(text), expected);
    }

    #[test]
    fn credentials_in_a_url_are_sent_as_vegeta_sends_them() {
        let text = "GET http://ann:p%40ss@h/a@b\nX: y\n\nGET http://ann@h/\n\n\
            GET http://ann:pa55@h:1?q\nauthorization: Token T\n\n\
            GET /login?next=http://ann:pa55@h/\n";
        let expected = [
            step(Some("GET"), "http://h/a@b", &["X: y", "Authorization: Basic YW5uOnBAc3M="], None),
            step(Some("GET"), "http://h/", &["Authorization: Basic YW5uOg=="], None),
            step(Some("GET"), "http://h:1?q", &["authorization: Token T"], None),
            step(Some("GET"), "/login?next=http://ann:pa55@h/", &[], None),
        ];
        assert_eq!(steps(text), expected);
    }

    #[test]
    fn comments_blank_lines_and_a_body_stand_where_vegeta_allows_them() {
        let text = "\n# first\n  GET  http://h/a \n# of a\nX: 1:2\nx: y\n#X: no\n@a.json\n\
            PURGE http://h/b\nEmpty:\n\n\n# last\nGET\thttp://h/c\n@c.json\n";
        let expected = [
            step(Some("GET"), "http://h/a", &["X: 1:2", "x: y"], Some("@a.json")),
            step(Some("PURGE"), "http://h/b", &["Empty: "], None),
            step(Some("GET"), "http://h/c", &[], Some("@c.json")),
        ];
        assert_eq!(steps(text), expected);
    }

    #[test]
    fn a_record_may_have_what_a_step_of_a_plan_file_may_have() {
        let text = "{\"url\":\"/\",\"name\":\"home\",\"weight\":6,\"expect\":404,\
            \"slo\":\"p99<50ms\",\"timeout\":\"500ms\"}\n\
            {\"url\":\"/\",\"expect\":\"2xx,304\",\"timeout\":2}";
        let (scenarios, _) = parse(text).expect("targets");
        let [home, other] = &scenarios[..] else { panic!("two") };
        let step = &home.step[0];
        assert_eq!((home.name.as_str(), home.weight), ("home", 6));
        assert_eq!(
            (&step.expect_status, &step.slo),
            (&"404".parse().ok(), &"p99<50ms".parse().ok())
        );
        assert_eq!(other.step[0].expect_status, "2xx,304".parse().ok());
        let timeouts = [step, &other.step[0]].map(|step| step.timeout);
        assert_eq!(timeouts, [500, 2_000].map(|ms| Some(Nanos(ms * 1_000_000))));
    }

    #[test]
    fn the_format_that_was_found_is_named() {
        for (text, name) in [
            ("# a\n/a\n/b\n", "a URL a line"),
            ("\u{feff}/a\n", "a URL a line"),
            ("\u{feff}{\"url\":\"/\"}\n", "JSON lines"),
            ("http://h/GET\n", "a URL a line"),
            ("GET /a\n", "vegeta's http format"),
            ("{\"url\":\"/\"}\n", "JSON lines"),
        ] {
            assert_eq!(parse(text).expect(text).1.name(), name);
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "/a\n/b\n").expect("written");
        let (found, said) = scenarios(file.path().to_str().expect("a name")).expect("targets");
        assert_eq!((found.len(), said.as_deref()), (2, Some("targets: 2 requests, a URL a line")));
        let (_, said) = scenarios("[[scenario]]\n[[scenario.step]]\n").expect("tables");
        assert_eq!(said, None);
    }

    #[test]
    fn bad_lines_are_counted_and_the_first_are_shown() {
        for (text, problem) in [
            ("", "has no request"),
            ("# nothing\n\n", "has no request"),
            ("/a\nb\n/c\n", "line 2: neither a URL nor a path"),
            ("GET /a\n\nX: y\n", "line 3: no request line"),
            ("GET /a\n@one\n@two\n", "line 3: no request line before it"),
            ("GET /a\n@one\nX: y\n", "line 3: no request line before it"),
            ("GET /a\n: y\n", "line 2: a header without a name"),
            ("put /a\nX: y\n", "line 1: the method isn't in capitals"),
            ("GET /a\nX: y\nput http://h/b\n@c\n", "line 3: the method isn't in capitals"),
            ("{\"url\":\"/\",\"slo\":\"p99\"}", "line 1: invalid objectives `p99`: `p99` has no"),
            ("{\"url\":\"/\",\"expect\":\"2x\"}", "line 1: invalid status `2x`"),
            ("GET /a\nno colon\n", "line 2: neither a request line, a header nor @FILE"),
            ("{\"url\":\"/\"}\n{\"uri\":\"/\"}\n", "line 2: unknown field `uri`"),
            (
                "{\"url\":\"/\",\"header\":{\"A\":\"pa55\"}}\n",
                "line 1: invalid type: string, expected a sequence",
            ),
            ("{\"url\":\"/\",\"body\":\"!\"}\n", "line 1: body: not base64"),
            (&format!("/a\n{}", "b\n".repeat(7)), "line 6: neither a URL nor a path; and 2 more"),
            (&format!("/a\n{}", "b\n".repeat(7)), "7 bad lines: line 2: neither"),
            ("/a\nhttp://\n\nhttp://h:x/\n/b\n", "2 bad lines: line 2: "),
            ("/a\nhttp://\n\nhttp://h:x/\n/b\n", "; line 4: "),
            ("/a\n/b c\nftp://h/\n", "line 3: the scheme is neither http nor https"),
            ("GET /a\nx y: z\n\nGET /b\n", "line 1: header #1: the name isn't a token"),
            ("CONNECT /a\n", "line 1: method CONNECT: "),
            ("{\"url\":\"/\",\"weight\":-1}\n", "line 1: the weight isn't a whole number"),
            (
                "{\"url\":\"/\"}\n{\"url\":\"/\",\"weight\":0.5}\n",
                "line 2: the weight isn't a whole number from 0 to 1000000 (column",
            ),
            ("{\"url\":\"/\",\"timeout\":\"5x\"}", "line 1: invalid duration `5x`: give"),
            ("{\"url\"\n", "line 1: EOF while parsing an object (column"),
        ] {
            let (error, _) = parse(text).expect_err(text);
            assert!(error.contains(problem), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_cure_is_in_the_format_of_the_file() {
        for (text, cure) in [
            ("hello world\n", "; give a URL a line, vegeta's http format, or its JSON lines"),
            ("GET /a\nno colon\n", "; write GET http://host/path, then headers and @FILE"),
            ("{\"url\":5}\n", "; write each like {\"url\": \"/search?q=1\", \"name\""),
        ] {
            let file = tempfile::NamedTempFile::new().expect("a file");
            fs::write(file.path(), text).expect("written");
            let failure = scenarios(file.path().to_str().expect("a name")).expect_err(text);
            assert!(failure.to_string().contains(cure), "{failure}");
        }
    }
}
