//! One session with a controller: which messages may come when, and how the agent responds.
//!
//! Pings and heartbeats may come at any time. A refusal ends the session, and the end of the
//! session ends its run.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use engine::run::{Phase, RunProgress};
use engine::sys::clock;
use engine::sys::units::{Nanos, SECOND_NS};
use glommio::timer::Timer;

use super::agent::Agent;
use super::attachments::Incoming;
use super::event::Event;
use super::job::{Brought, Job, STOPPED, Stage};
use crate::channel::ChannelError;
use crate::clock::check_start;
use crate::frame::Kind;
use crate::lease::SessionId;
use crate::message::{Collect, Hello, Message, Ping, Pong, Prepare, Samples};
use crate::refusal::Refusal;
use crate::session::{Session, SessionError};
use crate::versions::Versions;

/// Interval at which a run's progress is sent to its controller, ns.
pub const PROGRESS_NS: u64 = 250_000_000;
/// The longest silence of a session, ns: a controller that is gone without a goodbye must not hold
/// its place.
pub const IDLE_MAX_NS: u64 = 10 * SECOND_NS;
/// How often to check for progress of the run.
const LOOK: Duration = Duration::from_millis(20);
/// How often to check whether the session must end.
const IDLE_LOOK: Duration = Duration::from_millis(250);
/// How often, and how many times, to check whether the run of a leaving controller is gone.
const PART_LOOK: Duration = Duration::from_millis(5);
const PART_LOOKS: usize = 200;
/// Raw samples in one message, bytes.
const SAMPLES_BYTES: usize = 192 << 10;
/// The longest name of a controller that is shown.
const NAME_MAX: usize = 100;

/// Why a session ends before its controller ends it.
enum Broken {
    /// This side refuses to go on.
    Refused(Refusal),
    /// The session has ended.
    Session(SessionError),
}

impl From<Refusal> for Broken {
    fn from(refusal: Refusal) -> Broken {
        Broken::Refused(refusal)
    }
}

impl From<SessionError> for Broken {
    fn from(error: SessionError) -> Broken {
        Broken::Session(error)
    }
}

/// Serves a controller until its session ends.
pub(super) async fn converse(agent: Arc<Agent>, mut session: Session) {
    let id = agent.begin_session();
    let peer = session.peer().map_or_else(|_| "a peer".to_owned(), |peer| peer.to_string());
    let mut conversation = Conversation {
        heard_ns: clock::now_ns(),
        stage: Talk::Greeting,
        peer,
        id,
        agent: agent.clone(),
    };
    let broken = conversation.hold(&mut session).await.err();
    // First, since sending the peer a refusal may take a second.
    agent.end_session(id);
    let peer = conversation.peer;
    match broken {
        Some(Broken::Refused(refusal)) => {
            agent.tell(Event::Refused { peer, why: refusal.to_string() });
            session.refuse(refusal).await;
        }
        Some(Broken::Session(error @ SessionError::Channel(_))) if !is_cut(&error) => {
            agent.tell(Event::Refused { peer, why: error.to_string() });
        }
        // A peer that is gone is sent nothing, and its run reports itself.
        Some(Broken::Session(_)) => {}
        None => session.close().await,
    }
    agent.close_session();
}

/// True if the connection just ended.
fn is_cut(error: &SessionError) -> bool {
    matches!(error, SessionError::Channel(ChannelError::Cut | ChannelError::Refused(_)))
}

/// One session.
struct Conversation {
    agent: Arc<Agent>,
    id: SessionId,
    /// The controller's name once its hello has come, its address before.
    peer: String,
    /// When its last message came, ns.
    heard_ns: u64,
    stage: Talk,
}

