//! The lab: starts the processes of an experiment, keeps their output, and judges the figures.
//!
//! It performs all experiments in one way: it starts each run's target, makes the run, ends the
//! target, and looks the figures up.
//!
//! - **Everything runs as child processes of the program itself,** so users can type every command:
//!   the commands are in `result.json`, and each run leaves a report that `verify` recomputes. Only
//!   documents are compared.
//! - **A figure is an expression over the documents of its runs,** as `"kept.p99_us" =
//!   "runs.kept.corrected.p99"`, in the language of the templates (`functions.rs` has the
//!   functions). A path that leads nowhere ends the experiment, so a renamed key of the report is
//!   noticed; one that leads to `null` is a figure that wasn't measured, and isn't judged. Flags
//!   may have expressions too: the open loop's rate is the one that the closed loop achieved. So
//!   runs are made and figures found in the order of the file, for which `toml` has
//!   `preserve_order`.
//! - **A judgement is data:** a figure, and limits that are numbers or other figures, so a result
//!   can be judged again without its runs. Limits that depend on the number of requests are
//!   computed by functions that know neither processes nor clocks.
//! - **Agents with targets of their own need no network namespace:** Linux routes a connection to
//!   0.0.0.0 to the address that it comes from, so two servers share a port, and
//!   `--source-addresses` chooses between them.

mod declared;
pub mod definition;
mod error;
mod expressions;
pub(crate) mod files;
mod flow;
pub(crate) mod functions;
pub mod latencies;
pub mod network;
pub mod plot;
mod process;
mod queue;
pub mod result;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use engine::report::Report;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use target::Ledger;

use definition::RunDefinition;
pub use definition::{Definition, Flags};
pub use error::LabError;
use expressions::Expressions;
use files::{read, write};
use latencies::{Requests, read_all};
use network::Network;
pub use plot::Plot;
use process::Process;
pub use process::Said;
use result::{ExperimentResult, Machine, PlotFile, RunResult};

use crate::judgement::Judgement;

/// The longest time of one run.
const RUN_MAX: Duration = Duration::from_secs(3_600);
/// The name of this program in the commands that are shown.
const NAME: &str = "truetail";
/// The hidden flag of a server that ends with the process that started it.
pub const END_WITH_PARENT: &str = "--end-with-parent";
/// Commands whose result is judged by a verdict.
const WITH_VERDICT: [&str; 2] = ["run", "controller"];
/// Exit codes of a command that wrote its document: success, untrustworthy numbers, or a missed
/// objective.
const WROTE: [Option<i32>; 3] = [Some(0), Some(3), Some(4)];

/// Where and how experiments run.
pub struct Setup<'a> {
    /// This program.
    pub program: PathBuf,
    /// The folder of all experiments.
    pub folder: PathBuf,
    /// True if they are scaled down.
    pub quick: bool,
    /// True once the user asked to stop.
    pub asked: &'a dyn Fn() -> bool,
    /// Receives each command as it starts.
    pub tell: &'a dyn Fn(&str),
}

/// Results of an experiment's code, beyond the figures that its definition declares.
#[derive(Debug)]
pub struct Computed {
    figures: Value,
    plots: Vec<Plot>,
}

impl Computed {
    /// These figures, an object in JSON, and these plots.
    ///
    /// # Panics
    /// The figures have no JSON form.
    pub fn new(figures: &impl Serialize, plots: Vec<Plot>) -> Computed {
        let figures = serde_json::to_value(figures).expect("figures have a JSON form");
        Computed { figures, plots }
    }
}

/// Computes figures from the runs that were made, and may make others.
pub type Compute = fn(&mut Lab) -> Result<Computed, LabError>;

/// Where a command runs, and the name of its files.
#[derive(Clone, Copy, Debug)]
struct At<'a> {
    /// The name of its files.
    name: &'a str,
    /// Words before it, such as `ip netns exec NAME`.
    prefix: &'a [&'a str],
    /// The address that a server listens on, unless its flags name one.
    listen: &'a str,
}

