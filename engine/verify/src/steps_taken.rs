//! The steps of many requests: the number in each part, a step in a stage, and a digest of which
//! request took which step.

use load::schedule::{Digest, mix};
use plan::Plan;
use record::config::RecorderConfig;

/// The steps of the requests of a window, in any order.
#[derive(Clone, Debug)]
pub(super) struct StepsTaken {
    config: RecorderConfig,
    counts: Vec<u64>,
    digest: Digest,
}

impl StepsTaken {
    /// Empty, for a plan's parts.
    pub(super) fn new(plan: &Plan) -> StepsTaken {
        let (config, digest) = (RecorderConfig::of_plan(plan), Digest::default());
        StepsTaken { counts: vec![0; config.parts().max(1)], config, digest }
    }

    /// Adds a request that was due at this time and took this step.
    pub(super) fn add(&mut self, due_ns: u64, step: u16) {
        self.counts[self.config.part(step, due_ns)] += 1;
        self.digest.add(due_ns ^ mix(u64::from(step)));
    }

    /// The number of requests in this part, in the order of the plan's parts.
    pub(super) fn count(&self, part: usize) -> u64 {
        self.counts.get(part).copied().unwrap_or(0)
    }

    /// The digest of all pairs of due time and step, as text.
    pub(super) fn hex(&self) -> String {
        self.digest.hex()
    }
}
