//! The definition of an experiment, from its TOML file: its servers and runs as flags of the
//! program, its figures as paths into their documents, and its judgements.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::LabError;
use super::expressions;
use super::plot::LATENCY;

/// An experiment's definition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Definition {
    /// Its name on the command line.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// The question that it answers.
    pub question: String,
    /// Flags of every run at full size.
    #[serde(default)]
    pub full: Flags,
    /// Flags of every run at quick size.
    #[serde(default)]
    pub quick: Flags,
    /// Its servers.
    #[serde(default)]
    pub targets: BTreeMap<String, TargetDefinition>,
    /// Its agents: flags of `agent`.
    #[serde(default)]
    pub agents: BTreeMap<String, Flags>,
    /// Its runs.
    #[serde(default)]
    pub runs: BTreeMap<String, RunDefinition>,
    /// Two machines, if some of its runs need them: kernel parameters of IPv4 on the client's.
    pub machines: Option<BTreeMap<String, String>>,
    /// Numbers that its evaluation needs.
    #[serde(default)]
    pub settings: BTreeMap<String, f64>,
    /// Those that override these at quick size.
    #[serde(default)]
    pub quick_settings: BTreeMap<String, f64>,
    /// Figures that several runs have.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Its other figures, in the order of evaluation: paths of figures, and expressions.
    #[serde(default)]
    pub figures: Map<String, Value>,
    /// Its plots.
    #[serde(default)]
    pub plots: Vec<PlotDefinition>,
    /// Its judgements.
    pub judgements: Vec<Expectation>,
    /// The whole definition, as a result contains it.
    #[serde(skip)]
    pub as_json: Value,
}

/// A server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetDefinition {
    /// The command that serves: `target` or `null-target`.
    #[serde(default = "target")]
    pub command: String,
    /// Its flags.
    #[serde(default)]
    pub flags: Flags,
}

/// A run, in which its servers and agents are started and ended. All its flags may contain
/// expressions: `{{ targets.near.port }}`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunDefinition {
    /// Its command: `run`, `controller`, `ceiling` and others that load a URL.
    #[serde(default = "run")]
    pub command: String,
    /// The server that it loads.
    pub target: String,
    /// Other servers, started after that.
    #[serde(default)]
    pub also_start: Vec<String>,
    /// The URL, if it isn't the server's.
    pub url: Option<String>,
    /// True if server and run are on machines of their own.
    #[serde(default)]
    pub between_machines: bool,
    /// Between machines: the packet in so many that is lost, of those that bring the client data.
    pub lose_every: Option<u32>,
    /// True if it is left out at quick size.
    #[serde(default)]
    pub full_only: bool,
    /// The agents that offer its load.
    #[serde(default)]
    pub agents: Vec<String>,
    /// Its flags, which override those of the experiment.
    #[serde(default)]
    pub flags: Flags,
    /// Those that override these at quick size.
    #[serde(default)]
    pub quick: Flags,
}

/// Figures that several runs have, or several items named by a word.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Each row's path among the figures, and its run or word.
    pub rows: Map<String, Value>,
    /// Paths within a row, and expressions.
    pub figures: Map<String, Value>,
}

/// A plot.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlotDefinition {
    /// The name of its file.
    pub file: String,
    /// Its title.
    pub title: String,
    /// The horizontal axis, with the unit; without it, percentiles.
    pub x: Option<String>,
    /// The vertical axis, with the unit.
    #[serde(default = "latency")]
    pub y: String,
    /// True if that is logarithmic, which it is by default for percentiles only.
    pub log: Option<bool>,
    /// Its lines. One without any is a drawing that a run writes, or doesn't.
    #[serde(default)]
    pub lines: Vec<LineDefinition>,
}

/// A line of a plot.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineDefinition {
    /// Its name.
    pub name: String,
    /// True if it is dashed.
    #[serde(default)]
    pub dashed: bool,
    /// An expression: a distribution, or points as pairs.
    pub of: String,
}

