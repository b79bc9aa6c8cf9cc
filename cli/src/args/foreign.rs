//! What the commands and the flags of other load generators mean here: one table, from which a line
//! of another tool is translated.
//!
//! A flag that is one of ours as well is another tool's only if its value says so: `-q 50` is a
//! rate, `-q` alone is quiet. Nothing here repeats a value that may hold a secret.

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
    /// Nothing: why it isn't needed, or what there is instead.
    Omit(&'static str),
}

use Here::{As, Omit};

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
    flag(&["-q"], Value::If(is_number), As("--rate", "{}")),
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
    flag(&["-output", "--summary-export"], Value::Any, As("--out", "{}")),
    flag(&["-j", "--json"], Value::None, As("--out", "-")),
    flag(&["--no-tui"], Value::None, As("--quiet", "")),
    flag(&["-disable-keepalive", "--disable-keepalive"], Value::None, As("--keepalive", "off")),
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
    flag(&["-insecure"], Value::None, As("--insecure", "")),
    flag(&["-root-certs"], Value::Any, As("--cacert", "{}")),
    flag(&["-cert"], Value::Any, As("--cert", "{}")),
    flag(&["-key"], Value::Any, As("--key", "{}")),
    flag(
        &["-x", "--proxy"],
        Value::Any,
        Omit("no proxies: load the server, or the proxy as a server (--connect-to)"),
    ),
    flag(&["-targets"], Value::Any, Omit("a run requests one URL: give it as the argument")),
    flag(&["-lazy"], Value::None, Omit("nothing is read while a run goes on")),
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
            let flag = own_flag(own, word);
            let takes_next = flag.is_some_and(|flag| takes_next(flag, word));
            let value = if takes_next { rest.next() } else { None };
            line.add_own(flag, word, value);
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

/// The flag of ours that this word begins with.
fn own_flag<'a>(own: &'a Command, word: &str) -> Option<&'a Arg> {
    let long = word.strip_prefix("--").map(|long| long.split('=').next().unwrap_or_default());
    let short = word.chars().nth(1);
    own.get_arguments().find(|arg| match long {
        Some(long) => {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(long) || aliases.contains(&long)
        }
        None => {
            let aliases = arg.get_all_short_aliases().unwrap_or_default();
            short.is_some_and(|short| arg.get_short() == Some(short) || aliases.contains(&short))
        }
    })
}

/// Whether the word behind this flag is its value.
fn takes_next(flag: &Arg, word: &str) -> bool {
    let has_value = if word.starts_with("--") { word.contains('=') } else { 2 < word.len() };
    flag.get_action().takes_values() && !has_value
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
            As(flag, template) => {
                self.reasons.push(format!("{shown} is {flag} here"));
                self.words.push(flag.to_owned());
                if !template.is_empty() {
                    let hidden = template == "{}" && is_secret(flag);
                    let value = if hidden { "…" } else { value };
                    self.words.push(quoted(&template.replace("{}", value)));
                }
            }
            Omit(why) => self.reasons.push(format!("{shown}: {why}")),
        }
    }

    fn add_own(&mut self, flag: Option<&Arg>, word: &str, value: Option<&str>) {
        let name = flag.and_then(Arg::get_long).map(|long| format!("--{long}"));
        self.has_url |= name.as_ref().is_some_and(|name| ["--target", "--plan"].contains(&&**name));
        let hidden = name.as_deref().is_none_or(is_secret);
        match value {
            Some(value) => {
                self.words.push(word.to_owned());
                self.words.push(quoted(if hidden { "…" } else { value }));
            }
            None if hidden && word.starts_with("--") => {
                let name = word.split('=').next().unwrap_or_default();
                self.words.push(if name == word { word.to_owned() } else { format!("{name}=…") });
            }
            None if hidden && 2 < word.len() => {
                self.words.push(word.chars().take(2).chain(['…']).collect());
            }
            None => self.words.push(quoted(word)),
        }
    }

    fn add_argument(&mut self, word: &str) {
        if word.ends_with(".js") || word.ends_with(".lua") {
            self.reasons.push(SCRIPT.to_owned());
            return;
        }
        self.has_url = true;
        // What follows may be a secret, and so may what stands before an @.
        let end = word.find(['?', '#']).unwrap_or(word.len());
        let shown = if word.contains('@') { "URL".to_owned() } else { quoted(&word[..end]) };
        self.words.push(if end < word.len() { format!("{shown}…") } else { shown });
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

/// Whether a flag's value may be a secret.
fn is_secret(flag: &str) -> bool {
    ["--header", "--body", "--user"].contains(&flag)
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
        ] {
            let answer = answer(typed).unwrap_or_else(|| panic!("{typed}: not answered"));
            assert!(!answer.contains("pa55") && answer.contains("--duration 1s"), "{answer}");
        }
    }
}
