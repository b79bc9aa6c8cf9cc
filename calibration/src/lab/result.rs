//! What an experiment found: `result.json`, from which its section of the findings is written.

use std::fs;
use std::path::Path;

use engine::host::environment::Environment;
use engine::report::verdict::Level;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LabError;
use super::definition::{Definition, Expectation, Influence};
use crate::judgement::Judgement;

/// The version of the document.
pub const SCHEMA: u32 = 1;
/// The name of the document in an experiment's folder.
pub const FILE: &str = "result.json";

/// The result of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentResult {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The experiment.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What it answers.
    pub question: String,
    /// How it came out: the worst of its judgements.
    pub judgement: Judgement,
    /// Whether it was scaled down.
    pub quick: bool,
    /// The command that made it.
    pub command: String,
    /// When it began, RFC 3339.
    pub began: String,
    /// How long it took, seconds.
    pub took_s: f64,
    /// Where it ran.
    pub machine: Machine,
    /// Its definition.
    pub definition: Value,
    /// Every command that it ran, in order.
    pub commands: Vec<String>,
    /// Each run with its verdict.
    pub runs: Vec<RunResult>,
    /// The figures, each in the unit that its name ends with.
    pub figures: Value,
    /// What is judged of them.
    pub judgements: Vec<Judged>,
    /// Its plots.
    pub plots: Vec<PlotFile>,
}

/// The machine, as far as figures depend on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// This program's version.
    pub tool_version: String,
    /// Kernel name and release.
    pub kernel: String,
    /// The processor's model name.
    pub cpu: Option<String>,
    /// Its cores.
    pub cores: usize,
}

impl From<&Environment> for Machine {
    fn from(of: &Environment) -> Machine {
        Machine {
            tool_version: of.tool_version.clone(),
            kernel: of.kernel.clone(),
            cpu: of.cpu.clone(),
            cores: of.cores_online,
        }
    }
}

/// One run of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// The name of its files.
    pub name: String,
    /// Its name in the definition, which several may have.
    pub of: String,
    /// The command.
    pub command: String,
    /// Its verdict's level; `None` of a search, whose steps have one each.
    pub verdict: Option<Level>,
    /// What its verdict rests on.
    pub reasons: Vec<String>,
    /// What others did to the machine meanwhile.
    pub disturbed: Vec<String>,
}

/// A plot of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlotFile {
    /// Its file in the experiment's folder.
    pub file: String,
    /// What it shows.
    pub title: String,
}

/// A figure that was held against what it must be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// What it shows.
    pub what: String,
    /// The figure's path.
    pub figure: String,
    /// Its value, 1 or 0 of what holds or doesn't; `None` if it wasn't measured.
    pub value: Option<f64>,
    /// The least that it may be.
    pub from: Option<f64>,
    /// The most that it may be.
    pub to: Option<f64>,
    /// How it came out.
    pub judgement: Judgement,
    /// The worst verdict of the runs that it rests on.
    pub verdict: Option<Level>,
    /// Whether others disturbed one of them.
    pub disturbed: bool,
    /// The criterion of the lab that it decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criterion: Option<String>,
}

impl Judged {
    /// Holds a value against its limits. Others on the machine excuse a value beyond a limit if
    /// they can have moved it there; what wasn't measured isn't judged.
    pub(super) fn new<'a>(
        expected: &Expectation,
        value: Option<f64>,
        (from, to): (Option<f64>, Option<f64>),
        runs: impl Iterator<Item = &'a RunResult> + Clone,
    ) -> Judged {
        let disturbed = runs.clone().any(|run| !run.disturbed.is_empty());
        let below = value.zip(from).is_some_and(|(value, from)| value < from);
        let above = value.zip(to).is_some_and(|(value, to)| to < value);
        let excused = match expected.others_can {
            Influence::Change => true,
            Influence::Raise => above,
            Influence::Lower => below,
            Influence::Nothing => false,
        };
        Judged {
            what: expected.what.clone(),
            figure: expected.figure.clone(),
            value,
            from,
            to,
            judgement: match value {
                Some(_) => Judgement::new(!below && !above, disturbed && excused),
                None => Judgement::NotJudged,
            },
            verdict: runs.filter_map(|run| run.verdict).max(),
            disturbed,
            criterion: expected.criterion.clone(),
        }
    }
}

impl ExperimentResult {
    /// Judges its figures, by what a definition of the experiment expects of them now.
    ///
    /// # Errors
    /// The definition names a figure that the result doesn't have.
    pub(super) fn judge(&mut self, definition: &Definition) -> Result<(), LabError> {
        self.title.clone_from(&definition.title);
        self.question.clone_from(&definition.question);
        self.judgements = definition.judge(&self.figures, &self.runs)?;
        let worst = self.judgements.iter().map(|one| one.judgement).max();
        self.judgement = worst.unwrap_or(Judgement::NotJudged);
        Ok(())
    }

    /// Writes it into an experiment's folder.
    ///
    /// # Errors
    /// The file can't be written.
    pub(super) fn store(&self, folder: &Path) -> Result<(), LabError> {
        let document = serde_json::to_string_pretty(self).expect("a result has a JSON form");
        super::write(&folder.join(FILE), &(document + "\n"))
    }

    /// Reads the result in an experiment's folder; `None` if there is none.
    ///
    /// # Errors
    /// It can't be read, or isn't a result of this version.
    pub fn load(folder: &Path) -> Result<Option<ExperimentResult>, LabError> {
        let path = folder.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LabError::file(&path, error)),
        };
        let unreadable = |problem: String| LabError::Document { path: path.clone(), problem };
        let document: Value =
            serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        if document["schema"] != SCHEMA {
            return Err(unreadable(format!("schema {}, not {SCHEMA}", document["schema"])));
        }
        serde_json::from_value(document).map(Some).map_err(|error| unreadable(error.to_string()))
    }
}
