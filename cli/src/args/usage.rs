//! Usage errors, in one line each.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{LOADING, variables};

/// Whether a word is made as the names of commands and flags are.
pub(crate) fn is_bare(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// A usage error in one line: the flag, the value and the cure. `help` is the command for more.
pub(crate) fn one_line(error: &clap::Error, help: &str) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let flag = text(ContextKind::InvalidArg).map(|shown| {
        // `--rate <PER_SECOND>` names the flag and its value, `<SHELL>` an argument.
        let name = shown.split(" <").next().unwrap_or_default();
        name.trim_matches(['<', '>']).to_owned()
    });
    let value = text(ContextKind::InvalidValue);
    let flag = match (flag, &value) {
        (Some(flag), Some(value)) => Some(variables::source(&flag, value)),
        (flag, _) => flag,
    };
    match (error.kind(), flag, value) {
        (ErrorKind::ValueValidation, Some(flag), Some(value)) => {
            let problem = std::error::Error::source(error)
                .map_or_else(|| "invalid value".to_owned(), ToString::to_string);
            // What parses names the value itself, and here it stands beside the flag.
            match problem.split_once(&format!(" `{value}`")) {
                Some((before, after)) => {
                    let shown = if value.is_empty() { "''" } else { &value };
                    format!("{flag} {shown}: {before}{after}; see `{help}`")
                }
                // What doesn't name it takes it for a secret.
                None => format!("{flag}: {problem}; see `{help}`"),
            }
        }
        // A word out of place may be a part of a header or a URL.
        (ErrorKind::UnknownArgument, Some(word), _) if !word.starts_with('-') => {
            let has_one = |name: &&str| *name != "ab" && help.contains(&format!(" {name} "));
            let url = if LOADING.iter().any(has_one) { ", and a run has one URL" } else { "" };
            format!("a word too many; a value with spaces goes in quotes{url}; see `{help}`")
        }
        (ErrorKind::UnknownArgument, Some(flag), _) => {
            let similar = text(ContextKind::SuggestedArg);
            let similar = similar.map_or(String::new(), |flag| format!(", did you mean {flag}?"));
            format!("{flag}: unknown flag{similar}; see `{help}`")
        }
        (ErrorKind::InvalidSubcommand, ..)
            if text(ContextKind::InvalidSubcommand).is_some_and(|word| !is_bare(&word)) =>
        {
            format!("unknown command; a URL begins with http:// or https://; see `{help}`")
        }
        (ErrorKind::InvalidValue, Some(flag), Some(value)) if value.is_empty() => {
            format!("{flag}: missing value; give one after it; see `{help}`")
        }
        (ErrorKind::InvalidValue, Some(flag), Some(value)) => {
            let valid = text(ContextKind::ValidValue).unwrap_or_default();
            format!("{flag} {value}: unknown value; choose from {valid}")
        }
        _ => {
            // The first paragraph says what is wrong, a tip how to fix it; the rest is the usage.
            let rendered = error.to_string();
            let lines = rendered.lines().map(str::trim).filter(|line| !line.is_empty());
            let told: Vec<&str> = lines
                .take_while(|line| !line.starts_with("Usage:"))
                .map(|line| line.trim_start_matches("error: ").trim_start_matches("tip: "))
                .filter(|line| !line.starts_with("For more information"))
                .collect();
            format!("{}; see `{help}`", told.join("; ").replace(":; ", ": "))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::args::{help_for, parse};

    fn line_for(args: &[&str]) -> String {
        let args = std::iter::once(&"truetail").chain(args).map(OsString::from);
        let args: Vec<OsString> = args.collect();
        one_line(&parse(&args).expect_err("a wrong line"), &help_for(&args))
    }

    #[test]
    fn a_wrong_value_is_told_in_one_line() {
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
    fn a_value_may_begin_with_a_dash_and_is_judged_by_its_flag() {
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
            (["run", "--prom", "a.txt"], "--prom a.txt: invalid file name: it", ".prom, as coll"),
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
            let told = line_for(&args);
            assert!(told.starts_with(start) && told.contains(cure), "{told}");
            let help = format!("; see `truetail {} --help`", args[0]);
            assert!(told.ends_with(&help) || told.contains("choose from"), "{told}");
        }
        // A flag that takes several values ends where the next flag begins.
        assert!(line_for(&["verify", "r", "--raw", "a", "--nonsense"]).contains("--nonsense"));
    }

    #[test]
    fn a_word_out_of_place_is_not_repeated() {
        for args in [
            &["run", "http://h/", "http://h/?token=pa55"][..],
            &["run", "http://h/", "--header", "X-Key:", "pa55"],
            &["run", "http://h/", "--threshold", "Authorization: pa55"],
            &["run", "http://h/", "--threshold", "authorization=pa55"],
            &["run", "http://h/", "--headr=Authorization: pa55"],
            &["run", "http://h/", "--headr", "Authorization: pa55"],
            &["h/?token=pa55"],
            &["run", "http://h/", "-u", "pa55"],
            &["run", "http://h/", "-Zpa55"],
        ] {
            let line = line_for(args);
            assert!(!line.contains("pa55") && line.contains("; see `truetail "), "{line}");
        }
    }

    #[test]
    fn a_wrong_flag_is_told_in_one_line() {
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
        let line = line_for(&["run", "http://x/", "--rat", "5"]);
        assert_eq!(line, "--rat: unknown flag, did you mean --rate?; see `truetail run --help`");
    }
}
