//! The agents of a command, and a run on them: as [`crate::drive`] drives one here.

use std::env;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use agents::admission::check_placement;
use agents::clock::START_AHEAD_MIN_NS;
use agents::controller::address::AgentAddress;
use agents::controller::fault::Fault;
use agents::controller::live::total;
use agents::controller::order::{AGENTS_MAX, OnLoss, Order, Placed};
use agents::controller::run::{Controlled, Ended, Lost, OrderError};
use agents::controller::sample_file::SampleSink;
use agents::controller::weights;
use agents::key::{KEY_VARIABLE, Key};
use agents::message::HostFacts;
use agents::refusal::Refusal;
use engine::host;
use engine::host::environment::of_controller;
use engine::load::share::Share;
use engine::plan::Plan;
use engine::report::NotTogether;
use engine::report::collected::{LostAgent, RunFacts};
use engine::report::merge::Joined;
use engine::run::{Finished, Phase, RunError};
use engine::sys::clock;
use engine::sys::units::{Nanos, SECOND_NS};
use engine::sys::whole_file::WholeFileError;

use crate::args::{CrewArgs, ResultArgs};
use crate::failure::{Failure, complain, tell};
use crate::ndjson::Ndjson;
use crate::output::say;
use crate::progress::{self, ProgressLine, View};
use crate::signals::{POLL_INTERVAL, StopRequest};
use crate::text::agents as text;
use crate::text::progress::awaiting;

/// How long agents behind a name are waited for.
const GATHERING_MAX: Duration = Duration::from_secs(300);
/// How often the name is read.
const GATHERING_INTERVAL: Duration = Duration::from_secs(1);

/// The agents of a command.
pub(crate) struct Crew {
    agents: Vec<AgentAddress>,
    shares: Vec<Share>,
    key: Option<Key>,
    on_loss: OnLoss,
}

/// The files of a run that are written while it goes on.
#[derive(Default)]
pub(crate) struct Meanwhile<'a> {
    /// The folder of all agents' raw samples.
    pub(crate) raw: Option<&'a Path>,
    /// A line each second.
    pub(crate) ndjson: Option<&'a mut Ndjson>,
}

/// A run on agents that has a report.
pub(crate) struct Driven {
    /// The run.
    pub(crate) finished: Finished,
    /// When the load began.
    pub(crate) began: SystemTime,
    /// The agent whose loss ended it.
    pub(crate) failure: Option<Failure>,
}

impl Crew {
    /// The agents that were named; those behind a name are waited for.
    ///
    /// # Errors
    /// A flag that contradicts another, no key where one is named, or too few agents.
    pub(crate) fn gather(args: &CrewArgs, stop: &StopRequest) -> Result<Crew, Failure> {
        let usage = |line: String| Err(Failure::Usage(line));
        let key = Key::find(args.key_file.as_deref(), env::var_os(KEY_VARIABLE).as_deref())
            .map_err(|error| Failure::Usage(error.to_string()))?;
        if let (Some(expected), None) = (args.expect, &args.agents_dns) {
            let cure = "omit it, or give --agents-dns";
            return usage(format!("--expect {expected}: the agents are named one by one; {cure}"));
        }
        let agents = match &args.agents_dns {
            Some(name) => behind(name, args.expect.unwrap_or(1), stop)?,
            None => args.agents.clone(),
        };
        if let Some((at, twice)) =
            agents.iter().enumerate().find(|(at, agent)| agents[..*at].contains(agent))
        {
            let first = agents.iter().position(|agent| agent == twice).unwrap_or(0) + 1;
            let second = at + 1;
            return usage(format!(
                "--agents: {twice} is agent {first} and {second}; name each agent once, and give \
                 it more of the load by --weights"
            ));
        }
        if AGENTS_MAX < agents.len() {
            return usage(format!(
                "--agents: {} agents; a run has at most {AGENTS_MAX}",
                agents.len()
            ));
        }
        let weights = match args.weights.as_slice() {
            [] => vec![1; agents.len()],
            weights if weights.len() == agents.len() => weights.to_vec(),
            weights => {
                let shown: Vec<String> = weights.iter().map(ToString::to_string).collect();
                return usage(format!(
                    "--weights {}: there are {} agents; give one weight for each",
                    shown.join(","),
                    agents.len()
                ));
            }
        };
        let on_loss = args.on_agent_loss.unwrap_or_default();
        Ok(Crew { agents, shares: weights::shares(&weights), key, on_loss })
    }

