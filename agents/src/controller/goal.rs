//! The next goal of all agents, decided from how far each has come.
//!
//! All agents reach a goal before the next one is set: no load before all are set up, and no
//! results before all have stopped. It reads no clock and no socket.

use super::order::OnLoss;
use crate::clock::START_AHEAD_MIN_NS;

/// The goal of all agents, in the order of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Have a session, and versions that this side understands.
    Greet,
    /// Be set up.
    Prepare,
    /// Have their clocks read.
    Synchronize,
    /// Begin at this moment, ns of the controller's clock, and run to the end.
    Begin {
        /// The moment.
        at_ns: u64,
    },
    /// Send nothing more, and drain.
    Stop,
    /// Report.
    Collect,
    /// Part.
    Leave,
}

/// How far an agent has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// It has no session yet.
    Connecting,
    /// It has one, and versions that this side understands.
    Greeted,
    /// It is set up.
    Ready,
    /// Its clock is read.
    Synchronized,
    /// It knows when to begin.
    Begun,
    /// Its run is over.
    Over,
    /// Its report is here.
    Collected,
}

/// The state of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How far it has come.
    pub step: Step,
    /// Whether it can't be used any longer.
    pub is_lost: bool,
    /// The smallest round trip to it, ns.
    pub round_trip_ns: u64,
}

/// The user's intent for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Will {
    /// Whether the user wants it to stop.
    pub stops: bool,
    /// What to do when an agent is lost.
    pub on_loss: OnLoss,
}

impl Goal {
    /// The goal after this one, or this one until it is reached.
    #[must_use]
    pub fn next(self, agents: &[Standing], will: Will, now_ns: u64) -> Goal {
        let lost = agents.iter().any(|agent| agent.is_lost);
        let all_lost = agents.iter().all(|agent| agent.is_lost);
        let reached = |step| agents.iter().all(|agent| agent.is_lost || step <= agent.step);
        let has_begun = match self {
            Goal::Greet | Goal::Prepare | Goal::Synchronize => false,
            Goal::Begin { at_ns } => at_ns <= now_ns,
            Goal::Stop | Goal::Collect | Goal::Leave => true,
        };
        // All unreachable agents are named together.
        let names_all = self == Goal::Greet && !reached(Step::Greeted);
        if all_lost || (!has_begun && (will.stops || (lost && !names_all))) {
            return Goal::Leave;
        }
        match self {
            Goal::Greet if reached(Step::Greeted) => Goal::Prepare,
            Goal::Prepare if reached(Step::Ready) => Goal::Synchronize,
            Goal::Synchronize if reached(Step::Synchronized) => {
                // A message to the farthest agent takes this long.
                let farthest_ns = agents.iter().map(|agent| agent.round_trip_ns).max();
                Goal::Begin { at_ns: now_ns + START_AHEAD_MIN_NS + farthest_ns.unwrap_or(0) }
            }
            Goal::Begin { .. } if reached(Step::Over) => Goal::Collect,
            Goal::Begin { .. } if will.stops || (lost && will.on_loss == OnLoss::Abort) => {
                Goal::Stop
            }
            Goal::Stop if reached(Step::Over) => Goal::Collect,
            Goal::Collect if reached(Step::Collected) => Goal::Leave,
            unreached => unreached,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_NS: u64 = 100_000_000_000;

    fn at(steps: &[Step]) -> Vec<Standing> {
        let standing = |step: &Step| Standing { step: *step, is_lost: false, round_trip_ns: 7 };
        steps.iter().map(standing).collect()
    }

    fn lost(mut agents: Vec<Standing>, number: usize) -> Vec<Standing> {
        agents[number].is_lost = true;
        agents
    }

    const GOES_ON: Will = Will { stops: false, on_loss: OnLoss::Abort };
    const BEGUN: Goal = Goal::Begin { at_ns: NOW_NS };

    #[test]
    fn a_goal_waits_for_all_agents() {
        let begins = Goal::Begin { at_ns: NOW_NS + START_AHEAD_MIN_NS + 7 };
        for (goal, before, after, next) in [
            (Goal::Greet, Step::Connecting, Step::Greeted, Goal::Prepare),
            (Goal::Prepare, Step::Greeted, Step::Ready, Goal::Synchronize),
            (Goal::Synchronize, Step::Ready, Step::Synchronized, begins),
            (BEGUN, Step::Begun, Step::Over, Goal::Collect),
            (Goal::Stop, Step::Begun, Step::Over, Goal::Collect),
            (Goal::Collect, Step::Over, Step::Collected, Goal::Leave),
        ] {
            for waits in [&[before, before], &[after, before], &[before, after]] {
                assert_eq!(goal.next(&at(waits), GOES_ON, NOW_NS), goal, "{waits:?}");
            }
            assert_eq!(goal.next(&at(&[after, after]), GOES_ON, NOW_NS), next);
            // Lost agents are waited for no longer.
            if !matches!(goal, Goal::Greet | Goal::Prepare | Goal::Synchronize) {
                let agents = lost(at(&[after, before]), 1);
                assert_eq!(goal.next(&agents, GOES_ON, NOW_NS), next);
            }
        }
    }

    #[test]
    fn without_an_agent_no_load_begins() {
        let early = Goal::Begin { at_ns: NOW_NS + 1 };
        for goal in [Goal::Greet, Goal::Prepare, Goal::Synchronize, early] {
            for on_loss in [OnLoss::Abort, OnLoss::Continue] {
                let will = Will { stops: false, on_loss };
                let agents = lost(at(&[Step::Begun; 3]), 1);
                assert_eq!(goal.next(&agents, will, NOW_NS), Goal::Leave, "{goal:?}");
            }
            let stops = Will { stops: true, ..GOES_ON };
            assert_eq!(goal.next(&at(&[Step::Connecting]), stops, NOW_NS), Goal::Leave);
        }
        // One can't be reached, and neither may another.
        let agents = lost(at(&[Step::Connecting; 2]), 0);
        assert_eq!(Goal::Greet.next(&agents, GOES_ON, NOW_NS), Goal::Greet);
    }

    #[test]
    fn a_loss_stops_the_others_unless_they_go_on() {
        let agents = lost(at(&[Step::Begun; 3]), 2);
        let goes_on = Will { stops: false, on_loss: OnLoss::Continue };
        assert_eq!(BEGUN.next(&agents, GOES_ON, NOW_NS), Goal::Stop);
        assert_eq!(BEGUN.next(&agents, goes_on, NOW_NS), BEGUN);
        let stops = Will { stops: true, ..goes_on };
        assert_eq!(BEGUN.next(&agents, stops, NOW_NS), Goal::Stop);
        // None is left to wait for.
        let agents = lost(lost(lost(agents, 0), 1), 2);
        for goal in [BEGUN, Goal::Stop, Goal::Collect] {
            assert_eq!(goal.next(&agents, goes_on, NOW_NS), Goal::Leave);
        }
    }
}