impl<'a> At<'a> {
    /// On this machine.
    fn here(name: &'a str) -> At<'a> {
        At { name, prefix: &[], listen: "127.0.0.1:0" }
    }
}

/// A server that an experiment started: a target or an agent.
#[derive(Debug)]
pub struct Server {
    /// Its listening address.
    pub address: SocketAddr,
    /// Its URL.
    pub url: String,
    process: Process,
    ledger: Option<PathBuf>,
}

impl Server {
    /// Ends it; returns the ledger of a sample target.
    ///
    /// # Errors
    /// It doesn't end, or its ledger can't be read.
    pub fn stop(self) -> Result<Option<Ledger>, LabError> {
        self.process.end()?;
        self.ledger.as_deref().map(read).transpose()
    }
}

/// The results of both ends of a run.
#[derive(Debug)]
pub struct Observed {
    /// The run's report.
    pub report: Report,
    /// The target's ledger.
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
    /// The values that the definition's expressions can name.
    expressions: Expressions,
}

impl<'a> Lab<'a> {
    fn new(setup: &'a Setup<'a>, definition: Definition) -> Result<Lab<'a>, LabError> {
        let folder = setup.folder.join(&definition.name);
        fs::create_dir_all(&folder).map_err(|error| LabError::file(&folder, error))?;
        let mut expressions = Expressions::new(&folder);
        for (name, number) in &definition.settings {
            let quick = definition.quick_settings.get(name).filter(|_| setup.quick);
            expressions.learn("settings", name, quick.unwrap_or(number));
        }
        let (commands, runs) = (Vec::new(), Vec::new());
        Ok(Lab { setup, definition, folder, commands, runs, machine: None, expressions })
    }

