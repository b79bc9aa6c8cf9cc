//! The ceiling: the closed loops and the open runs that looked for it, and what they say.

use serde::{Deserialize, Serialize};

use super::bracket::{Bracket, Tried};
use super::figures::CpuPerRequest;

/// Busy share of a shard from which its core is what bounds a closed loop.
const BUSY_MIN: f64 = 0.9;

/// A closed loop that looked for the ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closed {
    /// Connections.
    pub conns: usize,
    /// Responses per second.
    pub rate: f64,
    /// Busy share of the busiest shard.
    pub busy: f64,
    /// CPU time of the shards for each request.
    pub cpu: CpuPerRequest,
    /// Whether others took so much of the machine that the figures may not be its own.
    pub disturbed: bool,
}

/// The most load that the generator can offer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The closed loops.
    pub closed: Vec<Closed>,
    /// Responses per second of the best of them.
    pub closed_rate: f64,
    /// The connections of that one.
    pub closed_conns: usize,
    /// What bounded it.
    pub bound: Bound,
    /// The open runs, in the order in which they were made.
    pub open: Vec<Tried>,
    /// What they say.
    pub bracket: Bracket,
}

impl Ceiling {
    /// The best of these closed loops.
    pub(super) fn new(closed: Vec<Closed>) -> Option<Ceiling> {
        let best = closed.iter().max_by(|one, other| one.rate.total_cmp(&other.rate))?.clone();
        Some(Ceiling {
            closed,
            closed_rate: best.rate,
            closed_conns: best.conns,
            bound: match best {
                Closed { disturbed: true, .. } => Bound::Unknown,
                Closed { busy, .. } if busy < BUSY_MIN => Bound::Target,
                Closed { .. } => Bound::Generator,
            },
            open: Vec::new(),
            bracket: Bracket { passed: None, failed: None },
        })
    }

    /// Whether others were in the way of each run at the lowest rate that none kept up with: the
    /// generator may keep up with more.
    pub fn is_open_disturbed(&self) -> bool {
        let at_failed = |one: &&Tried| Some(one.rate) == self.bracket.failed;
        let mut failed = self.open.iter().filter(at_failed).peekable();
        failed.peek().is_some() && failed.all(|one| one.disturbed)
    }

    /// The highest rate that an open run kept up with; without one, what the closed loop reached.
    pub fn rate(&self) -> f64 {
        self.bracket.passed.unwrap_or(self.closed_rate)
    }
}

/// What bounds a closed loop against the null target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The cores of the generator.
    Generator,
    /// The target: the ceiling is at least what was reached.
    Target,
    /// Others used the machine as well.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(conns: usize, rate: f64, busy: f64) -> Closed {
        Closed { conns, rate, busy, cpu: CpuPerRequest::default(), disturbed: false }
    }

    #[test]
    fn the_best_closed_loop_is_the_ceiling_unless_an_open_run_says_otherwise() {
        let loops = vec![closed(16, 9e4, 0.99), closed(64, 1.2e5, 0.99), closed(256, 1e5, 0.5)];
        let mut ceiling = Ceiling::new(loops).expect("three");
        assert_eq!((ceiling.closed_conns, ceiling.rate()), (64, 1.2e5));
        assert_eq!(ceiling.bound, Bound::Generator);
        ceiling.bracket = Bracket { passed: Some(1.1e5), failed: Some(1.15e5) };
        assert_eq!(ceiling.rate(), 1.1e5);
        let idle = Ceiling::new(vec![closed(16, 9e4, 0.6)]).expect("one");
        assert_eq!(idle.bound, Bound::Target);
        let disturbed = Closed { disturbed: true, ..closed(16, 9e4, 0.6) };
        assert_eq!(Ceiling::new(vec![disturbed]).expect("one").bound, Bound::Unknown);
        assert_eq!(Ceiling::new(Vec::new()), None);
    }
}
