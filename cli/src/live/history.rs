//! The last few minutes of a run, second by second, for the view.

use std::collections::VecDeque;

use engine::run::{Health, RunProgress};
use engine::sys::units::SECOND_NS;

use crate::recent::{Look, Second};

/// The most seconds kept: more than a screen has columns.
const SECONDS_MAX: usize = 512;

/// One second of a run.
#[derive(Clone, Debug)]
pub(super) struct Past {
    /// Its figures.
    pub(super) second: Second,
    /// Requests in flight at its end.
    pub(super) in_flight: u64,
}

/// The seconds of a run since the load began.
#[derive(Debug, Default)]
pub(super) struct History {
    last: Option<Look>,
    seconds: VecDeque<Past>,
}

impl History {
    /// Takes a snapshot of a run: a second is over once the shards have reported it.
    pub(super) fn look(&mut self, now: &RunProgress, health: &Health) {
        let Some(look) = Look::new(now, Some(health.clone())) else { return };
        let Some(last) = &self.last else {
            self.last = Some(look);
            return;
        };
        if look.as_of_ns() < last.as_of_ns() + SECOND_NS {
            return;
        }
        if let Some(second) = look.since(last) {
            self.push(Past { second, in_flight: now.in_flight });
        }
        self.last = Some(look);
    }

    /// Adds a second.
    pub(super) fn push(&mut self, past: Past) {
        if SECONDS_MAX <= self.seconds.len() {
            self.seconds.pop_front();
        }
        self.seconds.push_back(past);
    }

    /// The last seconds, at most `most`, from the oldest to the newest.
    pub(super) fn last(&self, most: usize) -> impl DoubleEndedIterator<Item = &Past> + Clone {
        self.seconds.range(self.seconds.len().saturating_sub(most)..)
    }
}
