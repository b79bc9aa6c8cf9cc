//! Recognises a command line of another load generator, and answers with the meaning of its words
//! here and the line to type.
//!
//! No value that may be a secret is repeated.

use std::borrow::Cow;

use clap::{Arg, Command};

use super::commands::LOADING;
use super::flag::Flag;
use super::foreign_flags::{
    FLAGS, Foreign, HTTP2, Here, KEPT, RAND_REGEX_URL, SCRIPT, TOOLS, URLS_FROM_FILE, Value,
    is_number,
};
use super::given::flag_of;
use super::usage::is_bare;

/// The answer to another tool's command line: the meaning of its words here, and the line to type.
/// `None` if none of it is another tool's. The words are those after the program's name.
pub(super) fn answer(words: &[String], definition: &Command) -> Option<String> {
    let mut line = Line::of(words);
    let (name, rest) = line.begin(words)?;
    line.is_http2 = speaks_http2(line.tool, rest);
    let own = definition.find_subcommand(name).expect("one of the commands");
    line.words.push(format!("truetail {name}"));
    let rest = line.without_tls(rest);
    let mut rest = rest.iter().map(String::as_str).peekable();
    while let Some(word) = rest.next() {
        let next = rest.peek().copied();
        if let Some((flag, used)) = translated(line.tool, word, next) {
            line.add_foreign(word, flag, used.value);
            if used.takes_next {
                rest.next();
            }
        } else if word == "-k" && line.is_plain {
            line.because(format!("-k: {KEPT}, and an http URL has no certificate to accept"));
        } else if ["-h", "--help"].contains(&word) {
            return None;
        } else if word.len() < 2 || !word.starts_with('-') {
            line.add_argument(word);
        } else {
            let given = own_flag(own, word);
            if given.flag.is_none() {
                // The next word may be its value, unless it is the URL.
                let is_value = |next: &&str| !next.starts_with('-') && !next.contains("://");
                if given.value.is_none() && next.is_some_and(|next| is_value(&next)) {
                    rest.next();
                }
                let name = if is_bare(given.name) { given.name } else { "a flag" };
                line.unknown.push(format!("{name}: unknown, and left out"));
                continue;
            }
            let next = if given.takes_next() { rest.next() } else { None };
            line.add_own(&given, next);
        }
    }
    line.answer()
}

/// True if a line of this tool speaks HTTP/2.
fn speaks_http2(tool: Option<&str>, words: &[String]) -> bool {
    let mut words = words.iter().map(String::as_str);
    match tool {
        Some("h2load") => !words.any(|word| word == "--h1" || word.ends_with("http/1.1")),
        _ => words.any(|word| HTTP2.split(' ').any(|flag| word == flag)),
    }
}

/// The value of a flag; true if it is the next word of the line.
struct Used<'a> {
    value: &'a str,
    takes_next: bool,
}

/// The translation of this word as another tool's flag, with its value.
fn translated<'a>(
    tool: Option<&str>,
    word: &'a str,
    next: Option<&'a str>,
) -> Option<(&'static Foreign, Used<'a>)> {
    let mut rows = FLAGS.iter().filter(|(of, ..)| of.is_empty() || Some(*of) == tool);
    rows.find_map(|flag| {
        let (_, names, kind, _) = flag;
        let given = names.split(' ').find_map(|name| value_after(word, name))?;
        let used = match (kind, given) {
            (Value::Bare, "" | "true" | "false") => Used { value: given, takes_next: false },
            (Value::Bare, _) => return None,
            (Value::Any | Value::If(_), "") => Used { value: next?, takes_next: true },
            (Value::Any | Value::If(_), value) => Used { value, takes_next: false },
        };
        match kind {
            Value::If(fits) if !fits(used.value) => None,
            _ => Some((flag, used)),
        }
    })
}

/// The rest of the word after a flag's name: nothing, a value after `=`, or a value after the
/// letter of a short flag. `None` if the word is another flag.
fn value_after<'a>(word: &'a str, name: &str) -> Option<&'a str> {
    let after = word.strip_prefix(name)?;
    match after.strip_prefix('=') {
        Some(value) => Some(value),
        None if after.is_empty() || name.len() == 2 && !is_long_name(word) => Some(after),
        None => None,
    }
}

