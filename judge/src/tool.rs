//! A tool as its TOML file describes it: its commands, what it claims, and how its output is read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use thiserror::Error;

use crate::process::Ran;

/// The tools that are shipped: name and file.
pub const SHIPPED: [(&str, &str); 16] = [
    ("ab", include_str!("../tools/ab.toml")),
    ("autocannon", include_str!("../tools/autocannon.toml")),
    ("drill", include_str!("../tools/drill.toml")),
    ("fortio", include_str!("../tools/fortio.toml")),
    ("gcannon", include_str!("../tools/gcannon.toml")),
    ("h2load", include_str!("../tools/h2load.toml")),
    ("hey", include_str!("../tools/hey.toml")),
    ("k6", include_str!("../tools/k6.toml")),
    ("locust", include_str!("../tools/locust.toml")),
    ("oha", include_str!("../tools/oha.toml")),
    ("siege", include_str!("../tools/siege.toml")),
    ("truetail", include_str!("../tools/truetail.toml")),
    ("vegeta", include_str!("../tools/vegeta.toml")),
    ("wrk", include_str!("../tools/wrk.toml")),
    ("wrk2", include_str!("../tools/wrk2.toml")),
    ("zrk", include_str!("../tools/zrk.toml")),
];

/// The figures that are counts, or counts per second.
pub(crate) const COUNTS: [&str; 6] = ["sent", "answered", "bad", "errors", "open", "per_s"];
/// The figure that is the mean latency.
pub(crate) const MEAN: &str = "mean";
/// The routes of a mix, whose percentiles may be read apart.
pub(crate) const ROUTES: [&str; 2] = ["fast", "slow"];
/// The figure that stands for all percentiles.
pub(crate) const PERCENTILES: &str = "percentiles";

/// A load generator that can be judged.
#[derive(Clone, Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The command whose first line of output is the version.
    pub version: Option<Vec<String>>,
    commands: BTreeMap<Mode, String>,
    stdin: Option<String>,
    /// How it says that arrivals are spaced under a rate, if it says so.
    pub arrivals: Option<Arrivals>,
    /// True if it takes no rate with a fraction.
    pub has_whole_rates: bool,
    /// True if it says that latencies under a rate count from when a request was due.
    pub is_corrected: bool,
    /// The exit codes with which it prints figures.
    pub exits: Vec<i32>,
    /// What it prints if its own figures are in doubt.
    warns: Option<Regex>,
    /// Flags with which a case is judged as well, because they change what it finds.
    also: BTreeMap<String, String>,
    /// The threads that its commands ask for.
    pub threads: u32,
    /// The unit of times without one, ms.
    pub(crate) unit_ms: f64,
    /// To how many digits it rounds times, if not to the last one that it prints.
    pub(crate) significant: Option<i32>,
    /// How each figure is found; several places add up.
    pub(crate) read: BTreeMap<String, Vec<Place>>,
}

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// At random.
    Poisson,
    /// At equal gaps.
    Constant,
}

/// Which of its commands a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// As many requests as there are responses.
    Closed,
    /// At a rate.
    Open,
    /// At a rate over HTTP/2.
    Http2,
    /// From one rate to another, evenly.
    Ramp,
    /// At a rate, three requests of `/fast` for one of `/slow`.
    Mix,
    /// The requests of an access log, at their times.
    Replay,
}

impl Mode {
    /// The placeholders one of which its command needs, since the cases differ in it.
    fn own_placeholders(self) -> &'static [&'static str] {
        match self {
            Mode::Closed => &[],
            Mode::Open | Mode::Http2 | Mode::Mix => &["{rate}", "{rate_each}", "{rate_minute}"],
            Mode::Ramp => &["{rate_to}"],
            Mode::Replay => &["{log}"],
        }
    }
}

/// The load that a tool is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Requests per second, in an open loop.
    pub rate: f64,
    /// The rate at the end of a ramp.
    pub rate_to: f64,
    /// Connections.
    pub connections: u32,
    /// Its length, s.
    pub seconds: u32,
}

impl Load {
    /// One rate throughout, from so many connections for so many seconds.
    pub const fn at(rate: f64, connections: u32, seconds: u32) -> Load {
        Load { rate, rate_to: rate, connections, seconds }
    }
}

/// Where a figure stands in the output.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A JSON pointer.
    Pointer(String),
    /// A regular expression.
    Text(Regex),
}