    /// A number of the definition's settings.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn setting(&self, name: &str) -> Result<f64, LabError> {
        let quick = self.definition.quick_settings.get(name).filter(|_| self.setup.quick);
        let setting = quick.or_else(|| self.definition.settings.get(name)).copied();
        setting.ok_or_else(|| LabError::Definition(format!("no setting `{name}`")))
    }

    /// A setting that is a whole number.
    ///
    /// # Errors
    /// There is none of that name.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    pub fn count(&self, name: &str) -> Result<u32, LabError> {
        Ok(self.setting(name)? as u32)
    }

    /// A file of this experiment.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The document of a run that was made.
    ///
    /// # Errors
    /// It isn't there, or isn't of this type.
    pub fn document<T: DeserializeOwned>(&self, run: &str) -> Result<T, LabError> {
        read(&self.file(&format!("{run}.json")))
    }

    /// The results of both ends of a run.
    ///
    /// # Errors
    /// It wasn't made, or its target keeps no ledger.
    pub fn observed(&self, run: &str) -> Result<Observed, LabError> {
        let ledger = read(&self.file(&format!("{run}.ledger.json")))?;
        Ok(Observed { report: self.document(run)?, ledger })
    }

    /// The requests of a run, from its raw samples: those of each agent, or its own.
    ///
    /// # Errors
    /// It has none, or they can't be read.
    pub fn requests(&self, run: &str) -> Result<Vec<Requests>, LabError> {
        read_all(&self.folder, &self.document(run)?)
    }

    /// Starts a target of the definition, whose ledger is named after a run.
    ///
    /// # Errors
    /// There is none of that name, or it doesn't start.
    pub fn target(&mut self, name: &str, run: &str) -> Result<Server, LabError> {
        self.target_at(name, At::here(run))
    }

    fn target_at(&mut self, name: &str, at: At) -> Result<Server, LabError> {
        let Some(target) = self.definition.targets.get(name).cloned() else {
            return Err(LabError::Definition(format!("no target `{name}`")));
        };
        let mut flags = target.flags;
        let mut ledger = None;
        if target.command == "target" {
            let file = format!("{}.ledger.json", at.name);
            ledger = Some(self.file(&file));
            flags.set("ledger", file);
        }
        let server = self.serve(&target.command, flags, at, ledger)?;
        self.expressions.learn("targets", name, &json!({ "port": server.address.port() }));
        Ok(server)
    }

    /// Starts an agent of the definition.
    fn agent(&mut self, name: &str) -> Result<Server, LabError> {
        let Some(mut flags) = self.definition.agents.get(name).cloned() else {
            return Err(LabError::Definition(format!("no agent `{name}`")));
        };
        let folder = format!("{name}.state");
        let path = self.file(&folder);
        fs::create_dir_all(&path).map_err(|error| LabError::file(&path, error))?;
        flags.set("state-dir", folder);
        self.serve("agent", flags, At::here(name), None)
    }

    fn serve(
        &mut self,
        command: &str,
        flags: Flags,
        at: At,
        ledger: Option<PathBuf>,
    ) -> Result<Server, LabError> {
        let mut flags = flags.rendered(|text| self.expressions.text(text))?;
        if flags.get("listen").is_none() {
            flags.set("listen", at.listen);
        }
        let mut words = vec![command.to_owned()];
        words.extend(flags.words());
        let scheme = if flags.is_on("tls") { "https" } else { "http" };
        let mut process = self.start(&words, &[END_WITH_PARENT], at.prefix)?;
        let line = process.first_line()?;
        let address = line.split([' ', ',', '/']).find_map(|word| word.parse().ok());
        let Some(address) = address else {
            return Err(LabError::ended(command, format!("it names no address: {line}")));
        };
        Ok(Server { address, url: format!("{scheme}://{address}/"), process, ledger })
    }

    /// Makes all runs of the definition, in its order.
    fn make_runs(&mut self) -> Result<(), LabError> {
        let machines = self.definition.machines.clone();
        let network = machines.map(|parameters| self.network(&parameters)).transpose()?;
        for name in self.definition.runs_in_order() {
            let run = self.definition.runs[&name].clone();
            match network.as_ref().filter(|_| run.between_machines) {
                _ if run.full_only && self.setup.quick => {
                    self.expressions.learn("runs", &name, &())
                }
                Some(Err(_)) => self.expressions.learn("runs", &name, &()),
                Some(Ok(network)) => {
                    match run.lose_every.map_or(Ok(()), |nth| network.lose_every(nth)) {
                        Ok(()) => self.make(&name, &run, Some(network))?,
                        Err(why) => {
                            self.expressions.learn("machines", "without_loss", &why);
                            self.expressions.learn("runs", &name, &());
                        }
                    }
                }
                None => self.make(&name, &run, None)?,
            }
        }
        Ok(())
    }

    /// Two machines, with these parameters on the client's; or the reason why there are none.
    fn network(
        &mut self,
        parameters: &BTreeMap<String, String>,
    ) -> Result<Result<Network, String>, LabError> {
        let network = Network::new();
        self.expressions.learn("machines", "not_measured", &network.as_ref().err());
        self.expressions.learn("machines", "without_loss", &());
        for (name, value) in parameters {
            let value = self.expressions.text(value)?;
            let set = network.as_ref().ok().map(|network| network.set_on_client(name, &value));
            let set = set.transpose().map_err(LabError::figures)?;
            let number = set.and_then(|text| text.parse::<f64>().ok());
            self.expressions.learn("machines", name, &number);
        }
        Ok(network)
    }

    /// Makes a run: starts its target, other servers and its agents, and ends them after it.
    fn make(
        &mut self,
        name: &str,
        run: &RunDefinition,
        network: Option<&Network>,
    ) -> Result<(), LabError> {
        let server = network.map(Network::server);
        let listen = network.map(|network| format!("{}:0", network.server_address()));
        let here = At::here(name);
        let at = At {
            prefix: server.as_ref().map_or(here.prefix, |server| server.as_slice()),
            listen: listen.as_deref().unwrap_or(here.listen),
            ..here
        };
        let time_wait = || {
            let count = network.map(Network::time_wait_on_server).transpose();
            count.map_err(|why| LabError::figures(format!("the network of two machines: {why}")))
        };
        let before = time_wait()?;
        let target = self.target_at(&run.target, at)?;
        let mut others = Vec::new();
        for other in &run.also_start {
            others.push((other, self.target_at(other, At::here(other))?));
        }
        let mut agents = Vec::new();
        for agent in &run.agents {
            agents.push(self.agent(agent)?);
        }
        let flags = self.definition.flags(run, self.setup.quick);
        let mut flags = flags.rendered(|text| self.expressions.text(text))?;
        if !agents.is_empty() {
            let addresses: Vec<_> = agents.iter().map(|agent| agent.address.to_string()).collect();
            flags.set("agents", addresses.join(","));
            if let Some(folder) = flags.get("raw").and_then(toml::Value::as_str) {
                let folder = self.file(folder);
                fs::create_dir_all(&folder).map_err(|error| LabError::file(&folder, error))?;
            }
        }
        let url = run.url.as_ref().map(|url| self.expressions.text(url)).transpose()?;
        let url = url.unwrap_or_else(|| target.url.clone());
        let client = network.map(Network::client);
        let client = client.as_ref().map_or(&[][..], |client| client.as_slice());
        let command = self.command(name, run, &url, flags, client)?;
        let after = time_wait()?;
        let lossy = network.filter(|_| run.lose_every.is_some());
        let lost = lossy.map(Network::end_loss).transpose().map_err(LabError::figures)?;
        for agent in agents {
            agent.stop()?;
        }
        for (other, server) in others {
            let left = json!({ "ledger": server.stop()? });
            self.expressions.learn("servers", other, &left);
        }
        let time_wait = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        let left = json!({ "ledger": target.stop()?, "time_wait": time_wait, "lost": lost });
        self.expressions.learn("servers", name, &left);
        self.expressions.learn("runs", name, &self.document::<Value>(name)?);
        let result = if WITH_VERDICT.contains(&run.command.as_str()) {
            let report: Report = self.document(name)?;
            if report.interrupted {
                return Err(LabError::Interrupted);
            }
            self.machine.get_or_insert_with(|| Machine::from(&report.environment));
            RunResult::of_report(name, command, &report)
        } else {
            RunResult::of_ceiling(name, command, &self.document(name)?)
        };
        self.runs.push(result);
        Ok(())
    }

    /// Runs the command of a run to its end, as a user would type it.
    fn command(
        &mut self,
        name: &str,
        run: &RunDefinition,
        url: &str,
        mut flags: Flags,
        prefix: &[&str],
    ) -> Result<String, LabError> {
        let file = format!("{name}.json");
        let path = self.file(&file);
        flags.set("out", file);
        flags.set("quiet", true);
        if WITH_VERDICT.contains(&run.command.as_str()) {
            flags.set("allow-invalid", true);
        }
        let mut words = vec![run.command.clone(), url.to_owned()];
        words.extend(flags.words());
        // An earlier document must not pass for this run's.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(LabError::file(&path, error));
            }
            _ => {}
        }
        let shown = shown_with(&words, prefix);
        let said = self.start(&words, &[], prefix)?.wait(RUN_MAX, self.setup.asked)?;
        if !WROTE.contains(&said.code) {
            let code = said.code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
            return Err(LabError::ended(&shown, format!("{code}: {}{}", said.stderr, said.stdout)));
        }
        Ok(shown)
    }

    /// Runs another program to its end, for at most this long.
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

    /// True if a program is installed.
    pub fn has(&self, program: &str) -> bool {
        let folders = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&folders).any(|folder| folder.join(program).is_file())
    }

    /// Starts this program; the hidden words aren't shown.
    fn start(
        &mut self,
        words: &[String],
        hidden: &[&str],
        prefix: &[&str],
    ) -> Result<Process, LabError> {
        if (self.setup.asked)() {
            return Err(LabError::Interrupted);
        }
        let mut command = match prefix.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.setup.program);
                command
            }
            None => Command::new(&self.setup.program),
        };
        command.args(words).args(hidden).current_dir(&self.folder);
        let shown = shown_with(words, prefix);
        self.note(&shown);
        Process::start(command, &shown)
    }

    fn note(&mut self, shown: &str) {
        (self.setup.tell)(shown);
        self.commands.push(shown.to_owned());
    }
}

