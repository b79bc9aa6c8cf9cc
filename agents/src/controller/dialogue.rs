//! What a controller sends to one agent, and how it handles the answers.
//!
//! A state machine: goals, messages and times go in, messages come out. All times are ns of the
//! controller's CLOCK_MONOTONIC.

use std::rc::Rc;

use engine::load::share::Share;
use engine::plan::Plan;
use engine::report::collected::{CollectedHead, Synchronization};
use engine::run::{Phase, RunProgress};
use engine::shard::DRAIN_INTERRUPTED_NS;
use engine::sys::units::{Nanos, SECOND_NS};

use super::attachments::Attachments;
use super::collection::Collection;
use super::fault::Fault;
use super::goal::{Goal, Step};
use super::sample_file::Chunk;
use crate::clock::{ClockWatch, Offset, PINGS_MIN, RoundTrip};
use crate::frame::Kind;
use crate::lease::{HEARTBEAT_NS, HeldBy, SILENCE_MAX_NS};
use crate::message::{
    Hello, KeptRun, Message, Origin, Ping, Pong, Prepare, Ready, ShardState, Start,
};
use crate::refusal::Refusal;
use crate::run_id::RunId;
use crate::versions::Versions;

/// How long an agent may take beyond the plan's own times, ns: for its work, not for its load.
const LEEWAY_NS: u64 = 60 * SECOND_NS;
/// How long its hello may take, ns.
const GREETING_MAX_NS: u64 = 10 * SECOND_NS;
/// A look that is this late, ns, means that the controller itself stalled.
const LATE_MAX_NS: u64 = SECOND_NS;
/// How long to wait for a goodbye, ns.
const PARTING_MAX_NS: u64 = SECOND_NS;

/// An agent's part of a run.
#[derive(Clone)]
pub(super) struct Task {
    /// The work that is asked of it.
    pub(super) work: Work,
    /// Whether its raw samples are wanted.
    pub(super) samples: bool,
    /// This controller's hello.
    pub(super) hello: Rc<Hello>,
    /// Time limits of the run's parts.
    pub(super) limits: Limits,
}

/// The work that is asked of an agent.
#[derive(Clone)]
pub(super) enum Work {
    /// To run its part of a plan.
    Run {
        /// The plan of all agents, as the user gave it.
        plan: Rc<Plan>,
        /// Its files.
        attachments: Rc<Attachments>,
        /// The agent's share of its load.
        share: Share,
        /// The run, and its agents.
        origin: Rc<Origin>,
    },
    /// To send what it has kept of a run.
    Resume(RunId),
}

/// How long the parts of a run may take, ns; by default there is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    setup_ns: u64,
    run_ns: u64,
}

impl Limits {
    /// The limits of a completed plan.
    pub(super) fn new(plan: &Plan) -> Limits {
        let run_ns = plan.end_ns().saturating_add(plan.timeout_max().0);
        Limits {
            setup_ns: plan.setup_ns().1.saturating_add(LEEWAY_NS),
            run_ns: run_ns.saturating_add(LEEWAY_NS),
        }
    }
}

/// The action for a message.
#[derive(Debug, PartialEq)]
pub(super) enum Deed {
    /// Send this.
    Say(Message),
    /// Store this in the file of its samples.
    Store(Chunk),
    /// Both sides have said goodbye.
    End,
}

/// What an agent has brought.
pub(super) struct Brought {
    pub(super) hello: Hello,
    pub(super) head: CollectedHead,
    pub(super) shards: Vec<ShardState>,
    /// `None` if its clock wasn't read.
    pub(super) synchronization: Option<Synchronization>,
    /// The run, if these are kept results.
    pub(super) kept: Option<KeptRun>,
}

/// The exchange with one agent.
pub(super) struct Dialogue {
    task: Task,
    goal: Goal,
    step: Step,
    /// True if the agent has a run that lives by heartbeats.
    holds: bool,
    /// The agent may ask for parts of attachments from here on: number, and offset.
    wanted_from: (u32, u64),
    /// The agent's hello, once it has come.
    hello: Option<Hello>,
    /// When the unanswered ping was sent.
    pinged_ns: Option<u64>,
    /// Pings from which the offset is taken.
    burst: Vec<RoundTrip>,
    clock: Option<ClockWatch>,
    /// The run whose kept results come.
    kept: Option<KeptRun>,
    collection: Collection,
    /// When the last message came.
    heard_ns: u64,
    /// When its last step was reached.
    advanced_ns: u64,
    /// Until when the agent was not listened to.
    excused_ns: u64,
    tick_ns: u64,
}

