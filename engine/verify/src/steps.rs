//! Checks the results of each part, a step in a stage: against themselves, the plan, and the whole
//! that they add up to.

use plan::Plan;
use record::config::RecorderConfig;
use record::counts::Counts;
use report::steps::planned;
use report::{DistributionPart, Part, StepCounts, StepPart};

use super::compare::compare;
use super::distribution::distribution;
use super::finding::{Finding, summed_up};
use super::planned::Planned;
use super::slowest::slowest;
use super::sums::outcomes;

/// Checks the parts of a whole; `dependent`: whether the latencies depend on each other.
pub(super) fn parts(plan: &Plan, whole: &Part, dependent: Option<bool>) -> Vec<Finding> {
    let several = RecorderConfig::of_plan(plan).parts();
    let mut findings = vec![Finding::equal("parts", several, whole.parts.len())];
    if several == 0 || !findings[0].ok {
        return findings;
    }
    let mut sum = Counts::default();
    let stages = several / plan.step_count();
    for (at, (planned, part)) in planned(plan).into_iter().zip(&whole.parts).enumerate() {
        let step = u16::try_from(at / stages).unwrap_or(u16::MAX);
        let mut checks = vec![
            Finding::equal("name", &planned.name, &part.name),
            Finding::equal("planned", planned.share, part.planned),
        ];
        checks.extend(compare("stage.", &planned.stage, &part.stage));
        checks.extend(alone(plan, part, dependent));
        checks.extend(slowest(plan, &part.slowest, step, plan.slowest(), &part.corrected));
        let stage = planned.stage.map_or(String::new(), |it| format!(", stage {}", it.number));
        findings.extend(summed_up(&format!("part {}{stage}", planned.name), checks));
        sum += part.counts.as_whole();
    }
    let (sum, counts) = (StepCounts::new(&sum), StepCounts::new(&whole.counts));
    findings.extend(summed_up("parts add up to the whole", compare("", &sum, &counts)));
    findings
}

/// Each part had the requests that the plan's mix and stages give it.
pub(super) fn by_schedule(whole: &Part, planned: &Planned) -> Vec<Finding> {
    if whole.parts.is_empty() {
        return Vec::new();
    }
    let parts = whole.parts.iter().enumerate();
    let check = |(at, part): (usize, &StepPart)| {
        Finding::equal(&*part.name, planned.steps.count(at), part.counts.intended)
    };
    summed_up("parts: intended by the schedule", parts.map(check).collect())
}

/// A part's results against each other.
fn alone(plan: &Plan, part: &StepPart, dependent: Option<bool>) -> Vec<Finding> {
    let counts = part.counts.as_whole();
    let naive = counts.sent.saturating_sub(counts.failed);
    let mut findings = outcomes(&counts, plan);
    findings.extend([
        Finding::equal("bad", counts.bad(), part.bad),
        Finding::equal("naive.count by the counts", naive, part.naive.count),
        Finding::equal(
            "corrected.count by the counts",
            counts.with_latency(),
            part.corrected.count,
        ),
    ]);
    for (name, document) in [("naive", &part.naive), ("corrected", &part.corrected)] {
        let laid_out = |whole: &_| DistributionPart::alone(whole, dependent);
        findings.extend(distribution(name, document, laid_out));
    }
    findings
}
