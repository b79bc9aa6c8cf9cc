//! A flag of the commands that load a URL: its syntax, its setter, and the commands on which it
//! differs from `run`. `super::flags` has a row for each.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::slice;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser as _};
use clap::{Arg, ArgAction, ArgMatches};
use engine::plan::Plan;
use engine::sys::units::Scalar;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeValue, Error, ValueDeserializer};

use super::values::file_name;
use crate::failure::Failure;
use crate::gate::FailOn;
use crate::progress::Progress;
use crate::sink::Content;

/// The target of all flags: the plan, and the files of its results.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    /// The plan.
    pub(crate) plan: Plan,
    /// The files of the results.
    pub(crate) results: ResultArgs,
    /// The file that lists the plan's requests, or the tables that spell them out.
    pub(crate) targets: Option<String>,
}

/// Everything beyond the plan: the run's calibration, the files of its results, and the conditions
/// of its exit code.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResultArgs {
    /// The calibration; by default the saved one.
    pub(crate) calibration: Option<PathBuf>,
    /// The files of results, by the names of their flags.
    pub(crate) files: BTreeMap<String, PathBuf>,
    /// The run's name in the report.
    pub(crate) label: Option<String>,
    /// The report's notes on the run.
    pub(crate) tags: BTreeMap<String, String>,
    /// The assumptions of the plan in the absence of flags, shown with the results.
    pub(crate) assumed: Option<String>,
    /// True to print everything, not only the first screen.
    pub(crate) details: bool,
    /// Conditions that fail the run besides missed objectives and an invalid verdict.
    pub(crate) fail_on: Vec<FailOn>,
    /// True to exit with 0 even if the verdict is invalid.
    pub(crate) allow_invalid: bool,
    /// How progress is shown.
    pub(crate) progress: Option<Progress>,
    /// True to show the run on the whole screen.
    pub(crate) live: bool,
    /// True to print nothing before the results.
    pub(crate) quiet: bool,
}

/// Parses the values of a flag, none for a switch, and applies them.
pub(super) type Set = fn(&mut Settings, &[OsString]) -> Result<(), String>;
/// Reads the name of a file.
pub(super) type ReadPath = fn(&OsStr) -> Result<PathBuf, String>;
/// The field of the settings that has the name of a file.
pub(super) type Place = fn(&mut Settings) -> &mut Option<PathBuf>;

/// Everything about a flag of the commands that load a URL, which is also a key of the plan file
/// and an environment variable.
pub(crate) struct Flag {
    arg: Arg,
    value: Value,
    /// True if `-h` shows it, like `--help`.
    is_usual: bool,
    choices: &'static [&'static str],
    /// Its name in a plan file that gives it several values.
    plural: Option<&'static str>,
    /// True if its values are NAME=VALUE, so that a table can hold them.
    is_pairs: bool,
    /// True if its plural is a list of tables, whose text is its value.
    is_tables: bool,
    is_free_text: bool,
    excludes: &'static [&'static str],
    /// The files of results that it requests.
    contents: Vec<(ContentPath, Content)>,
    elsewhere: Vec<(&'static [&'static str], Elsewhere)>,
}

/// The name of a file of results, given the flag's value; `None` if it isn't written then.
type ContentPath = fn(&Path) -> Option<PathBuf>;

/// The kind of a flag's value.
enum Value {
    Set(Set),
    /// A file that a run reads, or writes on its own.
    File(Place),
    /// A file of results.
    Results(ReadPath),
}

/// A difference of a flag between some command and `run`.
enum Elsewhere {
    /// The help of this command describes it differently.
    Shown(fn(Arg, &str) -> Arg),
    /// It is rarely useful here, so the help hides it.
    Hidden,
    /// It is refused, and the help hides it.
    Refused {
        /// The only value that is refused; `None` for all.
        value: Option<&'static str>,
        problem: &'static str,
        cure: &'static str,
    },
    /// Another flag of this command has its name.
    Replaced,
}

