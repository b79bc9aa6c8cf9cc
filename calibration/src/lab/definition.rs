//! The definition of an experiment, as its TOML file has it: its servers and runs as flags of the
//! program, and what is judged of them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::error::LabError;

/// An experiment's definition.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Definition {
    /// The name by which it is run.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What it answers.
    pub question: String,
    /// Flags of every run at full size.
    #[serde(default)]
    pub full: Flags,
    /// Flags of every run when it is to be quick.
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
    /// Numbers that its evaluation needs.
    #[serde(default)]
    pub settings: BTreeMap<String, f64>,
    /// What is judged.
    pub judgements: Vec<Expectation>,
    /// All of it, as a result has it.
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

/// A run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunDefinition {
    /// The command that makes it: `run`, `controller`, `ceiling` and others that load a URL.
    #[serde(default = "run")]
    pub command: String,
    /// The server that it loads.
    pub target: String,
    /// The agents that offer its load.
    #[serde(default)]
    pub agents: Vec<String>,
    /// Its flags, which win over those of the experiment.
    #[serde(default)]
    pub flags: Flags,
    /// Those that win over these when it is to be quick.
    #[serde(default)]
    pub quick: Flags,
}

/// What a figure must be.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Expectation {
    /// What it shows, as a sentence.
    pub what: String,
    /// The figure, by its path: `open.p99_ms`.
    pub figure: String,
    /// The least that it may be.
    pub from: Option<Limit>,
    /// The most that it may be.
    pub to: Option<Limit>,
    /// How others on the machine can have moved it.
    #[serde(default)]
    pub others_can: Influence,
    /// The runs that it rests on, by name; without any, all.
    #[serde(default)]
    pub runs: Vec<String>,
    /// The criterion of the lab that it decides, if it is one of those.
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

/// Flags of a command by their names, without dashes. `true` is a flag that takes no value, and a
/// list a flag that is repeated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Flags(BTreeMap<String, toml::Value>);

impl Flags {
    /// Sets a flag.
    pub fn set(&mut self, name: &str, value: impl Into<toml::Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// These flags, with `others` where both have one.
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

    /// Whether a flag that takes no value is given.
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
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Definition, LabError> {
        let mut definition: Definition = toml::from_str(text)?;
        definition.as_json = toml::from_str(text)?;
        for (name, run) in &definition.runs {
            let unknown = |what: &str, which: &str| {
                Err(LabError::Definition(format!("run `{name}` names no {what}: `{which}`")))
            };
            if !definition.targets.contains_key(&run.target) {
                return unknown("target", &run.target);
            }
            if let Some(agent) = run.agents.iter().find(|of| !definition.agents.contains_key(*of)) {
                return unknown("agent", agent);
            }
        }
        let behind = definition.judgements.iter().flat_map(|one| &one.runs);
        if let Some(run) = behind.into_iter().find(|run| !definition.runs.contains_key(*run)) {
            return Err(LabError::Definition(format!("a judgement rests on no run: `{run}`")));
        }
        Ok(definition)
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
    fn flags_become_words_and_the_nearer_ones_win() {
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
    fn a_run_of_what_is_not_there_is_refused() {
        for (from, to) in [
            ("target = \"slow\"", "target = \"fast\""),
            ("2k\"", "2k\", x = 1 }\nagents = [\"a\"]\n#"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            assert!(Definition::read(&text).is_err(), "{text}");
        }
        assert!(Definition::read(&TEXT.replace("title", "titel")).is_err());
    }
}
