//! One session with a controller: which messages may come when, and how the agent responds.
//!
//! Pings and heartbeats may come at any time. A refusal ends the session, and the end of the
//! session ends its run.

use std::sync::Arc;
use std::time::Duration;

use engine::run::{Phase, RunProgress};
use engine::shard::DRAIN_INTERRUPTED_NS;
use engine::sys::clock;
use engine::sys::units::{Nanos, SECOND_NS};
use glommio::timer::Timer;

use super::agent::{Agent, LOOK};
use super::attachments::Incoming;
use super::event::Event;
use super::job::{Job, STOPPED, Stage, Why};
use super::outgoing::Outgoing;
use crate::channel::ChannelError;
use crate::clock::check_start;
use crate::frame::Kind;
use crate::lease::{SILENCE_MAX_NS, SessionId};
use crate::message::{Hello, Message, Ping, Pong, Prepare};
use crate::refusal::Refusal;
use crate::run_id::RunId;
use crate::session::{Session, SessionError};
use crate::versions::Versions;

/// Interval at which a run's progress is sent to its controller, ns.
pub const PROGRESS_NS: u64 = 250_000_000;
/// The longest silence of a session, ns: a controller that is gone without a goodbye must not hold
/// its place.
pub const IDLE_MAX_NS: u64 = 10 * SECOND_NS;
/// How often to check whether the session must end.
const IDLE_LOOK: Duration = Duration::from_millis(250);
/// How long a controller that resumes a run waits for its end, ns: as long as a run goes on without
/// its controller, and then drains.
const OVER_MAX_NS: u64 = SILENCE_MAX_NS + DRAIN_INTERRUPTED_NS + SECOND_NS;
/// How often, and how many times, to check whether the run of a leaving controller is gone.
const PART_LOOK: Duration = Duration::from_millis(5);
const PART_LOOKS: usize = 200;
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
    let address = session.peer().map_or_else(|_| "a peer".to_owned(), |peer| peer.to_string());
    let mut conversation = Conversation {
        heard_ns: clock::now_ns(),
        stage: Talk::Greeting,
        address,
        name: None,
        id,
        agent: agent.clone(),
    };
    let broken = conversation.hold(&mut session).await.err();
    // First, since sending the peer a refusal may take a second.
    agent.end_session(id);
    let peer = match conversation.name {
        Some(name) => format!("{name} at {}", conversation.address),
        None => conversation.address,
    };
    match broken {
        Some(Broken::Refused(refusal)) => {
            agent.report_of_session(Event::Refused { peer, why: refusal.to_string() }).await;
            session.refuse(refusal).await;
        }
        Some(Broken::Session(error @ SessionError::Channel(_))) if !is_cut(&error) => {
            agent.report_of_session(Event::Refused { peer, why: error.to_string() }).await;
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
    /// The controller's address.
    address: String,
    /// Its name, once its hello has come.
    name: Option<String>,
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
    /// Its results are being sent; once all were, the controller's next message shows whether they
    /// arrived.
    Reporting { job: Arc<Job>, outgoing: Outgoing },
    /// A run is being given up, before the next one.
    Leaving { job: Arc<Job>, next: Option<Prepare> },
    /// The end of a run is awaited until then, ns, since its kept results are wanted.
    Resuming { run: RunId, until_ns: u64 },
    /// They are being sent.
    Resumed(Outgoing),
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
    /// True if the controller wants its results.
    is_wanted: bool,
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
            Talk::Reporting { job, outgoing } if outgoing.is_out() => {
                end(job, outgoing);
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
            Talk::Greeting | Talk::Idle | Talk::Receiving { .. } | Talk::Ready(_) => IDLE_LOOK,
            Talk::Reporting { outgoing, .. } | Talk::Resumed(outgoing) => {
                if outgoing.is_out() {
                    IDLE_LOOK
                } else {
                    Duration::ZERO
                }
            }
            Talk::Preparing(_) | Talk::Leaving { .. } | Talk::Resuming { .. } => LOOK,
            Talk::Running(Running { is_done: true, is_wanted, .. }) => {
                if *is_wanted {
                    LOOK
                } else {
                    IDLE_LOOK
                }
            }
            Talk::Running(running) => {
                Duration::from_nanos(running.next_ns.saturating_sub(clock::now_ns()))
            }
        }
    }

    /// Checks whether the session may go on.
    fn check(&self) -> Result<(), Refusal> {
        if IDLE_MAX_NS < clock::now_ns().saturating_sub(self.heard_ns) {
            return Err(Refusal::Idle(Nanos(IDLE_MAX_NS)));
        }
        let job = match &self.stage {
            Talk::Greeting | Talk::Idle if self.agent.is_ending() => return Err(Refusal::Ending),
            Talk::Greeting
            | Talk::Idle
            | Talk::Leaving { .. }
            | Talk::Resuming { .. }
            | Talk::Resumed(_) => return Ok(()),
            Talk::Receiving { job, incoming } => {
                incoming.check(clock::now_ns())?;
                job
            }
            Talk::Running(Running { job, .. })
            | Talk::Preparing(job)
            | Talk::Ready(job)
            | Talk::Reporting { job, .. } => job,
        };
        match (job.lost(), job.stage()) {
            (Some(why), _) => Err(why.refusal()),
            (None, Stage::Refused(refusal)) => Err(refusal),
            (None, _) => Ok(()),
        }
    }

    /// Takes the agent for a run.
    fn take(&self, prepare: Prepare) -> Result<Arc<Job>, Refusal> {
        self.agent.take(self.id, self.name(), &self.address, prepare)
    }

    fn name(&self) -> &str {
        self.name.as_deref().expect("only a controller that has greeted has a run")
    }

    /// Acts on a message.
    async fn heed(&mut self, session: &mut Session, message: Message) -> Result<(), Broken> {
        let received_ns = self.heard_ns;
        let stage = std::mem::replace(&mut self.stage, Talk::Idle);
        self.stage = match (message, stage) {
            (Message::Hello(hello), Talk::Greeting) => {
                self.name = Some(shown(&hello));
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
            (Message::Prepare(prepare), Talk::Idle) => Talk::Preparing(self.take(prepare)?),
            (Message::Prepare(prepare), Talk::Leaving { job, next: None }) => {
                Talk::Leaving { job, next: Some(prepare) }
            }
            (Message::Prepare(prepare), Talk::Reporting { job, outgoing }) if outgoing.is_out() => {
                end(&job, &outgoing);
                Talk::Leaving { job, next: Some(prepare) }
            }
            (Message::Start(start), Talk::Ready(job)) => {
                check_start(start.at_ns, received_ns)
                    .map_err(|error| Refusal::Start(error.to_string()))?;
                job.change(|state| state.start_ns = Some(start.at_ns));
                let next_ns = received_ns + PROGRESS_NS;
                let (is_done, is_wanted) = (false, false);
                Talk::Running(Running { job, reported: None, next_ns, is_done, is_wanted })
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
                let (holder, why) = (self.name().to_owned(), STOPPED.to_owned());
                self.agent.report_of_session(Event::CalledOff { holder, sent: 0, why }).await;
                Talk::Leaving { job, next: None }
            }
            // There is nothing to stop any more, or not yet.
            (Message::Stop, stage) => stage,
            (Message::Collect, Talk::Running(running)) if !running.is_wanted => {
                Talk::Running(Running { is_wanted: true, ..running })
            }
            (Message::Wanted(wanted), Talk::Reporting { job, mut outgoing }) => {
                session.send(&Message::Part(outgoing.part(wanted)?)).await?;
                Talk::Reporting { job, outgoing }
            }
            (Message::Resume(run), Talk::Idle) => {
                Talk::Resuming { run, until_ns: received_ns + OVER_MAX_NS }
            }
            (Message::Wanted(wanted), Talk::Resumed(mut outgoing)) => {
                session.send(&Message::Part(outgoing.part(wanted)?)).await?;
                Talk::Resumed(outgoing)
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
                if running.is_wanted && running.is_done && running.job.stage() == Stage::Ended {
                    let outgoing = running.job.take_outgoing();
                    Talk::Reporting { job: running.job, outgoing }
                } else {
                    Talk::Running(running)
                }
            }
            Talk::Reporting { job, mut outgoing } => {
                send_next(session, &mut outgoing).await?;
                Talk::Reporting { job, outgoing }
            }
            Talk::Leaving { job, next } => match (job.stage(), next) {
                (Stage::Over(_) | Stage::Refused(_), None) => Talk::Idle,
                (Stage::Over(_) | Stage::Refused(_), Some(prepare)) => {
                    Talk::Preparing(self.take(prepare)?)
                }
                (_, next) => Talk::Leaving { job, next },
            },
            Talk::Resuming { run, until_ns } => match self.agent.holder_of(run) {
                None => {
                    // A slow disk must not keep the other sessions from their heartbeats.
                    let files = self.agent.files();
                    let read = glommio::executor().spawn_blocking(move || files.kept_results(run));
                    let outgoing = read.await?;
                    let peer = format!("{} at {}", self.name(), self.address);
                    self.agent.report_of_session(Event::Resumed { peer, run }).await;
                    Talk::Resumed(outgoing)
                }
                Some(holder) if until_ns < clock::now_ns() => {
                    return Err(Refusal::Held(holder).into());
                }
                Some(_) => Talk::Resuming { run, until_ns },
            },
            Talk::Resumed(mut outgoing) => {
                send_next(session, &mut outgoing).await?;
                Talk::Resumed(outgoing)
            }
            stage @ (Talk::Greeting | Talk::Idle | Talk::Receiving { .. } | Talk::Ready(_)) => {
                stage
            }
        };
        Ok(())
    }
}

/// Sends the next message of a run's results, if there is one.
async fn send_next(session: &mut Session, outgoing: &mut Outgoing) -> Result<(), SessionError> {
    match outgoing.next() {
        Some(message) => session.send(&message).await,
        None => Ok(()),
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

/// The controller has the results of this run, and its raw samples unless some weren't sent. Then
/// the run is kept, so that they aren't lost.
fn end(job: &Job, outgoing: &Outgoing) {
    if outgoing.has_sent_samples() {
        job.collected();
    } else {
        job.lose(Why::SamplesLeft);
    }
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
