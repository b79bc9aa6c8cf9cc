//! Reads an access log: when each request came, and what it asked for.
//!
//! The first readable line decides the format: common or combined, either with nginx's
//! `$request_time` at its end, or JSON lines with `time`, `method` and `path`. A line that can't be
//! read is counted, and the first few are named by number and problem alone: any other part of a
//! line may hold a secret.

use std::fmt;
use std::io::{self, BufRead, Read as _};

use chrono::DateTime;
use http::{Method, Uri};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use serde::Deserialize;
use units::{Nanos, Scalar};

/// The most unreadable lines that are named.
const NAMED_MAX: usize = 5;
/// The longest line, in bytes. What is longer is read as several lines, none of them readable.
const LINE_MAX: u64 = 1 << 20;
/// A number from this on is a time in milliseconds: as seconds it would be in the year 5138.
const MILLISECONDS_MIN: u64 = 100_000_000_000;
/// The time of common and combined logs.
const TIME: &str = "%d/%b/%Y:%H:%M:%S %z";
/// What is encoded in a logged path besides bytes beyond ASCII: what a request line can't hold, and
/// braces, which would begin a template in a plan.
const ENCODED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}');

/// A request as a log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The time of its line, ns since the Unix epoch.
    pub stamped_ns: u64,
    /// True if that time is written in whole seconds, without a fraction.
    pub is_whole: bool,
    /// How long it took, ns, if its line tells; the line is then stamped at its end. Else 0.
    pub took_ns: u64,
    /// Its method.
    pub method: String,
    /// The host that it asked, if the line names one.
    pub host: Option<String>,
    /// Its path and query, with whatever no request line can hold percent-encoded.
    pub path: String,
    /// Its body, if the line has it.
    pub body: Option<String>,
}

/// How the lines of a log are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The common format, or the combined one.
    Plain,
    /// One of these with the request's time at the end, as nginx's `$request_time`.
    Timed,
    /// A JSON object for each.
    Json,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Plain => "common or combined format",
            Format::Timed => "common or combined format with request times",
            Format::Json => "JSON lines",
        })
    }
}

impl Logged {
    /// When it began, ns since the Unix epoch.
    pub fn began_ns(&self) -> u64 {
        self.stamped_ns.saturating_sub(self.took_ns)
    }
}

/// What was found in a log besides its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Its format; `None` without a readable line.
    pub format: Option<Format>,
    /// Lines that are requests.
    pub requests: u64,
    /// Lines with a request's time at the end, in a log whose first line has none: as in that one,
    /// what is at the end is ignored.
    pub timed: u64,
    /// Lines that can't be read.
    pub unreadable: u64,
    /// The first few of these, each with its number and what is wrong.
    pub problems: Vec<String>,
}

/// True if a request with this method usually has a body, which a log lacks.
pub fn has_body(method: &str) -> bool {
    ["POST", "PUT", "PATCH"].contains(&method)
}

impl Summary {
    /// How its lines are written, and that some have a time that isn't used; empty without a
    /// readable line.
    pub fn format_text(&self) -> String {
        let format = self.format.map(|format| format.to_string()).unwrap_or_default();
        match self.timed {
            0 => format,
            1 => format!("{format} (1 line ends in a request time, not used: the first has none)"),
            lines => {
                let why = "not used: the first has none";
                format!("{format} ({lines} lines end in a request time, {why})")
            }
        }
    }

    /// What is wrong with a log without a readable line, and the cure.
    pub fn refusal(&self) -> (String, &'static str) {
        let problem = match self.problems.as_slice() {
            [] => "is empty".to_owned(),
            problems => {
                let more = match self.unreadable - problems.len() as u64 {
                    0 => String::new(),
                    more => format!("; and {more} more"),
                };
                format!("has no readable line ({}{more})", problems.join("; "))
            }
        };
        let cure =
            "give a log in common or combined format, or JSON lines with time, method and path";
        (problem, cure)
    }
}

