//! What the commands and the flags of other load generators mean here: one table, from which a line
//! of another tool is translated.
//!
//! A flag that is one of ours as well is another tool's only if its value says so: `-q 50` is a
//! rate, `-q` alone is quiet. Nothing here repeats a value that may hold a secret.

use std::borrow::Cow;

use clap::{Arg, Command};
use engine::sys::units::Nanos;

use super::LOADING;

/// A flag of another tool.
struct Foreign {
    /// As it is typed.
    names: &'static [&'static str],
    /// Its value, if it has one.
    value: Value,
    /// What to type instead.
    here: Here,
}

/// The value of a flag.
enum Value {
    /// It has none.
    None,
    /// Whatever is given.
    Any,
    /// It has one, and is the other tool's if that fits.
    If(fn(&str) -> bool),
}

/// What a flag is here.
enum Here {
    /// A flag of ours with this value, in which `{}` stands for the one that was given.
    As(&'static str, &'static str),
    /// The same where it means something else: what.
    Unlike(&'static str, &'static str, &'static str),
    /// Nothing: why it isn't needed, or what there is instead.
    Omit(&'static str),
}

use Here::{As, Omit, Unlike};

const fn flag(names: &'static [&'static str], value: Value, here: Here) -> Foreign {
    Foreign { names, value, here }
}

/// The flags of wrk, wrk2, hey, oha, vegeta, k6 and h2load that aren't ours.
const FOREIGN: &[Foreign] = &[
    flag(&["-z"], Value::Any, As("--duration", "{}")),
    flag(&["-duration"], Value::Any, As("--duration", "{}")),
    flag(&["-D"], Value::If(is_duration), As("--duration", "{}")),
    flag(&["-D", "-body"], Value::Any, As("--body", "@{}")),
    flag(&["-d"], Value::If(is_no_duration), As("--body", "{}")),
    flag(&["-rate"], Value::Any, As("--rate", "{}")),
    flag(
        &["-q"],
        Value::If(is_number),
        Unlike("--rate", "{}", "of the whole run; hey's is that of each of its workers (-c)"),
    ),
    flag(&["--vus"], Value::Any, As("--conns", "{}")),
    flag(&["-u"], Value::If(is_number), As("--conns", "{}")),
    flag(&["-max-connections", "-max-workers"], Value::Any, As("--conns", "{}")),
    flag(&["--iterations"], Value::Any, As("--requests", "{}")),
    flag(&["-i"], Value::If(is_number), As("--requests", "{}")),
    flag(&["-m"], Value::If(is_number), As("--pipeline", "{}")),
    flag(&["--warm-up-time"], Value::Any, As("--warmup", "{}")),
    flag(&["-timeout"], Value::Any, As("--timeout", "{}")),
    flag(&["-header"], Value::Any, As("--header", "{}")),
    flag(&["-A"], Value::Any, As("--header", "Accept: {}")),
    flag(&["-T"], Value::Any, As("--header", "Content-Type: {}")),
    flag(&["-host", "--host"], Value::Any, As("--header", "Host: {}")),
    flag(&["-a"], Value::Any, As("--user", "{}")),
    flag(&["-laddr"], Value::Any, As("--source-addresses", "{}")),
    flag(&["-U", "--user-agent"], Value::Any, As("--header", "User-Agent: {}")),
    flag(&["-unix-socket", "--unix-socket"], Value::Any, As("--unix", "{}")),
    flag(&["-output", "--summary-export"], Value::Any, As("--out", "{}")),
    flag(&["-o"], Value::If(|value| value == "csv"), As("--csv", "-")),
    flag(&["-j", "--json"], Value::None, As("--out", "-")),
    flag(&["--output-format"], Value::If(|value| value == "json"), As("--out", "-")),
    flag(&["--output-format"], Value::If(|value| value == "csv"), As("--csv", "-")),
    flag(&["-name"], Value::Any, As("--label", "{}")),
    flag(&["--no-tui", "--no-summary"], Value::None, As("--quiet", "")),
    flag(
        &["-disable-keepalive", "--disable-keepalive", "--no-connection-reuse"],
        Value::None,
        As("--keepalive", "off"),
    ),
    flag(
        &["-t"],
        Value::If(is_number),
        Omit(
            "threads are cores here, by default all but the first (--cores); a timeout has a unit",
        ),
    ),
    flag(
        &["--threads", "-cpus"],
        Value::Any,
        Omit("threads are cores here, by default all but the first (--cores)"),
    ),
    flag(
        &["-workers", "-connections"],
        Value::Any,
        Omit("connections are opened as the load needs them, up to --conns"),
    ),
    flag(&["--latency", "-L"], Value::None, Omit("percentiles are always printed")),
    flag(
        &["--latency-correction"],
        Value::None,
        Omit("latency always starts when a request was due"),
    ),
    flag(&["-keepalive"], Value::Any, Omit("connections are kept; --keepalive off closes them")),
    flag(
        &["-disable-redirects", "--disable-redirects"],
        Value::None,
        Omit("redirects are never followed"),
    ),
    flag(
        &["-redirects", "--redirect"],
        Value::Any,
        Omit("redirects aren't followed: load the URL that they lead to"),
    ),
    flag(
        &["-disable-compression", "--disable-compression"],
        Value::None,
        Omit("no compression is asked for unless a header does"),
    ),
    flag(&["--h1"], Value::None, Omit("HTTP/1.1 is what is spoken")),
    flag(
        &["--http2", "-http2", "-h2"],
        Value::None,
        Omit("only HTTP/1.1 is spoken; for HTTP/2 use h2load"),
    ),
    flag(
        &["--http3", "-http3", "--h3", "-h3", "--quic"],
        Value::None,
        Omit("only HTTP/1.1 is spoken, over TCP; for HTTP/3 and QUIC use h2load or oha"),
    ),
    flag(
        &["--ktls", "-ktls"],
        Value::None,
        Omit("TLS is spoken by the program, not by the kernel"),
    ),
    flag(&["-insecure", "--insecure-skip-tls-verify"], Value::None, As("--insecure", "")),
    flag(&["-session-tickets"], Value::None, As("--tls-session", "resume")),
    flag(&["-root-certs"], Value::Any, As("--cacert", "{}")),
    flag(&["-cert"], Value::Any, As("--cert", "{}")),
    flag(&["-key"], Value::Any, As("--key", "{}")),
    flag(
        &["-x", "--proxy"],
        Value::Any,
        Omit("no proxies: load the server, or the proxy as a server (--connect-to)"),
    ),
    flag(&["-targets"], Value::Any, Omit("a run requests one URL: give it as the argument")),
    flag(
        &["-F", "--form"],
        Value::Any,
        Omit("no forms are made: give the body (--body @FILE) with its Content-Type (--header)"),
    ),
    flag(&["--no-color"], Value::None, Omit("NO_COLOR=1 in the environment turns colours off")),
    flag(&["--no-thresholds"], Value::None, Omit("objectives are judged only with --slo")),
    flag(&["-lazy"], Value::None, Omit("nothing is read while a run goes on")),
    flag(&["-s"], Value::If(is_stage), Omit("`truetail sweep` changes the rate in steps")),
    flag(&["--stage"], Value::Any, Omit("`truetail sweep` changes the rate in steps")),
    flag(&["--no-usage-report"], Value::None, Omit("no usage is reported")),
    flag(&["-s", "--script"], Value::Any, Omit(SCRIPT)),
];

const SCRIPT: &str =
    "no scripts: a run sends one request (--method, --header, --body); for scripts use k6";

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_duration(text: &str) -> bool {
    text.parse::<Nanos>().is_ok()
}

/// As k6 has them: `10s:100`.
fn is_stage(text: &str) -> bool {
    text.split_once(':').is_some_and(|(length, users)| is_duration(length) && is_number(users))
}

/// Also not a wrong one, whose error says more: a body seldom begins with a digit.
fn is_no_duration(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit() || "-.".contains(first))
}

