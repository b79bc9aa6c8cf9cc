//! What a controller says to one agent, and what it makes of the answers.
//!
//! A state machine: goals, messages and times go in, messages come out. All times are ns of the
//! controller's CLOCK_MONOTONIC.

use std::rc::Rc;

use engine::load::share::Share;
use engine::plan::Plan;
use engine::report::collected::{CollectedHead, Synchronization};
use engine::run::{Phase, Tally};
use engine::shard::DRAIN_INTERRUPTED_NS;
use engine::sys::units::{Nanos, SECOND_NS};

use super::fault::Fault;
use super::goal::{Goal, Step};
use crate::admission::setup_max_ns;
use crate::clock::{ClockWatch, Offset, PINGS_MIN, RoundTrip};
use crate::frame::Kind;
use crate::lease::{HEARTBEAT_NS, SILENCE_MAX_NS};
use crate::message::{
    Collect, Hello, Message, Ping, Pong, Prepare, Ready, Results, Samples, ShardState, Start,
    Versions,
};

/// How long an agent may take above what a plan says, ns: for its work, not for its load.
const LEEWAY_NS: u64 = 60 * SECOND_NS;
/// How long it may take to say who it is, ns.
const GREETING_MAX_NS: u64 = 10 * SECOND_NS;
/// How long a goodbye is waited for, ns.
const PARTING_MAX_NS: u64 = SECOND_NS;
/// The most shards of an agent: more cores than a machine has.
const SHARDS_MAX: usize = 4_096;

/// What one agent is to do in a run.
#[derive(Clone)]
pub(super) struct Task {
    /// The plan of all agents, as its user gave it.
    pub(super) plan: Rc<Plan>,
    /// What of its load the agent offers.
    pub(super) share: Share,
    /// Whether its raw samples are wanted.
    pub(super) samples: bool,
    /// Who asks.
    pub(super) hello: Rc<Hello>,
    /// How long each part of the run may take.
    pub(super) limits: Limits,
}

/// How long the parts of a run may take, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    setup_ns: u64,
    run_ns: u64,
}

impl Limits {
    /// Those of a completed plan.
    pub(super) fn new(plan: &Plan) -> Limits {
        let run_ns = plan.end_ns().saturating_add(plan.timeout.0);
        Limits {
            setup_ns: setup_max_ns(plan).saturating_add(LEEWAY_NS),
            run_ns: run_ns.saturating_add(LEEWAY_NS),
        }
    }
}

/// What follows from a message.
#[derive(Debug, PartialEq)]
pub(super) enum Deed {
    /// This is said.
    Say(Message),
    /// This is kept.
    Keep(Samples),
    /// Both sides have said goodbye.
    End,
}

/// What is said to one agent.
pub(super) struct Dialogue {
    task: Task,
    goal: Goal,
    step: Step,
    /// Whether the agent has a run that lives by heartbeats.
    holds: bool,
    /// The agent, once it has said who it is.
    hello: Option<Hello>,
    /// When the unanswered ping was sent.
    pinged_ns: Option<u64>,
    /// Pings from which the offset is taken.
    burst: Vec<RoundTrip>,
    clock: Option<ClockWatch>,
    /// Where the next part of the raw samples belongs; `None` if there is none.
    samples_at: Option<u64>,
    shards: Vec<ShardState>,
    head: Option<Box<CollectedHead>>,
    /// When something came last.
    heard_ns: u64,
    /// When it got on last.
    advanced_ns: u64,
    tick_ns: u64,
}

impl Dialogue {
    /// With an agent that a session has just been opened to.
    pub(super) fn new(task: Task, now_ns: u64) -> Dialogue {
        Dialogue {
            samples_at: task.samples.then_some(0),
            task,
            goal: Goal::Greet,
            step: Step::Connecting,
            holds: false,
            hello: None,
            pinged_ns: None,
            burst: Vec::with_capacity(PINGS_MIN),
            clock: None,
            shards: Vec::new(),
            head: None,
            heard_ns: now_ns,
            advanced_ns: now_ns,
            tick_ns: now_ns + HEARTBEAT_NS,
        }
    }

    /// What is said first.
    pub(super) fn greeting(&self) -> Message {
        Message::Hello(Hello::clone(&self.task.hello))
    }

    /// How far the agent has come.
    pub(super) fn step(&self) -> Step {
        self.step
    }