/// Reads a log to its end, and hands each request to `each` in the order of the lines. A line whose
/// request `each` refuses, with a problem, is one that can't be read.
///
/// # Errors
/// Those of the reader.
pub fn read(
    mut log: impl BufRead,
    mut each: impl FnMut(Logged) -> Result<(), &'static str>,
) -> io::Result<Summary> {
    let mut summary = Summary::default();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        if log.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let text = str::from_utf8(&line).map_err(|_| "not UTF-8");
        // Some programs begin a file with a byte-order mark.
        let text = text.map(|text| text.trim_start_matches('\u{feff}').trim());
        let format = text.and_then(|text| {
            let (format, request) = parse(text, summary.format)?;
            each(request).map(|()| format)
        });
        match format {
            Ok(format) => {
                let first = *summary.format.get_or_insert(format);
                summary.timed += u64::from(first != format);
                summary.requests += 1;
            }
            Err(problem) => {
                summary.unreadable += 1;
                if summary.problems.len() < NAMED_MAX {
                    summary.problems.push(format!("line {number}: {problem}"));
                }
            }
        }
    }
    Ok(summary)
}

/// The request of a line in this format, or in any, and the format that the line has by itself.
fn parse(line: &str, format: Option<Format>) -> Result<(Format, Logged), &'static str> {
    match format {
        Some(Format::Json) => of_json(line).map(|request| (Format::Json, request)),
        None if line.starts_with('{') => of_json(line).map(|request| (Format::Json, request)),
        Some(Format::Plain) => of_text(line, Some(false)),
        Some(Format::Timed) => of_text(line, Some(true)),
        None => of_text(line, None),
    }
}

/// `client user name [time] "request" status bytes …`.
fn of_text(line: &str, timed: Option<bool>) -> Result<(Format, Logged), &'static str> {
    let (time, rest) = line
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .ok_or("no time in brackets")?;
    let stamped_ns = moment(time).ok_or("the time isn't like 10/Oct/2000:13:55:36 -0700")?;
    let rest = rest.trim_start().strip_prefix('"').ok_or("no request in quotes")?;
    let (request, rest) = quoted(rest).ok_or("no quote after the request")?;
    let mut fields = rest.split_ascii_whitespace();
    let is_status = |status: &str| status.len() == 3 && status.parse::<u16>().is_ok();
    fields.next().filter(|status| is_status(status)).ok_or("no status after the request")?;
    let took = fields.last().filter(|last| last.contains('.')).and_then(decimal);
    let took_ns = match (timed, took) {
        (Some(false), _) | (None, None) => 0,
        (Some(true), None) => return Err("no request time at the end"),
        (_, Some(Nanos(ns))) => ns,
    };
    let format = if took.is_some() { Format::Timed } else { Format::Plain };
    let (method, target) = request.split_once(' ').ok_or("the request has no method and path")?;
    let target = match target.rsplit_once(' ') {
        Some((target, version)) if version.starts_with("HTTP/") => target,
        _ => target,
    };
    let (host, path) = of_target(&unescaped(target))?;
    let method = of_method(method)?;
    let is_whole = !time.contains('.');
    Ok((format, Logged { stamped_ns, is_whole, took_ns, method, host, path, body: None }))
}

/// A line of JSON; other fields are ignored.
#[derive(Deserialize)]
struct Record {
    time: Time,
    method: String,
    path: String,
    host: Option<String>,
    body: Option<String>,
    #[serde(alias = "duration")]
    request_time: Option<Scalar>,
}

/// The time of a line of JSON.
#[derive(Deserialize)]
#[serde(untagged)]
enum Time {
    Whole(u64),
    Fraction(f64),
    Text(String),
}

impl Time {
    /// Its text, in seconds if it is a number, and true if it has no fraction of a second.
    fn read(self) -> (String, bool) {
        match self {
            Time::Whole(ms) if MILLISECONDS_MIN <= ms => {
                (format!("{}.{:03}", ms / 1_000, ms % 1_000), false)
            }
            Time::Whole(seconds) => (seconds.to_string(), true),
            Time::Fraction(ms) if MILLISECONDS_MIN as f64 <= ms => ((ms / 1e3).to_string(), false),
            Time::Fraction(seconds) => (seconds.to_string(), false),
            Time::Text(text) => match text.parse() {
                Ok(number) => Time::Whole(number).read(),
                Err(_) => {
                    let is_whole = !text.contains('.');
                    (text, is_whole)
                }
            },
        }
    }
}

