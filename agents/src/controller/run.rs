//! A run on agents: starts the control plane, shows the agents' progress, collects their results.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::load::replay::ReplayedLog;
use engine::load::share::Share;
use engine::plan::redact::Redacted;
use engine::plan::{Plan, PlanError};
use engine::report::collected::{AgentRun, CollectedHead, Synchronization};
use engine::report::{AgentReported, NotOfPlan};
use engine::run::{Common, common, connections};
use engine::sys::clock::{now_ns, wall_time};
use glommio::timer::Timer;
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement};

use super::address::AgentAddress;
use super::attachments::Attachments;
use super::dialogue::{Brought, Limits, Task, Work};
use super::fault::Fault;
use super::goal::{Goal, Will};
use super::known::Shared;
use super::link::{Goals, Link, LinkEnd};
use super::live::AgentLive;
use super::order::{OnLoss, Order, Placed};
use super::sample_file::{SampleWriter, Stored, settled};
use crate::codec;
use crate::frame::PLAN_MAX;
use crate::message::{
    AgentShare, Attachment, Hello, MalformedShard, Message, Origin, Prepare, ShardState,
};
use crate::run_id::RunId;
use crate::session::IO_MEMORY;

/// How often the goal of all agents is decided.
pub(super) const DECISION_INTERVAL: Duration = Duration::from_millis(5);

/// The thread on which runs on agents are controlled, one after the other. Its executor leaves a
/// descriptor behind when it ends, so the runs of a series share one.
pub struct ControlPlane {
    pub(super) runs: Sender<ToControl>,
}

/// A run to control.
pub(super) type ToControl = Box<dyn FnOnce(&LocalExecutor) + Send>;

impl ControlPlane {
    /// Starts the thread; it ends when this is dropped.
    ///
    /// # Errors
    /// The kernel refuses a thread or a ring.
    pub fn start() -> io::Result<ControlPlane> {
        let (runs, to_control) = mpsc::channel::<ToControl>();
        let (started, is_started) = mpsc::sync_channel(1);
        let control = move || {
            let executor = LocalExecutorBuilder::new(Placement::Unbound)
                .name("truetail-agents")
                .io_memory(IO_MEMORY)
                .blocking_thread_pool_placement(PoolPlacement::Custom(Vec::new()))
                .make();
            let (executor, result) = match executor {
                Ok(executor) => (Some(executor), Ok(())),
                Err(error) => (None, Err(io::Error::from(error))),
            };
            started.send(result).expect("its caller waits");
            for executor in executor.iter() {
                to_control.iter().for_each(|run| run(executor));
            }
        };
        thread::Builder::new().name("truetail-agents".to_owned()).spawn(control)?;
        is_started.recv().expect("the control plane reports whether it started")?;
        Ok(ControlPlane { runs })
    }
}

/// A run on agents.
pub struct Controlled {
    id: RunId,
    plan: Redacted,
    shared: Arc<Shared>,
    ended: Receiver<io::Result<Ended>>,
    /// Held by the control plane until all results are here.
    under_way: Weak<()>,
}

/// How a run on agents ended.
pub struct Ended {
    /// The agents whose results are here, in order.
    pub agents: Vec<AgentResults>,
    /// Those that were lost.
    pub lost: Vec<Lost>,
    /// The plan that all were given, as their reports show it, without what is each agent's own.
    pub plan: Redacted,
    /// The log that they sent again.
    pub replay: Option<ReplayedLog>,
    /// When the load began, ns of this machine's CLOCK_MONOTONIC; `None` if it never did.
    pub began_ns: Option<u64>,
    /// The same by this machine's wall clock, as it was set then; meaningless if it never did.
    pub began: SystemTime,
    /// Whether the user stopped it.
    pub stopped: bool,
}

/// An agent, and what it measured.
pub struct AgentResults {
    /// Its name.
    pub name: String,
    /// Its share of the load.
    pub share: Share,
    /// Its hello.
    pub hello: Hello,
    /// Its results, without its shards'.
    pub head: CollectedHead,
    /// The results of its shards.
    pub shards: Vec<ShardState>,
    /// Its clock readings; `None` of a run that is resumed.
    pub synchronization: Option<Synchronization>,
    /// Its raw samples or why there are none; `None` if they weren't wanted.
    pub samples: Option<Stored>,
    /// Its progress as reported during the run.
    pub reported: Option<AgentReported>,
}

impl AgentResults {
    /// The agent's run of this plan, ready for a report, with the state of its raw samples. Its
    /// shards' results are decoded one by one.
    ///
    /// # Errors
    /// The results are malformed, or not those of the plan.
    pub fn run(self, plan: &Redacted) -> Result<AgentRun, Unreadable> {
        let AgentResults { name, share, hello, mut head, shards, synchronization, samples, .. } =
            self;
        if !head.is_of(plan) {
            return Err(Unreadable::OtherPlan);
        }
        head.samples = match (head.samples, samples) {
            (Some(there), Some(kept)) => Some(settled(there, kept)),
            (None, None) => None,
            _ => return Err(NotOfPlan.into()),
        };
        let shards = shards.into_iter().map(|shard| Ok::<_, Unreadable>(shard.report()?));
        let mut run = AgentRun::new(name, share, head, shards)?;
        run.synchronization = synchronization;
        run.findings = hello.findings.into_iter().map(|finding| finding.text).collect();
        Ok(run)
    }
}