/// Why a tool can't be judged; each names the file, the key, the value and the cure.
#[derive(Debug, Error)]
#[error("{file}: {problem}")]
pub struct ToolError {
    pub(crate) file: String,
    pub(crate) problem: String,
}

/// The file, key by key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Option<String>,
    closed: Option<String>,
    open: Option<String>,
    http2: Option<String>,
    ramp: Option<String>,
    mix: Option<String>,
    replay: Option<String>,
    stdin: Option<String>,
    arrivals: Option<Arrivals>,
    #[serde(default)]
    whole_rates: bool,
    #[serde(default)]
    corrected: bool,
    unit: Option<String>,
    exits: Option<Vec<i32>>,
    warns: Option<String>,
    significant: Option<i32>,
    #[serde(default)]
    also: BTreeMap<String, String>,
    read: BTreeMap<String, OneOrMore>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl Tool {
    /// The tool of this name that is shipped, or else the one in this file.
    ///
    /// # Errors
    /// If there is neither, or the file can't be used.
    pub fn find(name_or_file: &str) -> Result<Tool, ToolError> {
        if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == name_or_file) {
            return Tool::parse(name, text);
        }
        let path = Path::new(name_or_file);
        if path.extension().is_none_or(|end| end != "toml") {
            let names = SHIPPED.map(|(name, _)| name).join(", ");
            let problem = format!("not a known tool; give one of {names}, or a file NAME.toml");
            return Err(ToolError { file: name_or_file.to_owned(), problem });
        }
        let text = fs::read_to_string(path).map_err(|error| ToolError {
            file: name_or_file.to_owned(),
            problem: format!("can't be read ({error}); name a file that describes a tool"),
        })?;
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("tool");
        Tool::parse(name, &text)
    }

    /// The tool that this text describes.
    ///
    /// # Errors
    /// If a key or its value can't be used.
    pub fn parse(name: &str, text: &str) -> Result<Tool, ToolError> {
        let refused = |problem: String| ToolError { file: format!("{name}.toml"), problem };
        let file: File = toml::from_str(text).map_err(|error| {
            refused(format!("{}; see docs/judge.md for its keys", error.to_string().trim_end()))
        })?;
        if file.closed.is_none() && file.open.is_none() {
            return Err(refused("neither `closed` nor `open`; give a command line".to_owned()));
        }
        let commands = [
            (Mode::Closed, "closed", file.closed),
            (Mode::Open, "open", file.open),
            (Mode::Http2, "http2", file.http2),
            (Mode::Ramp, "ramp", file.ramp),
            (Mode::Mix, "mix", file.mix),
            (Mode::Replay, "replay", file.replay),
        ];
        let mut known = BTreeMap::new();
        for (mode, key, command) in commands {
            let Some(command) = command else { continue };
            let texts = [command.as_str(), file.stdin.as_deref().unwrap_or_default()];
            if !texts.iter().any(|text| text.contains("{url}")) {
                let cure = "write {url} where the URL belongs";
                return Err(refused(format!(
                    "{key} = \"{command}\": doesn't contain {{url}}; {cure}"
                )));
            }
            let own = mode.own_placeholders();
            let has = |placeholder: &&str| texts.iter().any(|text| text.contains(*placeholder));
            if !own.is_empty() && !own.iter().any(has) {
                let cure = "write it where it belongs";
                return Err(refused(format!("{key} = \"{command}\": has no {}; {cure}", own[0])));
            }
            for text in texts {
                if let Some(word) = unknown_placeholder(text) {
                    let known = PLACEHOLDERS.join("}, {");
                    return Err(refused(format!(
                        "{key} = \"{command}\": {{{word}}} is no placeholder; give one of \
                         {{{known}}}, or write {{ {word} }}"
                    )));
                }
            }
            // With the flags of each case, and with none.
            let all_flags = file.also.values().map(String::as_str).chain([""]);
            for filled in all_flags.map(|flags| command.replace("{flags}", flags)) {
                if shlex::split(&filled).is_none_or(|words| words.is_empty()) {
                    let cure = "close its quotes";
                    let problem = format!("{key} = \"{filled}\": not a command line; {cure}");
                    return Err(refused(problem));
                }
            }
            known.insert(mode, command);
        }
        let version = file.version.as_deref().map(|text| {
            let words = shlex::split(text).filter(|words| !words.is_empty());
            words.ok_or_else(|| {
                refused(format!("version = \"{text}\": not a command line; close its quotes"))
            })
        });
        let version = version.transpose()?;
        // It catches an address that was forgotten. A command may still reach any host.
        let addressed = known.values().chain(&file.stdin).chain(&file.version);
        if let Some(text) = addressed.chain(file.also.values()).find(|text| text.contains("://")) {
            return Err(refused(format!("\"{text}\" names a URL; write {{url}} instead of it")));
        }
        if let Some(digits) = file.significant.filter(|digits| *digits < 1) {
            return Err(refused(format!("significant = {digits}: no digit; give 1 or more")));
        }
        for (case, flags) in &file.also {
            if !known.values().any(|command| command.contains("{flags}")) {
                let cure = "write {flags} where they belong";
                let problem = format!("also.{case} = \"{flags}\": no command has them; {cure}");
                return Err(refused(problem));
            }
            if shlex::split(flags).is_none() {
                let problem = "can't be split into flags; close the quotes";
                return Err(refused(format!("also.{case} = \"{flags}\": {problem}")));
            }
        }
        let warns = file.warns.as_deref().map(|text| expression("warns", text)).transpose();
        let warns = warns.map_err(refused)?;
        let unit_ms = match &file.unit {
            None => 1.0,
            Some(unit) => unit_ms(unit).ok_or_else(|| {
                refused(format!("unit = \"{unit}\": unknown; give ns, us, ms or s"))
            })?,
        };
        let mut read = BTreeMap::new();
        for (figure, places) in file.read {
            let is_known = COUNTS.contains(&figure.as_str())
                || [MEAN, PERCENTILES].contains(&figure.as_str())
                || percent_of(&figure).is_some();
            if !is_known {
                let known = COUNTS.join(", ");
                let problem = format!(
                    "read.{figure}: no such figure; give {known}, {MEAN}, {PERCENTILES}, or one \
                     percentile such as \"p99.9\""
                );
                return Err(refused(problem));
            }
            let places = match places {
                OneOrMore::One(place) => vec![place],
                OneOrMore::More(places) => places,
            };
            let places = places.iter().map(|place| Place::of(place, &figure));
            let places: Result<Vec<Place>, String> = places.collect();
            read.insert(figure, places.map_err(refused)?);
        }
        Ok(Tool {
            name: name.to_owned(),
            version,
            commands: known,
            stdin: file.stdin,
            arrivals: file.arrivals,
            has_whole_rates: file.whole_rates,
            is_corrected: file.corrected,
            exits: file.exits.unwrap_or_else(|| vec![0]),
            warns,
            significant: file.significant,
            also: file.also,
            threads: THREADS,
            unit_ms,
            read,
        })
    }

    /// True if it has a command for this.
    pub fn has(&self, mode: Mode) -> bool {
        self.commands.contains_key(&mode)
    }

    /// True if it takes the number of connections.
    pub(crate) fn takes_connections(&self, mode: Mode) -> bool {
        let texts = [self.commands.get(&mode), self.stdin.as_ref()];
        texts.into_iter().flatten().any(|text| text.contains("{connections}"))
    }

    /// True if it printed that its figures are in doubt.
    pub(crate) fn has_warned(&self, ran: &Ran) -> bool {
        let is_in = |text: &Regex| text.is_match(&ran.stdout) || text.is_match(&ran.stderr);
        self.warns.as_ref().is_some_and(is_in)
    }

    /// The names of the cases that are judged with flags as well.
    pub(crate) fn also(&self) -> impl Iterator<Item = &str> {
        self.also.keys().map(String::as_str)
    }

    /// The flags with which this case is judged: none, and those that change what it finds.
    pub(crate) fn flags(&self, case: &str) -> Vec<&str> {
        [""].into_iter().chain(self.also.get(case).map(String::as_str)).collect()
    }

    /// True if its file says how to read one of these figures.
    pub(crate) fn prints(&self, figures: &[&str]) -> bool {
        self.read.keys().any(|key| {
            let is_percentile = key == PERCENTILES || percent_of(key).is_some();
            figures.contains(&key.as_str()) || is_percentile && figures.contains(&PERCENTILES)
        })
    }

    /// The words of its command for this load, and its standard input; `None` without the command.
    pub fn command(&self, mode: Mode, asked: &Asked<'_>) -> Option<(Vec<String>, String)> {
        let threads = self.threads.to_string();
        let filled = |text: &str| asked.fill(text).replace("{threads}", &threads);
        // Before the command is split: the flags are words of their own.
        let command = self.commands.get(&mode)?.replace("{flags}", asked.flags);
        let words = shlex::split(&command)?;
        let words = words.iter().map(|word| filled(word)).collect();
        let stdin = filled(self.stdin.as_deref().unwrap_or_default());
        Some((words, stdin))
    }
}