fn of_json(line: &str) -> Result<Logged, &'static str> {
    // The parser's own message may show a value.
    let Record { time, method, path, host, body, request_time } = serde_json::from_str(line)
        .map_err(|error| match error.is_data() {
            true => "not an object with time, method and path",
            false => "not JSON",
        })?;
    let (time, is_whole) = time.read();
    let stamped_ns =
        moment(&time).ok_or("the time is neither RFC 3339 nor seconds or ms since 1970")?;
    let took = request_time.map(|Scalar(text)| text.parse::<Nanos>()).transpose();
    let took =
        took.map_err(|_| "the request time is neither seconds nor a time with a unit, 12ms")?;
    let (own, path) = of_target(path.as_bytes())?;
    let host = own.or(host.map(|host| host.to_ascii_lowercase()).filter(|host| !host.is_empty()));
    let took_ns = took.map_or(0, |took| took.0);
    // A program's own name of the method, not what the server received: many have it in lower case.
    let method = of_method(&method.to_ascii_uppercase())?;
    Ok(Logged { stamped_ns, is_whole, took_ns, method, host, path, body })
}

/// A time in any of the notations of logs, ns since the Unix epoch.
fn moment(text: &str) -> Option<u64> {
    let date = DateTime::parse_from_str(text, TIME).or_else(|_| DateTime::parse_from_rfc3339(text));
    match date {
        Ok(date) => u64::try_from(date.timestamp_nanos_opt()?).ok(),
        Err(_) => decimal(text).map(|since| since.0),
    }
}

/// Seconds, without a unit.
fn decimal(text: &str) -> Option<Nanos> {
    let is_number = text.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// A text up to the quote that ends it, and what follows; a backslash escapes the next character.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// A logged request line as it was received: servers write some bytes as `\x22`, `\"` or `\\`.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let byte = |digits: &[u8]| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
        let (next, taken) = match after {
            [b'x', high, low, ..] if *first == b'\\' => {
                byte(&[*high, *low]).map_or((*first, 1), |byte| (byte, 4))
            }
            [same @ (b'"' | b'\\'), ..] if *first == b'\\' => (*same, 2),
            _ => (*first, 1),
        };
        bytes.push(next);
        rest = &rest[taken..];
    }
    bytes
}

fn of_method(method: &str) -> Result<String, &'static str> {
    match Method::from_bytes(method.as_bytes()) {
        Ok(Method::CONNECT) => Err("CONNECT has no path"),
        Ok(_) => Ok(method.to_owned()),
        Err(_) => Err("the request has no method"),
    }
}