impl Flag {
    fn new(arg: Arg, value: Value) -> Flag {
        Flag {
            arg,
            value,
            is_usual: false,
            choices: &[],
            plural: None,
            is_pairs: false,
            is_tables: false,
            is_free_text: false,
            excludes: &[],
            contents: Vec::new(),
            elsewhere: Vec::new(),
        }
    }

    /// Most users need it: `-h` shows it, in one line.
    pub(super) fn usual(self) -> Flag {
        Flag { is_usual: true, ..self }
    }

    /// Its value is one of these.
    pub(super) fn choices(self, choices: &'static [&'static str]) -> Flag {
        Flag { choices, ..self }
    }

    #[cfg(test)]
    pub(super) fn all_choices(&self) -> &'static [&'static str] {
        self.choices
    }

    /// A plan file may use this name for it.
    pub(super) fn plural(self, plural: &'static str) -> Flag {
        Flag { plural: Some(plural), ..self }
    }

    /// A plan file may use this name for it, with a table of NAME = VALUE.
    pub(super) fn table(self, plural: &'static str) -> Flag {
        Flag { plural: Some(plural), is_pairs: true, ..self }
    }

    /// A plan file may use this name for it, with a list of tables.
    pub(super) fn tables(self, plural: &'static str) -> Flag {
        Flag { plural: Some(plural), is_tables: true, ..self }
    }

    /// Its value may be anything, even a secret.
    pub(super) fn free_text(self) -> Flag {
        Flag { is_free_text: true, ..self }
    }

    /// It can't be combined with these flags.
    pub(super) fn excludes(mut self, others: &'static [&'static str]) -> Flag {
        self.arg = self.arg.conflicts_with_all(others);
        Flag { excludes: others, ..self }
    }

    /// Another file of results is written beside the named one.
    pub(super) fn also_writes(mut self, path: ContentPath, content: Content) -> Flag {
        self.contents.push((path, content));
        self
    }

    /// The help of these commands describes it differently. A long text must be given anew.
    pub(super) fn shown(
        mut self,
        on: &'static [&'static str],
        change: fn(Arg, &str) -> Arg,
    ) -> Flag {
        self.elsewhere.push((on, Elsewhere::Shown(change)));
        self
    }

    /// The help of these commands hides it.
    pub(super) fn hidden(mut self, on: &'static [&'static str]) -> Flag {
        self.elsewhere.push((on, Elsewhere::Hidden));
        self
    }

    /// These commands refuse it, with this reason and cure.
    pub(super) fn refused(
        mut self,
        on: &'static [&'static str],
        problem: &'static str,
        cure: &'static str,
    ) -> Flag {
        self.elsewhere.push((on, Elsewhere::Refused { value: None, problem, cure }));
        self
    }

    /// These commands refuse this value of it.
    pub(super) fn refused_if(
        mut self,
        value: &'static str,
        on: &'static [&'static str],
        problem: &'static str,
        cure: &'static str,
    ) -> Flag {
        self.elsewhere.push((on, Elsewhere::Refused { value: Some(value), problem, cure }));
        self
    }

    /// These commands have another flag of this name, and refuse the key in a plan file.
    pub(super) fn replaced(
        mut self,
        on: &'static [&'static str],
        problem: &'static str,
        cure: &'static str,
    ) -> Flag {
        self.elsewhere.push((on, Elsewhere::Replaced));
        self.refused(on, problem, cure)
    }

    /// Its name in a plan file.
    pub(crate) fn name(&self) -> &str {
        self.arg.get_id().as_str()
    }

    /// Its name on the command line.
    pub(crate) fn typed(&self) -> String {
        format!("--{}", self.name())
    }

    /// True if its value may be anything, even a secret.
    pub(super) fn is_free_text(&self) -> bool {
        self.is_free_text
    }

    /// The flags that can't be combined with it.
    pub(crate) fn excluded(&self) -> &'static [&'static str] {
        self.excludes
    }

    /// True if this key of a plan file means it: its name with - or _ between words, or its plural.
    pub(super) fn has_key(&self, key: &str) -> bool {
        let is_its_name = self.name() == key.replace('_', "-");
        self.arg.get_long().is_some() && (is_its_name || self.plural == Some(key))
    }

    /// Its keys in a plan file.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.arg.get_long().into_iter().chain(self.plural)
    }

    fn elsewhere(&self, command: &str) -> impl Iterator<Item = &Elsewhere> {
        self.elsewhere.iter().filter(move |(on, _)| on.contains(&command)).map(|(_, what)| what)
    }

    /// The argument for this command; `None` if the command has another of that name.
    pub(super) fn of(&'static self, command: &str) -> Option<Arg> {
        let mut arg = self.arg.clone().hide_short_help(!self.is_usual);
        if !self.choices.is_empty() {
            arg = arg.value_parser(PossibleValuesParser::new(self.choices));
        } else if arg.get_action().takes_values() {
            let check = move |word: OsString| self.check(slice::from_ref(&word)).map(|()| word);
            arg = arg.value_parser(OsStringValueParser::new().try_map(check));
        }
        for elsewhere in self.elsewhere(command) {
            arg = match elsewhere {
                Elsewhere::Shown(change) => change(arg.long_help(None::<&str>), command),
                Elsewhere::Hidden | Elsewhere::Refused { .. } => arg.hide(true),
                Elsewhere::Replaced => return None,
            };
        }
        Some(arg)
    }

    /// Its values on a command line, if given there.
    pub(super) fn typed_in(&self, matches: &ArgMatches) -> Option<Vec<OsString>> {
        let id = self.name();
        if !matches.try_contains_id(id).unwrap_or(false) {
            return None;
        }
        if self.is_switch() {
            return matches.get_flag(id).then(Vec::new);
        }
        Some(matches.get_raw(id)?.map(OsStr::to_owned).collect())
    }

    /// True if this key of a plan file is its list of tables.
    pub(crate) fn has_tables(&self, key: &str) -> bool {
        self.is_tables && self.plural == Some(key)
    }

    /// Its values in a plan file; `None` if the file turns it off.
    ///
    /// # Errors
    /// The values are invalid. The message shows nothing that may be a secret.
    pub(crate) fn read(
        &self,
        value: Spanned<DeValue<'_>>,
    ) -> Result<Option<Vec<OsString>>, String> {
        if let Some(name) = self.plural.filter(|_| self.is_tables && value.get_ref().is_table()) {
            return Err(format!("one table, not a list of them: write [[{name}]] above each"));
        }
        let tables = self.plural.filter(|_| self.is_tables && value.get_ref().is_array());
        let value = ValueDeserializer::from(value);
        let message = |error: Error| error.message().to_owned();
        let empty = || Err("empty value: give one, or remove the key".to_owned());
        if let Some(name) = tables {
            let tables = toml::Value::deserialize(value).map_err(message)?;
            if tables.as_array().is_some_and(Vec::is_empty) {
                return empty();
            }
            let tables = BTreeMap::from([(name, tables)]);
            let text = toml::to_string(&tables).map_err(|error| error.to_string())?;
            let words = vec![text.into()];
            return self.check(&words).map(|()| Some(words));
        }
        if self.is_switch() {
            return bool::deserialize(value).map(|is| is.then(Vec::new)).map_err(message);
        }
        let texts = match self.arg.get_action() {
            ArgAction::Append => Texts::deserialize(value).ok().and_then(|texts| self.list(texts)),
            _ => Some(vec![Scalar::deserialize(value).map_err(message)?.0]),
        };
        let texts = texts.ok_or_else(|| match self.is_pairs {
            true => "invalid value: give a table, or a list of NAME=VALUE".to_owned(),
            false => "invalid value: give a string or a list of strings".to_owned(),
        })?;
        let is_list = matches!(self.arg.get_action(), ArgAction::Append);
        if is_list && (texts.is_empty() || texts.iter().any(String::is_empty)) {
            return empty();
        }
        let words: Vec<OsString> = match self.arg.get_value_delimiter() {
            Some(comma) => {
                texts.iter().flat_map(|text| text.split(comma)).map(Into::into).collect()
            }
            None => texts.into_iter().map(Into::into).collect(),
        };
        self.check(&words).map(|()| Some(words))
    }

    /// The texts of a list, or of a table if that is allowed.
    fn list(&self, texts: Texts) -> Option<Vec<String>> {
        match texts {
            Texts::One(Scalar(text)) => Some(vec![text]),
            Texts::Many(texts) => Some(texts.into_iter().map(|Scalar(text)| text).collect()),
            Texts::Table(table) if self.is_pairs => {
                let pair = |(name, Scalar(value))| format!("{name}={value}");
                Some(table.into_iter().map(pair).collect())
            }
            Texts::Table(_) => None,
        }
    }

    /// The named file, if a run reads it or writes it on its own.
    pub(super) fn file(&self, settings: &mut Settings) -> Option<PathBuf> {
        match self.value {
            Value::File(place) => place(settings).clone(),
            Value::Set(_) | Value::Results(_) => None,
        }
    }

    /// The files of results that are written if it names this one.
    pub(super) fn results(&self, named: &Path) -> Vec<(PathBuf, Content)> {
        let file = |(path, content): &(ContentPath, Content)| Some((path(named)?, *content));
        self.contents.iter().filter_map(file).collect()
    }

    fn is_switch(&self) -> bool {
        matches!(self.arg.get_action(), ArgAction::SetTrue)
    }

    /// Checks these values.
    fn check(&self, words: &[OsString]) -> Result<(), String> {
        self.set(&mut Settings::default(), words)
    }

    pub(super) fn set(&self, to: &mut Settings, words: &[OsString]) -> Result<(), String> {
        let word = words.last().map(OsString::as_os_str).unwrap_or_default();
        match self.value {
            Value::Set(set) => set(to, words)?,
            Value::File(place) => *place(to) = Some(file_name(word)?),
            Value::Results(read) => {
                to.results.files.insert(self.arg.get_id().to_string(), read(word)?);
            }
        }
        Ok(())
    }

    /// The refusal of these values by this command, if any.
    pub(crate) fn refusal(&self, command: &str, words: &[OsString]) -> Option<Failure> {
        let shown = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(",");
        let refused = self.elsewhere(command).find_map(|elsewhere| match *elsewhere {
            Elsewhere::Refused { value, problem, cure } => {
                value.is_none_or(|value| value == shown).then_some((problem, cure))
            }
            _ => None,
        });
        let (problem, cure) = refused?;
        // A tag's value may be a secret, its name isn't.
        let shown = match shown.split_once('=') {
            Some((name, _)) if self.is_pairs => name,
            _ => &shown,
        };
        let given = format!("{} {shown}", self.typed());
        Some(Failure::Usage(format!("{}: {problem}; {cure}", given.trim_end())))
    }
}

/// A flag that changes the settings.
pub(super) fn flag(arg: Arg, set: Set) -> Flag {
    Flag::new(arg, Value::Set(set))
}

/// A flag that names a file which a run reads, or writes on its own.
pub(super) fn file(arg: Arg, place: Place) -> Flag {
    Flag::new(arg, Value::File(place))
}

/// A flag that names a file of results.
pub(super) fn results(arg: Arg, read: ReadPath, content: Content) -> Flag {
    Flag::new(arg, Value::Results(read)).also_writes(|path| Some(path.to_owned()), content)
}

/// The argument of a flag with a value.
pub(super) fn option(name: &'static str, heading: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(name.to_uppercase()).help_heading(heading)
}

/// The argument of a flag without a value.
pub(super) fn switch(name: &'static str, heading: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help_heading(heading)
}

/// The argument of a flag that may be repeated.
pub(super) fn list(name: &'static str, heading: &'static str) -> Arg {
    option(name, heading).action(ArgAction::Append)
}

/// The texts of a key of a plan file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(Scalar),
    Many(Vec<Scalar>),
    Table(BTreeMap<String, Scalar>),
}