    /// The smallest round trip so far, ns.
    pub(super) fn round_trip_ns(&self) -> u64 {
        self.burst.iter().map(RoundTrip::length_ns).min().unwrap_or(0)
    }

    /// What is said for a new goal.
    ///
    /// # Errors
    /// The goal is a start that the agent's clock hasn't.
    pub(super) fn pursue(&mut self, goal: Goal, now_ns: u64) -> Result<Vec<Message>, Fault> {
        self.goal = goal;
        self.advanced_ns = now_ns;
        Ok(match goal {
            Goal::Greet => vec![],
            Goal::Prepare => {
                self.holds = true;
                let Task { plan, share, samples, .. } = &self.task;
                let plan = Box::new(Plan::clone(plan));
                vec![Message::Prepare(Prepare { share: share.clone(), samples: *samples, plan })]
            }
            // The answer to an earlier ping sets off the next one as well.
            Goal::Synchronize if self.pinged_ns.is_some() => vec![],
            Goal::Synchronize => vec![self.ping(now_ns)],
            Goal::Begin { at_ns } => {
                let clock = self.clock.as_ref().expect("a run begins once clocks are read");
                let at_ns = clock.start().agent_ns(at_ns)?;
                self.step = Step::Begun;
                vec![Message::Start(Start { at_ns })]
            }
            Goal::Stop => self.stopping(),
            Goal::Collect if self.step == Step::Over => {
                vec![Message::Collect(Collect { samples: self.task.samples })]
            }
            Goal::Collect => vec![],
            Goal::Leave => {
                let mut said = self.stopping();
                said.push(Message::Bye);
                self.holds = false;
                said
            }
        })
    }

    /// A run that isn't over is ended.
    fn stopping(&self) -> Vec<Message> {
        if self.holds && self.step < Step::Over { vec![Message::Stop] } else { vec![] }
    }

    fn ping(&mut self, now_ns: u64) -> Message {
        self.pinged_ns = Some(now_ns);
        Message::Ping(Ping { sent_ns: now_ns })
    }

    /// When to look next, ns.
    pub(super) fn due_ns(&self) -> u64 {
        match self.goal {
            Goal::Leave => self.advanced_ns + PARTING_MAX_NS,
            _ => self.tick_ns.min(self.heard_ns + SILENCE_MAX_NS),
        }
    }

    /// What is said because time has passed.
    ///
    /// # Errors
    /// The agent is silent, or too slow.
    pub(super) fn look(&mut self, now_ns: u64) -> Result<Vec<Message>, Fault> {
        if self.heard_ns + SILENCE_MAX_NS <= now_ns {
            return Err(Fault::Silent);
        }
        let (what, limit_ns) = self.limit();
        if limit_ns <= now_ns.saturating_sub(self.advanced_ns) {
            return Err(Fault::Slow { what, limit: Nanos(limit_ns) });
        }
        if now_ns < self.tick_ns {
            return Ok(vec![]);
        }
        // A beat that comes late is not made up for.
        self.tick_ns = (self.tick_ns + HEARTBEAT_NS).max(now_ns + HEARTBEAT_NS / 2);
        let mut said = Vec::new();
        if self.holds {
            said.push(Message::Heartbeat);
        }
        if self.step != Step::Connecting && self.goal != Goal::Leave && self.pinged_ns.is_none() {
            said.push(self.ping(now_ns));
        }
        Ok(said)
    }

    /// How long the agent may take for what it does now, ns.
    fn limit(&self) -> (&'static str, u64) {
        let Limits { setup_ns, run_ns } = self.task.limits;
        match (self.goal, self.step) {
            (Goal::Greet, Step::Connecting) => ("its greeting", GREETING_MAX_NS),
            (Goal::Prepare, Step::Greeted) => ("setup", setup_ns),
            (Goal::Synchronize, Step::Ready) => ("reading its clock", LEEWAY_NS),
            (Goal::Begin { .. }, Step::Begun) => ("the run", run_ns),
            (Goal::Stop, Step::Begun) => ("the drain", DRAIN_INTERRUPTED_NS + LEEWAY_NS),
            (Goal::Collect, Step::Over) => ("its report", LEEWAY_NS),
            (Goal::Leave, _) => ("parting", PARTING_MAX_NS),
            // It waits for the others, as it should.
            _ => ("waiting", u64::MAX),
        }
    }

    /// The agent was not listened to until now, so its silence means nothing.
    pub(super) fn excuse(&mut self, now_ns: u64) {
        (self.heard_ns, self.advanced_ns) = (now_ns, now_ns);
    }