/// What a tool is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The load.
    pub load: Load,
    /// Where it goes.
    pub url: &'a str,
    /// The access log that is replayed.
    pub log: &'a str,
    /// Flags for this case alone.
    pub flags: &'a str,
}

impl<'a> Asked<'a> {
    /// For this load, to this URL.
    pub fn of(load: Load, url: &'a str) -> Asked<'a> {
        Asked { load, url, log: "", flags: "" }
    }

    /// A template with its placeholders replaced. Some tools take a rate by connection, or only
    /// whole numbers and a unit of time.
    fn fill(&self, template: &str) -> String {
        let Load { rate, rate_to, connections, seconds } = self.load;
        template
            .replace("{url}", self.url)
            .replace("{log}", self.log)
            .replace("{rate}", &rate.to_string())
            .replace("{rate_to}", &rate_to.to_string())
            .replace("{rate_each}", &(rate / f64::from(connections)).to_string())
            .replace("{rate_minute}", &(rate * 60.0).round().to_string())
            .replace("{connections}", &connections.to_string())
            .replace("{duration}", &seconds.to_string())
    }
}

/// What is replaced in commands and in standard input.
const PLACEHOLDERS: [&str; 10] = [
    "url",
    "log",
    "rate",
    "rate_to",
    "rate_each",
    "rate_minute",
    "connections",
    "duration",
    "threads",
    "flags",
];

/// The first `{word}` that is none of them. `${word}` is a shell's, `%{word}` curl's, and
/// `{{word}}` a template's.
fn unknown_placeholder(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(at, _)| {
        let (word, _) = text[at + 1..].split_once('}')?;
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let is_named = !word.is_empty() && word.bytes().all(is_word);
        let is_foreign = text[..at].ends_with(['$', '%', '{']);
        (is_named && !is_foreign && !PLACEHOLDERS.contains(&word)).then_some(word)
    })
}

