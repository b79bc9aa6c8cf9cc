//! Lays out what became of the requests of each step, where a plan has several.

use plan::Plan;
use record::counts::Counts;
use record::recorder::Recorder;

use super::report::{DistributionPart, StepCounts, StepPart};

/// The share of requests that each of a plan's steps is to have.
pub fn planned(plan: &Plan) -> Vec<f64> {
    let total: u64 = plan.scenario.iter().map(|scenario| u64::from(scenario.weight)).sum();
    let share = |weight: u32| f64::from(weight) / total as f64;
    plan.scenario.iter().map(|scenario| share(scenario.weight)).collect()
}

/// Lays out the steps of a recorder, whose requests depend on each other or not.
///
/// # Panics
/// If they don't add up to the whole.
pub(crate) fn steps(recorder: &Recorder, plan: &Plan, dependent: Option<bool>) -> Vec<StepPart> {
    let each = plan.scenario.iter().zip(planned(plan)).zip(&recorder.parts);
    let parts = each.map(|((scenario, planned), part)| {
        part.counts.assert_sums();
        let naive = part.latencies.naive();
        let (corrected, dependent_too) = match plan.backfill_ns() {
            None => (part.latencies.corrected(), dependent),
            Some(interval_ns) => (naive.backfilled(interval_ns), Some(true)),
        };
        StepPart {
            name: scenario.name.clone(),
            planned,
            counts: StepCounts::new(&part.counts),
            bad: part.counts.bad(),
            naive: DistributionPart::alone(&naive, dependent),
            corrected: DistributionPart::alone(&corrected, dependent_too),
        }
    });
    let parts: Vec<StepPart> = parts.collect();
    if !recorder.parts.is_empty() {
        let mut sum = Counts::default();
        recorder.parts.iter().for_each(|part| sum += part.counts.clone());
        assert_eq!(sum.outcomes(), recorder.counts.outcomes(), "steps add up to the whole");
    }
    parts
}