/// True for a long name with one dash, as in Go's tools.
fn is_long_name(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    FLAGS.iter().any(|(_, names, ..)| names.split(' ').any(|one| one == name)) && 2 < name.len()
}

/// A word that begins with a dash, read as flags of ours.
struct Given<'a> {
    /// The last flag in it, the only one that can have a value.
    flag: Option<&'a Arg>,
    /// The word up to the end of that flag's name.
    name: &'a str,
    /// The rest of the word.
    value: Option<&'a str>,
}

impl Given<'_> {
    /// True if the next word is the flag's value.
    fn takes_next(&self) -> bool {
        self.flag.is_some_and(|flag| flag.get_action().takes_values()) && self.value.is_none()
    }
}

/// The flag of ours in this word, or the last of several short ones: `-kHA:b` is `-k -H A:b`.
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
    // A name of several letters, as in Go's tools, or one that would ask for help.
    let is_name = |(name, _): (&str, &str)| 2 < name.len() && is_bare(name);
    let is_free = |letter: char| {
        let arg = own.get_arguments().find(|arg| arg.get_short() == Some(letter));
        arg.and_then(Arg::get_long).is_some_and(is_free_text)
    };
    let first = word.chars().nth(1).unwrap_or_default();
    if first == 'h' || word.split_once('=').is_some_and(is_name) && !is_free(first) {
        let end = 1 + first.len_utf8();
        return Given { name: &word[..end], value: Some(""), ..given };
    }
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

/// The line to type, and the reasons for each difference from the given one.
struct Line {
    /// The tool whose name the line begins with.
    tool: Option<&'static str>,
    /// The signs that the line is another tool's.
    reasons: Vec<String>,
    /// The flags of neither a known tool nor truetail.
    unknown: Vec<String>,
    words: Vec<String>,
    has_url: bool,
    /// True if the URL is known to have no TLS.
    is_plain: bool,
    /// The number of connections in the line.
    conns: Option<u64>,
    /// True if each connection serves one request.
    closes: bool,
    is_http2: bool,
    /// True if the line sets the requests in flight on a connection.
    has_depth: bool,
    /// What its argument is.
    argument: Argument,
}

/// The meaning of a line's argument.
#[derive(Clone, Copy)]
enum Argument {
    /// The URL.
    Url,
    /// A file of URLs.
    File,
    /// A pattern of URLs.
    Pattern,
}

impl Line {
    /// An empty line to type, with the facts that follow from these words.
    fn of(words: &[String]) -> Line {
        let has = |scheme: &str| words.iter().any(|word| word.starts_with(scheme));
        let conns =
            words.iter().enumerate().find_map(|(at, word)| match word.strip_prefix("-c")? {
                "" => words.get(at + 1)?.parse().ok(),
                number => number.parse().ok(),
            });
        Line {
            tool: None,
            reasons: Vec::new(),
            unknown: Vec::new(),
            words: Vec::new(),
            has_url: false,
            is_plain: has("http://") && !has("https://"),
            conns,
            closes: false,
            is_http2: false,
            has_depth: false,
            argument: match (has(URLS_FROM_FILE), has(RAND_REGEX_URL)) {
                (true, _) => Argument::File,
                (false, true) => Argument::Pattern,
                (false, false) => Argument::Url,
            },
        }
    }