/// How far a session has got.
enum Talk {
    /// The controller's hello is awaited.
    Greeting,
    /// No run is under way.
    Idle,
    /// A run is being prepared.
    Preparing(Arc<Job>),
    /// Files of its plan are on their way.
    Receiving { job: Arc<Job>, incoming: Incoming },
    /// A run waits for its start.
    Ready(Arc<Job>),
    /// A run is under way.
    Running(Running),
    /// Its results are being sent.
    Reporting { job: Arc<Job>, parts: Parts },
    /// All of it was sent; the controller's next message shows whether it arrived.
    Reported(Arc<Job>),
    /// A run is being given up, before the next one.
    Leaving { job: Arc<Job>, next: Option<Prepare> },
}

/// A run under way.
struct Running {
    job: Arc<Job>,
    /// The progress that the controller knows of.
    reported: Option<RunProgress>,
    /// When the next progress is due, ns.
    next_ns: u64,
    /// True if it knows that the run has ended.
    is_done: bool,
    /// What to collect once the run has ended.
    collect: Option<Collect>,
}

impl Conversation {
    /// Serves until the controller says goodbye.
    async fn hold(&mut self, session: &mut Session) -> Result<(), Broken> {
        loop {
            if let Some(message) = session.receive_within(self.pause()).await? {
                self.heard_ns = clock::now_ns();
                if matches!(message, Message::Bye) {
                    self.part().await;
                    session.send(&Message::Bye).await?;
                    return Ok(());
                }
                self.heed(session, message).await?;
            }
            self.check()?;
            self.go_on(session).await?;
        }
    }

    /// The controller leaves: if it is done with its run, the agent is free before it answers the
    /// goodbye, so that the controller may return at once.
    async fn part(&self) {
        let job = match &self.stage {
            Talk::Reported(job) => {
                job.collected();
                job
            }
            Talk::Leaving { job, .. } => job,
            _ => return,
        };
        for _ in 0..PART_LOOKS {
            if matches!(job.stage(), Stage::Over(_) | Stage::Refused(_)) {
                return;
            }
            Timer::new(PART_LOOK).await;
        }
    }

    /// How long to wait for a message before anything else has to be done.
    fn pause(&self) -> Duration {
        match &self.stage {
            Talk::Greeting
            | Talk::Idle
            | Talk::Receiving { .. }
            | Talk::Ready(_)
            | Talk::Reported(_) => IDLE_LOOK,
            Talk::Preparing(_) | Talk::Leaving { .. } => LOOK,
            Talk::Running(running) if running.is_done => match running.collect {
                Some(_) => LOOK,
                None => IDLE_LOOK,
            },
            Talk::Running(running) => {
                Duration::from_nanos(running.next_ns.saturating_sub(clock::now_ns()))
            }
            Talk::Reporting { .. } => Duration::ZERO,
        }
    }

    /// Checks whether the session may go on.
    fn check(&self) -> Result<(), Refusal> {
        if IDLE_MAX_NS < clock::now_ns().saturating_sub(self.heard_ns) {
            return Err(Refusal::Idle(Nanos(IDLE_MAX_NS)));
        }
        let job = match &self.stage {
            Talk::Greeting | Talk::Idle if self.agent.is_ending() => return Err(Refusal::Ending),
            Talk::Greeting | Talk::Idle | Talk::Leaving { .. } => return Ok(()),
            Talk::Receiving { job, incoming } => {
                incoming.check(clock::now_ns())?;
                job
            }
            Talk::Running(Running { job, .. })
            | Talk::Preparing(job)
            | Talk::Ready(job)
            | Talk::Reporting { job, .. }
            | Talk::Reported(job) => job,
        };
        match (job.lost(), job.stage()) {
            (Some(why), _) => Err(why.refusal()),
            (None, Stage::Refused(refusal)) => Err(refusal),
            (None, _) => Ok(()),
        }
    }