/// The expected range of a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Expectation {
    /// Its meaning, as a sentence.
    pub what: String,
    /// The figure, by its path: `open.p99_ms`.
    pub figure: String,
    /// The lower limit.
    pub from: Option<Limit>,
    /// The upper limit.
    pub to: Option<Limit>,
    /// How others on the machine can have moved it.
    #[serde(default)]
    pub others_can: Influence,
    /// The runs that it rests on, by name; all if empty.
    #[serde(default)]
    pub runs: Vec<String>,
    /// The criterion of the lab that it decides, if any.
    pub criterion: Option<String>,
}

/// A limit of a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Limit {
    /// A number.
    Number(f64),
    /// Another figure, by its path.
    Figure(String),
}

/// How others on the machine can have moved a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Influence {
    /// Either way.
    #[default]
    Change,
    /// Upwards only.
    Raise,
    /// Downwards only.
    Lower,
    /// Not at all.
    Nothing,
}

fn target() -> String {
    "target".to_owned()
}

fn run() -> String {
    "run".to_owned()
}

fn latency() -> String {
    LATENCY.to_owned()
}

/// A value that must be text: an expression, or a row's run or word.
pub(super) fn as_text<'a>(name: &str, value: &'a Value) -> Result<&'a str, LabError> {
    value.as_str().ok_or_else(|| LabError::Definition(format!("`{name}` is no text: {value}")))
}

/// Flags of a command by their names, without dashes. `true` is a flag that takes no value, and a
/// list a repeated flag.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Flags(BTreeMap<String, toml::Value>);

impl Flags {
    /// Sets a flag.
    pub fn set(&mut self, name: &str, value: impl Into<toml::Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// These flags, with `others` overriding them.
    #[must_use]
    pub fn with(&self, others: &Flags) -> Flags {
        let mut both = self.clone();
        both.0.extend(others.0.clone());
        both
    }

    /// The value of a flag; `None` without it.
    pub fn get(&self, name: &str) -> Option<&toml::Value> {
        self.0.get(name)
    }

    /// The same flags with their texts as `render` returns them.
    pub(super) fn rendered(
        mut self,
        render: impl Fn(&str) -> Result<String, LabError>,
    ) -> Result<Flags, LabError> {
        for value in self.0.values_mut() {
            if let toml::Value::String(text) = value {
                *text = render(text)?;
            }
        }
        Ok(self)
    }

    /// True if a flag that takes no value is given.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).and_then(toml::Value::as_bool) == Some(true)
    }

    /// The words of a command line.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (name, value) in &self.0 {
            let values = match value {
                toml::Value::Array(values) => values.as_slice(),
                value => std::slice::from_ref(value),
            };
            for value in values {
                match value {
                    toml::Value::Boolean(false) => continue,
                    toml::Value::Boolean(true) => words.push(format!("--{name}")),
                    toml::Value::String(text) => words.extend([format!("--{name}"), text.clone()]),
                    number => words.extend([format!("--{name}"), number.to_string()]),
                }
            }
        }
        words
    }
}