    /// The line's command, and the words after the tool's name.
    fn begin<'a>(&mut self, words: &'a [String]) -> Option<(&'static str, &'a [String])> {
        let (first, rest) = words.split_first()?;
        let urls = rest.iter().filter(|word| word.contains("://")).count();
        // Ours has two URLs, and flags of its own under the same letters.
        let is_apaches = first == "ab" && urls == 1 && 1 < rest.len();
        let is_named = |(tool, _): &(&str, &str)| tool == first && (first != "ab" || is_apaches);
        let Some((tool, second)) = TOOLS.into_iter().find(is_named) else {
            if first == "attack" {
                self.because("`attack` is `run` here".to_owned());
                return Some(("run", rest));
            }
            return LOADING.into_iter().find(|name| name == first).map(|name| (name, rest));
        };
        self.tool = Some(tool);
        if is_apaches {
            self.because("`ab` compares two URLs here, and `run` loads one".to_owned());
            let keeps = |word: &String| word.starts_with("-k") || word == "-lk";
            if !rest.iter().any(keeps) {
                self.because("ab closes each connection unless -k is given".to_owned());
                self.closes = true;
            }
            return Some(("run", rest));
        }
        if second.is_empty() {
            self.because(format!("`{tool}` is `run` here"));
            return Some(("run", rest));
        }
        self.because(format!("`{tool} {second}` is `run` here"));
        Some(("run", rest.strip_prefix([second.to_owned()].as_slice())?))
    }

    /// The words, with `-k` split off the flags behind it: without TLS it has no meaning.
    fn without_tls(&self, words: &[String]) -> Vec<String> {
        let is_some = |word: &String| {
            let more = word.strip_prefix("-k");
            self.is_plain && more.is_some_and(|more| !more.is_empty()) && !is_long_name(word)
        };
        let split = |word: &String| match is_some(word) {
            true => vec!["-k".to_owned(), format!("-{}", &word[2..])],
            false => vec![word.clone()],
        };
        words.iter().flat_map(split).collect()
    }

    /// Notes a sign that the line is another tool's.
    fn because(&mut self, reason: String) {
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    fn add_foreign(&mut self, word: &str, (_, names, kind, here): &Foreign, value: &str) {
        let shown = names.split(' ').find(|name| value_after(word, name).is_some());
        self.add(shown.unwrap_or_default(), kind, here, value);
    }

    /// A flag of another tool by the name that it has in the line, and its meaning here.
    fn add(&mut self, shown: &str, kind: &Value, here: &Here, value: &str) {
        match here {
            Here::As(_) if matches!(kind, Value::Bare) && value == "false" => {
                self.because(format!("{shown}=false: that is the default here"));
            }
            Here::As("--insecure") if self.is_plain => {
                self.because(format!("{shown}: an http URL has no certificate to accept"));
            }
            Here::As(meant) => {
                let (flag, template) = meant.split_once(' ').unwrap_or((meant, ""));
                self.has_url |= flag == "--target";
                self.because(format!("{shown} is {flag} here"));
                self.words.push(flag.to_owned());
                if !template.is_empty() {
                    let value = if template == "{}" { redacted(flag, value) } else { value.into() };
                    self.words.push(quoted(&template.replace("{}", &value)));
                }
            }
            Here::OfWhole(flag, difference) => {
                let each = self.conns.zip(value.parse().ok());
                let all = each.and_then(|(conns, each): (u64, u64)| conns.checked_mul(each));
                let message = all.zip(self.conns).map_or_else(String::new, |(all, conns)| {
                    format!(", {all} for its {conns} together")
                });
                self.because(format!(
                    "{shown} is {flag} here, for the whole run; {difference}{message}"
                ));
                let is_sure = matches!(self.tool, Some("hey" | "h2load"));
                let all = all.filter(|_| is_sure).map(|all| all.to_string());
                self.words.extend([(*flag).to_owned(), all.unwrap_or_else(|| quoted(value))]);
            }
            Here::InTurn => {
                self.because(format!("{shown} is --targets here, with --order round-robin"));
                self.add_targets(value);
                self.words.extend(["--order", "round-robin"].map(str::to_owned));
            }
            Here::Depth(other) => {
                self.has_depth = true;
                let here = if self.is_http2 { &Here::As("--streams {}") } else { *other };
                self.add(shown, kind, here, value);
            }
            Here::Omit(why) => self.because(format!("{shown}: {why}")),
        }
    }

    /// A file of requests, which have hosts of their own.
    fn add_targets(&mut self, file: &str) {
        self.has_url = true;
        self.words.extend(["--targets".to_owned(), quoted(&redacted("--targets", file))]);
    }

    fn add_own(&mut self, given: &Given, next: Option<&str>) {
        let long = given.flag.and_then(Arg::get_long).map(|long| format!("--{long}"));
        let long = long.as_deref().unwrap_or_default();
        self.has_url |= ["--target", "--plan"].contains(&long);
        let part = |value| match given.flag {
            Some(flag) if flag.get_action().takes_values() => redacted(long, value),
            _ => HIDDEN.into(),
        };
        let equals = if given.name.starts_with("--") { "=" } else { "" };
        let value = given.value.map(|value| format!("{equals}{}", part(value)));
        self.words.push(quoted(&format!("{}{}", given.name, value.unwrap_or_default())));
        self.words.extend(next.map(|next| quoted(&part(next))));
    }

    /// A word that isn't a flag: the URL, a script, or a part of a value that needs quotes.
    fn add_argument(&mut self, word: &str) {
        if word == "-" || [".js", ".ts", ".lua"].iter().any(|end| word.ends_with(end)) {
            self.because(SCRIPT.to_owned());
            return;
        }
        match self.argument {
            Argument::Url => {
                self.has_url = true;
                self.words.push(quoted(&redacted("--target", word)));
            }
            Argument::File => self.add_targets(word),
            // The line ends with a place for the URL.
            Argument::Pattern => {}
        }
    }

    /// What a line over HTTP/2 leaves to its tool's defaults.
    fn add_defaults_of_http2(&mut self) {
        let flag = match self.tool {
            Some("h2load") => {
                self.because("h2load speaks HTTP/2 without --h1".to_owned());
                self.words.extend(["--http", "2"].map(str::to_owned));
                "-m"
            }
            Some("oha") => "-p",
            _ => return,
        };
        if !self.has_depth {
            self.because(format!("without {flag}, a connection has one stream at once"));
            self.words.extend(["--streams", "1"].map(str::to_owned));
        }
    }

    /// The answer, if there is a reason for one.
    fn answer(mut self) -> Option<String> {
        if self.reasons.is_empty() {
            return None;
        }
        if self.closes {
            self.words.extend(["--keepalive".to_owned(), "off".to_owned()]);
        }
        if self.is_http2 {
            self.add_defaults_of_http2();
        }
        if !self.has_url {
            self.words.push("URL".to_owned());
        }
        let line = self.words.join(" ");
        let hidden =
            if line.contains(HIDDEN) { ", where … stands for what you typed" } else { "" };
        self.reasons.append(&mut self.unknown);
        Some(format!("{}; type `{line}`{hidden}", self.reasons.join("; ")))
    }
}

