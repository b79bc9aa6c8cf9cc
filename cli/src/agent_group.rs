//! The agents of a command, and a run on them, as [`crate::drive`] drives a local one.

use std::env;
use std::mem;
use std::path::Path;
use std::thread;
use std::time::SystemTime;

use agents::admission::check_placement;
use agents::clock::START_AHEAD_MIN_NS;
use agents::controller::address::AgentAddress;
use agents::controller::fault::Fault;
use agents::controller::live::total;
use agents::controller::order::{OnLoss, Order, Placed};
use agents::controller::resume::{ResumeOrder, Resumed};
use agents::controller::run::{ControlPlane, Controlled, Ended, Lost};
use agents::controller::sample_file::SampleSink;
use agents::controller::weights;
use agents::key::{KEY_VARIABLE, Key};
use agents::message::{AgentShare, HostFacts};
use agents::refusal::Refusal;
use agents::run_id::RunId;
use engine::host;
use engine::host::environment::of_controller;
use engine::load::share::Share;
use engine::plan::Plan;
use engine::plan::body::SharedBody;
use engine::plan::redact::Redacted;
use engine::report::NotTogether;
use engine::report::collected::{LostAgent, RunFacts};
use engine::report::merge::Joined;
use engine::run::{Finished, Phase, RunError};
use engine::sys::clock;
use engine::sys::units::SECOND_NS;
use engine::sys::whole_file::WholeFileError;

use crate::args::AgentGroupArgs;
use crate::discovery;
use crate::failure::{Failure, complain, tell};
use crate::output::say;
use crate::progress::{self, Announce, ProgressLine, View};
use crate::signals::StopRequest;
use crate::sink::Sinks;
use crate::text::agents as text;
use crate::text::progress::awaiting;

/// The agents of a command.
pub(crate) struct AgentGroup {
    agents: Vec<AgentAddress>,
    shares: Vec<Share>,
    key: Option<Key>,
    on_loss: OnLoss,
    /// The files of its plans, each read once.
    files: SharedBody,
    plane: ControlPlane,
}

/// The files that are written during a run.
#[derive(Default)]
pub(crate) struct RunFiles<'a> {
    /// The folder of all agents' raw samples.
    pub(crate) raw: Option<&'a Path>,
    /// The files of its results.
    pub(crate) sinks: Option<&'a mut Sinks>,
}

/// A run on agents that has a report.
pub(crate) struct Driven {
    /// The run.
    pub(crate) finished: Finished,
    /// When the load began.
    pub(crate) began: SystemTime,
    /// The agents whose loss ended it.
    pub(crate) failure: Option<Failure>,
}

impl AgentGroup {
    /// The agents that were named, once they are there.
    ///
    /// # Errors
    /// A flag contradicts another, a named key file has no key, or there are too few agents.
    pub(crate) fn gather(args: &AgentGroupArgs, stop: &StopRequest) -> Result<AgentGroup, Failure> {
        let usage = |line: String| Err(Failure::Usage(line));
        let key = Key::find(args.key_file.as_deref(), env::var_os(KEY_VARIABLE).as_deref())
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let agents = discovery::agents(args, stop)?;
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
        host::require_executor().map_err(|check| Failure::CouldNotRun(check.to_string()))?;
        let plane = ControlPlane::start().map_err(RunError::Thread)?;
        let (shares, files) = (weights::shares(&weights), SharedBody::default());
        Ok(AgentGroup { agents, shares, key, on_loss, files, plane })
    }