/// The host, of a complete URL, and the path of a request's target.
fn of_target(target: &[u8]) -> Result<(Option<String>, String), &'static str> {
    let target = percent_encode(target, ENCODED).to_string();
    if target.starts_with('/') {
        return Ok((None, target));
    }
    let no_path = "the request has no path";
    let uri: Uri = target.parse().map_err(|_| no_path)?;
    match (uri.authority(), uri.path_and_query()) {
        (Some(host), Some(path)) if uri.scheme().is_some() => {
            // As text, a query without a path has one.
            Ok((Some(host.as_str().to_ascii_lowercase()), path.to_string()))
        }
        _ => Err(no_path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 October 2000, 20:55:36 UTC.
    const THEN_S: u64 = 971_211_336;

    fn requests(log: &str) -> (Vec<Logged>, Summary) {
        let mut all = Vec::new();
        let keep = |request| {
            all.push(request);
            Ok(())
        };
        let summary = read(log.as_bytes(), keep).expect("memory");
        assert_eq!(summary.requests, all.len() as u64);
        (all, summary)
    }

    fn logged(stamped_ns: u64, method: &str, path: &str) -> Logged {
        let (method, path) = (method.to_owned(), path.to_owned());
        Logged { stamped_ns, is_whole: true, took_ns: 0, method, host: None, path, body: None }
    }

    #[test]
    fn each_format_is_recognised_by_its_first_readable_line() {
        let then = THEN_S * 1_000_000_000;
        let start = r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.0" 200"#;
        let get = logged(then, "GET", "/a?b=c");
        let timed = Logged { took_ns: 123_000_000, ..get.clone() };
        for (line, format, want) in [
            (format!("{start} 2326"), Format::Plain, &get),
            (format!("{start} -"), Format::Plain, &get),
            (format!(r#"{start} 2326 "http://e/" "Mozilla/4.08 [en] 0.5""#), Format::Plain, &get),
            (format!(r#"{start} 2326 "-" "Mozilla/4.08" 0.123"#), Format::Timed, &timed),
            (format!("{start} 2326 0.123"), Format::Timed, &timed),
            (
                r#"{"time":"2000-10-10T13:55:36-07:00","method":"GET","path":"/a?b=c"}"#.to_owned(),
                Format::Json,
                &get,
            ),
            (
                format!(
                    r#"{{"time":{THEN_S},"method":"GET","path":"/a?b=c","request_time":"0.123"}}"#
                ),
                Format::Json,
                &timed,
            ),
        ] {
            for before in ["", "\n", "garbage\n", "\u{feff}"] {
                let (all, summary) = requests(&format!("{before}{line}\r\n"));
                assert_eq!((&all[..], summary.format), (&[want.clone()][..], Some(format)));
                assert_eq!(summary.unreadable, u64::from(before == "garbage\n"), "{line}");
            }
        }
    }

    #[test]
    fn json_lines_may_have_a_host_a_body_and_fractions_of_a_second() {
        let log = r#"{"time":1700000000.25,"method":"POST","path":"/o","host":"API.test","body":"x",
            "status":201}
            {"time":"1700000000.000000001","method":"PUT","path":"http://B.test:81/p","duration":"5ms"}"#
            .replace(",\n            \"status", ",\"status");
        let (all, _) = requests(&log);
        let first = Logged {
            is_whole: false,
            host: Some("api.test".to_owned()),
            body: Some("x".to_owned()),
            ..logged(1_700_000_000_250_000_000, "POST", "/o")
        };
        let second = Logged {
            is_whole: false,
            took_ns: 5_000_000,
            host: Some("b.test:81".to_owned()),
            ..logged(1_700_000_000_000_000_001, "PUT", "/p")
        };
        assert_eq!(all, [first, second]);
    }

    #[test]
    fn a_time_with_a_fraction_isnt_whole_even_if_that_is_zero() {
        for (time, is_whole) in [
            (r#""2023-11-14T22:13:20.000Z""#, false),
            (r#""2023-11-14T22:13:20Z""#, true),
            (r#""1700000000.000""#, false),
            ("1700000000000", false),
            (r#""1700000000000""#, false),
            ("1700000000000.0", false),
            ("1700000000.000", false),
            ("1700000000", true),
        ] {
            let (all, _) = requests(&format!(r#"{{"time":{time},"method":"GET","path":"/"}}"#));
            let want = Logged { is_whole, ..logged(1_700_000_000_000_000_000, "GET", "/") };
            assert_eq!(all, [want], "{time}");
        }
    }

    #[test]
    fn methods_of_json_lines_are_in_capitals_and_others_as_received() {
        let (all, _) = requests(r#"{"time":1,"method":"get","path":"/"}"#);
        assert_eq!(all[0].method, "GET");
        let line = r#"- - - [10/Oct/2000:13:55:36 -0700] "get / HTTP/1.1" 400 1"#;
        assert_eq!(requests(line).0[0].method, "get");
    }

    #[test]
    fn a_number_of_milliseconds_is_a_time() {
        let (all, _) = requests(r#"{"time":1700000000250,"method":"GET","path":"/"}"#);
        assert_eq!((all[0].stamped_ns, all[0].is_whole), (1_700_000_000_250_000_000, false));
    }

    #[test]
    fn a_path_is_sent_as_it_was_received() {
        for (logged, path) in [
            (r"/a\x22b\x5Cc\xC3\xA9", r"/a%22b\c%C3%A9"),
            (r#"/a\"b\\"#, r"/a%22b\"),
            ("/a b/{{c}}?d=e f#g", "/a%20b/%7B%7Bc%7D%7D?d=e%20f%23g"),
            ("/%20é|[x]", "/%20%C3%A9|[x]"),
            (r"/a\xZZ", r"/a\xZZ"),
            ("http://h:80/p?q", "/p?q"),
            ("http://h", "/"),
            ("http://h?p", "/?p"),
        ] {
            let line =
                format!(r#"- - - [10/Oct/2000:13:55:36 -0700] "GET {logged} HTTP/1.1" 200 1"#);
            let (all, summary) = requests(&line);
            assert_eq!(all.first().map(|it| it.path.as_str()), Some(path), "{summary:?}");
        }
    }

    #[test]
    fn unreadable_lines_are_counted_and_the_first_are_named_without_their_text() {
        let line = |time: &str, request: &str| format!("- - - [{time}] \"{request}\" 400 0 \"-\"");
        let time = "10/Oct/2000:13:55:36 -0700";
        for (bad, problem) in [
            ("pa55".to_owned(), "no time in brackets"),
            (line("pa55", "GET / HTTP/1.1"), "the time isn't like 10/Oct/2000"),
            (line("10/Oct/1969:13:55:36 -0700", "GET / HTTP/1.1"), "the time isn't like"),
            (format!("[{time}] pa55"), "no request in quotes"),
            (format!("[{time}] \"GET /?pa55"), "no quote after the request"),
            (format!("[{time}] \"GET /?pa55\" ok"), "no status after the request"),
            (line(time, "-"), "the request has no method and path"),
            (line(time, r"\x16\x03\x01 pa55"), "the request has no path"),
            (line(time, "CONNECT h:443 HTTP/1.1"), "the request has no path"),
            (line(time, "OPTIONS * HTTP/1.1"), "the request has no path"),
            (line(time, "G(T /pa55 HTTP/1.1"), "the request has no method"),
            (r#"{"time":1,"method":"pa55"}"#.to_owned(), "not an object with time, method and"),
            (r#"{"time":1,"method":"GET","path":7}"#.to_owned(), "not an object with"),
            (r#"{"pa55"#.to_owned(), "not JSON"),
            (r#"{"time":"pa55","method":"GET","path":"/"}"#.to_owned(), "neither RFC 3339 nor"),
            (
                r#"{"time":1,"method":"GET","path":"/pa55","request_time":"-"}"#.to_owned(),
                "the request time is neither seconds nor",
            ),
        ] {
            let (all, summary) = requests(&format!("{bad}\n").repeat(7));
            assert!(all.is_empty() && summary.format.is_none(), "{bad}");
            assert_eq!((summary.unreadable, summary.problems.len()), (7, NAMED_MAX), "{bad}");
            assert!(summary.refusal().0.ends_with("; and 2 more)"), "{:?}", summary.refusal());
            let first = &summary.problems[0];
            assert!(first.starts_with("line 1: ") && first.contains(problem), "{bad}: {first}");
            assert!(!first.contains("pa55"), "{first}");
        }
        // A format with times is kept to.
        let start = format!("- - - [{time}] \"GET / HTTP/1.1\" 200 1");
        let (all, summary) = requests(&format!("{start} 0.001\n{start}\n{start} 0.002\n"));
        assert_eq!(
            (all.len(), &summary.problems[..]),
            (2, &["line 2: no request time at the end".to_owned()][..])
        );
        let (all, summary) = requests(&format!("{start}\n{start} 0.001\n"));
        assert!(all.iter().all(|it| it.took_ns == 0) && all.len() == 2);
        let want = "common or combined format (1 line ends in a request time, not used: the first \
            has none)";
        assert_eq!(summary.format_text(), want);
    }

    #[test]
    fn a_request_that_its_reader_refuses_is_unreadable() {
        let line = r#"{"time":1,"method":"GET","path":"/a"}"#;
        let text = format!("{line}\n{}\n", line.replace("/a", "/b"));
        let refuse = |request: Logged| if request.path == "/a" { Err("not /a") } else { Ok(()) };
        let summary = read(text.as_bytes(), refuse).expect("memory");
        assert_eq!((summary.requests, summary.unreadable), (1, 1));
        assert_eq!(summary.problems, ["line 1: not /a"]);
    }

    #[test]
    fn a_line_without_an_end_takes_bounded_memory() {
        let endless = io::BufReader::new(io::repeat(b'x').take(3 * LINE_MAX));
        let summary = read(endless, |_| panic!("no request")).expect("memory");
        assert_eq!(summary.unreadable, 3);
    }
}