/// Why an agent's results can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A shard's results can't be decoded.
    #[error(transparent)]
    Shard(#[from] MalformedShard),
    /// They are of another plan.
    #[error(transparent)]
    Other(#[from] NotOfPlan),
    /// The agent ran another plan.
    #[error("it ran another plan than the one it was given")]
    OtherPlan,
}

/// An agent that was lost.
#[derive(Debug)]
pub struct Lost {
    /// Its name.
    pub name: String,
    /// Its intended share of the load.
    pub share: Share,
    /// When it was lost, ns of this machine's CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Why.
    pub fault: Fault,
    /// Its reported progress; `None` if it was lost before.
    pub reported: Option<AgentReported>,
}

/// Checks that each agent of a completed plan has a connection, and that the plan and the list of
/// its files fit a message.
fn check(
    plan: &Plan,
    order: &Order,
    attachments: &[Attachment],
    origin: &Origin,
) -> Result<(), PlanError> {
    for Placed { share, samples, .. } in &order.agents {
        connections(plan, share)?;
        let (share, samples) = (share.clone(), samples.is_some());
        let (attachments, plan) = (attachments.to_vec(), Box::new(order.plan.clone()));
        let origin = origin.clone();
        let message = Prepare { share, samples, attachments, origin, plan };
        let length = codec::encode(&Message::Prepare(message)).len();
        if PLAN_MAX < length {
            let problem = format!("the plan takes {length} bytes, and an agent takes {PLAN_MAX}");
            let cure = "give long bodies as files (@FILE), or use `truetail run`";
            // As the user gave them: the completed plan has only digests.
            let (flag, value) = match &order.plan.body {
                Some(body) => ("--body", format!("of {} bytes", body.len())),
                None => ("--header", format!("given {} times", order.plan.headers.len())),
            };
            return Err(PlanError::new(flag, value, problem, cure));
        }
    }
    Ok(())
}

/// Writes what a plan has in ways of its own as documents write it, as which it travels: stages
/// that are rates or users by the plan's model, and a table `expect` of a step.
fn as_documents_have_it(plan: &mut Plan, completed: &Plan) {
    plan.stage.clone_from(&completed.stage);
    for step in plan.scenario.iter_mut().flat_map(|scenario| &mut scenario.step) {
        step.complete_expect().expect("the plan was completed");
    }
}

impl Controlled {
    /// Starts a run, which proceeds by itself.
    ///
    /// # Errors
    /// The plan is wrong.
    pub fn start(plane: &ControlPlane, mut order: Order) -> Result<Controlled, PlanError> {
        // The agents have cores of their own, and add them to the plan.
        let attachments = Attachments::of_plan(&order.plan, &order.files)?;
        let common = common(order.plan.clone(), &order.files)?;
        let plan = common.plan.clone();
        as_documents_have_it(&mut order.plan, plan.plan());
        let named = |Placed { address, share, .. }: &Placed| AgentShare {
            name: address.to_string(),
            share: share.clone(),
        };
        let agents = order.agents.iter().map(named).collect();
        let id = RunId::new();
        let origin = Origin { run: id, agents };
        check(plan.plan(), &order, &attachments.announced(), &origin)?;
        let limits = Limits::new(plan.plan());
        let names = order.agents.iter().map(|agent| agent.address.to_string());
        let shared = Arc::new(Shared::new(names));
        let known = Arc::clone(&shared);
        let (bring, ended) = mpsc::sync_channel(1);
        let guard = Arc::new(());
        let under_way = Arc::downgrade(&guard);
        let run = move |executor: &LocalExecutor| {
            let _guard = guard;
            // The caller may have dropped the run.
            let to_do = (order, attachments, origin);
            let _ = bring.send(control(executor, to_do, common, limits, &known));
        };
        plane.runs.send(Box::new(run)).expect("the control plane doesn't panic");
        Ok(Controlled { id, plan, shared, ended, under_way })
    }

    /// The run's name, by which another controller can resume it.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// The plan of all agents, completed except for what is each agent's own.
    pub fn plan(&self) -> &Plan {
        self.plan.plan()
    }

    /// The agents' progress.
    pub fn live(&self) -> Vec<AgentLive> {
        self.shared.live()
    }

    /// Ends the run early: agents stop, drain and report.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// True once all results are here, or none will come.
    pub fn is_finished(&self) -> bool {
        self.under_way.strong_count() == 0
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The kernel refuses a thread; then no agent was contacted.
    pub fn wait(self) -> io::Result<Ended> {
        self.ended.recv().expect("the control plane doesn't panic")
    }
}

/// The whole run, on the thread of the control plane.
fn control(
    executor: &LocalExecutor,
    (order, attachments, origin): (Order, Attachments, Origin),
    common: Common,
    limits: Limits,
    shared: &Arc<Shared>,
) -> io::Result<Ended> {
    let Order { agents, key, plan, files: _, on_loss, name } = order;
    let addresses = resolve(agents.iter().map(|agent| &agent.address));
    let mut members = Vec::new();
    let mut sinks = Vec::new();
    for Placed { address, share, samples } in agents {
        members.push((address, share, samples.is_some()));
        sinks.push(samples);
    }
    let writer = SampleWriter::start(sinks)?;
    let goals = Rc::new(Goals::new(members.len()));
    let (plan, attachments, origin) = (Rc::new(plan), Rc::new(attachments), Rc::new(origin));
    let hello = Rc::new(Hello::here(name, Vec::new()));
    let link = |(number, addresses): (usize, io::Result<Vec<SocketAddr>>)| {
        let (_, share, samples) = &members[number];
        let (plan, attachments) = (Rc::clone(&plan), Rc::clone(&attachments));
        let (share, origin) = (share.clone(), Rc::clone(&origin));
        let work = Work::Run { plan, attachments, share, origin };
        Link {
            number,
            addresses,
            key: key.clone(),
            task: Task { work, samples: *samples, hello: Rc::clone(&hello), limits },
            goals: Rc::clone(&goals),
            inlet: writer.inlet(),
            shared: Arc::clone(shared),
        }
    };
    let links = addresses.into_iter().enumerate().map(link).collect();
    let (brought, begun) = serve(executor, links, conduct(&goals, shared, on_loss));
    let stopped = shared.stops();
    let (agents, lost) = (Vec::new(), Vec::new());
    let Common { plan, replay } = common;
    let (began_ns, began) = (begun.map(|begun| begun.0), begun.map_or(UNIX_EPOCH, |begun| begun.1));
    let mut ended = Ended { agents, lost, plan, replay, began_ns, began, stopped };
    let all = members.into_iter().zip(brought).zip(writer.finish()).enumerate();
    for (number, ((member, brought), samples)) in all {
        ended.add(member, brought, samples, shared.reported(number));
    }
    Ok(ended)
}

/// Serves all links until they have ended, while `conduct` sets their goals; returns also what that
/// returns.
pub(super) fn serve<T>(
    executor: &LocalExecutor,
    links: Vec<Link>,
    conduct: impl Future<Output = T>,
) -> (Vec<LinkEnd>, T) {
    executor.run(async {
        let served: Vec<_> =
            links.into_iter().map(|link| glommio::spawn_local(link.serve())).collect();
        let conducted = conduct.await;
        let mut brought = Vec::new();
        for link in served {
            brought.push(link.await);
        }
        (brought, conducted)
    })
}

/// The addresses of all agents. Each may take seconds, so each has a thread.
pub(super) fn resolve<'a>(
    agents: impl Iterator<Item = &'a AgentAddress>,
) -> Vec<io::Result<Vec<SocketAddr>>> {
    thread::scope(|scope| {
        let resolving = |address: &'a AgentAddress| {
            thread::Builder::new().spawn_scoped(scope, move || address.resolve())
        };
        let threads: Vec<_> = agents.map(resolving).collect();
        let joined = threads.into_iter().map(|thread| {
            thread.and_then(|thread| thread.join().expect("a resolver doesn't panic"))
        });
        joined.collect()
    })
}

