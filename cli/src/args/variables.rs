//! Flags of the commands that load a URL, from the environment: `TRUETAIL_RATE=5k` is `--rate 5k`
//! unless that flag is typed, and overrides a plan file. A command ignores the variables of flags
//! that it doesn't use.

use std::ffi::OsString;

use agents::key::KEY_VARIABLE;
use clap::builder::BoolishValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command, Id};

use super::commands::LOADING;

/// The prefix of variables.
const PREFIX: &str = "TRUETAIL_";

/// Lets variables replace flags of a command, except where typed flags exclude them.
pub(super) fn with_variables(command: Command, typed: &[Id]) -> Command {
    let free: Vec<Id> = free(&command, typed).map(|arg| arg.get_id().clone()).collect();
    command.mut_args(|arg| {
        let Some(name) = variable_of(&arg) else { return arg };
        if !free.contains(arg.get_id()) {
            return arg;
        }
        let arg = arg.env(name).hide_env(true);
        match arg.get_action() {
            ArgAction::SetTrue => arg.value_parser(BoolishValueParser::new()),
            _ => arg,
        }
    })
}

/// The flags on the command line, as far as it can be parsed: its errors are reported by the next
/// parser.
pub(super) fn typed(definition: Command, args: &[OsString]) -> Vec<Id> {
    let Ok(read) = definition.ignore_errors(true).try_get_matches_from(args) else {
        return Vec::new();
    };
    let Some((_, read)) = read.subcommand() else { return Vec::new() };
    let is_typed = |id: &&Id| read.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    read.ids().filter(is_typed).cloned().collect()
}

/// The first two of these variables that exclude each other, for a command with these typed flags.
pub(super) fn at_odds(command: &Command, typed: &[Id], names: &[OsString]) -> Option<[String; 2]> {
    let mut given: Vec<(&Arg, String)> = free(command, typed)
        .filter(|arg| !typed.contains(arg.get_id()))
        .filter_map(|arg| Some((arg, variable_of(arg)?)))
        .filter(|(_, name)| names.iter().any(|found| found.to_str() == Some(name.as_str())))
        .collect();
    given.sort_by(|one, other| one.1.cmp(&other.1));
    given.iter().enumerate().find_map(|(at, (one, name))| {
        let (_, other) = given[at..].iter().find(|(other, _)| exclude(command, one, other))?;
        Some([name.clone(), other.clone()])
    })
}

/// The flags that a variable may replace: those that a command uses, unless a typed one excludes
/// them.
fn free<'a>(command: &'a Command, typed: &[Id]) -> impl Iterator<Item = &'a Arg> {
    let (typed, others): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().partition(|arg| typed.contains(arg.get_id()));
    let is_excluded = {
        let typed = typed.clone();
        move |arg: &&Arg| typed.iter().any(|typed| exclude(command, typed, arg))
    };
    let others = others.into_iter().filter(move |arg| !is_excluded(arg));
    // The help hides flags that the command would refuse.
    typed.into_iter().chain(others).filter(|arg| !arg.is_hide_set())
}

/// True if two flags can't be given together.
fn exclude(command: &Command, one: &Arg, other: &Arg) -> bool {
    let names = |one: &Arg, other: &Arg| {
        let named = command.get_arg_conflicts_with(one);
        named.iter().any(|arg| arg.get_id() == other.get_id())
    };
    names(one, other) || names(other, one)
}

/// The variable of a flag; that of the URL is `--target`'s. `--key` has none: the agents' key has
/// its name.
fn variable_of(arg: &Arg) -> Option<String> {
    match arg.get_long() {
        Some("help" | "target" | "key") => None,
        Some(long) => Some(variable(long)),
        None => (arg.get_id() == "url").then(|| variable("target")),
    }
}

fn variable(long: &str) -> String {
    format!("{PREFIX}{}", long.to_uppercase().replace('-', "_"))
}

/// The source of an invalid value: the flag, or the variable that replaces it.
pub(super) fn source(flag: &str, value: &str) -> String {
    let name = flag.strip_prefix("--").map(variable);
    let gave = |name: &String| std::env::var(name).is_ok_and(|found| found == value);
    name.filter(gave).unwrap_or_else(|| flag.to_owned())
}

/// The first of these variables that has our prefix, but stands for no flag of a command that loads
/// a URL.
pub(super) fn unknown(
    definition: &Command,
    mut names: impl Iterator<Item = OsString>,
) -> Option<String> {
    let known: Vec<String> = LOADING
        .iter()
        .filter_map(|name| definition.find_subcommand(name))
        .flat_map(|command| command.get_arguments().filter_map(variable_of))
        .collect();
    names.find_map(|name| {
        let name = name.to_string_lossy().into_owned();
        let is_ours = name.starts_with(PREFIX) && name != KEY_VARIABLE && !is_service_link(&name);
        (is_ours && !known.contains(&name)).then_some(name)
    })
}

