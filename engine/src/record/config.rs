//! What a recorder needs to know of the plan.

use serde::{Deserialize, Serialize};

use crate::plan::status::StatusSet;
use crate::plan::{Model, Plan};

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
    /// Back-fill the corrected distribution with this interval instead of using intended times.
    pub backfill_ns: Option<u64>,
}

impl RecorderConfig {
    /// The settings of a completed plan.
    pub fn of_plan(plan: &Plan) -> RecorderConfig {
        RecorderConfig {
            window_ns: plan.warmup.0,
            end_ns: if plan.ends_by_count() { plan.warmup.0 } else { plan.end_ns() },
            scheduled: plan.model() == Model::Open,
            success: plan.expect_status.clone(),
            backfill_ns: plan.period.filter(|_| !plan.backfill.is_off()).map(|period| period.0),
        }
    }
}