    /// Acts on a message.
    async fn heed(&mut self, session: &mut Session, message: Message) -> Result<(), Broken> {
        let received_ns = self.heard_ns;
        let stage = std::mem::replace(&mut self.stage, Talk::Idle);
        self.stage = match (message, stage) {
            (Message::Hello(hello), Talk::Greeting) => {
                self.peer = shown(&hello);
                Versions::here().check(&hello.versions).map_err(Refusal::from)?;
                session.send(&Message::Hello(self.agent.hello())).await?;
                Talk::Idle
            }
            (message, Talk::Greeting) => return Err(out_of_turn(&message).into()),
            (Message::Ping(Ping { sent_ns }), stage) => {
                let answered_ns = clock::now_ns();
                session.send(&Message::Pong(Pong { sent_ns, received_ns, answered_ns })).await?;
                stage
            }
            (Message::Heartbeat, stage) => {
                self.agent.heartbeat(self.id);
                stage
            }
            (Message::Prepare(prepare), Talk::Idle) => {
                Talk::Preparing(self.agent.take(self.id, &self.peer, prepare)?)
            }
            (Message::Prepare(prepare), Talk::Leaving { job, next: None }) => {
                Talk::Leaving { job, next: Some(prepare) }
            }
            (Message::Prepare(prepare), Talk::Reported(job)) => {
                job.collected();
                Talk::Leaving { job, next: Some(prepare) }
            }
            (Message::Start(start), Talk::Ready(job)) => {
                check_start(start.at_ns, received_ns)
                    .map_err(|error| Refusal::Start(error.to_string()))?;
                job.change(|state| state.start_ns = Some(start.at_ns));
                let next_ns = received_ns + PROGRESS_NS;
                let (reported, collect) = (None, None);
                Talk::Running(Running { job, reported, next_ns, is_done: false, collect })
            }
            (Message::Part(part), Talk::Receiving { job, mut incoming }) => {
                incoming.take(part)?;
                ask(session, job, incoming).await?
            }
            (
                Message::Stop,
                Talk::Preparing(job) | Talk::Receiving { job, .. } | Talk::Ready(job),
            ) => {
                job.stop();
                Talk::Leaving { job, next: None }
            }
            (Message::Stop, Talk::Running(running)) => {
                running.job.stop();
                Talk::Running(running)
            }
            (Message::Stop, Talk::Leaving { job, next: Some(_) }) => {
                self.agent
                    .tell(Event::CalledOff { holder: self.peer.clone(), why: STOPPED.to_owned() });
                Talk::Leaving { job, next: None }
            }
            // There is nothing to stop any more, or not yet.
            (Message::Stop, stage) => stage,
            (Message::Collect(collect), Talk::Running(running)) if running.collect.is_none() => {
                Talk::Running(Running { collect: Some(collect), ..running })
            }
            (message, _) => return Err(out_of_turn(&message).into()),
        };
        Ok(())
    }

    /// Does what is due without a message.
    async fn go_on(&mut self, session: &mut Session) -> Result<(), Broken> {
        let stage = std::mem::replace(&mut self.stage, Talk::Idle);
        self.stage = match stage {
            Talk::Preparing(job) => match job.stage() {
                Stage::Ready(ready) => {
                    session.send(&Message::Ready(ready)).await?;
                    Talk::Ready(job)
                }
                Stage::Lacks(missing) => ask(session, job, Incoming::new(missing)).await?,
                _ => Talk::Preparing(job),
            },
            Talk::Running(mut running) => {
                running.tell(session).await?;
                match (running.collect, running.job.stage()) {
                    (Some(collect), Stage::Ended) if running.is_done => {
                        let brought = running.job.take_brought();
                        Talk::Reporting { job: running.job, parts: Parts::new(brought, collect) }
                    }
                    _ => Talk::Running(running),
                }
            }
            Talk::Reporting { job, mut parts } => match parts.next() {
                Some(part) => {
                    session.send(&part).await?;
                    Talk::Reporting { job, parts }
                }
                None => Talk::Reported(job),
            },
            Talk::Leaving { job, next } => match (job.stage(), next) {
                (Stage::Over(_) | Stage::Refused(_), None) => Talk::Idle,
                (Stage::Over(_) | Stage::Refused(_), Some(prepare)) => {
                    Talk::Preparing(self.agent.take(self.id, &self.peer, prepare)?)
                }
                (_, next) => Talk::Leaving { job, next },
            },
            stage @ (Talk::Greeting
            | Talk::Idle
            | Talk::Receiving { .. }
            | Talk::Ready(_)
            | Talk::Reported(_)) => stage,
        };
        Ok(())
    }
}

