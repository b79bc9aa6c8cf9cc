//! The slowest requests of a part, a short list: by their numbers, a tracing system or the target's
//! own log is asked about them.
//!
//! Lists of several shards merge exactly: what is among the slowest of all is among those of its
//! shard. Of equally slow requests, those due first come first.

use std::cmp::Reverse;
use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::stamps::Stamps;

/// The slowest requests of a part, at most so many, the slowest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slowest {
    most: usize,
    /// A request enters the list if it took longer than this, ns.
    above_ns: u64,
    requests: Vec<Slow>,
}

/// A slow request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slow {
    /// `received − intended`, ns.
    pub corrected_ns: u64,
    /// When it was due, ns since the epoch.
    pub intended_ns: u64,
    /// Its number.
    pub number: u64,
    /// `received − sent`, ns; `None` if it was never sent.
    pub naive_ns: Option<u64>,
    /// The status of its response; `None` without one.
    pub status: Option<u16>,
    /// How it ended without one; `None` with one.
    pub error: Option<SlowError>,
}

/// How a request with a latency ended without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlowError {
    /// Not within the timeout or the deadline.
    TimedOut,
    /// In flight when the drain ended.
    Abandoned,
    /// Never sent.
    Unsent,
}

impl Slow {
    /// A request with these stamps that ended at this time and has a latency; `None` if it failed
    /// or was dropped, so that it has none.
    pub fn new(number: u64, stamps: &Stamps, ended_ns: u64, outcome: Outcome) -> Option<Slow> {
        let (status, error) = match outcome {
            _ if !outcome.has_latency() => return None,
            Outcome::Answered(status) | Outcome::CheckFailed { status, .. } => (Some(status), None),
            Outcome::TimedOut(_) => (None, Some(SlowError::TimedOut)),
            Outcome::Abandoned => (None, Some(SlowError::Abandoned)),
            Outcome::Unsent(_) => (None, Some(SlowError::Unsent)),
            Outcome::Failed(_) => return None,
        };
        let is_sent = error != Some(SlowError::Unsent);
        Some(Slow {
            corrected_ns: ended_ns - stamps.intended_ns,
            intended_ns: stamps.intended_ns,
            number,
            naive_ns: is_sent.then(|| ended_ns - stamps.sent_ns),
            status,
            error,
        })
    }

    /// Its place: the slowest first, then those due first.
    fn key(&self) -> (Reverse<u64>, u64, u64) {
        (Reverse(self.corrected_ns), self.intended_ns, self.number)
    }
}

impl Slowest {
    /// Room for so many; all its memory is allocated here.
    pub fn of_at_most(most: usize) -> Slowest {
        let above_ns = if most == 0 { u64::MAX } else { 0 };
        Slowest { most, above_ns, requests: Vec::with_capacity(most) }
    }

    /// Lists a request that ended at this time, if it is among the slowest.
    #[inline]
    pub(super) fn look(&mut self, number: u64, stamps: &Stamps, ended_ns: u64, outcome: Outcome) {
        if self.may_hold(ended_ns - stamps.intended_ns) {
            self.enter(number, stamps, ended_ns, outcome);
        }
    }

    /// True if a request that took this long may enter the list.
    #[inline]
    fn may_hold(&self, corrected_ns: u64) -> bool {
        self.above_ns <= corrected_ns
    }

    /// Enters a request, if it has a latency and is slow enough.
    #[cold]
    fn enter(&mut self, number: u64, stamps: &Stamps, ended_ns: u64, outcome: Outcome) {
        if let Some(slow) = Slow::new(number, stamps, ended_ns, outcome) {
            self.insert(slow);
        }
    }

    fn insert(&mut self, slow: Slow) {
        let at = self.requests.partition_point(|other| other.key() <= slow.key());
        if self.most <= at {
            return;
        }
        if self.requests.len() == self.most {
            self.requests.pop();
        }
        self.requests.insert(at, slow);
        if self.requests.len() == self.most {
            self.above_ns = self.requests.last().map_or(0, |last| last.corrected_ns);
        }
    }

    /// The requests, the slowest first.
    pub fn requests(&self) -> &[Slow] {
        &self.requests
    }

    /// True if it is a list of at most so many, in order.
    pub fn is_of(&self, most: usize) -> bool {
        self.most == most
            && self.requests.len() <= most
            && self.requests.is_sorted_by_key(Slow::key)
    }
}

impl AddAssign for Slowest {
    /// Enters the requests of another list.
    fn add_assign(&mut self, other: Slowest) {
        other.requests.into_iter().for_each(|slow| self.insert(slow));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Cause, TimeoutKind, UnsentReason};

    fn slow(corrected_ns: u64, number: u64) -> Slow {
        let stamps = Stamps { intended_ns: 10, noticed_ns: 10, sent_ns: 12, ..Stamps::default() };
        Slow::new(number, &stamps, 10 + corrected_ns, Outcome::Answered(200)).expect("a latency")
    }

    #[test]
    fn merged_lists_are_the_list_of_all_in_any_order() {
        let all: Vec<Slow> = (0..40).map(|number| slow(100 + number * 7 % 12, number)).collect();
        let list = |requests: &[Slow]| {
            let mut list = Slowest::of_at_most(5);
            let may = requests.iter().filter(|slow| list.may_hold(slow.corrected_ns)).count();
            assert_eq!(may, requests.len(), "an empty list holds any");
            requests.iter().for_each(|slow| list.insert(*slow));
            list
        };
        let whole = list(&all);
        let numbers: Vec<u64> = whole.requests().iter().map(|slow| slow.number).collect();
        assert_eq!(numbers, [5, 17, 29, 10, 22]);
        assert!(whole.is_of(5) && whole.may_hold(110) && !whole.may_hold(109));
        for cut in [0, 1, 7, 20, 40] {
            let (one, other) = (list(&all[..cut]), list(&all[cut..]));
            let (mut ahead, mut behind) = (one.clone(), other.clone());
            ahead += other;
            behind += one;
            assert_eq!((&ahead, &behind), (&whole, &whole), "{cut}");
        }
        let mut none = Slowest::of_at_most(0);
        none.insert(slow(100, 1));
        assert!(none.requests().is_empty() && !none.may_hold(u64::MAX - 1));
    }

    #[test]
    fn what_has_no_latency_is_not_slow() {
        let stamps = Stamps { intended_ns: 10, noticed_ns: 10, sent_ns: 12, ..Stamps::default() };
        let of = |outcome| Slow::new(3, &stamps, 20, outcome);
        for outcome in [Outcome::Failed(Cause::Reset), Outcome::Unsent(UnsentReason::Dropped)] {
            assert_eq!(of(outcome), None);
        }
        let answered = of(Outcome::Answered(404)).expect("it has a latency");
        assert_eq!((answered.corrected_ns, answered.naive_ns), (10, Some(8)));
        assert_eq!((answered.status, answered.error), (Some(404), None));
        for (outcome, error, naive_ns) in [
            (Outcome::TimedOut(TimeoutKind::Deadline), SlowError::TimedOut, Some(8)),
            (Outcome::Abandoned, SlowError::Abandoned, Some(8)),
            (Outcome::Unsent(UnsentReason::End), SlowError::Unsent, None),
        ] {
            let slow = of(outcome).expect("it has a latency");
            assert_eq!((slow.status, slow.error, slow.naive_ns), (None, Some(error), naive_ns));
        }
    }
}