    /// Runs a plan on the agents, to its end or to the first signal, shown as in `view`. The `head`
    /// is printed once all are set up.
    ///
    /// # Errors
    /// No agent runs the plan, an agent can't be used, a file can't be written, or a signal came
    /// before the run.
    pub(crate) fn drive(
        &self,
        plan: Plan,
        stop: &StopRequest,
        view: View<'_>,
        head: &str,
        files: RunFiles<'_>,
    ) -> Result<Driven, Failure> {
        let RunFiles { raw, sinks } = files;
        let mut none = Sinks::default();
        let sinks = sinks.unwrap_or(&mut none);
        let agents = self.placed(raw, stop)?;
        let (key, on_loss, name) = (self.key.clone(), self.on_loss, name());
        let order = Order { agents, key, plan, files: self.files.clone(), on_loss, name };
        let run = Controlled::start(&self.plane, order)
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let takes = view.announce.line(run.plan(), START_AHEAD_MIN_NS);
        takes.iter().for_each(|takes| tell(takes));
        let mut line = ProgressLine::new(run.plan(), view);
        let (mut said_drain, mut said_lost) = (false, vec![false; self.agents.len()]);
        let (mut said_head, mut says_run) = (None, matches!(view.announce, Announce::Run));
        while !run.is_finished() {
            let live = run.live();
            let in_flight = live.iter().map(|agent| agent.in_flight()).sum();
            if stop.asked() {
                run.stop();
                if !said_drain && 0 < in_flight {
                    line.say(&awaiting(in_flight));
                    said_drain = true;
                }
            }
            for (agent, said) in live.iter().zip(&mut said_lost) {
                if let (Some(why), OnLoss::Continue, false) = (&agent.lost, self.on_loss, *said)
                    && agent.total.is_some()
                {
                    line.say(&text::goes_on(&agent.name, why));
                    *said = true;
                }
            }
            let all = total(&live);
            let loaded = all.as_ref().filter(|all| all.phase != Phase::Setup);
            if loaded.is_some() {
                said_head.get_or_insert_with(|| line.above(|| say(head)));
                if mem::take(&mut says_run) {
                    line.above(|| tell(&text::resumable(run.id())));
                }
            }
            if let Some(now) = loaded {
                sinks.look(now);
            }
            line.show_agents(&live, all.as_ref());
            thread::sleep(progress::INTERVAL);
        }
        line.clear();
        if let Some(now) = total(&run.live()) {
            sinks.look_last(&now);
        }
        let ended = run.wait().map_err(RunError::Thread)?;
        let driven = self.finish(ended, raw)?;
        // The run may have ended before it was first looked at.
        said_head.unwrap_or_else(|| say(head))?;
        Ok(driven)
    }