/// True if Kubernetes sets it, for a service whose name begins with our prefix.
fn is_service_link(name: &str) -> bool {
    let parts = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT_"];
    parts.iter().any(|part| name.contains(part)) || name.ends_with("_PORT")
}

#[cfg(test)]
mod tests {
    use super::super::{definition, plain};
    use super::*;

    /// The variables that exclude each other on this line, if all of these are set.
    fn odds(line: &str, names: &[&str]) -> Option<[String; 2]> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let names: Vec<OsString> = names.iter().map(OsString::from).collect();
        let (definition, command) = (plain(), args[1].to_str().expect("text"));
        let command = definition.find_subcommand(command).expect("a command");
        at_odds(command, &typed(plain(), &args), &names)
    }

    /// True if a variable may replace this flag on this line.
    fn gives(line: &str, id: &str) -> bool {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let command = super::super::command(&args);
        let command = command.find_subcommand(&args[1]).expect("a command");
        let arg = command.get_arguments().find(|arg| *arg.get_id() == id).expect("a flag");
        arg.get_env().is_some()
    }

    #[test]
    fn a_typed_flag_beats_a_variable_that_it_excludes() {
        for (line, id, is_given) in [
            ("truetail run", "url", true),
            ("truetail run --target http://h/", "url", false),
            ("truetail run -q http://h/", "progress", false),
            ("truetail run -q http://h/", "quiet", true),
            ("truetail run --live", "quiet", false),
            ("truetail run --progress lines", "quiet", false),
            ("truetail run --progress lines", "live", true),
            ("truetail controller --agents-dns h:1", "agents", false),
            ("truetail controller --agents h:1", "agents_dns", false),
            ("truetail controller --agents-slurm", "agents_file", false),
            ("truetail ceiling --null", "url", false),
            ("truetail run --rate 5", "period", false),
            ("truetail run --period 1s", "rate", false),
            ("truetail run --conns 5", "period", true),
            // Flags that the command would refuse.
            ("truetail sweep --rates 1..2", "label", false),
            ("truetail sweep --rates 1..2", "rate", false),
            ("truetail sweep --rates 1..2", "slo", true),
            ("truetail search", "allow-invalid", false),
            ("truetail search", "live", false),
            ("truetail ceiling", "slo", false),
            ("truetail ceiling", "calibration", false),
            ("truetail ab", "slo", false),
            ("truetail ab", "live", false),
            ("truetail ab", "label", true),
        ] {
            assert_eq!(gives(line, id), is_given, "{line}: {id}");
        }
    }

    #[test]
    fn two_variables_that_exclude_each_other_are_named() {
        let both = ["TRUETAIL_PROGRESS", "TRUETAIL_QUIET"];
        assert_eq!(odds("truetail run", &both), Some(both.map(str::to_owned)));
        assert_eq!(odds("truetail run -q", &both), None);
        assert_eq!(odds("truetail run --progress off", &both), None);
        assert_eq!(odds("truetail run", &both[1..]), None);
        assert_eq!(odds("truetail run", &["TRUETAIL_LABEL", "TRUETAIL_TARGET"]), None);
        let models = ["TRUETAIL_PERIOD", "TRUETAIL_RATE"];
        assert_eq!(odds("truetail run", &models), Some(models.map(str::to_owned)));
        assert_eq!(odds("truetail run --rate 5", &models), None);
        let agents = ["TRUETAIL_AGENTS", "TRUETAIL_AGENTS_DNS"];
        assert_eq!(odds("truetail search", &agents), Some(agents.map(str::to_owned)));
        assert_eq!(odds("truetail run", &agents), None, "a run has no agents");
    }

    #[test]
    fn variables_are_named_after_flags_and_others_are_unknown() {
        for (name, is_known) in [
            ("TRUETAIL_RATE", true),
            ("TRUETAIL_TARGET", true),
            ("TRUETAIL_EXPECT_STATUS", true),
            ("TRUETAIL_RATES", true),
            ("TRUETAIL_KEY", true),
            ("TRUETAIL_AGENTS_SERVICE_HOST", true),
            ("TRUETAIL_AGENTS_PORT_7070_TCP_ADDR", true),
            ("TRUETAIL_AGENTS_PORT", true),
            ("PATH", true),
            ("TRUETAIL_RAET", false),
            ("TRUETAIL_URL", false),
            ("TRUETAIL_expect_status", false),
            ("TRUETAIL_", false),
        ] {
            let found = unknown(&definition(), [name.into()].into_iter());
            assert_eq!(found, (!is_known).then(|| name.to_owned()));
        }
    }
}
