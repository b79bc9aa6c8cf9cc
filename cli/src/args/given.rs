//! The flags given on a command line or in a plan file, and the settings they make.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches};

use engine::plan::similar::nearest;

use super::flag::{Flag, ResultArgs, Settings};
use super::flags::FLAGS;
use super::values::file;
use crate::failure::Failure;
use crate::sink::Content;

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) flags: Given,

    /// Read flags from a TOML file; typed flags override it
    #[arg(
        long,
        alias = "scenario",
        value_name = "FILE.toml",
        value_parser = file(),
        long_help = "Read flags from a TOML file; typed flags override it. Its keys are the \
            flags' names, with - or _ between words, and take the same values: \
            target = \"http://127.0.0.1:8080/\", rate = \"20k\", queue-max = \"5ms\", \
            quiet = true. A repeatable flag takes a list, and its name may be a plural: \
            headers = [\"A: b\"]. Thresholds are a table: [thresholds] busy = 0.9. A flag that \
            selects one model drops the file's keys of the other: --period drops its rate. \
            Paths are relative to the working directory. --scenario is the same flag"
    )]
    pub(crate) plan: Option<PathBuf>,
}

/// The flag that a key of a plan file stands for.
pub(crate) fn flag_of(key: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.has_key(key))
}

/// The key of a plan file that this unknown one was probably meant to be, with - or _ as in it.
pub(crate) fn key_like(unknown: &str) -> Option<String> {
    let keys = FLAGS.iter().flat_map(Flag::keys).map(|key| match unknown.contains('_') {
        true => key.replace('-', "_"),
        false => key.to_owned(),
    });
    nearest(unknown, keys)
}

/// The files that these settings name, each with its flag.
pub(crate) fn files(settings: &Settings) -> Vec<(String, PathBuf)> {
    let mut settings = settings.clone();
    let read = |flag: &Flag| Some((flag.typed(), flag.file(&mut settings)?));
    let mut files: Vec<_> = FLAGS.iter().filter_map(read).collect();
    files.extend(result_files(&settings.results).map(|(flag, file, _)| (flag, file)));
    files
}

/// The requested files of a run's results, with their flags and contents.
pub(crate) fn result_files(
    results: &ResultArgs,
) -> impl Iterator<Item = (String, PathBuf, Content)> {
    let named = FLAGS.iter().filter_map(|flag| Some((flag, results.files.get(flag.name())?)));
    named.flat_map(|(flag, path)| {
        let files = flag.results(path).into_iter();
        files.map(move |(file, content)| (flag.typed(), file, content))
    })
}

/// The flags given on a command line or in a plan file, with their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given(BTreeMap<String, Vec<OsString>>);

impl Given {
    /// True if this flag was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The values of a flag.
    pub(crate) fn words(&self, name: &str) -> &[OsString] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Adds a flag, whose values were already checked.
    pub(crate) fn add(&mut self, flag: &Flag, words: Vec<OsString>) {
        self.0.insert(flag.name().to_owned(), words);
    }

    /// Applies them to these settings.
    pub(crate) fn lay_over(&self, to: &mut Settings) {
        for (flag, words) in self.flags() {
            flag.set(to, words).expect("each value was read before");
        }
    }

    /// Refuses a given flag that this command can't use, if its value is still in these settings.
    ///
    /// # Errors
    /// The flag, with the problem and the cure.
    pub(crate) fn refuse(&self, command: &str, settings: &Settings) -> Result<(), Failure> {
        let holds = |flag: &Flag, words: &[OsString]| {
            let mut again = settings.clone();
            flag.set(&mut again, words).is_ok() && again == *settings
        };
        for (flag, words) in self.flags() {
            if let Some(refusal) = flag.refusal(command, words)
                && holds(flag, words)
            {
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Each, in the order of the table.
    fn flags(&self) -> impl Iterator<Item = (&'static Flag, &[OsString])> {
        FLAGS.iter().filter_map(|flag| Some((flag, self.0.get(flag.name())?.as_slice())))
    }
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        let name = command.get_name().to_owned();
        command.args(FLAGS.iter().filter_map(|flag| flag.of(&name)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Given::augment_args(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Given, clap::Error> {
        let given = |flag: &Flag| Some((flag.name().to_owned(), flag.typed_in(matches)?));
        Ok(Given(FLAGS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Given::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use engine::plan::Plan;

    use super::super::Cli;
    use super::*;

    /// The names that serde accepts: its error about an unknown one lists them.
    fn names(unknown: &str) -> Vec<String> {
        unknown.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn every_field_of_the_plan_is_a_flag() {
        let fields = names(toml::from_str::<Plan>("unknown = 1").expect_err("no field").message());
        assert!(fields.iter().any(|field| field == "target") && 10 < fields.len(), "{fields:?}");
        for field in fields {
            assert!(flag_of(&field).is_some(), "{field}");
        }
    }

    #[test]
    fn every_flag_except_plan_is_a_key_of_a_plan_file() {
        let run = Cli::command().find_subcommand("run").expect("the command").clone();
        let keys = run.get_arguments().filter_map(clap::Arg::get_long);
        let strangers: Vec<_> = keys.filter(|key| flag_of(key).is_none()).collect();
        assert_eq!(strangers, ["plan"]);
    }

    #[test]
    fn the_names_of_choices_are_serdes() {
        for flag in FLAGS.iter().filter(|flag| !flag.all_choices().is_empty()) {
            let unknown = flag.set(&mut Settings::default(), &["unknown".into()]);
            assert_eq!(names(&unknown.expect_err(flag.name())), flag.all_choices());
        }
    }
}
