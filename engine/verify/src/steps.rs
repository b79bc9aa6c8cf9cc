//! Checks the results of each step: against themselves, the plan, and the whole that they add up to.

use plan::Plan;
use record::config::RecorderConfig;
use record::counts::Counts;
use report::steps::planned;
use report::{DistributionPart, Part, StepCounts, StepPart};

use super::compare::compare;
use super::distribution::distribution;
use super::finding::{Finding, summed_up};
use super::sums::outcomes;

/// The steps of a part, whose requests depend on each other or not.
pub(super) fn steps(plan: &Plan, part: &Part, dependent: Option<bool>) -> Vec<Finding> {
    let several = RecorderConfig::of_plan(plan).parts();
    let mut findings = vec![Finding::equal("parts", several, part.parts.len())];
    if several == 0 || !findings[0].ok {
        return findings;
    }
    let shares = planned(plan);
    let mut sum = Counts::default();
    for ((scenario, share), step) in plan.scenario.iter().zip(shares).zip(&part.parts) {
        let mut checks = vec![
            Finding::equal("name", &scenario.name, &step.name),
            Finding::equal("planned", share, step.planned),
        ];
        checks.extend(alone(plan, step, dependent));
        findings.extend(summed_up(&format!("part {}", scenario.name), checks));
        sum += step.counts.as_whole();
    }
    let (sum, whole) = (StepCounts::new(&sum), StepCounts::new(&part.counts));
    findings.extend(summed_up("parts add up to the whole", compare("", &sum, &whole)));
    let count = |of: fn(&StepPart) -> u64| part.parts.iter().map(of).sum::<u64>();
    findings.push(Finding::equal("parts: naive", part.naive.count, count(|it| it.naive.count)));
    let corrected = count(|step| step.corrected.count);
    findings.push(Finding::equal("parts: corrected", part.corrected.count, corrected));
    findings
}

/// A step's results against each other.
fn alone(plan: &Plan, step: &StepPart, dependent: Option<bool>) -> Vec<Finding> {
    let counts = step.counts.as_whole();
    let naive = counts.sent.saturating_sub(counts.failed);
    let mut findings = outcomes(&counts, plan);
    findings.extend([
        Finding::equal("bad", counts.bad(), step.bad),
        Finding::equal("naive.count by the counts", naive, step.naive.count),
    ]);
    let laid_out = |dependent| move |whole: &_| DistributionPart::alone(whole, dependent);
    findings.extend(distribution("naive", &step.naive, laid_out(dependent)));
    let dependent = match plan.backfill_ns() {
        None => {
            let corrected = counts.with_latency();
            let found = step.corrected.count;
            findings.push(Finding::equal("corrected.count by the counts", corrected, found));
            dependent
        }
        Some(_) => Some(true),
    };
    findings.extend(distribution("corrected", &step.corrected, laid_out(dependent)));
    findings
}