/// Sets one goal after the other until all agents have left; returns when the load began, by both
/// clocks.
async fn conduct(goals: &Goals, shared: &Shared, on_loss: OnLoss) -> Option<(u64, SystemTime)> {
    let mut begun = None;
    while goals.get() != Goal::Leave {
        Timer::new(DECISION_INTERVAL).await;
        let (goal, now_ns) = (goals.get(), now_ns());
        let will = Will { stops: shared.stops(), on_loss };
        let next = goal.next(&shared.standings(), will, now_ns);
        if let Goal::Begin { at_ns } = goal
            && at_ns <= now_ns
        {
            // Later, the wall clock may have been set.
            begun.get_or_insert_with(|| (at_ns, wall_time(at_ns)));
        }
        if next != goal {
            goals.set(next);
        }
    }
    begun
}

impl Ended {
    /// Adds the results of one agent's link.
    fn add(
        &mut self,
        (address, share, _): (AgentAddress, Share, bool),
        brought: LinkEnd,
        samples: Option<Stored>,
        reported: Option<AgentReported>,
    ) {
        let name = address.to_string();
        let LinkEnd { dialogue, lost } = brought;
        if let Some((fault, at_ns)) = lost {
            self.lost.push(Lost { name, share, at_ns, fault, reported });
        } else if let Some(Brought { hello, head, shards, synchronization, kept: _ }) =
            dialogue.and_then(|dialogue| dialogue.results())
        {
            self.agents.push(AgentResults {
                name,
                share,
                hello,
                head,
                shards,
                synchronization,
                samples,
                reported,
            });
        }
    }
}
