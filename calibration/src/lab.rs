//! The lab: starts the processes of an experiment, keeps what they wrote, and judges the figures.
//!
//! Everything runs as child processes of the program itself, so what is shown is what anyone can
//! type: the commands stand in the result, and each run leaves a report that `verify` recomputes.

pub mod definition;
mod error;
mod files;
pub mod latencies;
pub mod network;
pub mod plot;
mod process;
pub mod result;

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use engine::report::Report;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use target::Ledger;

pub use definition::{Definition, Flags};
pub use error::LabError;
use files::{read, write};
pub use plot::Plot;
use probe::ceiling::NotJudged;
use probe::document::CeilingDocument;
use process::Process;
pub use process::Said;
use result::{ExperimentResult, Machine, PlotFile, RunResult};

use crate::judgement::Judgement;
use crate::others;

/// The longest that one run may take.
const RUN_MAX: Duration = Duration::from_secs(3_600);
/// The name of this program in the commands that are shown.
const NAME: &str = "truetail";
/// The hidden flag of a server that is to end when the process that started it does.
pub const END_WITH_PARENT: &str = "--end-with-parent";
/// Commands that judge what they measured by a verdict.
const WITH_VERDICT: [&str; 2] = ["run", "controller"];
/// Exit codes of a command that wrote its document: it succeeded, it doesn't trust its numbers, or
/// an objective was missed.
const WROTE: [Option<i32>; 3] = [Some(0), Some(3), Some(4)];

/// Where and how experiments run.
pub struct Setup<'a> {
    /// This program.
    pub program: PathBuf,
    /// The folder of all experiments.
    pub folder: PathBuf,
    /// Whether they are scaled down.
    pub quick: bool,
    /// Whether the user asked to stop.
    pub asked: &'a dyn Fn() -> bool,
    /// Takes each command as it starts.
    pub tell: &'a dyn Fn(&str),
}

/// What an experiment measured.
#[derive(Debug)]
pub struct Measured {
    figures: Value,
    plots: Vec<Plot>,
}

impl Measured {
    /// These figures, an object in JSON, and these plots.
    ///
    /// # Panics
    /// The figures have no JSON form.
    pub fn new(figures: &impl Serialize, plots: Vec<Plot>) -> Measured {
        let figures = serde_json::to_value(figures).expect("figures have a JSON form");
        Measured { figures, plots }
    }
}

/// What a command gets beyond its definition.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// The name of its files, and of a run in the result; by default that in the definition.
    pub name: Option<String>,
    /// Flags that win over those of the definition.
    pub flags: Flags,
    /// Words before the command, such as `ip netns exec NAME`.
    pub prefix: Vec<String>,
}

impl Extra {
    /// These flags.
    pub fn flags<V: Into<toml::Value>>(
        flags: impl IntoIterator<Item = (&'static str, V)>,
    ) -> Extra {
        let mut extra = Extra::default();
        for (name, value) in flags {
            extra.flags.set(name, value);
        }
        extra
    }

    /// The same under another name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Extra {
        Extra { name: Some(name.into()), ..self }
    }

    /// The same behind these words.
    #[must_use]
    pub fn at(self, prefix: &[&str]) -> Extra {
        Extra { prefix: prefix.iter().map(|word| (*word).to_owned()).collect(), ..self }
    }
}

/// A server that an experiment started: a target or an agent.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its URL.
    pub url: String,
    process: Process,
    ledger: Option<PathBuf>,
}

impl Server {
    /// Ends it; what a sample target did, by its ledger.
    ///
    /// # Errors
    /// It doesn't end, or its ledger can't be read.
    pub fn stop(self) -> Result<Option<Ledger>, LabError> {
        self.process.end()?;
        self.ledger.as_deref().map(read).transpose()
    }
}

/// What both ends of a run measured.
#[derive(Debug)]
pub struct Observed {
    /// The run's report.
    pub report: Report,
    /// What the target did.
    pub ledger: Ledger,
}

