//! State shared by an agent's threads: which controller holds it, for which run, and whether it
//! ends.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, SystemTime};

use engine::sys::clock;
use engine::sys::units::SECOND_NS;
use glommio::timer::Timer;

use super::config::AgentConfig;
use super::event::Event;
use super::job::{Job, Over, Stage, Why};
use super::kept::Files;
use crate::key::Key;
use crate::lease::{HeldBy, Lease, SessionId};
use crate::listener::Stranger;
use crate::message::{Finding, Hello, HostFacts, Prepare};
use crate::refusal::Refusal;
use crate::run_id::RunId;

/// Shortest time between two reports of strangers, ns: a thousand of them make one line.
const STRANGERS_NS: u64 = SECOND_NS;
/// How often the control plane looks whether what it waits for has come.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// State shared by an agent's threads.
pub(super) struct Agent {
    pub(super) config: AgentConfig,
    /// The core of the control plane.
    pub(super) core: usize,
    /// Its listening address, once it listens.
    address: OnceLock<SocketAddr>,
    findings: Vec<Finding>,
    held: Mutex<Holding>,
    is_ending: AtomicBool,
    sessions_begun: AtomicU64,
    sessions_ended: AtomicU64,
    strangers: Mutex<Strangers>,
    jobs: Sender<Assignment>,
    events: SyncSender<Dated>,
    keys: Mutex<Keys>,
    /// One clone for each plan that is being prepared.
    pub(super) preparing: Arc<()>,
}

/// An event, and when it happened.
pub(super) type Dated = (SystemTime, Event);

/// The key that new sessions need.
struct Keys {
    key: Option<Key>,
    /// Why its file can't be used, as it was reported; `None` if it can.
    problem: Option<String>,
}

/// A run to work on.
pub(super) type Assignment = (Arc<Job>, Prepare);

/// Which controller holds the agent, and for which run.
#[derive(Default)]
struct Holding {
    lease: Lease,
    job: Option<Arc<Job>>,
    /// How the last run that began ended.
    last: Option<Over>,
}

/// Connections that got no session.
#[derive(Default)]
struct Strangers {
    /// When they were last reported to the operator, ns; 0 for never.
    printed_ns: u64,
    /// How many came since, and the last one.
    unprinted: u64,
    last: Option<Stranger>,
}