/// The answer to a line of another tool: what its words mean here, and what to type. `None` if
/// nothing in it is another tool's. The words are those behind the program's name.
pub(super) fn answer(words: &[String], definition: &Command) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let mut line = Line { reasons: Vec::new(), words: Vec::new(), has_url: false };
    let name = match first.as_str() {
        "attack" => {
            line.reasons.push("attack is run here".to_owned());
            "run"
        }
        name if LOADING.contains(&name) => name,
        _ => return None,
    };
    let own = definition.find_subcommand(name).expect("one of the commands");
    line.words.push(format!("truetail {name}"));
    let mut rest = rest.iter().map(String::as_str).peekable();
    while let Some(word) = rest.next() {
        let next = rest.peek().copied();
        if let Some((flag, used)) = translated(word, next) {
            line.add_foreign(word, flag, used.value);
            if used.takes_next {
                rest.next();
            }
        } else if word.len() < 2 || !word.starts_with('-') {
            line.add_argument(word);
        } else {
            let given = own_flag(own, word);
            let next = if given.takes_next() { rest.next() } else { None };
            line.add_own(&given, next);
        }
    }
    line.answer()
}

/// What of a line was a flag's value.
struct Used<'a> {
    value: &'a str,
    takes_next: bool,
}

/// The flag of another tool that this word is, with its value.
fn translated<'a>(word: &'a str, next: Option<&'a str>) -> Option<(&'static Foreign, Used<'a>)> {
    FOREIGN.iter().find_map(|flag| {
        let given = flag.names.iter().find_map(|name| value_after(word, name))?;
        let used = match (&flag.value, given) {
            (Value::None, "") => Used { value: "", takes_next: false },
            (Value::None, _) => return None,
            (Value::Any | Value::If(_), "") => Used { value: next?, takes_next: true },
            (Value::Any | Value::If(_), value) => Used { value, takes_next: false },
        };
        match &flag.value {
            Value::If(fits) if !fits(used.value) => None,
            _ => Some((flag, used)),
        }
    })
}

