//! Flags from the environment, of the commands that load a URL: `TRUETAIL_RATE=5k` is `--rate 5k`
//! where no flag says otherwise, whatever a plan file says.

use std::ffi::OsString;

use agents::key::KEY_VARIABLE;
use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, Command};

use super::LOADING;

/// What the names of variables begin with.
const PREFIX: &str = "TRUETAIL_";

/// Lets variables give the flags of a command.
pub(super) fn with_variables(command: Command) -> Command {
    command.mut_args(|arg| {
        let Some(name) = variable_of(&arg) else { return arg };
        let arg = arg.env(name).hide_env(true);
        match arg.get_action() {
            ArgAction::SetTrue => arg.value_parser(BoolishValueParser::new()),
            _ => arg,
        }
    })
}

/// The variable of a flag; of the URL it is that of `--target`. What would be that of `--key` holds
/// the key that agents share.
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

/// What gave a flag its wrong value: the flag, or the variable that stands for it.
pub(super) fn source(flag: &str, value: &str) -> String {
    let name = flag.strip_prefix("--").map(variable);
    let gave = |name: &String| std::env::var(name).is_ok_and(|found| found == value);
    name.filter(gave).unwrap_or_else(|| flag.to_owned())
}

/// The first of these variables that stands for no flag of any command that loads a URL, though its
/// name says that it is for one.
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

/// Whether Kubernetes sets it, for a service whose name begins with ours.
fn is_service_link(name: &str) -> bool {
    let parts = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT_"];
    parts.iter().any(|part| name.contains(part)) || name.ends_with("_PORT")
}

#[cfg(test)]
mod tests {
    use super::super::definition;
    use super::*;

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