impl Definition {
    /// Reads a definition.
    ///
    /// # Errors
    /// It is invalid.
    pub fn read(text: &str) -> Result<Definition, LabError> {
        let mut definition: Definition = toml::from_str(text)?;
        definition.as_json = toml::from_str(text)?;
        for (name, run) in &definition.runs {
            let unknown = |what: &str, which: &str| {
                Err(LabError::Definition(format!("run `{name}` names no {what}: `{which}`")))
            };
            let mut targets = run.also_start.iter().chain([&run.target]);
            if let Some(target) = targets.find(|of| !definition.targets.contains_key(*of)) {
                return unknown("target", target);
            }
            if run.between_machines && definition.machines.is_none() {
                return unknown("network", "machines");
            }
            if run.lose_every.is_some() && !run.between_machines {
                return unknown("network to lose packets in", "between-machines");
            }
            if let Some(agent) = run.agents.iter().find(|of| !definition.agents.contains_key(*of)) {
                return unknown("agent", agent);
            }
        }
        // The figures are found when all runs have been made.
        let mut files = BTreeSet::new();
        let raw = definition.runs.values().filter_map(|run| run.flags.get("raw")?.as_str());
        if let Some(file) = raw.into_iter().find(|file| !files.insert(*file)) {
            return Err(LabError::Definition(format!("two runs write `{file}`")));
        }
        let behind = definition.judgements.iter().flat_map(|one| &one.runs);
        if let Some(run) = behind.into_iter().find(|run| !definition.runs.contains_key(*run)) {
            return Err(LabError::Definition(format!("a judgement rests on no run: `{run}`")));
        }
        for (path, expression) in definition.declared() {
            expressions::check(as_text(path, expression)?)?;
        }
        for line in definition.plots.iter().flat_map(|plot| &plot.lines) {
            expressions::check(&line.of)?;
        }
        Ok(definition)
    }

    /// All figures that it declares: their paths, within the row for those of a table, and their
    /// expressions.
    fn declared(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.tables.iter().flat_map(|table| &table.figures).chain(&self.figures)
    }

    /// The names of its runs, in the order of the file.
    pub(super) fn runs_in_order(&self) -> Vec<String> {
        let runs = self.as_json["runs"].as_object();
        runs.into_iter().flat_map(Map::keys).cloned().collect()
    }

    /// The flags of a run: those of the size, then its own, then its own of the size.
    pub(super) fn flags(&self, run: &RunDefinition, quick: bool) -> Flags {
        if quick {
            self.quick.with(&run.flags).with(&run.quick)
        } else {
            self.full.with(&run.flags)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An experiment of one run.
    pub(crate) const TEXT: &str = r#"
        name = "x"
        title = "X"
        question = "Why?"
        [full]
        duration = "2m"
        [quick]
        duration = "3s"
        rate = 100
        [targets.slow]
        flags = { serial = true, base-latency = "1ms" }
        [runs.open]
        target = "slow"
        flags = { rate = "2k", header = ["A: b", "C: d"], raw = false }
        quick = { rate = 50 }
        [[judgements]]
        what = "It holds."
        figure = "open.p99_ms"
        from = 1
        to = "bounds.0"
    "#;

    #[test]
    fn flags_become_words_and_the_more_specific_ones_win() {
        let definition = Definition::read(TEXT).expect("a definition");
        let run = &definition.runs["open"];
        assert_eq!(
            definition.flags(run, false).words(),
            ["--duration", "2m", "--header", "A: b", "--header", "C: d", "--rate", "2k"]
        );
        assert_eq!(
            definition.flags(run, true).words(),
            ["--duration", "3s", "--header", "A: b", "--header", "C: d", "--rate", "50"]
        );
        let target = &definition.targets["slow"];
        assert_eq!(target.flags.words(), ["--base-latency", "1ms", "--serial"]);
        assert_eq!((target.command.as_str(), run.command.as_str()), ("target", "run"));
    }

    #[test]
    fn a_run_of_a_missing_target_is_refused() {
        for (from, to) in [
            ("target = \"slow\"", "target = \"fast\""),
            ("2k\"", "2k\", x = 1 }\nagents = [\"a\"]\n#"),
            ("2k\"", "2k\", x = 1 }\nlose-every = 50\n#"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            assert!(Definition::read(&text).is_err(), "{text}");
        }
        assert!(Definition::read(&TEXT.replace("title", "titel")).is_err());
        let both = TEXT.replace("raw = false", "raw = \"x.raw\"");
        let other = "[runs.other]\ntarget = \"slow\"\nflags = { raw = \"x.raw\" }\n[[judgements]]";
        assert!(Definition::read(&both).is_ok());
        assert!(Definition::read(&both.replace("[[judgements]]", other)).is_err());
    }
}