/// What follows a flag's name within the word: nothing, or a value behind `=`, or behind the letter
/// of a short one. `None` if the word is another flag.
fn value_after<'a>(word: &'a str, name: &str) -> Option<&'a str> {
    let after = word.strip_prefix(name)?;
    match after.strip_prefix('=') {
        Some(value) => Some(value),
        None if after.is_empty() || name.len() == 2 && !is_long_name(word) => Some(after),
        None => None,
    }
}

/// Whether this is the long name of some flag with one dash, as Go's tools have them.
fn is_long_name(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    FOREIGN.iter().any(|flag| flag.names.contains(&name)) && 2 < name.len()
}

/// A word that begins with a dash, as far as it may be flags of ours.
struct Given<'a> {
    /// The last flag in it: only that one can have a value.
    flag: Option<&'a Arg>,
    /// The word up to the end of that flag's name.
    name: &'a str,
    /// What follows within the word.
    value: Option<&'a str>,
}

impl Given<'_> {
    /// Whether the next word is the flag's value.
    fn takes_next(&self) -> bool {
        self.flag.is_some_and(|flag| flag.get_action().takes_values()) && self.value.is_none()
    }
}

/// The flag of ours that this word is, or the last of several short ones: `-kHA:b` is `-k -H A:b`.
fn own_flag<'a>(own: &'a Command, word: &'a str) -> Given<'a> {
    if let Some(long) = word.strip_prefix("--") {
        let (long, value) = match long.split_once('=') {
            Some((long, value)) => (long, Some(value)),
            None => (long, None),
        };
        let flag = own.get_arguments().find(|arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(long) || aliases.contains(&long)
        });
        return Given { flag, name: &word[.."--".len() + long.len()], value };
    }
    let mut given = Given { flag: None, name: word, value: None };
    for (at, letter) in word.char_indices().skip(1) {
        let (name, after) = word.split_at(at + letter.len_utf8());
        let flag = own.get_arguments().find(|arg| {
            let aliases = arg.get_all_short_aliases().unwrap_or_default();
            arg.get_short() == Some(letter) || aliases.contains(&letter)
        });
        given = Given { flag, name, value: (!after.is_empty()).then_some(after) };
        if flag.is_none_or(|flag| flag.get_action().takes_values()) {
            break;
        }
    }
    given
}

/// The line to type, and why it isn't the line that was.
struct Line {
    reasons: Vec<String>,
    words: Vec<String>,
    has_url: bool,
}

impl Line {
    fn add_foreign(&mut self, word: &str, foreign: &Foreign, value: &str) {
        let shown = foreign.names.iter().find(|name| value_after(word, name).is_some());
        let shown = shown.copied().unwrap_or_default();
        match foreign.here {
            As(flag, template) | Unlike(flag, template, _) => {
                let unlike = match foreign.here {
                    Unlike(_, _, what) => format!(", {what}"),
                    _ => String::new(),
                };
                self.reasons.push(format!("{shown} is {flag} here{unlike}"));
                self.words.push(flag.to_owned());
                if !template.is_empty() {
                    let value = if template == "{}" { told(flag, value) } else { value.into() };
                    self.words.push(quoted(&template.replace("{}", &value)));
                }
            }
            Omit(why) => self.reasons.push(format!("{shown}: {why}")),
        }
    }