    /// Runs a plan on the agents, to its end or to the first signal, as `view` shows it. The `head`
    /// is printed once all are set up.
    ///
    /// # Errors
    /// A plan that no agent runs, an agent that can't be used, a file that can't be written, or a
    /// signal before the run.
    pub(crate) fn drive(
        &self,
        plan: Plan,
        stop: &StopRequest,
        view: View<'_>,
        head: &str,
        meanwhile: Meanwhile<'_>,
    ) -> Result<Driven, Failure> {
        let Meanwhile { raw, mut ndjson } = meanwhile;
        host::require(1, 1).map_err(|check| Failure::CouldNotRun(check.to_string()))?;
        let agents = self.placed(raw, stop)?;
        let (key, on_loss, name) = (self.key.clone(), self.on_loss, name());
        let order = Order { agents, key, plan, on_loss, name };
        let run = Controlled::start(order)?;
        let takes = view.announce.line(run.plan(), START_AHEAD_MIN_NS);
        takes.iter().for_each(|takes| tell(takes));
        let mut line = ProgressLine::new(run.plan(), view);
        let (mut told_of_drain, mut told_of) = (false, vec![false; self.agents.len()]);
        let mut said_head = None;
        while !run.is_finished() {
            let live = run.live();
            let in_flight = live.iter().map(|agent| agent.in_flight()).sum();
            if stop.asked() {
                run.stop();
                if !told_of_drain && 0 < in_flight {
                    line.say(&awaiting(in_flight));
                    told_of_drain = true;
                }
            }
            for (agent, told) in live.iter().zip(&mut told_of) {
                if let (Some(why), OnLoss::Continue, false) = (&agent.lost, self.on_loss, *told)
                    && agent.total.is_some()
                {
                    line.say(&text::goes_on(&agent.name, why));
                    *told = true;
                }
            }
            let all = total(&live);
            let loaded = all.as_ref().filter(|all| all.phase != Phase::Setup);
            if loaded.is_some() {
                said_head.get_or_insert_with(|| line.above(|| say(head)));
            }
            if let (Some(ndjson), Some(now)) = (&mut ndjson, loaded) {
                ndjson.look(now);
            }
            line.show_agents(&live, all.as_ref());
            thread::sleep(progress::INTERVAL);
        }
        line.clear();
        if let (Some(ndjson), Some(now)) = (ndjson, total(&run.live())) {
            ndjson.look_last(&now);
        }
        let ended = run.wait().map_err(RunError::Thread)?;
        let driven = self.finish(ended, raw)?;
        // It may have been over before anybody looked.
        said_head.unwrap_or_else(|| say(head))?;
        Ok(driven)
    }

    /// The agents, each with its share and the file of its raw samples.
    fn placed(&self, raw: Option<&Path>, stop: &StopRequest) -> Result<Vec<Placed>, Failure> {
        let placed = self.agents.iter().zip(&self.shares).map(|(address, share)| {
            let samples = raw.map(|folder| {
                stop.covering(|| {
                    let sink = SampleSink::create(folder, &address.sample_file())?;
                    let temporary = sink.temporary().to_owned();
                    Ok((sink, Some(temporary)))
                })
            });
            let samples = samples.transpose().map_err(|error: WholeFileError| {
                let folder = raw.unwrap_or(Path::new("")).display();
                Failure::Usage(format!(
                    "--raw {folder}: {} {error}; name a folder where you may write",
                    address.sample_file()
                ))
            })?;
            Ok(Placed { address: address.clone(), share: share.clone(), samples })
        });
        placed.collect()
    }

    /// The report of a run that has ended.
    fn finish(&self, ended: Ended, raw: Option<&Path>) -> Result<Driven, Failure> {
        let Ended { agents, mut lost, plan, began_ns, stopped } = ended;
        let mut joined = Joined::default();
        // One at a time: an agent's results take megabytes once they are decoded.
        for mut agent in agents {
            let (name, share) = (agent.name.clone(), agent.share.clone());
            let told = agent.told.take();
            match agent.run(&plan) {
                Ok(run) => joined.add(run),
                Err(error) => {
                    let (at_ns, fault) = (clock::now_ns(), Fault::Results(error.to_string()));
                    lost.push(Lost { name, share, at_ns, fault, told });
                }
            }
        }
        let failure = unusable(&lost);
        let (Some(began_ns), false) = (began_ns, joined.is_empty()) else {
            return Err(failure.unwrap_or(Failure::Interrupted));
        };
        let lost = lost.into_iter().map(|Lost { name, share, at_ns, told, .. }| {
            let at_s = at_ns.saturating_sub(began_ns) as f64 / SECOND_NS as f64;
            LostAgent { name, at_s, share, told }
        });
        let began = clock::wall_time(began_ns);
        let facts = RunFacts {
            lost: lost.collect(),
            stopped,
            controller: Some(of_controller()),
            raw: raw.map(Path::to_owned),
            began: Some(began),
        };
        let (report, measured) = joined.report(&facts)?;
        Ok(Driven {
            finished: Finished { report, measured, epoch_ns: began_ns },
            began,
            failure: failure.filter(|_| self.on_loss == OnLoss::Abort),
        })
    }
}