/// A command of this program as a user would type it.
fn shown_with(words: &[String], prefix: &[&str]) -> String {
    let before = prefix.iter().copied().chain([NAME]).map(str::to_owned);
    shown(&before.chain(words.iter().cloned()).collect::<Vec<_>>())
}

/// Words quoted for a shell.
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

/// Performs the experiment of a definition: makes its runs, finds its figures and those of
/// `compute`, and writes its result and its plots into a folder of its name.
///
/// # Errors
/// A process that fails, a file that can't be written, or figures that can't be evaluated.
pub fn perform(
    definition: Definition,
    compute: Option<Compute>,
    setup: &Setup,
) -> Result<ExperimentResult, LabError> {
    let (began, started) = (SystemTime::now(), Instant::now());
    let mut lab = Lab::new(setup, definition)?;
    lab.make_runs()?;
    let nothing = Computed { figures: Value::Object(Map::new()), plots: Vec::new() };
    let computed = compute.map_or(Ok(nothing), |compute| compute(&mut lab))?;
    let figures = declared::figures(&lab.definition, &mut lab.expressions, computed.figures)?;
    let mut plots = declared::plots(&lab.definition, &lab.expressions, &lab.folder)?;
    plots.extend(computed.plots);
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
        figures,
        judgements: Vec::new(),
        plots: plots.iter().map(PlotFile::from).collect(),
    };
    result.judge(&lab.definition)?;
    for plot in &plots {
        write(&lab.file(&plot.file), &plot.svg)?;
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
        assert_eq!(
            shown_with(&words, &["ip", "netns"]),
            r"ip netns truetail run http://127.0.0.1:80/ --header 'A: it'\''s' ''"
        );
    }
}