/// Replaces a value that isn't shown.
const HIDDEN: &str = "…";

/// True if the values of a flag may be any text.
fn is_free_text(name: &str) -> bool {
    flag_of(name).is_some_and(Flag::is_free_text)
}

/// A flag's value, with possible secrets removed.
fn redacted<'a>(flag: &str, value: &'a str) -> Cow<'a, str> {
    let may_be_url = value.contains("://") || value.contains(['@', '?', '#']);
    match flag {
        flag if flag.strip_prefix("--").is_some_and(is_free_text) => HIDDEN.into(),
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
    // A password may contain a slash: the text before the @ is then no path.
    if !is_known || !is_name || !(port.is_empty() || is_number(port)) || path.contains('@') {
        return None;
    }
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let more = if end < path.len() { HIDDEN } else { "" };
    Some(format!("{scheme}://{host}{}{more}", &path[..end]))
}

/// A word, quoted for a shell if need be.
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

    /// The words of a line, with quotes as in a shell.
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
        let (plan, _) = planning::plan(&["run"], &args).expect(line);
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
                "truetail attack -duration=30s -rate=1000 -max-workers=64 -targets=tests/targets.txt",
                Some(
                    "truetail run --duration 30s --rate 1000 --conns 64 --targets tests/targets.txt \
                     --order round-robin",
                ),
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
            let message = answer(typed);
            let line = match expected {
                None => {
                    assert_eq!(message, None, "{typed}");
                    typed
                }
                Some(line) => {
                    let message = message.unwrap_or_else(|| panic!("{typed}: not answered"));
                    assert!(message.ends_with(&format!("; type `{line}`")), "{typed}: {message}");
                    assert!(!message.contains('\n'), "{message}");
                    line
                }
            };
            // The line to type runs.
            plan(&line.replace(" URL", " http://h/"));
        }
    }

    #[test]
    fn more_lines_of_eight_tools_are_answered_with_lines_that_run() {
        for (typed, expected) in [
            (
                "truetail wrk -t8 -c64 -d5s --timeout 2s -s x.lua http://h/",
                "-c64 -d5s --timeout 2s http://h/",
            ),
            ("truetail wrk2 -c9 -d5s -R90 --u_latency http://h/", "-c9 -d5s -R90 http://h/"),
            ("truetail wrk2 -c9 -d5s -R90 -B http://h/", "-c9 -d5s -R90 http://h/"),
            ("truetail -c9 -d5s -R90 -U http://h/", "-c9 -d5s -R90 http://h/"),
            (
                "truetail hey -n 20 -c 5 -q 10 -A text/html -U agent http://h/",
                "-n 20 -c 5 --rate 50 --header 'Accept: text/html' --header 'User-Agent: agent' \
                 http://h/",
            ),
            (
                "truetail -z 5s -h2 -x http://p:1 -host a http://h/",
                "--duration 5s --http 2 --header 'Host: a' http://h/",
            ),
            (
                "truetail oha --no-tui -z 2s -q 5 -c 9 -p 1 -w -u ms -r 3 http://h/",
                "--quiet --duration 2s --rate 5 -c 9 http://h/",
            ),
            (
                "truetail -z 2s --burst-delay 2s --burst-rate 4 --nonsense --more 5 http://h/",
                "--duration 2s http://h/",
            ),
            (
                "truetail vegeta attack -rate=50 -duration=2s -keepalive=false -http2=false \
                 -redirects=-1",
                "--rate 50 --duration 2s --keepalive off URL",
            ),
            (
                "truetail attack -keepalive -h2c -insecure=false -duration=2s http://h/",
                "--http 2 --duration 2s http://h/",
            ),
            ("truetail attack -lazy -format json -rate 1", "--rate 1 URL"),
            (
                "truetail vegeta attack -format=json -targets tests/targets.json -rate 9",
                "--targets tests/targets.json --order round-robin --rate 9",
            ),
            (
                "truetail attack -rate=0 -max-workers=10 -duration=5s",
                "--conns 10 --duration 5s URL",
            ),
            (
                "truetail oha -z 2s --urls-from-file tests/targets.txt -q 5",
                "--duration 2s --targets tests/targets.txt --rate 5",
            ),
            (
                "truetail oha -z 2s -m POST -Z lines.txt http://h/",
                "--duration 2s -m POST http://h/",
            ),
            ("truetail oha --rand-regex-url --max-repeat 2 -n 9 http://h/[a-z][0-9]*", "-n 9 URL"),
            (
                "truetail h2load --h1 -c 10 -D 5 -i tests/targets.txt",
                "-c 10 --duration 5 --targets tests/targets.txt --order round-robin",
            ),
            (
                "truetail h2load -n 9 --input-file=tests/targets.txt --base-uri=http://h/ --rps 9 \
                 -c 3",
                "-n 9 --targets tests/targets.txt --order round-robin --target http://h/ --rate \
                 27 -c 3 --http 2 --streams 1",
            ),
            ("truetail h2load -n9 -c2 -m10 http://h/", "-n9 -c2 --streams 10 http://h/ --http 2"),
            (
                "truetail oha --http2 -n 9 -c 2 -p 10 http://h/",
                "--http 2 -n 9 -c 2 --streams 10 http://h/",
            ),
            ("truetail oha --http2 -n 9 http://h/", "--http 2 -n 9 http://h/ --streams 1"),
            ("truetail -n 9 -m 10 --h2 http://h/", "-n 9 --streams 10 --http 2 http://h/"),
            ("truetail -n 9 --http-version=2 http://h/", "-n 9 --http 2 http://h/"),
            (
                "truetail h2load --h1 --timing-script-file times.tsv -c 2 http://h/",
                "-c 2 http://h/",
            ),
            (
                "truetail attack -rate 5/1s -duration=0 -resolvers 1.1.1.1 -max-body 1KB",
                "--rate 5/1s URL",
            ),
            (
                "truetail k6 run --vus 5 --duration 2s --out json=o.json --summary-export s.json \
                 -e A=b script.js",
                "--conns 5 --duration 2s --out s.json URL",
            ),
            (
                "truetail k6 run -s 10s:5,5m:20 -e BASE=http://x/ -o influxdb=http://i:8086/k6 -",
                "URL",
            ),
            ("truetail run --config c.json --insecure-skip-tls-verify s.js http://h/", "http://h/"),
            (
                "truetail h2load --h1 -c 10 -D 5 -T 10 -N 20 -r 10 http://h/",
                "-c 10 --duration 5 http://h/",
            ),
            (
                "truetail h2load -n 9 -p http/1.1 -d body.txt http://h/",
                "-n 9 --body @body.txt http://h/",
            ),
            ("truetail -n 10 --npn-list=http/1.1 -w 16 http://h/", "-n 10 http://h/"),
            (
                "truetail ab -k -n 100 -c 10 -s 30 -l -r http://h/",
                "-n 100 -c 10 --timeout 30 http://h/",
            ),
            ("truetail ab -kc 10 -t 5 -b 9 -d http://h/", "-c 10 --duration 5 http://h/"),
            (
                "truetail ab -n 9 -p body.json -T application/json http://h/",
                "-n 9 --body @body.json --header 'Content-Type: application/json' http://h/ \
                 --keepalive off",
            ),
            (
                "truetail -n 9 -i -B 127.0.0.2 -e out.csv http://h/",
                "-n 9 --method HEAD --source-addresses 127.0.0.2 http://h/",
            ),
        ] {
            let message = answer(typed).unwrap_or_else(|| panic!("{typed}: not answered"));
            assert!(
                message.ends_with(&format!("; type `truetail run {expected}`")),
                "{typed}: {message}"
            );
            if !expected.contains('@') {
                plan(&format!("truetail run {expected}").replace(" URL", " http://h/"));
            }
        }
        let user = answer("truetail ab -kn 9 -A u:p http://h/").expect("answered");
        let line = "type `truetail run -n 9 --user … http://h/`, where … stands for what you typed";
        assert!(user.ends_with(line), "{user}");
        let unknown = answer("truetail -z 2s --nonsense http://h/").expect("answered");
        assert!(unknown.contains("; --nonsense: unknown, and left out; type"), "{unknown}");
        // A mistake in a line of ours doesn't make it another tool's.
        for typed in [
            "truetail run --rat 5 http://h/",
            "truetail ab http://a/ http://b/",
            "truetail ab http://a/ http://b/ -t 5s -d 3 -q -u u:p -b text -X PUT",
        ] {
            assert_eq!(answer(typed), None, "{typed}");
        }
        assert!(answer("truetail -k https://h/").is_none());
    }

    /// The lines of other tools in the page for their users, each with ours beside it.
    fn documented() -> Vec<(String, String)> {
        let page = include_str!("../../../docs/coming-from.md");
        let rows = page.lines().filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
            let [tool, theirs, ours, ..] = cells[..] else { return None };
            let [theirs, ours] = [theirs, ours].map(|cell| cell.split('`').nth(1));
            let theirs = theirs?.split(" \\|").find(|part| part.contains(" -"))?.trim();
            // What a script does is in no flag.
            let is_told = theirs.starts_with(tool) && !theirs.contains(".lua");
            let ours = ours.filter(|_| is_told)?;
            Some([theirs, ours].map(|line| line.replace("FILE", "tests/targets.txt")))
        });
        rows.map(|[theirs, ours]| (theirs, ours)).collect()
    }

    #[test]
    fn a_documented_line_of_another_tool_is_answered_with_what_the_document_says() {
        let documented = documented();
        assert_eq!(documented.len(), 14, "{documented:?}");
        for (theirs, ours) in documented {
            let typed = format!("truetail {theirs}").replace("URL", "http://h/");
            let message = answer(&typed).unwrap_or_else(|| panic!("{typed}: not answered"));
            let line = message.split("; type `").nth(1).and_then(|rest| rest.split('`').next());
            let [line, ours] =
                [line.expect("a line"), &ours].map(|line| plan(&line.replace("URL", "http://h/")));
            assert_eq!(line, ours, "{theirs}");
        }
    }

    #[test]
    fn a_habitual_line_means_the_same_here() {
        let closed = plan("truetail -c 50 -d 10 http://h/");
        assert_eq!((closed.model(), closed.conns()), (Model::Closed, 50));
        assert_eq!((closed.duration.to_string(), closed.requests), ("10s".to_owned(), None));
        let counted = plan("truetail -n 200 -c 50 http://h/");
        assert_eq!((counted.requests, counted.warmup.0), (Some(200), 0));
        let posted = plan("truetail -n 1 -X post -b '{\"a\": 1}' -H 'Content-Type: a/b' http://h/");
        assert_eq!((posted.method.as_str(), posted.headers.len()), ("POST", 1));
        assert_eq!(plan("truetail 'http://h/{{rand 1 5}}' -n 1").target, "http://h/{{rand 1 5}}");
        let user = plan("truetail -n 1 -u aladdin:opensesame http://h/").headers;
        assert_eq!(user, ["Authorization: Basic YWxhZGRpbjpvcGVuc2VzYW1l"]);
    }

    #[test]
    fn the_answer_names_the_flag_for_each_foreign_one() {
        for (typed, message) in [
            ("truetail -z 1s http://h/", "-z is --duration here; type"),
            (
                "truetail -c 50 -q 10 http://h/",
                "-q is --rate here, for the whole run; hey's is per worker, 500 for its 50 \
                 together; type",
            ),
            (
                "truetail -n 1 -o csv http://h/",
                "-o is --csv here; type `truetail run -n 1 --csv - ",
            ),
            (
                "truetail --output-format json http://h/",
                "--output-format is --out here; type `truetail run --out - http://h/`",
            ),
            (
                "truetail -s 10s:5 http://h/",
                "-s: users who come and go are --model closed --stages 0..20:30s",
            ),
            (
                "truetail attack -insecure -session-tickets -rate 5",
                "`attack` is `run` here; -insecure is --insecure here; -session-tickets is --tls-",
            ),
            ("truetail --latency http://h/", "--latency: percentiles are always printed; type"),
            ("truetail --threads 4 http://h/", "--threads: threads are cores here, by default all"),
            ("truetail --threads=4 http://h/", "--threads: threads are cores here, by default all"),
            (
                "truetail --vus=10 http://h/",
                "--vus is --conns here; type `truetail run --conns 10 ",
            ),
            ("truetail -s a.lua http://h/", "-s: there are no scripts: --targets FILE lists req"),
            (
                "truetail attack -targets=tests/targets.txt -rate 5",
                "`attack` is `run` here; -targets is --targets here, with --order round-robin; ",
            ),
            (
                "truetail --urls-from-file tests/targets.txt -n 9",
                "--urls-from-file: the file is --targets here, whose requests are drawn too; type",
            ),
            (
                "truetail -x http://p:1 http://h/",
                "-x: there are no proxies: load the server, or the",
            ),
            (
                "truetail -d @f http://h/",
                "-d is --body here; type `truetail run --body … http://h/`, where … stands for \
                 what you typed",
            ),
            (
                "truetail sweep -z 1s http://h/",
                "-z is --duration here; type `truetail sweep --dura",
            ),
        ] {
            let answer = answer(typed).unwrap_or_else(|| panic!("{typed}: not answered"));
            assert!(answer.starts_with(message), "{typed}: {answer}");
        }
        // These are ours, whatever the letter means to other tools.
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
    fn no_answer_shows_a_possible_secret() {
        for typed in [
            "truetail -z 1s -H 'X-Key: pa55' http://h/",
            "truetail -z 1s --header=X-Key:pa55 http://h/",
            "truetail -z 1s -HX-Key:pa55 http://h/",
            "truetail -z 1s -header 'X-Key: pa55' http://h/",
            "truetail -z 1s -b pa55 http://h/",
            "truetail -z 1s -d {pa55} http://h/",
            "truetail -z 1s -a u:pa55 http://h/",
            "truetail -z 1s -A u:pa55 http://h/",
            "truetail -z 1s -C session=pa55 http://h/",
            "truetail -z 1s -e TOKEN=pa55 http://h/",
            "truetail -z 1s -hpa55 http://h/",
            "truetail -z 1s -token=pa55 http://h/",
            "truetail -z 1s -password=pa55 http://h/",
            "truetail -z 1s -U u:pa55 http://h/",
            "truetail -z 1s '--header Authorization: pa55' http://h/",
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
    fn an_answer_shows_anything_else() {
        for (typed, shown) in [
            ("http://u:pa55@h:80/a?b#c", "http://h:80/a…"),
            ("http://[::1]:80/a", "http://[::1]:80/a"),
            ("http://h", "http://h"),
            ("http://h:port/", "…"),
            ("http://h/@a", "…"),
            ("-kqc5 -o a.json https://h/", "-kqc5 -o a.json https://h/"),
            ("-kq --target https://h/?a", "-kq --target https://h/…"),
        ] {
            let answer = answer(&format!("truetail -z 1s {typed}")).expect("another tool's");
            let line = format!("; type `truetail run --duration 1s {shown}`");
            let hidden = match shown.contains('…') {
                true => ", where … stands for what you typed",
                false => "",
            };
            assert!(answer.ends_with(&format!("{line}{hidden}")), "{typed}: {answer}");
        }
    }
}
