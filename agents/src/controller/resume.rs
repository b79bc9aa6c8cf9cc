//! Collects a run whose controller is gone from the agents that have kept it.
//!
//! Each agent kept all that its controller would have got, except the readings of its clock. So the
//! report is made as it would have been. The agents also know one another's names and shares, and
//! those of which nothing is left are lost ones of the run.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::load::replay::ReplayedLog;
use engine::plan::redact::Redacted;
use glommio::LocalExecutor;
use glommio::timer::Timer;

use super::address::AgentAddress;
use super::dialogue::{Brought, Limits, Task, Work};
use super::fault::Fault;
use super::goal::{Goal, Step};
use super::known::Shared;
use super::link::{Goals, Link, LinkEnd};
use super::run::{AgentResults, ControlPlane, DECISION_INTERVAL, resolve, serve};
use super::sample_file::{SampleSink, SampleWriter, Stored};
use crate::key::Key;
use crate::message::{AgentShare, Hello, KeptRun, Origin};
use crate::run_id::RunId;

/// How often to check whether the user gives up.
const LOOK: Duration = Duration::from_millis(50);

/// A run to resume.
pub struct ResumeOrder {
    /// Its name.
    pub run: RunId,
    /// The agents to ask, and the files for their raw samples; `None` if none are wanted.
    pub agents: Vec<(AgentAddress, Option<SampleSink>)>,
    /// The key that they have.
    pub key: Option<Key>,
    /// The name by which they know this controller.
    pub name: String,
}

/// What is left of a run.
#[derive(Default)]
pub struct Resumed {
    /// The agents whose results are here, by their numbers in the run.
    pub agents: BTreeMap<usize, AgentResults>,
    /// The run's plan, without what is each agent's own; `None` if nothing is left.
    pub plan: Option<Redacted>,
    /// The log that they sent again.
    pub replay: Option<ReplayedLog>,
    /// When the load began, if anything is left.
    pub began: Option<SystemTime>,
    /// Whether it had raw samples.
    pub has_samples: bool,
    /// The agents that were asked in vain, and why.
    pub faults: Vec<(String, Fault)>,
    /// The run, as its controller described it.
    origin: Option<Origin>,
}

impl ControlPlane {
    /// Collects what agents have kept of a run, unless `is_given_up` says so first.
    ///
    /// # Errors
    /// The kernel refuses a thread; then no agent was contacted.
    pub fn resume(
        &self,
        order: ResumeOrder,
        is_given_up: impl Fn() -> bool,
    ) -> io::Result<Resumed> {
        let shared = Arc::new(Shared::new(order.agents.iter().map(|(agent, _)| agent.to_string())));
        let known = Arc::clone(&shared);
        let (bring, brought) = mpsc::sync_channel(1);
        let run = move |executor: &LocalExecutor| {
            bring.send(resume(executor, order, &known)).expect("its caller waits");
        };
        self.runs.send(Box::new(run)).expect("the control plane doesn't panic");
        loop {
            match brought.recv_timeout(LOOK) {
                Ok(resumed) => return resumed,
                Err(RecvTimeoutError::Timeout) if is_given_up() => shared.stop(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the control plane doesn't panic"),
            }
        }
    }
}

/// Asks all agents, on the thread of the control plane.
fn resume(
    executor: &LocalExecutor,
    order: ResumeOrder,
    shared: &Arc<Shared>,
) -> io::Result<Resumed> {
    let ResumeOrder { run, agents, key, name } = order;
    let addresses = resolve(agents.iter().map(|(address, _)| address));
    let (named, sinks): (Vec<_>, Vec<_>) = agents.into_iter().unzip();
    let wanted: Vec<bool> = sinks.iter().map(Option::is_some).collect();
    let writer = SampleWriter::start(sinks)?;
    let goals = Rc::new(Goals::new(named.len()));
    let hello = Rc::new(Hello::here(name, Vec::new()));
    let link = |(number, addresses)| Link {
        number,
        addresses,
        key: key.clone(),
        task: Task {
            work: Work::Resume(run),
            samples: wanted[number],
            hello: Rc::clone(&hello),
            limits: Limits::default(),
        },
        goals: Rc::clone(&goals),
        inlet: writer.inlet(),
        shared: Arc::clone(shared),
    };
    let links = addresses.into_iter().enumerate().map(link).collect();
    let (brought, ()) = serve(executor, links, conduct(&goals, shared));
    let mut resumed = Resumed::default();
    for ((address, end), samples) in named.into_iter().zip(brought).zip(writer.finish()) {
        if let Err(fault) = resumed.add(end, samples) {
            resumed.faults.push((address.to_string(), fault));
        }
    }
    Ok(resumed)
}

/// Has all agents collected that can be reached, and parts.
async fn conduct(goals: &Goals, shared: &Shared) {
    for (reached, next) in [(Step::Greeted, Goal::Collect), (Step::Collected, Goal::Leave)] {
        let is_there = || {
            let standings = shared.standings();
            standings.iter().all(|agent| agent.is_lost || reached <= agent.step)
        };
        while !is_there() && !shared.stops() {
            Timer::new(DECISION_INTERVAL).await;
        }
        goals.set(next);
    }
}

impl Resumed {
    /// Agents of the run of which nothing is left.
    pub fn lost(&self) -> impl Iterator<Item = AgentShare> + '_ {
        let all = self.origin.iter().flat_map(|origin| &origin.agents).enumerate();
        all.filter(|(number, _)| !self.agents.contains_key(number)).map(|(_, agent)| agent.clone())
    }

    /// Adds what an agent brought.
    fn add(&mut self, end: LinkEnd, samples: Option<Stored>) -> Result<(), Fault> {
        let LinkEnd { dialogue, lost } = end;
        if let Some((fault, _)) = lost {
            return Err(fault);
        }
        let other = |problem: &str| Fault::Results(problem.to_owned());
        let brought = dialogue.and_then(|dialogue| dialogue.results()).ok_or(Fault::Left)?;
        let Brought { hello, mut head, shards, synchronization, kept } = brought;
        let KeptRun { origin, share, began_ns, replay, .. } =
            kept.ok_or_else(|| other("they name no run"))?;
        if self.origin.as_ref().is_some_and(|first| *first != origin)
            || self.plan.as_ref().is_some_and(|plan| !head.is_of(plan))
        {
            return Err(other("another agent has kept another run of this name"));
        }
        let number = origin.agents.iter().position(|agent| agent.share == share);
        let number = number.ok_or_else(|| other("the run had no such share"))?;
        if self.agents.contains_key(&number) {
            return Err(Fault::Twice);
        }
        self.has_samples |= head.samples.as_ref().is_some_and(|samples| samples.file.is_some());
        if samples.is_none() {
            // They stay where they are.
            head.samples = None;
        }
        let samples = samples.filter(|_| head.samples.is_some());
        let name = origin.agents[number].name.clone();
        let began = UNIX_EPOCH + Duration::from_nanos(began_ns);
        self.began = self.began.into_iter().chain([began]).min();
        self.replay = replay;
        self.plan.get_or_insert_with(|| head.plan.clone());
        self.origin = Some(origin);
        let reported = None;
        self.agents.insert(
            number,
            AgentResults { name, share, hello, head, shards, synchronization, samples, reported },
        );
        Ok(())
    }
}
