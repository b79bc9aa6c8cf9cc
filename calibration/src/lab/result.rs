//! The result of an experiment: `result.json`, from which its section of the findings is written.

use std::fs;
use std::path::Path;

use engine::report::Report;
use engine::report::environment::Environment;
use engine::report::verdict::Level;
use probe::ceiling::NotJudged;
use probe::document::CeilingDocument;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition::{Definition, Expectation, Influence, Limit};
use super::error::LabError;
use super::files;
use super::plot::Plot;
use crate::judgement::Judgement;
use crate::others;

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
    /// The question that it answers.
    pub question: String,
    /// The outcome: the worst of its judgements.
    pub judgement: Judgement,
    /// True if it was scaled down.
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
    /// The judgements of them.
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
    /// Its verdict's level; `None` for a search, whose steps have one each.
    pub verdict: Option<Level>,
    /// The reasons of its verdict.
    pub reasons: Vec<String>,
    /// Disturbances by others on the machine.
    pub disturbed: Vec<String>,
}

impl RunResult {
    /// From a run's report.
    pub(super) fn of_report(name: &str, command: String, report: &Report) -> RunResult {
        RunResult {
            name: name.to_owned(),
            of: name.to_owned(),
            command,
            verdict: Some(report.verdict.level),
            reasons: report.verdict.reasons.iter().map(|one| one.evidence.clone()).collect(),
            disturbed: others::reasons(report).map(|reason| reason.evidence.clone()).collect(),
        }
    }

    /// From the document of a search for a ceiling.
    pub(super) fn of_ceiling(name: &str, command: String, of: &CeilingDocument) -> RunResult {
        let trials = of.answer.proof.trials.iter().flat_map(|trial| &trial.steps);
        let steps = of.made.steps.iter().chain(trials);
        RunResult {
            name: name.to_owned(),
            of: name.to_owned(),
            command,
            verdict: None,
            reasons: of.answer.not_judged.iter().map(NotJudged::words).collect(),
            disturbed: steps.filter_map(others::of_step).collect(),
        }
    }
}

/// A plot of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlotFile {
    /// Its file in the experiment's folder.
    pub file: String,
    /// Its title.
    pub title: String,
}

impl From<&Plot> for PlotFile {
    fn from(of: &Plot) -> PlotFile {
        PlotFile { file: of.file.clone(), title: of.title.clone() }
    }
}

/// A figure held against its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// Its meaning.
    pub what: String,
    /// The figure's path.
    pub figure: String,
    /// Its value, 1 or 0 for true or false; `None` if it wasn't measured.
    pub value: Option<f64>,
    /// The lower limit.
    pub from: Option<f64>,
    /// The upper limit.
    pub to: Option<f64>,
    /// The outcome.
    pub judgement: Judgement,
    /// The worst verdict of the runs that it rests on.
    pub verdict: Option<Level>,
    /// True if others disturbed one of them.
    pub disturbed: bool,
    /// The criterion of the lab that it decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criterion: Option<String>,
}

impl Judged {
    /// Holds a value against its limits. Others on the machine excuse a value beyond a limit if
    /// they can have moved it there; an unmeasured value isn't judged.
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

/// Judges the figures of an experiment against its definition's expectations, each by the runs that
/// it rests on.
///
/// # Errors
/// A path that leads to no number.
pub fn judge(
    definition: &Definition,
    figures: &Value,
    runs: &[RunResult],
) -> Result<Vec<Judged>, LabError> {
    let judge = |expected: &Expectation| {
        let limit = |limit: &Option<Limit>| match limit {
            None => Ok(None),
            Some(Limit::Number(number)) => Ok(Some(*number)),
            Some(Limit::Figure(path)) => figure(figures, path),
        };
        let (from, to) = (limit(&expected.from)?, limit(&expected.to)?);
        // If a limit wasn't measured, the figure can't be judged.
        let measured =
            from.is_some() == expected.from.is_some() && to.is_some() == expected.to.is_some();
        let value = figure(figures, &expected.figure)?.filter(|_| measured);
        let is_behind =
            |run: &&RunResult| expected.runs.is_empty() || expected.runs.contains(&run.of);
        Ok(Judged::new(expected, value, (from, to), runs.iter().filter(is_behind)))
    };
    definition.judgements.iter().map(judge).collect()
}

/// The figure at a path such as `open.p99_ms` or `rows.0.rate`; `None` if it wasn't measured. True
/// and false are 1 and 0.
fn figure(figures: &Value, path: &str) -> Result<Option<f64>, LabError> {
    let pointer = format!("/{}", path.replace('.', "/"));
    match figures.pointer(&pointer) {
        Some(Value::Null) => Ok(None),
        Some(Value::Bool(holds)) => Ok(Some(f64::from(u8::from(*holds)))),
        Some(Value::Number(number)) => Ok(number.as_f64()),
        _ => Err(LabError::Definition(format!("no number at `{path}` of the figures"))),
    }
}

impl ExperimentResult {
    /// Judges its figures against the current definition of the experiment.
    ///
    /// # Errors
    /// The definition names a figure that the result doesn't have.
    pub(crate) fn judge(&mut self, definition: &Definition) -> Result<(), LabError> {
        self.title.clone_from(&definition.title);
        self.question.clone_from(&definition.question);
        self.judgements = judge(definition, &self.figures, &self.runs)?;
        let worst = self.judgements.iter().map(|one| one.judgement).max();
        self.judgement = worst.unwrap_or(Judgement::NotJudged);
        Ok(())
    }

