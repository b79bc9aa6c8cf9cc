//! What a recorder needs to know of the plan.

use plan::status::StatusSet;
use plan::{Model, Plan};
use serde::{Deserialize, Serialize};

/// What a recorder takes from the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderConfig {
    /// Start of the window, ns since the epoch.
    pub window_ns: u64,
    /// End of the window as planned, ns since the epoch; its start where only the run shows when it
    /// ends, whose series then begins with the shortest intervals.
    pub end_ns: u64,
    /// Whether requests follow a schedule, in order: then their arrivals are kept as evidence.
    pub scheduled: bool,
    /// Which statuses are successes.
    pub success: StatusSet,
    /// How many steps there are.
    pub steps: usize,
}

impl RecorderConfig {
    /// How many parts are recorded beside the whole: none for a single step, which is the whole.
    pub fn parts(&self) -> usize {
        if self.steps < 2 { 0 } else { self.steps }
    }

    /// The settings of a completed plan.
    pub fn of_plan(plan: &Plan) -> RecorderConfig {
        RecorderConfig {
            window_ns: plan.warmup.0,
            end_ns: if plan.ends_by_count() { plan.warmup.0 } else { plan.end_ns() },
            scheduled: plan.model() == Model::Open,
            success: plan.expect_status.clone(),
            steps: plan.scenario.len().max(1),
        }
    }
}