/// An experiment under way.
pub struct Lab<'a> {
    setup: &'a Setup<'a>,
    definition: Definition,
    folder: PathBuf,
    commands: Vec<String>,
    runs: Vec<RunResult>,
    machine: Option<Machine>,
}

impl Lab<'_> {
    /// Whether the experiment is scaled down.
    pub fn quick(&self) -> bool {
        self.setup.quick
    }

    /// A number of the definition's settings.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn setting(&self, name: &str) -> Result<f64, LabError> {
        let setting = self.definition.settings.get(name).copied();
        setting.ok_or_else(|| LabError::Definition(format!("no setting `{name}`")))
    }

    /// The value of a run's flag, as text.
    ///
    /// # Errors
    /// There is no such run, or it has no such flag.
    pub fn flag(&self, run: &str, name: &str) -> Result<String, LabError> {
        let flags = self.run_flags(run)?;
        match flags.get(name) {
            Some(toml::Value::String(text)) => Ok(text.clone()),
            Some(value) => Ok(value.to_string()),
            None => Err(LabError::Definition(format!("run `{run}` has no flag `{name}`"))),
        }
    }

    /// A file of this experiment.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts a target of the definition.
    ///
    /// # Errors
    /// There is none of that name, or it doesn't start.
    pub fn target(&mut self, name: &str) -> Result<Server, LabError> {
        self.target_with(name, &Extra::default())
    }

    /// The same, with more.
    ///
    /// # Errors
    /// Those of [`Lab::target`].
    pub fn target_with(&mut self, name: &str, extra: &Extra) -> Result<Server, LabError> {
        let Some(target) = self.definition.targets.get(name).cloned() else {
            return Err(LabError::Definition(format!("no target `{name}`")));
        };
        let mut flags = target.flags;
        let mut ledger = None;
        if target.command == "target" {
            let file = format!("{}.ledger.json", extra.name.as_deref().unwrap_or(name));
            ledger = Some(self.file(&file));
            flags.set("ledger", file);
        }
        self.serve(&target.command, flags, extra, ledger)
    }

    /// Starts an agent of the definition.
    ///
    /// # Errors
    /// There is none of that name, or it doesn't start.
    pub fn agent(&mut self, name: &str) -> Result<Server, LabError> {
        self.agent_with(name, &Extra::default())
    }

    /// The same, with more.
    ///
    /// # Errors
    /// Those of [`Lab::agent`].
    pub fn agent_with(&mut self, name: &str, extra: &Extra) -> Result<Server, LabError> {
        let Some(mut flags) = self.definition.agents.get(name).cloned() else {
            return Err(LabError::Definition(format!("no agent `{name}`")));
        };
        if flags.get("state-dir").is_none() {
            let folder = format!("{}.state", extra.name.as_deref().unwrap_or(name));
            let path = self.file(&folder);
            fs::create_dir_all(&path).map_err(|error| LabError::file(&path, error))?;
            flags.set("state-dir", folder);
        }
        self.serve("agent", flags, extra, None)
    }

    fn serve(
        &mut self,
        command: &str,
        flags: Flags,
        extra: &Extra,
        ledger: Option<PathBuf>,
    ) -> Result<Server, LabError> {
        let mut flags = flags.with(&extra.flags);
        if flags.get("listen").is_none() {
            flags.set("listen", "127.0.0.1:0");
        }
        let mut words = vec![command.to_owned()];
        words.extend(flags.words());
        let scheme = if flags.is_on("tls") { "https" } else { "http" };
        let mut process = self.start(&words, &[END_WITH_PARENT], extra)?;
        let line = process.first_line()?;
        let address = line.split([' ', ',', '/']).find_map(|word| word.parse().ok());
        let Some(address) = address else {
            return Err(LabError::ended(command, format!("it names no address: {line}")));
        };
        Ok(Server { address, url: format!("{scheme}://{address}/"), process, ledger })
    }

    /// Makes a run of the definition against this URL; its report.
    ///
    /// # Errors
    /// There is none of that name, or it can't be made.
    pub fn run(&mut self, name: &str, url: &str, extra: &Extra) -> Result<Report, LabError> {
        let (command, report): (String, Report) = self.make(name, url, extra)?;
        if report.interrupted {
            return Err(LabError::Interrupted);
        }
        self.machine.get_or_insert_with(|| Machine::from(&report.environment));
        self.runs.push(RunResult {
            name: extra.name.as_deref().unwrap_or(name).to_owned(),
            of: name.to_owned(),
            command,
            verdict: Some(report.verdict.level),
            reasons: report.verdict.reasons.iter().map(|one| one.evidence.clone()).collect(),
            disturbed: others::reasons(&report).map(|reason| reason.evidence.clone()).collect(),
        });
        Ok(report)
    }

    /// Searches for a ceiling.
    ///
    /// # Errors
    /// Those of [`Lab::run`].
    pub fn ceiling(
        &mut self,
        name: &str,
        url: &str,
        extra: &Extra,
    ) -> Result<CeilingDocument, LabError> {
        let (command, document): (String, CeilingDocument) = self.make(name, url, extra)?;
        let trials = document.answer.proof.trials.iter().flat_map(|trial| &trial.steps);
        let steps = document.made.steps.iter().chain(trials);
        self.runs.push(RunResult {
            name: extra.name.as_deref().unwrap_or(name).to_owned(),
            of: name.to_owned(),
            command,
            verdict: None,
            reasons: document.answer.not_judged.iter().map(NotJudged::words).collect(),
            disturbed: steps.filter_map(others::of_step).collect(),
        });
        Ok(document)
    }

    /// Starts the run's target anew, makes the run, and ends the target.
    ///
    /// # Errors
    /// Those of [`Lab::target`] and [`Lab::run`].
    pub fn observe(&mut self, name: &str, extra: &Extra) -> Result<Observed, LabError> {
        let target = self.run_definition(name)?.target.clone();
        let as_run = extra.name.as_deref().unwrap_or(name);
        let server = self.target_with(&target, &Extra::default().named(as_run))?;
        let report = self.run(name, &server.url, extra)?;
        let ledger = server.stop()?.ok_or_else(|| {
            LabError::Definition(format!("the target of run `{name}` keeps no ledger"))
        })?;
        Ok(Observed { report, ledger })
    }

    /// Runs another program to its end, for this long at most.
    ///
    /// # Errors
    /// It can't be started, or takes longer.
    pub fn program(
        &mut self,
        program: &str,
        args: &[String],
        longest: Duration,
    ) -> Result<Said, LabError> {
        let shown = shown(&[&[program.to_owned()], args].concat());
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.folder);
        self.note(&shown);
        Process::start(command, &shown)?.wait(longest, self.setup.asked)
    }

    /// Whether a program is installed.
    pub fn has(&self, program: &str) -> bool {
        let folders = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&folders).any(|folder| folder.join(program).is_file())
    }

    fn run_definition(&self, name: &str) -> Result<&definition::RunDefinition, LabError> {
        let run = self.definition.runs.get(name);
        run.ok_or_else(|| LabError::Definition(format!("no run `{name}`")))
    }

    fn run_flags(&self, name: &str) -> Result<Flags, LabError> {
        Ok(self.definition.flags(self.run_definition(name)?, self.setup.quick))
    }

    /// Makes a run; its command and its document.
    fn make<T: DeserializeOwned>(
        &mut self,
        name: &str,
        url: &str,
        extra: &Extra,
    ) -> Result<(String, T), LabError> {
        let command = self.run_definition(name)?.command.clone();
        let mut flags = self.run_flags(name)?.with(&extra.flags);
        let file = format!("{}.json", extra.name.as_deref().unwrap_or(name));
        let path = self.file(&file);
        flags.set("out", file);
        flags.set("quiet", true);
        if WITH_VERDICT.contains(&command.as_str()) {
            flags.set("allow-invalid", true);
        }
        let mut words = vec![command, url.to_owned()];
        words.extend(flags.words());
        // An earlier document must not pass for this run's.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(LabError::file(&path, error));
            }
            _ => {}
        }
        let shown = shown_with(&words, extra);
        let said = self.start(&words, &[], extra)?.wait(RUN_MAX, self.setup.asked)?;
        if !WROTE.contains(&said.code) {
            let code = said.code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
            return Err(LabError::ended(&shown, format!("{code}: {}{}", said.stderr, said.stdout)));
        }
        Ok((shown, read(&path)?))
    }

    /// Starts this program; the hidden words aren't shown.
    fn start(
        &mut self,
        words: &[String],
        hidden: &[&str],
        extra: &Extra,
    ) -> Result<Process, LabError> {
        if (self.setup.asked)() {
            return Err(LabError::Interrupted);
        }
        let mut command = match extra.prefix.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.setup.program);
                command
            }
            None => Command::new(&self.setup.program),
        };
        command.args(words).args(hidden).current_dir(&self.folder);
        let shown = shown_with(words, extra);
        self.note(&shown);
        Process::start(command, &shown)
    }

    fn note(&mut self, shown: &str) {
        (self.setup.tell)(shown);
        self.commands.push(shown.to_owned());
    }
}