    /// Writes it into an experiment's folder.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) fn store(&self, folder: &Path) -> Result<(), LabError> {
        let document = serde_json::to_string_pretty(self).expect("a result has a JSON form");
        files::write(&folder.join(FILE), &(document + "\n"))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::lab::definition::tests::TEXT;

    #[test]
    fn a_figure_without_its_limit_is_not_judged() {
        let definition = Definition::read(TEXT).expect("a definition");
        let judged = |to| {
            let figures = json!({ "open": { "p99_ms": 3 }, "bounds": [to] });
            let judged = judge(&definition, &figures, &[]).expect("judged");
            (judged[0].value, judged[0].judgement)
        };
        assert_eq!(judged(json!(5)), (Some(3.0), Judgement::Passed));
        assert_eq!(judged(json!(2)), (Some(3.0), Judgement::Failed));
        assert_eq!(judged(json!(null)), (None, Judgement::NotJudged));
    }

    #[test]
    fn a_figure_is_held_against_numbers_and_other_figures() {
        use Judgement::{Failed, NotJudged, Passed};
        let definition = Definition::read(TEXT).expect("a definition");
        for (p99, quiet, disturbed) in [
            (1.0, Passed, Passed),
            (5.0, Passed, Passed),
            (5.1, Failed, NotJudged),
            (0.9, Failed, NotJudged),
        ] {
            let figures = json!({ "open": { "p99_ms": p99 }, "bounds": [5.0] });
            let judged = |runs: &[RunResult]| {
                judge(&definition, &figures, runs).expect("judged")[0].judgement
            };
            let by_others = run("open", Level::Suspect, true);
            assert_eq!((judged(&[]), judged(&[by_others])), (quiet, disturbed), "{p99}");
        }
        let judged = |p99: Value| {
            let figures = json!({ "open": { "p99_ms": p99 }, "bounds": [5.0] });
            judge(&definition, &figures, &[]).map(|judged| judged[0].judgement)
        };
        assert_eq!(judged(Value::Null).expect("judged"), NotJudged, "it wasn't measured");
        assert_eq!(judged(true.into()).expect("judged"), Passed);
        assert_eq!(judged(false.into()).expect("judged"), Failed);
        assert!(judged("5".into()).is_err());
    }

    #[test]
    fn a_judgement_knows_the_verdict_of_its_own_runs() {
        let figures = json!({ "open": { "p99_ms": 9.0 }, "bounds": [5.0] });
        let both = [run("open", Level::Valid, false), run("closed", Level::Invalid, true)];
        for (own, expected) in [
            ("runs = []", (Judgement::NotJudged, Some(Level::Invalid), true)),
            ("runs = [\"open\"]", (Judgement::Failed, Some(Level::Valid), false)),
        ] {
            let definition = Definition::read(&format!("{TEXT}\n{own}")).expect("a definition");
            let judged = &judge(&definition, &figures, &both).expect("judged")[0];
            assert_eq!((judged.judgement, judged.verdict, judged.disturbed), expected, "{own}");
        }
        let unknown = format!("{TEXT}\nruns = [\"opne\"]");
        assert!(Definition::read(&unknown).is_err());
    }

    fn run(of: &str, verdict: Level, disturbed: bool) -> RunResult {
        RunResult {
            name: of.to_owned(),
            of: of.to_owned(),
            command: String::new(),
            verdict: Some(verdict),
            reasons: Vec::new(),
            disturbed: disturbed.then(|| "a compiler".to_owned()).into_iter().collect(),
        }
    }

    #[test]
    fn others_excuse_only_the_direction_they_can_move_a_figure() {
        use Judgement::{Failed, NotJudged};
        for (others_can, above, below) in [
            ("change", NotJudged, NotJudged),
            ("raise", NotJudged, Failed),
            ("lower", Failed, NotJudged),
            ("nothing", Failed, Failed),
        ] {
            let text = format!("{TEXT}\nothers-can = \"{others_can}\"");
            let definition = Definition::read(&text).expect("a definition");
            for (p99, want) in [(6.0, above), (0.5, below)] {
                let figures = json!({ "open": { "p99_ms": p99 }, "bounds": [5.0] });
                let runs = [run("open", Level::Suspect, true)];
                let judged = judge(&definition, &figures, &runs).expect("judged");
                assert_eq!(judged[0].judgement, want, "{others_can} {p99}");
            }
        }
    }
}
