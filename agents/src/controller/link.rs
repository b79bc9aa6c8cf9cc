//! The session with one agent: carries its dialogue until both part or the agent is lost.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use engine::sys::clock::now_ns;
use glommio::timer::Timer;

use super::dialogue::{Deed, Dialogue, Task};
use super::fault::Fault;
use super::goal::{Goal, Standing};
use super::known::Shared;
use super::sample_file::{Room, SampleInlet};
use crate::key::Key;
use crate::message::Message;
use crate::session::{Session, SessionError};

/// How often to check whether a disk that is behind has caught up.
const DISK_PAUSE: Duration = Duration::from_millis(10);

/// The current goal of all links, which wakes each of them when it changes.
pub(super) struct Goals {
    goal: Cell<Goal>,
    waiting: RefCell<Vec<Option<Waker>>>,
}

impl Goals {
    /// The first goal, for this many links.
    pub(super) fn new(links: usize) -> Goals {
        Goals { goal: Cell::new(Goal::Greet), waiting: RefCell::new(vec![None; links]) }
    }

    /// The goal now.
    pub(super) fn get(&self) -> Goal {
        self.goal.get()
    }

    /// Sets it, and wakes all links.
    pub(super) fn set(&self, goal: Goal) {
        self.goal.set(goal);
        for waiting in self.waiting.borrow_mut().iter_mut() {
            waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// A goal other than this one, for this link.
    fn poll_other(&self, than: Goal, link: usize, context: &Context<'_>) -> Poll<Goal> {
        if self.goal.get() != than {
            return Poll::Ready(self.goal.get());
        }
        self.waiting.borrow_mut()[link] = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The session with one agent.
pub(super) struct Link {
    /// Its number among the agents.
    pub(super) number: usize,
    /// Its addresses.
    pub(super) addresses: io::Result<Vec<SocketAddr>>,
    /// The key that it has.
    pub(super) key: Option<Key>,
    /// Its part of the run.
    pub(super) task: Task,
    /// The goal of all agents.
    pub(super) goals: Rc<Goals>,
    /// Where its raw samples go.
    pub(super) inlet: SampleInlet,
    /// The state that others see.
    pub(super) shared: Arc<Shared>,
}

/// The end of a link.
pub(super) struct LinkEnd {
    /// The exchange with the agent.
    pub(super) dialogue: Option<Dialogue>,
    /// Why the agent was lost, and when, ns.
    pub(super) lost: Option<(Fault, u64)>,
}

/// The next event of a link.
enum Next {
    Said(Message),
    Goal(Goal),
    Due,
}

impl Link {
    /// Serves the agent until both part or it is lost.
    pub(super) async fn serve(mut self) -> LinkEnd {
        let mut dialogue = None;
        let lost = self.converse(&mut dialogue).await.err().map(|fault| {
            // For an agent that fell silent, nothing is known since then.
            let heard_ns = dialogue.as_ref().map(Dialogue::heard_ns);
            let silent_ns = heard_ns.filter(|_| matches!(fault, Fault::Silent));
            (fault, silent_ns.unwrap_or_else(now_ns))
        });
        if let Some((fault, _)) = &lost {
            self.shared.lost(self.number, fault);
        }
        let awaited_bytes = dialogue.as_ref().map_or(0, Dialogue::awaited_bytes);
        self.inlet.give_back(awaited_bytes);
        LinkEnd { dialogue, lost }
    }

    async fn converse(&mut self, dialogue: &mut Option<Dialogue>) -> Result<(), Fault> {
        let Some(mut session) = self.connect().await? else { return Ok(()) };
        let dialogue = dialogue.insert(Dialogue::new(self.task.clone(), now_ns()));
        session.send(&dialogue.greeting()).await?;
        let mut goal = Goal::Greet;
        loop {
            match self.turn(&mut session, &mut goal, dialogue).await {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(()),
                // The end was wanted, however it came.
                Err(_) if goal == Goal::Leave => return Ok(()),
                Err(Fault::Session(SessionError::Closed | SessionError::Connection(_))) => {
                    return Err(Fault::Left);
                }
                Err(fault) => return Err(fault),
            }
            let (step, round_trip_ns) = (dialogue.step(), dialogue.round_trip_ns());
            self.shared.stands(self.number, Standing { step, is_lost: false, round_trip_ns });
        }
    }

    /// Handles the next event.
    async fn turn(
        &mut self,
        session: &mut Session,
        goal: &mut Goal,
        dialogue: &mut Dialogue,
    ) -> Result<ControlFlow<()>, Fault> {
        let looks_soon = self.ask(session, dialogue).await?;
        let event = self.event(session, *goal, dialogue, looks_soon).await?;
        let now_ns = now_ns();
        let said = match event {
            Next::Goal(next) => {
                *goal = next;
                dialogue.pursue(next, now_ns)?
            }
            Next::Due => dialogue.look(now_ns)?,
            Next::Said(message) => {
                match &message {
                    Message::Ready(ready) => self.shared.ready(self.number, *ready),
                    Message::Progress(progress) => self.shared.progress(self.number, progress),
                    _ => {}
                }
                match dialogue.hear(message, now_ns)? {
                    None => vec![],
                    Some(Deed::Say(message)) => vec![message],
                    Some(Deed::Store(chunk)) => {
                        self.inlet.put(self.number, chunk);
                        vec![]
                    }
                    Some(Deed::End) => return Ok(ControlFlow::Break(())),
                }
            }
        };
        for message in said {
            session.send(&message).await?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// A session with the agent, at the first of its addresses that accepts one; `None` if the run
    /// is given up meanwhile.
    async fn connect(&mut self) -> Result<Option<Session>, Fault> {
        let none = || io::Error::other("it has no address");
        let addresses = std::mem::replace(&mut self.addresses, Err(none()));
        let mut fault = Fault::Unresolved(none());
        for address in addresses.map_err(Fault::Unresolved)? {
            let mut connecting = pin!(Session::connect(address, self.key.clone()));
            // No agent is given work before all have a session.
            let session = poll_fn(|context| {
                if self.goals.poll_other(Goal::Greet, self.number, context).is_ready() {
                    return Poll::Ready(None);
                }
                connecting.as_mut().poll(context).map(Some)
            });
            match session.await {
                None => return Ok(None),
                Some(Ok(session)) => return Ok(Some(session)),
                Some(Err(SessionError::Connection(error))) => fault = Fault::Unreachable(error),
                Some(Err(error)) => fault = error.into(),
            }
        }
        Err(fault)
    }

    /// Asks for parts of the raw samples, as many as the disk has room for. Returns whether to look
    /// again soon.
    async fn ask(
        &self,
        session: &mut Session,
        dialogue: &mut Dialogue,
    ) -> Result<bool, SessionError> {
        while let Some(bytes) = dialogue.next_bytes() {
            match self.inlet.room(self.number, bytes) {
                Room::Taken => session.send(&dialogue.ask(now_ns())).await?,
                Room::Never => {
                    dialogue.forgo_samples(now_ns());
                    return Ok(true);
                }
                Room::Later => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Waits for the next event.
    async fn event(
        &self,
        session: &mut Session,
        goal: Goal,
        dialogue: &mut Dialogue,
        looks_soon: bool,
    ) -> Result<Next, SessionError> {
        let mut wait = Duration::from_nanos(dialogue.due_ns().saturating_sub(now_ns()));
        if looks_soon {
            wait = wait.min(DISK_PAUSE);
        }
        let mut timer = pin!(Timer::new(wait));
        let mut receive = pin!(session.receive());
        // Heartbeats come first: an agent's endless stream mustn't delay them.
        poll_fn(|context| {
            if timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Next::Due));
            }
            if let Poll::Ready(goal) = self.goals.poll_other(goal, self.number, context) {
                return Poll::Ready(Ok(Next::Goal(goal)));
            }
            receive.as_mut().poll(context).map_ok(Next::Said)
        })
        .await
    }
}