/// Threads that a tool is judged with: more than one, since sharing a rate among them is where
/// fractions are lost.
const THREADS: u32 = 2;

impl Place {
    fn of(place: &str, figure: &str) -> Result<Place, String> {
        if place.starts_with('/') && figure == PERCENTILES {
            let cure = "give p50, p99 and so on";
            return Err(format!(
                "read.{figure} = '{place}': a JSON pointer finds one value; {cure}"
            ));
        }
        if place.starts_with('/') {
            return Ok(Place::Pointer(place.to_owned()));
        }
        let text = expression(&format!("read.{figure}"), place)?;
        let needed = if figure == PERCENTILES { 2 } else { 1 };
        if text.captures_len() <= needed {
            let what = if needed == 2 { "the percentage and its time" } else { "the figure" };
            return Err(format!("read.{figure} = '{place}': no group; put ( ) around {what}"));
        }
        Ok(Place::Text(text))
    }
}

fn expression(key: &str, text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).multi_line(true).build().map_err(|error| {
        let last = error.to_string().lines().last().unwrap_or_default().to_owned();
        format!("{key} = '{text}': {last}; correct the regular expression")
    })
}

/// The percentage of a figure such as `p99.9`, and the route if it is of one, such as `slow.p50`.
pub(crate) fn percent_of(figure: &str) -> Option<(Option<&'static str>, f64)> {
    let of_route = ROUTES.into_iter().find_map(|route| {
        let figure = figure.strip_prefix(route)?.strip_prefix('.')?;
        Some((Some(route), figure))
    });
    let (route, figure) = of_route.unwrap_or((None, figure));
    let percent: f64 = figure.strip_prefix('p')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some((route, percent))
}

/// A unit of time, ms.
pub(crate) fn unit_ms(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-6,
        "us" | "µs" | "μs" => 1e-3,
        "ms" => 1.0,
        "s" | "sec" | "secs" => 1e3,
        "m" | "min" => 60e3,
        _ => return None,
    })
}
