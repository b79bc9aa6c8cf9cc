//! The capacity of the generator, the most load that it can offer here: closed loops search for
//! their peak, open runs for the limit up to which they keep up with their plan.
//!
//! Neither is the result of `truetail ceiling`. That depends on a target as well, and has rules of
//! its own, which demand less of a run (`probe::rule`).

use serde::{Deserialize, Serialize};

use super::bracket::{Bracket, Tried};
use super::figures::CpuPerRequest;

/// The share of a core from which it bounds a closed loop: its shard was busy, or the hypervisor
/// had it.
const BUSY_MIN: f64 = 0.9;

/// A closed loop that searched for the capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closed {
    /// Connections.
    pub conns: usize,
    /// Responses per second.
    pub rate: f64,
    /// Busy share of the busiest shard.
    pub busy: f64,
    /// Share of the cores' time that the hypervisor took.
    pub stolen: f64,
    /// CPU time of the shards per request.
    pub cpu: CpuPerRequest,
    /// True if others took so much of the machine that the figures may not be its own.
    pub disturbed: bool,
}

/// The most load that the generator can offer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The closed loops.
    pub closed: Vec<Closed>,
    /// The peak: responses per second of the best of them.
    pub closed_rate: f64,
    /// The connections of the best one.
    pub closed_conns: usize,
    /// Its bound.
    pub bound: Bound,
    /// The open runs, in the order in which they were made.
    pub open: Vec<Tried>,
    /// The limit, between the rates that runs did and didn't keep up with.
    pub bracket: Bracket,
}

impl Capacity {
    /// The best of these closed loops.
    pub(super) fn new(closed: Vec<Closed>) -> Option<Capacity> {
        let best = closed.iter().max_by(|one, other| one.rate.total_cmp(&other.rate))?.clone();
        Some(Capacity {
            closed,
            closed_rate: best.rate,
            closed_conns: best.conns,
            bound: match best {
                Closed { disturbed: true, .. } => Bound::Unknown,
                Closed { busy, stolen, .. } if busy + stolen < BUSY_MIN => Bound::Target,
                Closed { .. } => Bound::Generator,
            },
            open: Vec::new(),
            bracket: Bracket { passed: None, failed: None },
        })
    }

    /// True if others may have caused all failures at the lowest rate that none kept up with: the
    /// generator may keep up with more.
    pub fn is_open_disturbed(&self) -> bool {
        let at_failed = |one: &&Tried| Some(one.rate) == self.bracket.failed;
        let mut failed = self.open.iter().filter(at_failed).peekable();
        failed.peek().is_some() && failed.all(|one| one.disturbed)
    }

    /// The highest rate that an open run kept up with; without one, the closed loop's.
    pub fn rate(&self) -> f64 {
        self.bracket.passed.unwrap_or(self.closed_rate)
    }
}

/// The bound of a closed loop against the null target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The cores of the generator.
    Generator,
    /// The target: the true peak is at least this high.
    Target,
    /// Others used the machine as well.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(conns: usize, rate: f64, busy: f64) -> Closed {
        let cpu = CpuPerRequest::default();
        Closed { conns, rate, busy, stolen: 0.0, cpu, disturbed: false }
    }

    #[test]
    fn the_best_closed_loop_is_the_capacity_unless_an_open_run_disagrees() {
        let loops = vec![closed(16, 9e4, 0.99), closed(64, 1.2e5, 0.99), closed(256, 1e5, 0.5)];
        let mut capacity = Capacity::new(loops).expect("three");
        assert_eq!((capacity.closed_conns, capacity.rate()), (64, 1.2e5));
        assert_eq!(capacity.bound, Bound::Generator);
        capacity.bracket = Bracket { passed: Some(1.1e5), failed: Some(1.15e5) };
        assert_eq!(capacity.rate(), 1.1e5);
        let idle = Capacity::new(vec![closed(16, 9e4, 0.6)]).expect("one");
        assert_eq!(idle.bound, Bound::Target);
        let stolen = Closed { stolen: 0.08, ..closed(16, 9e4, 0.85) };
        let bound = Capacity::new(vec![stolen]).expect("one").bound;
        assert_eq!(bound, Bound::Generator, "there was no more of its core");
        let disturbed = Closed { disturbed: true, ..closed(16, 9e4, 0.6) };
        assert_eq!(Capacity::new(vec![disturbed]).expect("one").bound, Bound::Unknown);
        assert_eq!(Capacity::new(Vec::new()), None);
    }
}