    /// Makes the report of a run whose controller is gone from what the agents have kept. `given`
    /// is its plan, if the user gave one.
    ///
    /// # Errors
    /// Nothing of the run is left, it had another plan, a file can't be written, or a signal came.
    pub(crate) fn resume(
        &self,
        run: RunId,
        given: Option<&Redacted>,
        raw: Option<&Path>,
        stop: &StopRequest,
    ) -> Result<Driven, Failure> {
        let placed = self.placed(raw, stop)?;
        let agents = placed.into_iter().map(|placed| (placed.address, placed.samples)).collect();
        let order = ResumeOrder { run, agents, key: self.key.clone(), name: name() };
        let resumed = self.plane.resume(order, || stop.asked()).map_err(RunError::Thread)?;
        if stop.asked() {
            return Err(Failure::Interrupted);
        }
        let mut lost: Vec<LostAgent> =
            resumed.lost().map(|AgentShare { name, share }| unheard(name, share)).collect();
        let Resumed { agents, plan, replay, began, has_samples, faults, .. } = resumed;
        let (Some(plan), Some(began)) = (plan, began) else {
            let faults = faults.into_iter().map(|(name, fault)| (name, fault.to_string()));
            let faults: Vec<(String, String)> = faults.collect();
            let (name, why) = &faults[0];
            let others: Vec<&str> = faults[1..].iter().map(|(name, _)| name.as_str()).collect();
            return Err(Failure::Agent(text::unusable(name, why, &others)));
        };
        for (name, fault) in &faults {
            complain(&text::missing(name, &fault.to_string()));
        }
        if given.is_some_and(|given| !agents.values().all(|agent| agent.head.is_of(given))) {
            return Err(Failure::Usage(format!(
                "--resume {run}: that run had another plan; repeat its command line, or omit the \
                 URL and all flags of the plan"
            )));
        }
        match raw {
            Some(raw) if !has_samples => {
                return Err(Failure::Usage(format!(
                    "--raw {}: run {run} had no raw samples; omit it",
                    raw.display()
                )));
            }
            None if has_samples => tell(&text::has_samples(run)),
            _ => {}
        }
        let mut joined = Joined::default();
        for agent in agents.into_values() {
            let (name, share) = (agent.name.clone(), agent.share.clone());
            match agent.run(&plan) {
                Ok(run) => joined.add(run),
                Err(error) => {
                    complain(&text::missing(&name, &Fault::Results(error.to_string()).to_string()));
                    lost.push(unheard(name, share));
                }
            }
        }
        if joined.is_empty() {
            joined = Joined::none_left(&plan);
        }
        let facts = RunFacts {
            replay,
            lost,
            stopped: false,
            resumed: true,
            controller: Some(of_controller()),
            raw: raw.map(Path::to_owned),
            began: Some(began),
        };
        let (report, measured) = joined.report(&facts)?;
        let ago = began.elapsed().unwrap_or_default().as_nanos();
        let epoch_ns = clock::now_ns().saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX));
        let finished = Finished { report, measured, epoch_ns, began };
        Ok(Driven { finished, began, failure: None })
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
        let Ended { agents, mut lost, plan, replay, began_ns, began, stopped } = ended;
        let mut joined = Joined::default();
        // One at a time: an agent's decoded results take megabytes.
        for mut agent in agents {
            let (name, share) = (agent.name.clone(), agent.share.clone());
            let reported = agent.reported.take();
            match agent.run(&plan) {
                Ok(run) => joined.add(run),
                Err(error) => {
                    let (at_ns, fault) = (clock::now_ns(), Fault::Results(error.to_string()));
                    lost.push(Lost { name, share, at_ns, fault, reported });
                }
            }
        }
        let failure = unusable(&lost);
        let (Some(began_ns), false) = (began_ns, joined.is_empty() && lost.is_empty()) else {
            return Err(failure.unwrap_or(Failure::Interrupted));
        };
        let none_left = joined.is_empty();
        if none_left {
            joined = Joined::none_left(&plan);
        }
        let lost = lost.into_iter().map(|Lost { name, share, at_ns, reported, .. }| {
            let at_s = at_ns.saturating_sub(began_ns) as f64 / SECOND_NS as f64;
            LostAgent { name, at_s, share, reported }
        });
        let facts = RunFacts {
            replay,
            lost: lost.collect(),
            stopped,
            resumed: false,
            controller: Some(of_controller()),
            raw: raw.map(Path::to_owned),
            began: Some(began),
        };
        let (report, measured) = joined.report(&facts)?;
        Ok(Driven {
            finished: Finished { report, measured, epoch_ns: began_ns, began },
            began,
            failure: failure.filter(|_| none_left || self.on_loss == OnLoss::Abort),
        })
    }
}

/// An agent of a run of which nothing is left. It was there at the start; nothing later is known.
fn unheard(name: String, share: Share) -> LostAgent {
    LostAgent { name, at_s: 0.0, share, reported: None }
}

/// The failure that names all unusable agents.
fn unusable(lost: &[Lost]) -> Option<Failure> {
    let (Lost { name, fault, .. }, others) = lost.split_first()?;
    let others: Vec<&str> = others.iter().map(|lost| lost.name.as_str()).collect();
    let line = text::unusable(name, &fault.to_string(), &others);
    let is_down = |lost: &Lost| matches!(lost.fault, Fault::Refused(Refusal::Target(_)));
    // Then the agents are fine, and the failure is as for a run on this machine.
    Some(if lost.iter().all(is_down) { Failure::CouldNotRun(line) } else { Failure::Agent(line) })
}

/// Refuses a plan that names an agent's own resources.
///
/// # Errors
/// The flag, or the key of the plan file.
pub(crate) fn require_for_agents(plan: &Plan) -> Result<(), Failure> {
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