/// Asks for the next part of the files on their way, or hands them over once all are here.
async fn ask(
    session: &mut Session,
    job: Arc<Job>,
    mut incoming: Incoming,
) -> Result<Talk, SessionError> {
    if let Some(wanted) = incoming.next(clock::now_ns()) {
        session.send(&Message::Wanted(wanted)).await?;
        return Ok(Talk::Receiving { job, incoming });
    }
    job.change(|state| {
        state.arrived = Some(incoming.into_files());
        state.stage = Stage::Preparing;
    });
    Ok(Talk::Preparing(job))
}

impl Running {
    /// Sends the progress if that is due; the last one shows that the run has ended.
    async fn tell(&mut self, session: &mut Session) -> Result<(), SessionError> {
        let now_ns = clock::now_ns();
        if self.is_done || now_ns < self.next_ns {
            return Ok(());
        }
        // Missed updates aren't made up for.
        self.next_ns += (now_ns - self.next_ns) / PROGRESS_NS * PROGRESS_NS + PROGRESS_NS;
        let Some(progress) = self.job.progress() else { return Ok(()) };
        // Requests of the setup are no part of the load.
        let same =
            |last: &&RunProgress| (last.phase == Phase::Setup) == (progress.phase == Phase::Setup);
        let last = self.reported.as_ref().filter(same);
        let since = last.map_or_else(|| progress.clone(), |last| progress.since(last));
        session.send(&Message::Progress(since)).await?;
        self.is_done = progress.phase == Phase::Done;
        self.reported = Some(progress);
        Ok(())
    }
}

/// The results that a controller collects, message by message.
struct Parts {
    samples: Option<(File, u64)>,
    rest: std::vec::IntoIter<Message>,
}

impl Parts {
    fn new(brought: Brought, collect: Collect) -> Parts {
        let shards = brought.shards.into_iter().map(Message::Shard);
        let results = shards.chain([Message::Report(brought.results)]);
        let (samples, none) = match (collect.samples, brought.samples) {
            (false, _) => (None, None),
            (true, Some(file)) => (Some((file, 0)), None),
            // A missing file ends at once.
            (true, None) => (None, Some(samples(0, Vec::new(), true))),
        };
        let rest: Vec<Message> = none.into_iter().chain(results).collect();
        Parts { samples, rest: rest.into_iter() }
    }

    fn next(&mut self) -> Option<Message> {
        let Some((file, offset)) = &mut self.samples else { return self.rest.next() };
        let mut bytes = vec![0; SAMPLES_BYTES];
        let at = *offset;
        // A file that has become unreadable ends here, without the end that its reader expects.
        let read = read_at(file, &mut bytes, at).unwrap_or(0);
        bytes.truncate(read);
        *offset += read as u64;
        let is_last = read < SAMPLES_BYTES;
        if is_last {
            self.samples = None;
        }
        Some(samples(at, bytes, is_last))
    }
}

fn samples(offset: u64, bytes: Vec<u8>, is_last: bool) -> Message {
    Message::Samples(Samples { offset, bytes: bytes.into(), is_last })
}

/// Reads from `offset` as much as there is, up to the length of `bytes`.
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

fn out_of_turn(message: &Message) -> Refusal {
    Refusal::OutOfTurn(Kind::of_message(message).to_string())
}

/// A controller's name as the operator sees it, without control characters for the terminal.
fn shown(hello: &Hello) -> String {
    let shown: String =
        hello.name.chars().filter(|letter| !letter.is_control()).take(NAME_MAX).collect();
    if shown.is_empty() { "a controller".to_owned() } else { shown }
}