/// A command of this program as a user types it.
fn shown_with(words: &[String], extra: &Extra) -> String {
    shown(&[extra.prefix.as_slice(), &[NAME.to_owned()], words].concat())
}

/// Words as a shell takes them.
fn shown(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=%@+".contains(&byte);
        match !word.is_empty() && word.bytes().all(plain) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Performs the experiment of a definition, whose runs and figures `measure` makes, and writes its
/// result and its plots into a folder of its name.
///
/// # Errors
/// A process that fails, a file that can't be written, or figures that can't be evaluated.
pub fn perform(
    definition: Definition,
    measure: fn(&mut Lab) -> Result<Measured, LabError>,
    setup: &Setup,
) -> Result<ExperimentResult, LabError> {
    let folder = setup.folder.join(&definition.name);
    fs::create_dir_all(&folder).map_err(|error| LabError::file(&folder, error))?;
    let (began, started) = (SystemTime::now(), Instant::now());
    let mut lab =
        Lab { setup, definition, folder, commands: Vec::new(), runs: Vec::new(), machine: None };
    let measured = measure(&mut lab)?;
    let quick = if setup.quick { " --quick" } else { "" };
    let mut result = ExperimentResult {
        schema: result::SCHEMA,
        name: lab.definition.name.clone(),
        title: lab.definition.title.clone(),
        question: lab.definition.question.clone(),
        judgement: Judgement::NotJudged,
        quick: setup.quick,
        command: format!("{NAME} experiment {}{quick}", lab.definition.name),
        began: humantime::format_rfc3339_seconds(began).to_string(),
        took_s: (started.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        machine: lab.machine.clone().unwrap_or_default(),
        definition: lab.definition.as_json.clone(),
        commands: lab.commands.clone(),
        runs: lab.runs.clone(),
        figures: measured.figures,
        judgements: Vec::new(),
        plots: measured.plots.iter().map(PlotFile::from).collect(),
    };
    result.judge(&lab.definition)?;
    for plot in &measured.plots {
        write(&lab.file(plot.file), &plot.svg)?;
    }
    result.store(&lab.folder)?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_shell_takes_it() {
        let words = ["run", "http://127.0.0.1:80/", "--header", "A: it's", ""].map(str::to_owned);
        let extra = Extra::default().at(&["ip", "netns"]);
        assert_eq!(
            shown_with(&words, &extra),
            r"ip netns truetail run http://127.0.0.1:80/ --header 'A: it'\''s' ''"
        );
    }
}
