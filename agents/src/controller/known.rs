//! State of a run on agents while it lasts, written by links and read by others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::report::AgentReported;
use engine::run::RunProgress;

use super::fault::Fault;
use super::goal::{Standing, Step};
use super::live::AgentLive;
use crate::message::Ready;

/// State of a run, shared by the control plane and the caller.
pub(super) struct Shared {
    agents: Mutex<Vec<Known>>,
    stops: AtomicBool,
}

/// The state of one agent.
struct Known {
    live: AgentLive,
    standing: Standing,
}

impl Shared {
    pub(super) fn new(names: impl Iterator<Item = String>) -> Shared {
        let standing = Standing { step: Step::Connecting, is_lost: false, round_trip_ns: 0 };
        let known = |name| Known { live: AgentLive::new(name), standing };
        Shared { agents: Mutex::new(names.map(known).collect()), stops: AtomicBool::new(false) }
    }

    fn agents(&self) -> MutexGuard<'_, Vec<Known>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent has reached this step.
    pub(super) fn stands(&self, agent: usize, standing: Standing) {
        self.agents()[agent].standing = standing;
    }

    /// An agent is set up.
    pub(super) fn ready(&self, agent: usize, ready: Ready) {
        self.agents()[agent].live.ready = Some(ready);
    }

    /// An agent has sent progress since its last frame.
    pub(super) fn progress(&self, agent: usize, since: &RunProgress) {
        self.agents()[agent].live.add(since);
    }

    /// An agent can't be used any longer.
    pub(super) fn lost(&self, agent: usize, fault: &Fault) {
        let known = &mut self.agents()[agent];
        known.standing.is_lost = true;
        known.live.lost = Some(fault.to_string());
    }

    /// An agent's reported progress of its run.
    pub(super) fn reported(&self, agent: usize) -> Option<AgentReported> {
        self.agents()[agent].live.reported()
    }

    pub(super) fn standings(&self) -> Vec<Standing> {
        self.agents().iter().map(|known| known.standing).collect()
    }

    /// The agents' progress, for display.
    pub(super) fn live(&self) -> Vec<AgentLive> {
        self.agents().iter().map(|known| known.live.clone()).collect()
    }

    /// The user ends the run early.
    pub(super) fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    /// True if the user ends it early.
    pub(super) fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }
}