/// The failure that names those who can't be used.
fn unusable(lost: &[Lost]) -> Option<Failure> {
    let (Lost { name, fault, .. }, others) = lost.split_first()?;
    let others: Vec<&str> = others.iter().map(|lost| lost.name.as_str()).collect();
    let line = text::unusable(name, &fault.to_string(), &others);
    let is_down = |lost: &Lost| matches!(lost.fault, Fault::Refused(Refusal::Target(_)));
    // Then the agents are fine, and it is as for a run on this machine.
    Some(if lost.iter().all(is_down) { Failure::CouldNotRun(line) } else { Failure::Agent(line) })
}

/// The agents behind a name, once there are so many.
fn behind(
    name: &AgentAddress,
    expected: usize,
    stop: &StopRequest,
) -> Result<Vec<AgentAddress>, Failure> {
    let begun = Instant::now();
    let longest = Nanos::from_secs(GATHERING_MAX.as_secs());
    let mut told = None;
    loop {
        // Before its agents are up, the name may not be there.
        let found = name.behind();
        let count = found.as_ref().map_or(0, Vec::len);
        let now = found.as_ref().map(Vec::len).map_err(ToString::to_string);
        match found {
            Ok(agents) if expected <= count => return Ok(agents),
            Err(error) if GATHERING_MAX <= begun.elapsed() => {
                return Err(Failure::Agent(format!(
                    "--agents-dns {name}: doesn't resolve ({error}); check the name and the name \
                     server"
                )));
            }
            _ if GATHERING_MAX <= begun.elapsed() => {
                return Err(Failure::Agent(format!(
                    "--agents-dns {name}: {count} of {expected} agents after {longest}; start the \
                     others, or lower --expect"
                )));
            }
            _ => {}
        }
        if told.as_ref() != Some(&now) {
            complain(&text::awaited(&name.to_string(), &now, expected, &longest.to_string()));
            told = Some(now);
        }
        let read = Instant::now();
        while read.elapsed() < GATHERING_INTERVAL {
            if stop.asked() {
                return Err(Failure::Interrupted);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// The plan, unless it names what is an agent's own, and the folder of its raw samples.
///
/// # Errors
/// The flag, or the key of the plan file.
pub(crate) fn require_for_agents(plan: &Plan, wanted: &ResultArgs) -> Result<(), Failure> {
    let file = |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string());
    if wanted.live {
        let cure = "omit it: a terminal shows each agent";
        return Err(Failure::Usage(format!(
            "--live: the view is of this machine's shards; {cure}"
        )));
    }
    for (flag, value, problem) in [
        ("--flamegraph", file(&wanted.flamegraph), "a profile is of one machine"),
        ("--calibration", file(&wanted.calibration), "a calibration is of one machine"),
    ] {
        if let Some(value) = value {
            return Err(Failure::Usage(format!(
                "{flag} {value}: {problem}; omit it, or use `truetail run` there"
            )));
        }
    }
    check_placement(plan).map_err(|error| Failure::Usage(error.to_string()))
}

/// The name by which agents know this controller.
fn name() -> String {
    let user = env::var("USER").unwrap_or_else(|_| "somebody".to_owned());
    format!("{user}@{}, process {}", HostFacts::here().name, std::process::id())
}

impl From<NotTogether> for Failure {
    fn from(problem: NotTogether) -> Failure {
        Failure::Agent(problem.to_string())
    }
}

impl From<OrderError> for Failure {
    fn from(error: OrderError) -> Failure {
        match error {
            OrderError::Plan(error) => Failure::Usage(error.to_string()),
            OrderError::Thread(error) => RunError::Thread(error).into(),
        }
    }
}
