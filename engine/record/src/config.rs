//! A recorder's settings, taken from the plan.
//!
//! A request's stage follows from its intended time, as its step follows from its number: neither a
//! connection nor a raw sample stores it, and `verify` derives it.

use plan::status::StatusSet;
use plan::{Model, Plan};
use serde::{Deserialize, Serialize};

/// A recorder's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderConfig {
    /// Start of the window, ns since the epoch.
    pub window_ns: u64,
    /// Planned end of the window, ns since the epoch; the window's start if the end isn't known in
    /// advance: the series then begins with the shortest intervals.
    pub end_ns: u64,
    /// True if requests follow a schedule, in order: their arrivals are then kept as evidence.
    pub scheduled: bool,
    /// The statuses that are successes.
    pub success: StatusSet,
    /// The number of steps.
    pub steps: usize,
    /// How many of the slowest requests of each part are kept.
    pub slowest: usize,
    /// The start of each stage but the first, ns since the epoch.
    pub stage_starts_ns: Vec<u64>,
}

impl RecorderConfig {
    /// The number of parts recorded beside the whole, one for each step in each stage; none if
    /// there is only one step and one stage, which is the whole.
    pub fn parts(&self) -> usize {
        let parts = self.steps.max(1) * self.stages();
        if parts < 2 { 0 } else { parts }
    }

    fn stages(&self) -> usize {
        self.stage_starts_ns.len() + 1
    }

    /// The part that a request of this step belongs to if it was due at this time.
    pub fn part(&self, step: u16, intended_ns: u64) -> usize {
        let stage = self.stage_starts_ns.partition_point(|start_ns| *start_ns <= intended_ns);
        usize::from(step) * self.stages() + stage
    }

    /// The settings of a completed plan.
    pub fn of_plan(plan: &Plan) -> RecorderConfig {
        RecorderConfig {
            window_ns: plan.warmup.0,
            end_ns: if plan.ends_by_count() { plan.warmup.0 } else { plan.end_ns() },
            scheduled: plan.model() == Model::Open,
            success: plan.expect_status.clone(),
            steps: plan.step_count(),
            slowest: plan.slowest(),
            stage_starts_ns: plan.stages().skip(1).map(|(_, span)| span.start).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;

    #[test]
    fn a_request_belongs_to_the_stage_that_it_was_due_in() {
        let stage = ["5:1s", "5..9:2s", "9:3s"].map(|text| text.parse().expect("a stage"));
        let plan = Plan { stage: stage.into(), warmup: Nanos(7), ..Plan::default() };
        let plan = Plan { target: "http://h/".to_owned(), ..plan };
        let one = RecorderConfig::of_plan(&plan.complete(&[0]).expect("it runs"));
        assert_eq!((one.parts(), one.end_ns), (3, 6_000_000_007));
        for (due_ns, part) in [
            (7, 0),
            (1_000_000_006, 0),
            (1_000_000_007, 1),
            (3_000_000_006, 1),
            (3_000_000_007, 2),
            (6_000_000_006, 2),
            (9_000_000_000, 2),
        ] {
            assert_eq!(one.part(0, due_ns), part, "{due_ns}");
            let several = RecorderConfig { steps: 4, ..one.clone() };
            assert_eq!((several.parts(), several.part(3, due_ns)), (12, 9 + part), "{due_ns}");
        }
        let single = RecorderConfig { stage_starts_ns: Vec::new(), ..one };
        assert_eq!((single.parts(), RecorderConfig { steps: 2, ..single }.parts()), (0, 2));
    }
}