    fn add_own(&mut self, given: &Given, next: Option<&str>) {
        let long = given.flag.and_then(Arg::get_long).map(|long| format!("--{long}"));
        let long = long.as_deref().unwrap_or_default();
        self.has_url |= ["--target", "--plan"].contains(&long);
        let part = |value| match given.flag {
            Some(flag) if flag.get_action().takes_values() => told(long, value),
            _ => HIDDEN.into(),
        };
        let equals = if given.name.starts_with("--") { "=" } else { "" };
        let value = given.value.map(|value| format!("{equals}{}", part(value)));
        self.words.push(quoted(&format!("{}{}", given.name, value.unwrap_or_default())));
        self.words.extend(next.map(|next| quoted(&part(next))));
    }

    /// A word that is no flag: the URL, a script, or a part of what should stand in quotes.
    fn add_argument(&mut self, word: &str) {
        if word.ends_with(".js") || word.ends_with(".lua") {
            self.reasons.push(SCRIPT.to_owned());
            return;
        }
        self.has_url = true;
        self.words.push(quoted(&told("--target", word)));
    }

    /// Both, if there is a reason.
    fn answer(mut self) -> Option<String> {
        if self.reasons.is_empty() {
            return None;
        }
        if !self.has_url {
            self.words.push("URL".to_owned());
        }
        Some(format!("{}; type `{}`", self.reasons.join("; "), self.words.join(" ")))
    }
}

/// What stands for a value that isn't shown.
const HIDDEN: &str = "…";

/// The flags whose values are text of any kind.
const FREE: [&str; 6] = ["--header", "--body", "--user", "--label", "--tag", "--threshold"];

/// A flag's value without what may be a secret.
fn told<'a>(flag: &str, value: &'a str) -> Cow<'a, str> {
    let may_be_url = value.contains("://") || value.contains(['@', '?', '#']);
    match flag {
        flag if FREE.contains(&flag) => HIDDEN.into(),
        flag if flag == "--target" || may_be_url => url(value).map_or(HIDDEN.into(), Cow::from),
        _ => value.into(),
    }
}

