//! A recorder's settings, taken from the plan.
//!
//! A request's stage follows from its intended time, as its step follows from its number: neither a
//! connection nor a raw sample stores it, and `verify` derives it.

use plan::endpoints::Endpoints;
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
    /// The statuses that are successes for the first step.
    pub success: StatusSet,
    /// The same for each other step.
    pub success_of_others: Vec<StatusSet>,
    /// How many of the slowest requests of each part are kept.
    pub slowest: usize,
    /// The start of each stage but the first, ns since the epoch.
    pub stage_starts_ns: Vec<u64>,
    /// The endpoint of each step; empty if there is only one.
    pub endpoint_of_steps: Vec<u16>,
    /// The number of checks of each step; empty if no step has any.
    pub checks_of_steps: Vec<u8>,
    /// The first step of each scenario, if one has several; empty else.
    pub scenario_firsts: Vec<u16>,
}

impl RecorderConfig {
    /// The number of parts recorded beside the whole, one for each step in each stage; none if
    /// there is only one step and one stage, which is the whole.
    pub fn parts(&self) -> usize {
        let parts = (1 + self.success_of_others.len()) * self.stages();
        if parts < 2 { 0 } else { parts }
    }

    /// The statuses that are successes for this step.
    pub fn success_of(&self, step: u16) -> &StatusSet {
        match usize::from(step).checked_sub(1) {
            None => &self.success,
            Some(other) => &self.success_of_others[other],
        }
    }

    /// The length of each part's stage, ns, in the order of [`RecorderConfig::part`]; 0 if the end
    /// of the window isn't known in advance.
    pub(super) fn part_lengths_ns(&self) -> impl Iterator<Item = u64> {
        let stages = self.stages();
        (0..self.parts()).map(move |part| {
            let stage = part % stages;
            let end_ns = self.stage_starts_ns.get(stage).copied().unwrap_or(self.end_ns);
            end_ns - self.stage_start_ns(stage)
        })
    }

    fn stage_start_ns(&self, stage: usize) -> u64 {
        match stage.checked_sub(1) {
            None => self.window_ns,
            Some(before) => self.stage_starts_ns[before],
        }
    }

    fn stages(&self) -> usize {
        self.stage_starts_ns.len() + 1
    }

    /// The number of endpoints recorded beside the whole; none if there is only one, which is the
    /// whole.
    pub fn endpoints(&self) -> usize {
        self.endpoint_of_steps.iter().max().map_or(0, |last| usize::from(*last) + 1)
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        1 + self.success_of_others.len()
    }

    /// The scenario of this step; there must be one with several steps.
    pub fn scenario_of(&self, step: u16) -> usize {
        self.scenario_firsts.partition_point(|first| *first <= step) - 1
    }

    /// True if this step begins a session.
    pub fn is_first(&self, step: u16) -> bool {
        self.scenario_firsts.binary_search(&step).is_ok()
    }

    /// The number of checks of all steps.
    pub fn checks(&self) -> usize {
        self.checks_of_steps.iter().map(|checks| usize::from(*checks)).sum()
    }

    /// The number of this step's checks.
    pub fn checks_of(&self, step: u16) -> usize {
        self.checks_of_steps.get(usize::from(step)).map_or(0, |checks| usize::from(*checks))
    }

    /// The place of this step's check among those of all steps.
    #[cold]
    pub fn check(&self, step: u16, check: u8) -> usize {
        let before = self.checks_of_steps.iter().take(usize::from(step));
        before.map(|checks| usize::from(*checks)).sum::<usize>() + usize::from(check)
    }

    /// The part that a request of this step belongs to if it was due at this time.
    pub fn part(&self, step: u16, intended_ns: u64) -> usize {
        usize::from(step) * self.stages() + self.stage(intended_ns)
    }

    /// How long after the start of its stage a request was due, ns.
    pub(super) fn in_stage_ns(&self, intended_ns: u64) -> u64 {
        intended_ns - self.stage_start_ns(self.stage(intended_ns))
    }

    fn stage(&self, intended_ns: u64) -> usize {
        self.stage_starts_ns.partition_point(|start_ns| *start_ns <= intended_ns)
    }

    /// The settings of a completed plan.
    pub fn of_plan(plan: &Plan) -> RecorderConfig {
        RecorderConfig {
            window_ns: plan.warmup.0,
            end_ns: if plan.ends_by_count() { plan.warmup.0 } else { plan.end_ns() },
            scheduled: plan.model() == Model::Open,
            success: plan.expected_of(0).clone(),
            success_of_others: (1..plan.step_count())
                .map(|step| plan.expected_of(step).clone())
                .collect(),
            slowest: plan.slowest(),
            stage_starts_ns: plan.stages().skip(1).map(|(_, span)| span.start).collect(),
            endpoint_of_steps: Endpoints::of(plan)
                .ok()
                .filter(|endpoints| 1 < endpoints.each().len())
                .map_or(Vec::new(), |endpoints| endpoints.of_steps().to_vec()),
            checks_of_steps: plan.check_names().iter().map(|names| check_count(names)).collect(),
            scenario_firsts: plan.scenario_firsts(),
        }
    }
}

/// The number of a step's checks.
fn check_count(names: &[String]) -> u8 {
    u8::try_from(names.len()).expect("at most CHECKS_MAX")
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
            let several = of_steps(4, &one);
            assert_eq!((several.parts(), several.part(3, due_ns)), (12, 9 + part), "{due_ns}");
        }
        let lengths = |config: &RecorderConfig| config.part_lengths_ns().collect::<Vec<u64>>();
        let seconds = [1, 2, 3].map(|seconds| Nanos::from_secs(seconds).0);
        assert_eq!(lengths(&one), seconds);
        assert_eq!(lengths(&of_steps(2, &one)), [seconds, seconds].concat());
        assert_eq!(
            [7, 1_000_000_006, 1_000_000_017].map(|ns| one.in_stage_ns(ns)),
            [0, 999_999_999, 10]
        );
        let single = RecorderConfig { stage_starts_ns: Vec::new(), ..one };
        assert_eq!((single.parts(), of_steps(2, &single).parts()), (0, 2));
    }

    fn of_steps(steps: usize, config: &RecorderConfig) -> RecorderConfig {
        let success_of_others = vec![StatusSet::default(); steps - 1];
        RecorderConfig { success_of_others, ..config.clone() }
    }
}