    fn reach(&mut self, step: Step, now_ns: u64) {
        (self.step, self.advanced_ns) = (step, now_ns);
    }

    /// What follows from a message; the frame of progress in it is for [`super::live`].
    ///
    /// # Errors
    /// The agent refuses, or says what isn't its to say now.
    pub(super) fn hear(&mut self, message: Message, now_ns: u64) -> Result<Option<Deed>, Fault> {
        self.heard_ns = now_ns;
        match message {
            Message::Hello(hello) if self.step == Step::Connecting => {
                Versions::here().check(&hello.versions).map_err(Fault::Refused)?;
                self.hello = Some(hello);
                self.reach(Step::Greeted, now_ns);
                Ok(None)
            }
            Message::Pong(pong) if self.pinged_ns == Some(pong.sent_ns) => {
                self.pinged_ns = None;
                self.read_clock(&pong, now_ns)
            }
            Message::Ready(Ready { .. }) if self.holds && self.step == Step::Greeted => {
                self.reach(Step::Ready, now_ns);
                Ok(None)
            }
            Message::Progress(Tally { phase, .. }) if self.holds => {
                if phase == Phase::Done && self.step == Step::Begun {
                    self.reach(Step::Over, now_ns);
                }
                Ok(None)
            }
            Message::Samples(part) if self.collects() && self.samples_at.is_some() => {
                self.advanced_ns = now_ns;
                let due = self.samples_at.unwrap_or(0);
                if part.offset != due {
                    let problem = format!("samples at byte {}, due is {due}", part.offset);
                    return Err(Fault::Results(problem));
                }
                let end = due + part.bytes.as_slice().len() as u64;
                self.samples_at = (!part.is_last).then_some(end);
                Ok(Some(Deed::Keep(part)))
            }
            Message::Shard(shard) if self.collects() && self.shards.len() < SHARDS_MAX => {
                self.advanced_ns = now_ns;
                self.shards.push(shard);
                Ok(None)
            }
            Message::Report(Results { head, shards }) if self.collects() => {
                let here = self.shards.len();
                if here == 0 || usize::try_from(shards) != Ok(here) {
                    let problem = format!("{here} of {shards} shards are there");
                    return Err(Fault::Results(problem));
                }
                if self.samples_at.is_some() {
                    return Err(Fault::Results("its samples aren't whole".to_owned()));
                }
                self.head = Some(head);
                self.reach(Step::Collected, now_ns);
                Ok(None)
            }
            Message::Refused(refusal) => Err(Fault::Refused(refusal)),
            Message::Bye if self.goal == Goal::Leave => Ok(Some(Deed::End)),
            Message::Bye => Err(Fault::Left),
            // What was on its way when the session was to end.
            _ if self.goal == Goal::Leave => Ok(None),
            other => Err(Fault::OutOfTurn(Kind::of_message(&other))),
        }
    }

    fn collects(&self) -> bool {
        self.goal == Goal::Collect && self.step == Step::Over
    }

    /// What the answer to a ping says of the agent's clock.
    fn read_clock(&mut self, pong: &Pong, now_ns: u64) -> Result<Option<Deed>, Fault> {
        let round_trip = RoundTrip::new(pong, now_ns)?;
        match &mut self.clock {
            Some(clock) => clock.observe(round_trip),
            None if self.goal == Goal::Synchronize => {
                self.burst.push(round_trip);
                if self.burst.len() < PINGS_MIN {
                    return Ok(Some(Deed::Say(self.ping(now_ns))));
                }
                self.clock = Some(ClockWatch::new(Offset::new(&self.burst)?));
                self.reach(Step::Synchronized, now_ns);
            }
            // Before all agents are set up, an offset would only grow old.
            None => {}
        }
        Ok(None)
    }

    /// What the agent measured, and who it is; `None` if its report isn't here.
    pub(super) fn results(
        self,
    ) -> Option<(Hello, CollectedHead, Vec<ShardState>, Synchronization)> {
        let clock = self.clock?;
        let synchronization = Synchronization {
            pings: self.burst.len() as u64,
            offset_error_ns: clock.start().error_ns,
            end_error_ns: clock.end().map(|end| end.error_ns),
            drift_ppm: clock.drift().map(|drift| drift.ppm),
        };
        Some((self.hello?, *self.head?, self.shards, synchronization))
    }
}