/// A URL without its user, query and fragment; `None` if it isn't one.
fn url(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    let is_known = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, port),
        _ => (host, ""),
    };
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte));
    // A password may have a slash in it: what precedes the @ is then no path.
    if !is_known || !is_name || !(port.is_empty() || is_number(port)) || path.contains('@') {
        return None;
    }
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let more = if end < path.len() { HIDDEN } else { "" };
    Some(format!("{scheme}://{host}{}{more}", &path[..end]))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:,=@%+…~[]".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use engine::plan::{Model, Plan};

    use super::super::{self as args, Command as Parsed};
    use crate::planning;

    /// The words of a line, with quotes as a shell has them.
    fn words(line: &str) -> Vec<OsString> {
        let parts = line.split('\'').enumerate();
        let words = parts.flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().map(OsString::from).collect(),
            _ => vec![OsString::from(part)],
        });
        words.collect()
    }

    /// The completed plan of a line that runs.
    fn plan(line: &str) -> Plan {
        let args = args::completed(words(line));
        let parsed = args::parse(&args).unwrap_or_else(|error| panic!("{line}: {error}")).command;
        let Parsed::Run(args) = parsed else { panic!("{line}: the command is run") };
        let (plan, _) = planning::plan(&args).expect(line);
        plan.complete(&[0, 1]).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn answer(line: &str) -> Option<String> {
        args::answer(&args::completed(words(line)))
    }

    #[test]
    fn twenty_habitual_lines_of_seven_tools_run_or_are_answered_with_the_line_to_type() {
        let lines = [
            // wrk
            ("truetail -t4 -c100 -d30s http://h/", Some("truetail run -c100 -d30s http://h/")),
            (
                "truetail -t12 -c400 -d30s --latency http://h/index.html",
                Some("truetail run -c400 -d30s http://h/index.html"),
            ),
            ("truetail -c 50 -d 10 -H 'Accept: */*' http://h/", None),
            // wrk2
            (
                "truetail -t2 -c100 -d30s -R2000 http://h/",
                Some("truetail run -c100 -d30s -R2000 http://h/"),
            ),
            (
                "truetail -c100 -d1m -R 2000 -L http://h/",
                Some("truetail run -c100 -d1m -R 2000 http://h/"),
            ),
            // hey
            ("truetail -n 200 -c 50 http://h/", None),
            (
                "truetail -z 30s -c 50 -q 10 http://h/",
                Some("truetail run --duration 30s -c 50 --rate 10 http://h/"),
            ),
            (
                "truetail -n 1000 -m POST -T application/json -D body.json http://h/",
                Some(
                    "truetail run -n 1000 -m POST --header 'Content-Type: application/json' \
                     --body @body.json http://h/",
                ),
            ),
            (
                "truetail -disable-keepalive -n 100 http://h/",
                Some("truetail run --keepalive off -n 100 http://h/"),
            ),
            // oha
            (
                "truetail -z 10s -q 100 --latency-correction --disable-keepalive http://h/",
                Some("truetail run --duration 10s --rate 100 --keepalive off http://h/"),
            ),
            (
                "truetail -n 10000 -c 100 --no-tui http://h/",
                Some("truetail run -n 10000 -c 100 --quiet http://h/"),
            ),
            ("truetail -n 10 --json http://h/", Some("truetail run -n 10 --out - http://h/")),
            // vegeta
            (
                "truetail attack -rate=50/1s -duration=5s",
                Some("truetail run --rate 50/1s --duration 5s URL"),
            ),
            (
                "truetail attack -duration=30s -rate=1000 -max-workers=64 -targets=targets.txt",
                Some("truetail run --duration 30s --rate 1000 --conns 64 URL"),
            ),
            // k6
            (
                "truetail run --vus 10 --duration 30s script.js",
                Some("truetail run --conns 10 --duration 30s URL"),
            ),
            (
                "truetail run -u 5 -i 100 script.js",
                Some("truetail run --conns 5 --requests 100 URL"),
            ),
            ("truetail run --rps 100 --duration 30s http://h/", None),
            // h2load
            (
                "truetail -n100000 -c100 -m10 --h1 http://h/",
                Some("truetail run -n100000 -c100 --pipeline 10 http://h/"),
            ),
            (
                "truetail -c10 -D 30 --warm-up-time=5 http://h/",
                Some("truetail run -c10 --duration 30 --warmup 5 http://h/"),
            ),
            ("truetail -n 1000 -c 10 -t 2 http://h/", Some("truetail run -n 1000 -c 10 http://h/")),
        ];
        assert_eq!(lines.len(), 20);
        for (typed, expected) in lines {
            let told = answer(typed);
            let line = match expected {
                None => {
                    assert_eq!(told, None, "{typed}");
                    typed
                }
                Some(line) => {
                    let told = told.unwrap_or_else(|| panic!("{typed}: not answered"));
                    assert!(told.ends_with(&format!("; type `{line}`")), "{typed}: {told}");
                    assert!(!told.contains('\n'), "{told}");
                    line
                }
            };
            // What is to be typed runs.
            plan(&line.replace(" URL", " http://h/"));
        }
    }

    #[test]
    fn a_habitual_line_means_what_it_meant() {
        let closed = plan("truetail -c 50 -d 10 http://h/");
        assert_eq!((closed.model(), closed.conns()), (Model::Closed, 50));
        assert_eq!((closed.duration.to_string(), closed.requests), ("10s".to_owned(), None));
        let counted = plan("truetail -n 200 -c 50 http://h/");
        assert_eq!((counted.requests, counted.warmup.0), (Some(200), 0));
        let posted = plan("truetail -n 1 -X post -b '{\"a\": 1}' -H 'Content-Type: a/b' http://h/");
        assert_eq!((posted.method.as_str(), posted.headers.len()), ("POST", 1));
        let user = plan("truetail -n 1 -u aladdin:opensesame http://h/").headers;
        assert_eq!(user, ["Authorization: Basic YWxhZGRpbjpvcGVuc2VzYW1l"]);
    }

    #[test]
    fn each_foreign_flag_says_which_flag_means_it() {
        for (typed, told) in [
            ("truetail -z 1s http://h/", "-z is --duration here; type"),
            (
                "truetail -c 50 -q 10 http://h/",
                "-q is --rate here, of the whole run; hey's is that of each of its workers (-c); type",
            ),
            (
                "truetail -n 1 -o csv http://h/",
                "-o is --csv here; type `truetail run -n 1 --csv - ",
            ),
            (
                "truetail --output-format json http://h/",
                "--output-format is --out here; type `truetail run --out - http://h/`",
            ),
            ("truetail -s 10s:5 http://h/", "-s: `truetail sweep` changes the rate in steps; type"),
            (
                "truetail attack -insecure -session-tickets -rate 5",
                "attack is run here; -insecure is --insecure here; -session-tickets is --tls-session",
            ),
            ("truetail --latency http://h/", "--latency: percentiles are always printed; type"),
            ("truetail --threads 4 http://h/", "--threads: threads are cores here, by default all"),
            ("truetail --threads=4 http://h/", "--threads: threads are cores here, by default all"),
            (
                "truetail --vus=10 http://h/",
                "--vus is --conns here; type `truetail run --conns 10 ",
            ),
            ("truetail -s a.lua http://h/", "-s: no scripts: a run sends one request (--method, "),
            ("truetail -x http://p:1 http://h/", "-x: no proxies: load the server, or the proxy"),
            (
                "truetail -d @f http://h/",
                "-d is --body here; type `truetail run --body … http://h/`",
            ),
            (
                "truetail sweep -z 1s http://h/",
                "-z is --duration here; type `truetail sweep --dura",
            ),
        ] {
            let answer = answer(typed).unwrap_or_else(|| panic!("{typed}: not answered"));
            assert!(answer.starts_with(told), "{typed}: {answer}");
        }
        // These are ours, whatever other tools have under the same letter.
        for typed in [
            "truetail -t 4s http://h/",
            "truetail -q http://h/",
            "truetail -m PUT http://h/",
            "truetail -d 1.5s http://h/",
            "truetail -d 10x http://h/",
            "truetail --header -z http://h/",
            "truetail target --latency",
            "truetail verify attack",
        ] {
            assert_eq!(answer(typed), None, "{typed}");
        }
    }

    #[test]
    fn no_answer_shows_what_may_be_a_secret() {
        for typed in [
            "truetail -z 1s -H 'X-Key: pa55' http://h/",
            "truetail -z 1s --header=X-Key:pa55 http://h/",
            "truetail -z 1s -HX-Key:pa55 http://h/",
            "truetail -z 1s -header 'X-Key: pa55' http://h/",
            "truetail -z 1s -b pa55 http://h/",
            "truetail -z 1s -d {pa55} http://h/",
            "truetail -z 1s -a u:pa55 http://h/",
            "truetail -z 1s -u u:pa55 http://h/",
            "truetail -z 1s -uu:pa55 http://h/",
            "truetail -z 1s http://h/?token=pa55",
            "truetail -z 1s http://u:pa55@h/",
            "truetail -z 1s --tokn=pa55 http://h/",
            "truetail -z 1s --tokn pa55 http://h/",
            "truetail -z 1s --target 'http://u:pa55@h/?token=pa55'",
            "truetail -z 1s --target=http://h/#pa55",
            "truetail -z 1s --target u:pa55@h",
            "truetail -z 1s http://u:pa/55pa55@h/",
            "truetail -z 1s --connect-to u:pa55@h:80 http://h/",
            "truetail -z 1s --label pa55 --tag key=pa55 http://h/",
            "truetail -z 1s --threshold authorization=pa55 http://h/",
            "truetail -z 1s -kHX-Key:pa55 http://h/",
            "truetail -z 1s -kH 'Authorization: pa55' http://h/",
            "truetail -z 1s -kqupa55 http://h/",
            "truetail -z 1s -kqZpa55 http://h/",
            "truetail -z 1s --insecure=pa55 http://h/",
            "truetail -z 1s -H X-Key: pa55 http://h/",
            "truetail -z 1s -H X-Key: pa55",
        ] {
            let answer = answer(typed).unwrap_or_else(|| panic!("{typed}: not answered"));
            assert!(!answer.contains("pa55") && answer.contains("--duration 1s"), "{answer}");
        }
    }

    #[test]
    fn an_answer_shows_what_is_no_secret() {
        for (typed, shown) in [
            ("http://u:pa55@h:80/a?b#c", "http://h:80/a…"),
            ("http://[::1]:80/a", "http://[::1]:80/a"),
            ("http://h", "http://h"),
            ("http://h:port/", "…"),
            ("http://h/@a", "…"),
            ("-kqc5 -o a.json http://h/", "-kqc5 -o a.json http://h/"),
            ("-kq --target http://h/?a", "-kq --target http://h/…"),
        ] {
            let answer = answer(&format!("truetail -z 1s {typed}")).expect("another tool's");
            let line = format!("; type `truetail run --duration 1s {shown}`");
            assert!(answer.ends_with(&line), "{typed}: {answer}");
        }
    }
}
