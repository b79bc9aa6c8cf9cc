//! Usage errors, each in one line.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::commands::LOADING;
use super::variables;

/// True if a word has only the characters of command and flag names.
pub(crate) fn is_bare(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// A usage error in these arguments in one line: the flag, the value and the cure.
pub(super) fn one_line(
    error: &clap::Error,
    args: &[OsString],
    definition: &clap::Command,
) -> String {
    let help = help_for(args, definition);
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    // `--rate <PER_SECOND>` names the flag and its value, `<SHELL>` and `[URL]` an argument.
    let name = |shown: &str| {
        let name = shown.split(" <").next().unwrap_or_default();
        name.trim_matches(['<', '>', '[', ']']).to_owned()
    };
    // What a flag conflicts with.
    let prior: Vec<String> = match error.get(ContextKind::PriorArg) {
        Some(ContextValue::String(one)) => vec![name(one)],
        Some(ContextValue::Strings(several)) => several.iter().map(|one| name(one)).collect(),
        _ => Vec::new(),
    };
    let flag = text(ContextKind::InvalidArg).map(|shown| name(&shown));
    let value = text(ContextKind::InvalidValue);
    let flag = match (flag, &value) {
        (Some(flag), Some(value)) => Some(variables::source(&flag, value)),
        (flag, _) => flag,
    };
    match (error.kind(), flag, value) {
        (ErrorKind::ValueValidation, Some(flag), Some(value)) => {
            let problem = std::error::Error::source(error)
                .map_or_else(|| "invalid value".to_owned(), ToString::to_string);
            // The problem names the value, which is next to the flag here.
            match problem.split_once(&format!(" `{value}`")) {
                Some((before, after)) => {
                    let shown = if value.is_empty() { "''" } else { &value };
                    format!("{flag} {shown}: {before}{after}; see `{help}`")
                }
                // A problem that doesn't name the value treats it as a secret.
                None => format!("{flag}: {problem}; see `{help}`"),
            }
        }
        // Only `--trace` may stand without its value, which begins with `=`.
        (ErrorKind::UnknownArgument, Some(word), _)
            if is_number(&word) && follows(args, "--trace", &word) =>
        {
            format!("--trace {word}: its number follows `=`; give --trace={word}; see `{help}`")
        }
        // An extra word may be a part of a header or a URL.
        (ErrorKind::UnknownArgument, Some(word), _) if !word.starts_with('-') => {
            let has_one = |name: &&str| *name != "ab" && help.contains(&format!(" {name} "));
            let url = if LOADING.iter().any(has_one) {
                ", and give a run one URL (--targets FILE lists several)"
            } else {
                ""
            };
            format!("one word too many; put a value with spaces in quotes{url}; see `{help}`")
        }
        (ErrorKind::UnknownArgument, Some(flag), _) => {
            let similar = text(ContextKind::SuggestedArg);
            let similar = similar.map_or(String::new(), |flag| format!(", did you mean {flag}?"));
            format!("{flag}: unknown flag{similar}; see `{help}`")
        }
        // The word may be anything, even a header with a secret.
        (ErrorKind::InvalidSubcommand, ..)
            if text(ContextKind::InvalidSubcommand).is_some_and(|word| !is_bare(&word)) =>
        {
            format!("unknown command; see `{help}`")
        }
        // A flag that is given twice conflicts with itself.
        (ErrorKind::ArgumentConflict, Some(flag), _) if prior == [&*flag] => {
            let names = match spellings(&flag, args, definition) {
                names if names.is_empty() => flag,
                names => names.join(" and "),
            };
            format!("{names}: the same flag more than once; give it once; see `{help}`")
        }
        (ErrorKind::ArgumentConflict, Some(flag), _) if !prior.is_empty() => {
            format!("{flag}: doesn't go with {}; omit one; see `{help}`", prior.join(" and "))
        }
        (ErrorKind::InvalidValue, Some(flag), Some(value)) if value.is_empty() => {
            format!("{flag}: missing value; give one after it; see `{help}`")
        }
        (ErrorKind::InvalidValue, Some(flag), Some(value)) => {
            let valid = text(ContextKind::ValidValue).unwrap_or_default();
            format!("{flag} {value}: unknown value; choose from {valid}")
        }
        _ => {
            // The first paragraph is the problem, and a tip is the cure; the rest is the usage.
            let rendered = error.to_string();
            let lines = rendered.lines().map(str::trim).filter(|line| !line.is_empty());
            let message: Vec<&str> = lines
                .take_while(|line| !line.starts_with("Usage:"))
                .map(|line| line.trim_start_matches("error: ").trim_start_matches("tip: "))
                .filter(|line| !line.starts_with("For more information"))
                .collect();
            format!("{}; see `{help}`", message.join("; ").replace(":; ", ": "))
        }
    }
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// True if this word comes right after another.
fn follows(args: &[OsString], first: &str, word: &str) -> bool {
    args.windows(2).any(|two| two == [first, word])
}

/// The command that shows the help for these arguments, which include the program's name.
pub(super) fn help_for(args: &[OsString], definition: &clap::Command) -> String {
    let name = args.get(1).and_then(|name| name.to_str()).unwrap_or_default();
    match definition.find_subcommand(name) {
        Some(_) => format!("truetail {name} --help"),
        None => "truetail --help".to_owned(),
    }
}

/// The spellings of a flag on the command line, each once.
fn spellings(flag: &str, args: &[OsString], definition: &clap::Command) -> Vec<String> {
    let command = args.get(1).and_then(|name| name.to_str());
    let command = command.and_then(|name| definition.find_subcommand(name));
    let arg = command.and_then(|command| {
        command.get_arguments().find(|arg| arg.get_long() == flag.strip_prefix("--"))
    });
    let Some(arg) = arg else { return Vec::new() };
    let long = arg.get_long_and_visible_aliases().unwrap_or_default();
    let hidden = arg.get_all_aliases().unwrap_or_default();
    let long = long.into_iter().chain(hidden).map(|name| format!("--{name}"));
    let aliases = arg.get_all_short_aliases().unwrap_or_default();
    let short = arg.get_short().into_iter().chain(aliases).map(|letter| format!("-{letter}"));
    let names: Vec<String> = long.chain(short).collect();
    let mut given: Vec<String> = Vec::new();
    for word in args.iter().skip(2).filter_map(|word| word.to_str()) {
        let is_given = |name: &&String| match name.starts_with("--") {
            true => word.split('=').next() == Some(name),
            false => word.starts_with(*name),
        };
        given.extend(names.iter().find(is_given).filter(|name| !given.contains(name)).cloned());
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse;

    fn line_for(args: &[&str]) -> String {
        let args = std::iter::once(&"truetail").chain(args).map(OsString::from);
        let args: Vec<OsString> = args.collect();
        crate::args::one_line(&parse(&args).expect_err("a wrong line"), &args)
    }

    #[test]
    fn a_wrong_value_is_reported_in_one_line() {
        for (args, line) in [
            (
                ["run", "--rate", "0"],
                "--rate 0: invalid rate: must be above 0 requests per second, e.g. 500, 20k or \
                1.5M; see `truetail run --help`",
            ),
            (
                ["run", "--duration", "10x"],
                "--duration 10x: invalid duration: give seconds, or a unit (ns, us, ms, s, m, h), \
                e.g. 30s or 1.5ms; see `truetail run --help`",
            ),
            (
                ["run", "--conns", "many"],
                "--conns many: invalid number: give a whole number from 1 to 1000000; \
                see `truetail run --help`",
            ),
            (
                ["run", "--out", "--hdr"],
                "--out --hdr: invalid file name: looks like a flag, write ./--hdr; \
                see `truetail run --help`",
            ),
            (
                ["target", "--tail-fraction", "much"],
                "--tail-fraction much: invalid fraction: give a number from 0 to 1, e.g. 0.01; \
                see `truetail target --help`",
            ),
            (
                ["target", "--listen", "localhost:21000"],
                "--listen localhost:21000: invalid address: give IP:PORT, e.g. 127.0.0.1:8080; \
                see `truetail target --help`",
            ),
            (["run", "--model", "half"], "--model half: unknown value; choose from open, closed"),
        ] {
            assert_eq!(line_for(&args), line);
        }
        let line = "--rate: missing value; give one after it; see `truetail run --help`";
        assert_eq!(line_for(&["run", "--rate"]), line);
        assert!(line_for(&["completions", "dos"]).starts_with("SHELL dos: unknown value; choose"));
    }

    #[test]
    fn a_value_may_begin_with_a_dash_and_is_read_by_its_flag() {
        for (args, start, cure) in [
            (["run", "--duration", "-5s"], "--duration -5s: invalid duration: give", "30s"),
            (["run", "--rate", "-5"], "--rate -5: invalid rate: give", "500, 20k or 1.5M"),
            (["run", "--rate", "--conns"], "--rate --conns: invalid rate: give", "20k or 1.5M"),
            (["run", "--rate", ""], "--rate '': invalid rate: give", "500, 20k or 1.5M"),
            (
                ["run", "--rate", "100000001"],
                "--rate 100000001: invalid rate: ",
                "at most 100000000",
            ),
            (["run", "--cores", "-1"], "--cores -1: invalid core list: give", "0-3"),
            (["run", "--cores", ""], "--cores '': invalid core list: give", "0-3"),
            (["run", "--conns", "-1"], "--conns -1: invalid number: give", "from 1 to 1000000"),
            (["run", "--conns", "0"], "--conns 0: invalid number: give", "from 1 to 1000000"),
            (["run", "--pipeline", "65"], "--pipeline 65: invalid number: give", "from 1 to 64"),
            (["run", "--conns", ""], "--conns '': invalid number: give", "from 1 to 1000000"),
            (["run", "--seed", "-1"], "--seed -1: ", "from 0 to 9223372036854775807"),
            (["run", "--seed", "1.5"], "--seed 1.5: invalid number: give", "from 0 to"),
            (["run", "--model", "-1"], "--model -1: unknown value", "choose from open, closed"),
            (["run", "--threshold", "-1"], "--threshold -1: invalid threshold: give", "NAME=VALUE"),
            (["run", "--expect-status", "-1"], "--expect-status -1: invalid status: give", "2xx"),
            (["run", "--source-addresses", "-1"], "--source-addresses -1: ", "127.0.0.2"),
            (["run", "--raw", "-"], "--raw -: invalid file name: standard input", "name a file"),
            (["run", "--flamegraph", "a.png"], "--flamegraph a.png: invalid file name: it", ".svg"),
            (
                ["run", "--prom", "a.txt"],
                "--prom a.txt: invalid file name: it",
                ".prom for the coll",
            ),
            (["run", "--raw", ""], "--raw '': invalid file name: name a file", ""),
            (["target", "--base-latency", "-5ms"], "--base-latency -5ms: ", "30s"),
            (["target", "--body-size", "-1"], "--body-size -1: invalid number: give", "from 0 to"),
            (
                ["target", "--body-size", "17m"],
                "--body-size 17m: invalid number: give",
                "from 0 to",
            ),
            (["null-target", "--conns", "-1"], "--conns -1: invalid number: give", "from 0 to"),
            (["demo", "--duration", "-1s"], "--duration -1s: ", "30s"),
        ] {
            let message = line_for(&args);
            assert!(message.starts_with(start) && message.contains(cure), "{message}");
            let help = format!("; see `truetail {} --help`", args[0]);
            assert!(message.ends_with(&help) || message.contains("choose from"), "{message}");
        }
        // A flag that takes several values ends where the next flag begins.
        assert!(line_for(&["verify", "r", "--raw", "a", "--nonsense"]).contains("--nonsense"));
    }

    #[test]
    fn an_extra_word_is_not_repeated() {
        for args in [
            &["run", "http://h/", "http://h/?token=pa55"][..],
            &["run", "http://h/", "--header", "X-Key:", "pa55"],
            &["run", "http://h/", "--threshold", "Authorization: pa55"],
            &["run", "http://h/", "--threshold", "authorization=pa55"],
            &["run", "http://h/", "--headr=Authorization: pa55"],
            &["run", "http://h/", "--headr", "Authorization: pa55"],
            &["run", "http://h/", "-u", "pa55"],
            &["run", "http://h/", "-Zpa55"],
        ] {
            let line = line_for(args);
            assert!(!line.contains("pa55") && line.contains("; see `truetail "), "{line}");
        }
    }

    #[test]
    fn a_wrong_flag_is_reported_in_one_line() {
        for (args, words) in [
            (&["run", "http://x/", "--rat", "5"][..], "--rat"),
            (&["run", "http://x/", "--target", "http://y/"], "--target"),
            (&["run", "http://x/", "--rate"], "--rate"),
            (&["target", "--stall-every", "1s"], "--stall-for"),
            (&["rum"], "rum"),
            (&["--nonsense"], "see `truetail --help`"),
        ] {
            let line = line_for(args);
            assert!(line.contains(words) && !line.contains('\n'), "{line}");
            assert!(!line.contains("as a value"), "{line}");
        }
        for (args, line) in [
            (&["--rps", "5", "--qps=6"][..], "--rps and --qps: the same flag more than once;"),
            (&["-R5", "--rate", "6"], "-R and --rate: the same flag more than once; give it once"),
            (
                &["-c", "5", "-c", "6"],
                "-c: the same flag more than once; give it once; see `truetail",
            ),
            (&["--body", "a", "-b", "pa55"], "--body and -b: the same flag"),
            (&["--quiet", "-q"], "--quiet and -q: the same flag"),
            (&["-m", "PUT", "-X", "GET"], "-m and -X: the same flag"),
        ] {
            let message = line_for(&[&["run", "http://x/"], args].concat());
            assert!(message.starts_with(line) && !message.contains("pa55"), "{message}");
        }
        for (args, line) in [
            (
                &["--rate", "5", "--stages", "5:1s"][..],
                "--rate: doesn't go with --stages; omit one; see `truetail run --help`",
            ),
            (&["--period", "5s", "-R", "5"], "--period: doesn't go with --rate; omit one; see"),
            (&["--target", "http://y/"], "URL: doesn't go with --target; omit one; see"),
            (&["--quiet", "--live"], "--quiet: doesn't go with --live; omit one; see"),
        ] {
            let message = line_for(&[&["run", "http://x/"], args].concat());
            assert!(message.starts_with(line), "{message}");
        }
        let line = line_for(&["run", "http://x/", "--trace", "5"]);
        assert!(line.starts_with("--trace 5: its number follows `=`; give --trace=5; "), "{line}");
        let line = line_for(&["run", "http://x/", "--rat", "5"]);
        assert_eq!(line, "--rat: unknown flag, did you mean --rate?; see `truetail run --help`");
    }
}
