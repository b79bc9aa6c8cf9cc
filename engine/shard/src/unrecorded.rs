//! Requests that were due before the window: only counted, with how they ended.

use record::outcome::Outcome;
use record::stamps::Ending;

use super::shard::Shard;

impl Shard {
    /// Counts a request that was due before the window as sent; at `u64::MAX`, it was connected at
    /// no time.
    pub(super) fn count_unrecorded(&mut self, sent_ns: u64) {
        if self.running {
            let in_window = self.is_in_window(sent_ns);
            let warmup = &mut self.recorder.counts.warmup;
            warmup.sent += 1;
            warmup.sent_in_window += u64::from(in_window);
        } else {
            self.recorder.counts.setup.sent += 1;
        }
    }

    /// Such a request ended.
    pub(super) fn unrecorded_ended(&mut self, ending: Ending, outcome: Outcome) {
        if self.running {
            let in_window = self.is_in_window(ending.ended_ns());
            self.recorder.counts.warmup.ended(outcome, in_window);
        } else {
            self.recorder.counts.setup.ended(outcome);
        }
    }

    fn is_in_window(&self, at_ns: u64) -> bool {
        self.window_ns <= at_ns && at_ns <= self.end_ns
    }
}