impl Dialogue {
    /// Starts the exchange with an agent on a new session.
    pub(super) fn new(task: Task, now_ns: u64) -> Dialogue {
        Dialogue {
            task,
            goal: Goal::Greet,
            step: Step::Connecting,
            holds: false,
            wanted_from: (0, 0),
            hello: None,
            pinged_ns: None,
            burst: Vec::with_capacity(PINGS_MIN),
            clock: None,
            kept: None,
            collection: Collection::default(),
            heard_ns: now_ns,
            advanced_ns: now_ns,
            excused_ns: now_ns,
            tick_ns: now_ns + HEARTBEAT_NS,
        }
    }

    /// The first message.
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

    /// The messages for a new goal.
    ///
    /// # Errors
    /// The goal is a start before the agent's clock began.
    pub(super) fn pursue(&mut self, goal: Goal, now_ns: u64) -> Result<Vec<Message>, Fault> {
        self.goal = goal;
        self.advanced_ns = now_ns;
        Ok(match goal {
            Goal::Greet => vec![],
            Goal::Prepare => {
                self.holds = true;
                self.preparing().into_iter().collect()
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
            Goal::Collect if self.step == Step::Over => vec![match self.task.work {
                Work::Run { .. } => Message::Collect,
                Work::Resume(run) => Message::Resume(run),
            }],
            Goal::Collect => vec![],
            Goal::Leave => {
                let mut said = self.stopping();
                said.push(Message::Bye);
                self.holds = false;
                said
            }
        })
    }

    /// The agent's part of a plan, if it is to run one.
    fn preparing(&self) -> Option<Message> {
        let Work::Run { plan, attachments, share, origin } = &self.task.work else { return None };
        Some(Message::Prepare(Prepare {
            share: share.clone(),
            samples: self.task.samples,
            attachments: attachments.announced(),
            origin: Origin::clone(origin),
            plan: Box::new(Plan::clone(plan)),
        }))
    }

    /// Ends a run that isn't over.
    fn stopping(&self) -> Vec<Message> {
        if self.holds && self.step < Step::Over { vec![Message::Stop] } else { vec![] }
    }

    fn ping(&mut self, now_ns: u64) -> Message {
        self.pinged_ns = Some(now_ns);
        Message::Ping(Ping { sent_ns: now_ns })
    }

    /// When to call `look` next, ns.
    pub(super) fn due_ns(&self) -> u64 {
        match self.goal {
            Goal::Leave => self.advanced_ns + PARTING_MAX_NS,
            _ => self.tick_ns.min(self.heard_ns.max(self.excused_ns) + SILENCE_MAX_NS),
        }
    }

    /// The messages that are due by now.
    ///
    /// # Errors
    /// The agent is silent, or too slow.
    pub(super) fn look(&mut self, now_ns: u64) -> Result<Vec<Message>, Fault> {
        if self.due_ns() + LATE_MAX_NS < now_ns {
            // This side stalled, and the agents' messages of that time are still unread.
            self.excused_ns = now_ns;
        }
        let heard_ns = self.heard_ns.max(self.excused_ns);
        if heard_ns + SILENCE_MAX_NS <= now_ns {
            return Err(Fault::Silent);
        }
        let (what, limit_ns) = self.limit();
        if limit_ns <= now_ns.saturating_sub(self.advanced_ns.max(self.excused_ns)) {
            return Err(Fault::Slow { what, limit: Nanos(limit_ns) });
        }
        if now_ns < self.tick_ns {
            return Ok(vec![]);
        }
        // A late beat is not made up for.
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

    /// How long the agent may take for its current step, ns.
    fn limit(&self) -> (&'static str, u64) {
        let Limits { setup_ns, run_ns } = self.task.limits;
        match (self.goal, self.step) {
            (Goal::Greet, Step::Connecting) => ("its greeting", GREETING_MAX_NS),
            (Goal::Prepare, Step::Greeted) => ("setup", setup_ns),
            (Goal::Synchronize, Step::Ready) => ("reading its clock", LEEWAY_NS),
            (Goal::Begin { .. }, Step::Begun) => ("the run", run_ns),
            (Goal::Stop, Step::Begun) => ("the drain", DRAIN_INTERRUPTED_NS + LEEWAY_NS),
            (Goal::Collect, Step::Over) if !self.collection.is_reported() => {
                ("its report", LEEWAY_NS)
            }
            (Goal::Collect, Step::Over) if 0 < self.awaited_bytes() => {
                ("a part of its raw samples", LEEWAY_NS)
            }
            (Goal::Leave, _) => ("parting", PARTING_MAX_NS),
            // It rightly waits for the others, or for a disk here.
            _ => ("waiting", u64::MAX),
        }
    }

    /// When the last message came, ns.
    pub(super) fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    fn reach(&mut self, step: Step, now_ns: u64) {
        (self.step, self.advanced_ns) = (step, now_ns);
    }

    /// Handles a message; its visible progress goes to [`super::live`].
    ///
    /// # Errors
    /// The agent refuses, or the message isn't allowed now.
    pub(super) fn hear(&mut self, message: Message, now_ns: u64) -> Result<Option<Deed>, Fault> {
        self.heard_ns = now_ns;
        match message {
            Message::Hello(hello) if self.step == Step::Connecting => {
                let checked = Versions::here().check(&hello.versions);
                checked.map_err(|differ| Fault::Refused(differ.into()))?;
                self.hello = Some(hello);
                let step = match self.task.work {
                    Work::Run { .. } => Step::Greeted,
                    // Its run is over, or the agent answers once it is.
                    Work::Resume(_) => Step::Over,
                };
                self.reach(step, now_ns);
                Ok(None)
            }
            Message::Pong(pong) if self.pinged_ns == Some(pong.sent_ns) => {
                self.pinged_ns = None;
                self.read_clock(&pong, now_ns)
            }
            Message::Wanted(wanted) if self.holds && self.step == Step::Greeted => {
                let place = (wanted.number, wanted.offset);
                if place < self.wanted_from {
                    return Err(Fault::OutOfTurn(Kind::Wanted));
                }
                let Work::Run { attachments, .. } = &self.task.work else {
                    return Err(Fault::OutOfTurn(Kind::Wanted));
                };
                let part = attachments.part(wanted)?;
                let length = part.bytes.as_slice().len() as u64;
                self.wanted_from = (wanted.number, wanted.offset + length);
                self.advanced_ns = now_ns;
                Ok(Some(Deed::Say(Message::Part(part))))
            }
            Message::Ready(Ready { .. }) if self.holds && self.step == Step::Greeted => {
                self.reach(Step::Ready, now_ns);
                Ok(None)
            }
            Message::Progress(RunProgress { phase, .. }) if self.holds => {
                if phase == Phase::Done && self.step == Step::Begun {
                    self.reach(Step::Over, now_ns);
                }
                Ok(None)
            }
            Message::Kept(kept) if self.collects() && self.kept.is_none() => {
                let checked = Versions::here().check(&kept.versions);
                checked.map_err(|differ| Fault::Refused(differ.into()))?;
                self.advanced_ns = now_ns;
                self.kept = Some(kept);
                Ok(None)
            }
            Message::Shard(shard) if self.collects() => {
                self.advanced_ns = now_ns;
                self.collection.shard(shard)?;
                Ok(None)
            }
            Message::Report(results) if self.collects() => {
                self.advanced_ns = now_ns;
                let none = self.collection.report(results, self.task.samples)?;
                self.reach_collected(now_ns);
                Ok(none.map(Deed::Store))
            }
            Message::Part(part) if self.collects() => {
                self.advanced_ns = now_ns;
                let chunk = self.collection.part(part)?;
                self.reach_collected(now_ns);
                Ok(Some(Deed::Store(chunk)))
            }
            Message::Refused(Refusal::Ending) if self.holds => Err(Fault::Ended),
            Message::Refused(Refusal::Held(HeldBy { holder, .. }))
                if holder == self.task.hello.name =>
            {
                Err(Fault::Twice)
            }
            Message::Refused(refusal) => Err(Fault::Refused(refusal)),
            Message::Bye if self.goal == Goal::Leave => Ok(Some(Deed::End)),
            Message::Bye => Err(Fault::Left),
            // These messages were on their way when the session was to end.
            _ if self.goal == Goal::Leave => Ok(None),
            other => Err(Fault::OutOfTurn(Kind::of_message(&other))),
        }
    }

    fn collects(&self) -> bool {
        self.goal == Goal::Collect && self.step == Step::Over
    }

    fn reach_collected(&mut self, now_ns: u64) {
        if self.collection.is_whole() {
            self.reach(Step::Collected, now_ns);
        }
    }

    /// The length of the next part of its raw samples that may be asked for, once the disk has room
    /// for it.
    pub(super) fn next_bytes(&self) -> Option<usize> {
        self.collection.next_bytes().filter(|_| self.collects())
    }

    /// Asks for that part.
    pub(super) fn ask(&mut self, now_ns: u64) -> Message {
        if self.awaited_bytes() == 0 {
            self.advanced_ns = now_ns;
        }
        Message::Wanted(self.collection.ask())
    }

    /// There is no place for the rest of its raw samples.
    pub(super) fn forgo_samples(&mut self, now_ns: u64) {
        self.collection.forgo_samples();
        self.reach_collected(now_ns);
    }

    /// Bytes of its raw samples that were asked for and haven't come.
    pub(super) fn awaited_bytes(&self) -> usize {
        self.collection.awaited_bytes()
    }

    /// Reads the agent's clock from the answer to a ping.
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
            // Before all agents are set up, an offset would only grow stale.
            None => {}
        }
        Ok(None)
    }

