//! The program's help, with its commands in groups, and the text that only `--help` shows.

use std::fmt::Write as _;

use clap::Command;

/// The commands that load a URL.
pub(super) const LOADING: [&str; 6] = ["run", "controller", "sweep", "search", "ceiling", "ab"];

/// The commands in the order of the program's help: a user's first day, then the rest.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Start here", &["run", "demo", "doctor", "search", "compare"]),
    ("More ways to load", &["sweep", "ceiling", "ab", "controller", "agent", "import"]),
    ("Saved results", &["report", "verify", "samples", "flamediff"]),
    ("Test servers and accuracy", &["target", "null-target", "calibrate", "experiment", "judge"]),
    ("Shell", &["man", "completions"]),
];

pub(super) const EXAMPLES: &str = "\
Examples:
  truetail demo
  truetail run http://127.0.0.1:8080/ --rate 5k --duration 10s

`truetail COMMAND -h` shows a command's usual flags, --help all of them.";

pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    a run could not start, a result could not be written, verify found a
       difference, a figure of calibrate or experiment is out of its band, or a
       case of judge failed or couldn't be read
  2    usage error
  3    don't trust the numbers: the verdict is invalid, or suspect with
       --fail-on suspect; sweep, search and ceiling: that of every step that
       decided something; ab: too few pairs of slices count, or the target may
       be the cause of invalid ones; ab and compare with --fail-on regression:
       no percentile has an interval; compare also: one run a side; ceiling,
       calibrate, experiment and judge: other load on the machine kept a figure
       from being judged
  4    an objective of --slo is missed, or undecided with --fail-on undecided;
       search and ceiling: no rate passed; compare and ab with --fail-on
       regression: side B is worse
  5    an agent could not be used
  130  interrupted; the results so far are written and marked";

/// The syntax of the values of the table's flags.
const UNITS: &str = "\
Durations: 30 (seconds), 250us, 5ms, 1.5s, 2m, 1m30s
Rates: 500, 20k, 1.5M, 1e4 (per second), 6000/m (per minute)";

const MORE: &str = "These are the usual flags; --help shows all of them.";

/// The template of the program's help. Each command's line is its own `about`.
pub(super) fn template(program: &Command) -> String {
    let styles = program.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let names = program.get_subcommands().map(|command| command.get_name().len());
    let width = names.max().unwrap_or_default();
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n\n".to_owned();
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "{header}{heading}:{header:#}");
        for name in names {
            let command = program.find_subcommand(name).expect("the groups name commands");
            let about = command.get_about().cloned().unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {about}");
        }
        text.push('\n');
    }
    let _ = write!(text, "{header}Options:{header:#}\n{{options}}{{after-help}}");
    text
}

/// Prepares a command for a short and a long help.
pub(super) fn with_short_help(command: Command) -> Command {
    // For a flag that `-h` hides, the man page takes the text from its long help only.
    let command = command.mut_args(|arg| match arg.get_long_help() {
        None if arg.is_hide_short_help_set() => {
            let help = arg.get_help().cloned().unwrap_or_default();
            arg.long_help(help)
        }
        _ => arg,
    });
    if !LOADING.contains(&command.get_name()) {
        return command;
    }
    let notes = command.get_after_help().map(|notes| format!("{notes}\n")).unwrap_or_default();
    command.after_help(format!("{UNITS}\n{MORE}")).after_long_help(format!("{notes}{UNITS}"))
}

#[cfg(test)]
mod tests {
    use super::super::definition;
    use super::*;

    /// The help at 80 columns, plain.
    fn help(command: &mut Command, is_long: bool) -> String {
        let text = match is_long {
            true => command.render_long_help(),
            false => command.render_help(),
        };
        text.to_string()
    }

    fn program() -> Command {
        definition().term_width(80).mut_subcommands(|command| command.term_width(80))
    }

    #[test]
    fn the_help_has_each_command_once_in_a_line() {
        let mut program = program();
        let names: Vec<String> =
            program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        for is_long in [false, true] {
            let text = help(&mut program, is_long);
            for name in &names {
                let is_its_line = |line: &&str| line.trim_start().split("  ").next() == Some(name);
                let lines: Vec<&str> = text.lines().filter(is_its_line).collect();
                let [line] = lines[..] else { panic!("{name}: {lines:?}") };
                let command = program.find_subcommand(name).expect("a command");
                let about = command.get_about().expect("each has one").to_string();
                assert!(line.ends_with(&format!("  {about}")), "{line}");
            }
            let wide: Vec<&str> = text.lines().filter(|line| 80 < line.chars().count()).collect();
            assert!(wide.is_empty(), "{wide:?}");
            assert!(text.contains(EXAMPLES) && text.contains(EXIT_CODES) == is_long, "{text}");
        }
    }

    #[test]
    fn the_short_help_of_a_command_that_loads_fits_on_two_screens() {
        for name in LOADING {
            let text = help(program().find_subcommand_mut(name).expect("a command"), false);
            assert!(text.lines().count() <= 48, "{name}:\n{text}");
            // A flag has one line; deeper indentation continues a line.
            let continued: Vec<&str> =
                text.lines().filter(|line| line.starts_with("       ")).collect();
            assert!(continued.is_empty(), "{name}: {continued:?}");
        }
    }

    #[test]
    fn a_rarely_used_flag_is_only_in_the_long_help() {
        let mut program = program();
        let run = program.find_subcommand_mut("run").expect("a command");
        let (short, long) = (help(run, false), help(run, true));
        for (flag, is_usual) in [("--rate <", true), ("--slo <", true), ("--flush <", false)] {
            assert_eq!((short.contains(flag), long.contains(flag)), (is_usual, true), "{flag}");
        }
    }

    #[test]
    fn the_long_help_and_the_man_page_have_a_text_for_every_flag() {
        for command in program().get_subcommands() {
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let text = match arg.is_hide_short_help_set() {
                    true => arg.get_long_help(),
                    false => arg.get_long_help().or_else(|| arg.get_help()),
                };
                let is_there = text.is_some_and(|text| !text.to_string().is_empty());
                assert!(is_there, "{} {}", command.get_name(), arg.get_id());
            }
        }
    }
}
