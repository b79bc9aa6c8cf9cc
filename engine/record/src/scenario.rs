//! How the sessions of one scenario ended, and how long they took.

use derive_more::AddAssign;
use serde::{Deserialize, Serialize};
use stats::distribution::Distribution;

use crate::outcome::{Outcome, UnsentReason};

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// All its steps were answered well.
    Completed,
    /// This step wasn't: its own results have the cause.
    Failed(u16),
    /// The run ended while this step was in flight, or was still to be sent.
    Unfinished(u16),
    /// Its first step was never sent.
    Unsent,
}

impl SessionEnd {
    /// The end of a session whose request of this step had this outcome, and was answered well if
    /// `is_good`; `is_first`: it was the session's first.
    pub fn of(step: u16, outcome: Outcome, is_good: bool, is_first: bool) -> SessionEnd {
        match outcome {
            _ if is_good => SessionEnd::Completed,
            Outcome::Unsent(_) if is_first => SessionEnd::Unsent,
            Outcome::Abandoned | Outcome::Unsent(UnsentReason::End) => SessionEnd::Unfinished(step),
            _ => SessionEnd::Failed(step),
        }
    }
}

/// The sessions of one scenario that were due in the window.
#[derive(AddAssign, Clone, Debug, Default, Serialize, Deserialize)]
pub struct SessionCounts {
    /// Sessions that were due.
    pub intended: u64,
    /// Of these, those with a good answer to every step.
    pub completed: u64,
    /// Those whose first step was never sent.
    pub unsent: u64,
    /// From when it was due to its last response, without think times: of those that completed, or
    /// whose last request has a latency.
    pub latency: Distribution,
}

/// The sessions that ended in a step.
#[derive(AddAssign, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedInStep {
    /// Its request had no good answer.
    pub failed: u64,
    /// It was in flight, or still to be sent, when the run ended.
    pub unfinished: u64,
}

/// The sessions of a plan, if it has scenarios of several steps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ScenarioCounts {
    /// Of each scenario.
    pub sessions: Vec<SessionCounts>,
    /// Those that ended in each step of all scenarios.
    pub ended_in: Vec<EndedInStep>,
}

impl ScenarioCounts {
    /// None yet, for so many scenarios and steps; none at all without scenarios of several steps.
    pub fn new(scenarios: usize, steps: usize) -> ScenarioCounts {
        let sessions = (0..scenarios).map(|_| SessionCounts::default()).collect();
        let steps = if scenarios == 0 { 0 } else { steps };
        ScenarioCounts { sessions, ended_in: vec![EndedInStep::default(); steps] }
    }

    /// A session of this scenario ended; `latency_ns` is `None` if its last request has none.
    pub fn ended(&mut self, scenario: usize, end: SessionEnd, latency_ns: Option<u64>) {
        let sessions = &mut self.sessions[scenario];
        sessions.intended += 1;
        match end {
            SessionEnd::Completed => sessions.completed += 1,
            SessionEnd::Failed(step) => self.ended_in[usize::from(step)].failed += 1,
            SessionEnd::Unfinished(step) => self.ended_in[usize::from(step)].unfinished += 1,
            SessionEnd::Unsent => sessions.unsent += 1,
        }
        if let Some(latency_ns) = latency_ns {
            sessions.latency.record(latency_ns);
        }
    }

    /// `count` sessions of this scenario were never sent, all with this age, if it counts as a
    /// latency.
    pub fn unsent(&mut self, scenario: usize, age_ns: Option<u64>, count: u64) {
        let sessions = &mut self.sessions[scenario];
        sessions.intended += count;
        sessions.unsent += count;
        if let Some(age_ns) = age_ns {
            sessions.latency.record_n(age_ns, count);
        }
    }

    /// True if they are of so many scenarios and steps.
    pub fn are_of(&self, scenarios: usize, steps: usize) -> bool {
        let steps = if scenarios == 0 { 0 } else { steps };
        (self.sessions.len(), self.ended_in.len()) == (scenarios, steps)
    }

    /// Adds another shard's; exact, in any order.
    pub fn merge(&mut self, other: ScenarioCounts) {
        for (mine, theirs) in self.sessions.iter_mut().zip(other.sessions) {
            *mine += theirs;
        }
        for (mine, theirs) in self.ended_in.iter_mut().zip(other.ended_in) {
            *mine += theirs;
        }
    }
}
