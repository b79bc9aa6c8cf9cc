//! Lays out the results of each part, a step in a stage, if a plan has several.

use load::curve::Curve;
use plan::Plan;
use record::counts::Counts;
use record::recorder::Recorder;
use units::SECOND_NS;

use super::report::{DistributionPart, StageSpan, StepCounts, StepPart};
use super::slowest::slowest;

/// A part of a plan.
pub struct PlannedPart {
    /// The name of its scenario.
    pub name: String,
    /// Its planned share of all requests.
    pub share: f64,
    /// Its stage; `None` if there is only one.
    pub stage: Option<StageSpan>,
}

/// The parts of a completed plan, in the order in which they are recorded: all stages of the first
/// step, then of the next.
pub fn planned(plan: &Plan) -> Vec<PlannedPart> {
    let stages = stages(plan);
    let parts = steps(plan).into_iter().flat_map(|(name, of_step)| {
        let part = move |(stage, of_stage): &(Option<StageSpan>, f64)| PlannedPart {
            name: name.clone(),
            share: of_step * of_stage,
            stage: *stage,
        };
        stages.iter().map(part).collect::<Vec<PlannedPart>>()
    });
    parts.collect()
}

/// The steps of a plan, each with its share of the requests.
fn steps(plan: &Plan) -> Vec<(String, f64)> {
    let weights = plan.weights();
    let total: u64 = weights.iter().copied().map(u64::from).sum();
    let shares = weights.into_iter().map(|weight| f64::from(weight) / total as f64);
    plan.step_names().into_iter().zip(shares).collect()
}

/// The stages of a plan, each with its share of the requests.
fn stages(plan: &Plan) -> Vec<(Option<StageSpan>, f64)> {
    let Some(curve) = Curve::of_plan(plan).filter(|_| 1 < plan.stage.len()) else {
        return vec![(None, 1.0)];
    };
    let seconds = |ns: u64| ns as f64 / SECOND_NS as f64;
    let whole = curve.expected(plan.warmup.0, plan.end_ns());
    let stages = plan.stages().zip(1..).map(|((stage, ns), number)| {
        let span = StageSpan {
            number,
            from: stage.from.per_second(),
            to: stage.to.per_second(),
            start: seconds(ns.start - plan.warmup.0),
            duration: stage.duration.as_secs_f64(),
        };
        (Some(span), curve.expected(ns.start, ns.end) / whole)
    });
    stages.collect()
}

/// Lays out the parts of a recorder; `dependent`: whether the latencies depend on each other.
///
/// # Panics
/// If they don't add up to the whole.
pub fn parts(recorder: &Recorder, plan: &Plan, dependent: Option<bool>) -> Vec<StepPart> {
    if recorder.parts.is_empty() {
        return Vec::new();
    }
    let mut sum = Counts::default();
    recorder.parts.iter().for_each(|part| sum += part.counts.clone());
    assert_eq!(sum.outcomes(), recorder.counts.outcomes(), "parts add up to the whole");
    let each = planned(plan).into_iter().zip(&recorder.parts).map(|(planned, part)| {
        part.counts.assert_sums();
        StepPart {
            name: planned.name,
            stage: planned.stage,
            planned: planned.share,
            counts: StepCounts::new(&part.counts),
            bad: part.counts.bad(),
            naive: DistributionPart::alone(&part.latencies.naive(), dependent),
            corrected: DistributionPart::alone(&part.latencies.corrected(), dependent),
            slowest: slowest(&part.slowest, plan),
        }
    });
    each.collect()
}