    /// The agent's results; `None` if its report hasn't come.
    pub(super) fn results(self) -> Option<Brought> {
        let pings = self.burst.len() as u64;
        let synchronization = self.clock.map(|clock| Synchronization {
            pings,
            offset_error_ns: clock.start().error_ns,
            end_error_ns: clock.end_error_ns(),
            drift_ppm: clock.drift().map(|drift| drift.ppm),
            drift_error_ppm: clock.drift().map(|drift| drift.error_ppm),
        });
        let (head, shards) = self.collection.results()?;
        Some(Brought { hello: self.hello?, head, shards, synchronization, kept: self.kept })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::host::environment::environment;
    use engine::plan::body::{Body, SharedBody};
    use engine::plan::redact::Redacted;
    use engine::report::machine::Machine;
    use engine::shard::CoarseHistogram;

    use super::super::collection::SHARDS_MAX;
    use super::*;
    use crate::message::{PART_BYTES, Part, Results, Wanted};

    const NOW_NS: u64 = 100 * SECOND_NS;

    fn dialogue() -> Dialogue {
        with_files(&SharedBody::of_files([]), None)
    }

    /// A dialogue about a plan with this body.
    fn with_files(files: &SharedBody, body: Option<&str>) -> Dialogue {
        let plan = Plan {
            body: body.map(str::to_owned),
            target: "http://127.0.0.1:1/".to_owned(),
            rate: Some("9k".parse().expect("a rate")),
            warmup: Nanos(0),
            duration: Nanos::from_secs(30),
            timeout: Nanos::from_secs(10),
            ..Plan::default()
        };
        let limits = Limits::new(&plan.clone().complete(&[0]).expect("a plan"));
        let hello = Rc::new(Hello::here("ann@desk".to_owned(), Vec::new()));
        let attachments = Rc::new(Attachments::of_plan(&plan, files).expect("its files"));
        let (plan, share, origin) = (Rc::new(plan), Share::whole(), Rc::default());
        let work = Work::Run { plan, attachments, share, origin };
        Dialogue::new(Task { work, samples: true, hello, limits }, NOW_NS)
    }

    /// The answers of a healthy agent.
    fn honest(said: &Message, now_ns: u64) -> Option<Message> {
        Some(match said {
            Message::Hello(_) => Message::Hello(Hello::here("agent".to_owned(), Vec::new())),
            Message::Ping(Ping { sent_ns }) => {
                Message::Pong(Pong { sent_ns: *sent_ns, received_ns: now_ns, answered_ns: now_ns })
            }
            Message::Prepare(_) => Message::Ready(Ready { settled: None }),
            _ => return None,
        })
    }

    /// A dialogue that has reached the last of these goals; time stands still.
    fn arrived(goals: &[Goal]) -> Dialogue {
        arrive(dialogue(), goals)
    }

    fn arrive(mut dialogue: Dialogue, goals: &[Goal]) -> Dialogue {
        let mut said = vec![dialogue.greeting()];
        for goal in [Goal::Greet].iter().chain(goals) {
            said.extend(dialogue.pursue(*goal, NOW_NS).expect("a goal"));
            while let Some(answer) = said.pop().and_then(|said| honest(&said, NOW_NS)) {
                if let Some(Deed::Say(next)) = dialogue.hear(answer, NOW_NS).expect("an answer") {
                    said.push(next);
                }
            }
        }
        dialogue
    }

    fn progress(phase: Phase) -> Message {
        let latency = CoarseHistogram::default();
        let (intended, answered, errors, in_flight, elapsed_ns) = (0, 0, 0, 0, 0);
        Message::Progress(RunProgress {
            phase,
            elapsed_ns,
            intended,
            answered,
            errors,
            in_flight,
            counts: Default::default(),
            latency,
        })
    }

    const BEGIN: Goal = Goal::Begin { at_ns: NOW_NS + 2 * SECOND_NS };
    const TO_BEGIN: [Goal; 3] = [Goal::Prepare, Goal::Synchronize, BEGIN];

    /// An agent whose run is over and that was asked to report.
    fn collecting() -> Dialogue {
        let mut dialogue = arrived(&TO_BEGIN);
        dialogue.hear(progress(Phase::Done), NOW_NS).expect("it is over");
        let said = dialogue.pursue(Goal::Collect, NOW_NS).expect("a goal");
        assert_eq!(said, [Message::Collect]);
        dialogue
    }

    /// A part of a file of samples.
    fn part(offset: usize, length: usize) -> Message {
        let bytes = vec![7; length].into();
        Message::Part(Part { number: 0, offset: offset as u64, bytes })
    }

    /// The report of one shard, with so many bytes of samples.
    fn report(samples_bytes: usize) -> Message {
        let plan = Plan { target: "http://127.0.0.1:1/".to_owned(), ..Plan::default() };
        let plan = plan.complete(&[0]).expect("a plan");
        let head = Box::new(CollectedHead {
            plan: Redacted::new(&plan, &Body::of_bytes(Vec::new())),
            addresses: Vec::new(),
            environment: environment(&[0], Vec::new(), None),
            machine: Machine::default(),
            interrupted: false,
            until_ns: 0,
            epoch_ns: 0,
            samples: None,
        });
        Message::Report(Results { head, shards: 1, samples_bytes: samples_bytes as u64 })
    }

    #[test]
    fn sixteen_pings_in_a_row_set_the_start() {
        let dialogue = arrived(&TO_BEGIN);
        assert_eq!((dialogue.step(), dialogue.burst.len()), (Step::Begun, PINGS_MIN));
        let clock = dialogue.clock.as_ref().expect("a clock").start();
        assert_eq!((clock.offset_ns, clock.error_ns), (0, 1), "times stand still");
    }

    #[test]
    fn each_part_of_a_file_is_sent_when_it_is_asked_for() {
        let bytes: Vec<u8> = (0..PART_BYTES + 10).map(|at| at.to_le_bytes()[0]).collect();
        let file = Arc::new(Body::of_bytes(bytes.clone()));
        let files = SharedBody::of_files([("f".to_owned(), file)]);
        let asked = || {
            let mut dialogue = arrive(with_files(&files, Some("@f")), &[]);
            let said = dialogue.pursue(Goal::Prepare, NOW_NS).expect("a goal");
            let [Message::Prepare(prepare)] = &said[..] else { panic!("{said:?}") };
            let [attachment] = &prepare.attachments[..] else { panic!("{prepare:?}") };
            assert_eq!((&*attachment.name, attachment.length), ("f", bytes.len() as u64));
            dialogue
        };
        let mut dialogue = asked();
        let mut wants = |number, offset: usize, now_ns| {
            let wanted = Wanted { number, offset: offset as u64 };
            match dialogue.hear(Message::Wanted(wanted), now_ns)? {
                Some(Deed::Say(Message::Part(part))) => Ok(part.bytes.into_vec()),
                other => panic!("{other:?}"),
            }
        };
        let (first, last) = bytes.split_at(PART_BYTES);
        assert_eq!(wants(0, 0, NOW_NS).expect("a part"), first);
        assert_eq!(wants(0, PART_BYTES, NOW_NS + 1).expect("a part"), last);
        assert!(matches!(wants(0, PART_BYTES, NOW_NS), Err(Fault::OutOfTurn(Kind::Wanted))));
        assert_eq!(dialogue.advanced_ns, NOW_NS + 1, "time for setup counts from the last part");
        for wanted in [Wanted { number: 1, offset: 0 }, Wanted { number: 0, offset: 1 << 40 }] {
            let fault = asked().hear(Message::Wanted(wanted), NOW_NS).expect_err("no such part");
            assert!(matches!(fault, Fault::OutOfTurn(Kind::Wanted)), "{fault}");
        }
    }

    #[test]
    fn heartbeats_leave_each_second_from_the_plan_to_the_goodbye() {
        let mut dialogue = arrived(&[]);
        let ping = |at_ns| Message::Ping(Ping { sent_ns: at_ns });
        let mut now_ns = NOW_NS + SECOND_NS;
        assert_eq!(dialogue.look(now_ns - 1).expect("nothing"), []);
        assert_eq!(dialogue.look(now_ns).expect("a ping"), [ping(now_ns)], "it isn't held yet");
        let answer = honest(&ping(now_ns), now_ns).expect("an answer");
        dialogue.hear(answer, now_ns).expect("a pong");
        dialogue.pursue(Goal::Prepare, now_ns).expect("a goal");
        for _ in 0..100 {
            now_ns = dialogue.due_ns();
            let said = dialogue.look(now_ns).expect("a beat");
            assert_eq!(said, [Message::Heartbeat, ping(now_ns)]);
            let answer = honest(&ping(now_ns), now_ns).expect("an answer");
            dialogue.hear(answer, now_ns).expect("a pong");
            dialogue.excused_ns = now_ns;
        }
        assert_eq!(now_ns, NOW_NS + 101 * SECOND_NS, "none is late");
        // A ping is answered before the next one is sent.
        now_ns = dialogue.due_ns();
        dialogue.look(now_ns).expect("a beat");
        now_ns = dialogue.due_ns();
        assert_eq!(dialogue.look(now_ns).expect("a beat"), [Message::Heartbeat]);
        // A late one isn't made up for.
        now_ns = dialogue.due_ns() + SECOND_NS * 9 / 10;
        dialogue.excused_ns = now_ns;
        assert_eq!(dialogue.look(now_ns).expect("a beat"), [Message::Heartbeat]);
        assert!(now_ns + SECOND_NS / 2 <= dialogue.due_ns());
        // It isn't ready, so its run is stopped before both part.
        let said = dialogue.pursue(Goal::Leave, now_ns).expect("a goal");
        assert_eq!(said, [Message::Stop, Message::Bye]);
    }

    #[test]
    fn silence_or_slowness_ends_it() {
        let mut silent = arrived(&TO_BEGIN);
        let end_ns = NOW_NS + SILENCE_MAX_NS;
        while silent.due_ns() < end_ns {
            assert!(silent.look(silent.due_ns()).is_ok());
        }
        assert!(matches!(silent.look(end_ns), Err(Fault::Silent)));
        assert_eq!(silent.heard_ns(), NOW_NS);
        // A controller that stalled listens first.
        let mut unheard = arrived(&TO_BEGIN);
        let late_ns = NOW_NS + 10 * SECOND_NS;
        assert_eq!(unheard.look(late_ns).expect("a beat")[0], Message::Heartbeat);
        while unheard.due_ns() < late_ns + SILENCE_MAX_NS {
            assert!(unheard.look(unheard.due_ns()).is_ok());
        }
        assert!(matches!(unheard.look(late_ns + SILENCE_MAX_NS), Err(Fault::Silent)));
        assert_eq!(unheard.heard_ns(), NOW_NS);
        let slow = |goals: &[Goal], after: Nanos| {
            let mut dialogue = arrived(goals);
            for early in [true, false] {
                let now_ns = NOW_NS + after.0 - u64::from(early);
                (dialogue.heard_ns, dialogue.tick_ns) = (now_ns, now_ns);
                let looked = dialogue.look(now_ns);
                if early {
                    assert!(looked.is_ok(), "{goals:?}");
                } else {
                    return looked.expect_err("too slow").to_string();
                }
            }
            unreachable!("it looks twice")
        };
        let mut greeting = dialogue();
        let now_ns = NOW_NS + GREETING_MAX_NS;
        (greeting.heard_ns, greeting.tick_ns) = (now_ns, now_ns);
        let fault = greeting.look(now_ns).expect_err("too slow").to_string();
        assert_eq!(fault, "its greeting took longer than 10s");
        assert_eq!(slow(&TO_BEGIN, Nanos::from_secs(100)), "the run took longer than 1m40s");
        let stopped = [TO_BEGIN.as_slice(), &[Goal::Stop]].concat();
        assert_eq!(slow(&stopped, Nanos::from_secs(62)), "the drain took longer than 1m2s");
        // An agent that has done its part waits for the others as long as it takes.
        let mut waiting = arrived(&[Goal::Prepare]);
        waiting.heard_ns = NOW_NS + 10_000 * SECOND_NS;
        assert!(waiting.look(waiting.heard_ns).is_ok());
    }

    #[test]
    fn an_agent_held_by_this_controller_was_named_twice() {
        let fault = |holder: &str| {
            let (holder, length) = (holder.to_owned(), Nanos(0));
            let refused = Message::Refused(Refusal::Held(HeldBy { holder, length }));
            arrived(&TO_BEGIN[..1]).hear(refused, NOW_NS).expect_err("it is held")
        };
        assert!(matches!(fault("ann@desk"), Fault::Twice));
        assert!(matches!(fault("bob@desk"), Fault::Refused(Refusal::Held(_))));
    }

    #[test]
    fn a_message_out_of_turn_ends_it() {
        let ready = Message::Ready(Ready { settled: None });
        let pong = Message::Pong(Pong { sent_ns: 1, received_ns: 2, answered_ns: 3 });
        let shard = Message::Shard(ShardState::of_bytes(vec![]));
        for (goals, message) in [
            (&[][..], ready.clone()),
            (&[], pong),
            (&[], progress(Phase::Setup)),
            (&[], Message::Hello(Hello::here(String::new(), Vec::new()))),
            (&TO_BEGIN[..1], ready),
            (&TO_BEGIN[..1], Message::Wanted(Wanted { number: 0, offset: 0 })),
            (&TO_BEGIN, shard),
            (&TO_BEGIN, part(0, 10)),
        ] {
            let kind = Kind::of_message(&message);
            match arrived(goals).hear(message, NOW_NS) {
                Err(Fault::OutOfTurn(found)) => assert_eq!(found, kind, "{goals:?}"),
                other => panic!("{goals:?}: {kind}: {other:?}"),
            }
        }
        assert!(matches!(arrived(&TO_BEGIN).hear(Message::Bye, NOW_NS), Err(Fault::Left)));
        let mut leaving = arrived(&[Goal::Leave]);
        assert_eq!(leaving.hear(progress(Phase::Setup), NOW_NS).expect("on its way"), None);
        assert_eq!(leaving.hear(Message::Bye, NOW_NS).expect("goodbye"), Some(Deed::End));
    }

    #[test]
    fn results_are_whole_or_none() {
        let shard = || Message::Shard(ShardState::of_bytes(vec![1]));
        let problem = |messages: Vec<Message>| {
            let mut dialogue = collecting();
            let heard = messages.into_iter().find_map(|it| dialogue.hear(it, NOW_NS).err());
            heard.expect("not whole").to_string()
        };
        for (messages, words) in [
            (vec![report(0)], "0 of 1 shards are there"),
            (vec![shard(), shard(), report(0)], "2 of 1 shards are there"),
            (vec![shard(), report(10), report(10)], "report is out of turn"),
            (vec![shard(), report(10), shard()], "shard is out of turn"),
            (vec![part(0, 10)], "part is out of turn"),
            (vec![shard(), report(10), part(0, 10)], "part is out of turn"),
        ] {
            let found = problem(messages);
            assert!(found.ends_with(words), "{found}");
        }
        let mut dialogue = collecting();
        for _ in 0..SHARDS_MAX {
            dialogue.hear(shard(), NOW_NS).expect("a shard");
        }
        assert!(dialogue.hear(shard(), NOW_NS).is_err(), "no machine has so many");
        assert!(dialogue.results().is_none(), "its report isn't here");
    }

    #[test]
    fn samples_come_as_they_are_asked_for_and_a_disk_may_take_its_time() {
        let reported = |samples_bytes| {
            let mut dialogue = collecting();
            let shard = Message::Shard(ShardState::of_bytes(vec![1]));
            dialogue.hear(shard, NOW_NS).expect("a shard");
            let deed = dialogue.hear(report(samples_bytes), NOW_NS).expect("a report");
            (dialogue, deed)
        };
        let (dialogue, deed) = reported(0);
        let Some(Deed::Store(none)) = deed else { panic!("{deed:?}") };
        assert!(none.is_last && none.bytes.as_slice().is_empty(), "there is no file");
        assert_eq!((dialogue.step(), dialogue.next_bytes()), (Step::Collected, None));
        let length = 20 * PART_BYTES + 10;
        let (mut dialogue, _) = reported(length);
        let mut now_ns = NOW_NS;
        let mut arrived = 0;
        while dialogue.step() == Step::Over {
            // An hour in which the disk has no room: only the session must live.
            now_ns += 3_600 * SECOND_NS;
            (dialogue.heard_ns, dialogue.tick_ns) = (now_ns, now_ns);
            assert!(!dialogue.look(now_ns).expect("it waits for a disk").is_empty());
            let mut asked = 0;
            while let Some(bytes) = dialogue.next_bytes() {
                let offset = arrived + asked;
                let wanted = Wanted { number: 0, offset: offset as u64 };
                assert_eq!(dialogue.ask(now_ns), Message::Wanted(wanted));
                assert_eq!(bytes, PART_BYTES.min(length - offset));
                asked += bytes;
            }
            assert_eq!(dialogue.awaited_bytes(), asked);
            assert!(asked <= 8 * PART_BYTES, "memory is bounded");
            let due = PART_BYTES.min(length - arrived);
            // An agent that doesn't answer is lost.
            let mut slow = now_ns + LEEWAY_NS - 1;
            (dialogue.heard_ns, dialogue.tick_ns) = (slow, slow);
            assert!(dialogue.look(slow).is_ok());
            slow += 1;
            let fault = dialogue.look(slow).expect_err("too slow").to_string();
            assert_eq!(fault, "a part of its raw samples took longer than 1m");
            while 0 < dialogue.awaited_bytes() {
                let due = due.min(length - arrived);
                let deed = dialogue.hear(part(arrived, due), now_ns).expect("a part");
                arrived += due;
                let Some(Deed::Store(chunk)) = deed else { panic!("{deed:?}") };
                assert_eq!(chunk.is_last, arrived == length);
            }
        }
        assert_eq!((arrived, dialogue.step()), (length, Step::Collected));
        // One that isn't whole, and another than the one that is due.
        for (message, words) in [
            (part(0, 9), "9 bytes of samples at 0, due are 10 at 0"),
            (part(1, 10), "10 bytes of samples at 1, due are 10 at 0"),
        ] {
            let (mut dialogue, _) = reported(10);
            dialogue.ask(NOW_NS);
            let fault = dialogue.hear(message, NOW_NS).expect_err("not due").to_string();
            assert!(fault.ends_with(words), "{fault}");
        }
        // A file that failed gets no more, and the report is used.
        let (mut dialogue, _) = reported(length);
        dialogue.ask(NOW_NS);
        dialogue.forgo_samples(NOW_NS);
        assert_eq!((dialogue.step(), dialogue.next_bytes()), (Step::Over, None));
        dialogue.hear(part(0, PART_BYTES), NOW_NS).expect("it was asked for");
        assert_eq!(dialogue.step(), Step::Collected);
    }
}