impl Agent {
    pub(super) fn new(
        config: AgentConfig,
        core: usize,
        findings: Vec<Finding>,
        jobs: Sender<Assignment>,
        events: SyncSender<Dated>,
    ) -> Agent {
        let keys = Keys { key: config.key.clone(), problem: None };
        Agent {
            config,
            core,
            address: OnceLock::new(),
            findings,
            held: Mutex::default(),
            is_ending: AtomicBool::new(false),
            sessions_begun: AtomicU64::new(0),
            sessions_ended: AtomicU64::new(0),
            strangers: Mutex::default(),
            jobs,
            events,
            keys: Mutex::new(keys),
            preparing: Arc::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, Holding> {
        self.held.lock().expect("no thread panics while it holds the lease's lock")
    }

    /// Sets the address that it listens on.
    pub(super) fn listens_on(&self, address: SocketAddr) {
        self.address.set(address).expect("it listens once");
        let has_key = self.config.key.is_some();
        self.tell(Event::Listening { address, has_key, core: self.core });
    }

    /// The files of its runs.
    pub(super) fn files(&self) -> Files {
        let address = self.address.get().expect("an agent that has a run listens");
        Files::new(&self.config.state_dir, address.port())
    }

    /// The key that a new session needs. Its file is read again, since it may have been replaced;
    /// as long as it has no key, the last one stays.
    pub(super) fn key(&self) -> Option<Key> {
        let mut keys = self.keys.lock().expect("nothing here panics");
        match keys.key.as_ref().map(Key::replaced) {
            None => {}
            Some(Ok(found)) => {
                keys.problem = None;
                if found.is_some() {
                    keys.key = found;
                    self.tell(Event::KeyReplaced);
                }
            }
            Some(Err(error)) => {
                let problem = error.to_string();
                if keys.problem.as_ref() != Some(&problem) {
                    keys.problem = Some(problem.clone());
                    self.tell(Event::KeyStays { problem });
                }
            }
        }
        keys.key.clone()
    }

    /// Reports an event to the operator if the operator takes it now; returns whether.
    pub(super) fn tell(&self, event: Event) -> bool {
        self.events.try_send((SystemTime::now(), event)).is_ok()
    }

    /// Reports an event to the operator, who may take their time: only for the run's thread.
    pub(super) fn report(&self, event: Event) {
        // Only an agent that is over has no operator.
        let _ = self.events.send((SystemTime::now(), event));
    }

    /// The same for a session, which alone waits.
    pub(super) async fn report_of_session(&self, event: Event) {
        let mut dated = (SystemTime::now(), event);
        while let Err(TrySendError::Full(refused)) = self.events.try_send(dated) {
            dated = refused;
            Timer::new(LOOK).await;
        }
    }

    /// Reports a connection that got no session; many are summed up once in a while.
    pub(super) fn tell_of_stranger(&self, stranger: Stranger) {
        let mut strangers = self.strangers.lock().expect("nothing here panics");
        strangers.unprinted += 1;
        strangers.last = Some(stranger);
        drop(strangers);
        self.tell_of_strangers();
    }

    fn tell_of_strangers(&self) {
        let now_ns = clock::now_ns();
        let mut strangers = self.strangers.lock().expect("nothing here panics");
        if strangers.printed_ns != 0 && now_ns < strangers.printed_ns + STRANGERS_NS {
            return;
        }
        let Some(Stranger { peer, error }) = &strangers.last else { return };
        let (others, why) = (strangers.unprinted - 1, error.to_string());
        if self.tell(Event::Strangers { peer: *peer, why, others }) {
            *strangers = Strangers { printed_ns: now_ns, ..Strangers::default() };
        }
    }

    /// Identifies this agent.
    pub(super) fn hello(&self) -> Hello {
        Hello::here(format!("agent on {}", HostFacts::here().name), self.findings.clone())
    }

    /// The problems that `truetail doctor` finds here.
    pub(super) fn findings(&self) -> impl Iterator<Item = &str> {
        self.findings.iter().map(|finding| finding.text.as_str())
    }

    /// A session begins.
    pub(super) fn begin_session(&self) -> SessionId {
        SessionId(self.sessions_begun.fetch_add(1, Ordering::Relaxed))
    }

    /// A session has ended, and with it what it held.
    pub(super) fn end_session(&self, session: SessionId) {
        let mut held = self.held();
        if let Some(lost) = held.lease.session_ended(session) {
            held.lose(lost.into());
        }
    }

    /// The peer of an ended session has been sent the reason.
    pub(super) fn close_session(&self) {
        self.sessions_ended.fetch_add(1, Ordering::Relaxed);
    }

    /// True if no session is left.
    pub(super) fn is_alone(&self) -> bool {
        self.sessions_ended.load(Ordering::Relaxed) == self.sessions_begun.load(Ordering::Relaxed)
    }

    /// The controller of this session is alive.
    pub(super) fn heartbeat(&self, session: SessionId) {
        let mut held = self.held();
        let until_ns = held.lease.heartbeat(session, clock::now_ns());
        if let (Some(until_ns), Some(job)) = (until_ns, &held.job) {
            job.hold_until(until_ns);
        }
    }

    /// The control plane runs, and reads what comes.
    pub(super) fn reads(&self) {
        self.held().lease.reads(clock::now_ns());
    }

    /// The controller of this session takes the agent for a run.
    ///
    /// # Errors
    /// Another one holds it, or the agent is ending.
    pub(super) fn take(
        &self,
        session: SessionId,
        holder: &str,
        address: &str,
        prepare: Prepare,
    ) -> Result<Arc<Job>, Refusal> {
        let job = {
            let mut held = self.held();
            // Under the lock, so that an agent that ends finds either no run or this one.
            if self.is_ending() {
                return Err(Refusal::Ending);
            }
            let until_ns = held.lease.take(session, holder, clock::now_ns())?;
            let run = prepare.origin.run;
            let job = Arc::new(Job::new(run, holder.to_owned(), address.to_owned(), until_ns));
            held.job = Some(job.clone());
            job
        };
        self.jobs
            .send((job.clone(), prepare))
            .expect("runs are worked on as long as there are any");
        Ok(job)
    }

    /// Who holds the agent for this run, if it isn't over.
    pub(super) fn holder_of(&self, run: RunId) -> Option<HeldBy> {
        let held = self.held();
        held.job.as_ref().filter(|job| job.run == run)?;
        held.lease.holder(clock::now_ns())
    }

    /// Frees the agent after a run, and only then reports the event: its reader may take the agent.
    pub(super) fn release(&self, job: &Job, over: Over, event: Option<Event>) {
        let mut held = self.held();
        held.lease.release();
        held.job = None;
        if matches!(over, Over::Collected | Over::Kept) {
            held.last = Some(over);
            if self.config.once {
                self.is_ending.store(true, Ordering::Relaxed);
            }
        }
        // A refusal stays readable: its session has yet to send it.
        job.change(|state| {
            if over != Over::Refused {
                state.stage = Stage::Over(over);
            }
        });
        drop(held);
        // Not under the lock, since the operator may be slow.
        event.into_iter().for_each(|event| self.report(event));
    }

    /// Checks whether the controller is still there, and reports strangers that weren't reported
    /// yet.
    pub(super) fn watch(&self) {
        self.tell_of_strangers();
        let mut held = self.held();
        if let Some(lost) = held.lease.look(clock::now_ns()) {
            held.lose(lost.into());
        }
    }

    /// Ends the agent: its run is stopped, drained and kept, and no other is taken.
    pub(super) fn end(&self) {
        let held = self.held();
        self.is_ending.store(true, Ordering::Relaxed);
        held.lose(Why::Ending);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// True if no run is left.
    pub(super) fn is_idle(&self) -> bool {
        self.held().job.is_none()
    }

    /// How the last run that began ended.
    pub(super) fn last(&self) -> Option<Over> {
        self.held().last
    }
}

impl Holding {
    fn lose(&self, why: Why) {
        self.job.iter().for_each(|job| job.lose(why));
    }
}
