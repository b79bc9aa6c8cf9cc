//! Checks the sessions of a part's scenarios against each other and against the results of their
//! steps.

use plan::Plan;
use record::outcome::UnsentReason;
use report::steps::planned;
use report::{DistributionPart, Part, ScenarioPart, StepCounts};

use super::distribution::distribution;
use super::finding::{Finding, is_close, summed_up};

/// The sessions of a part are those of its plan's scenarios, each ends once, and as many begin as
/// requests of the first step were due.
pub(super) fn scenarios(plan: &Plan, part: &Part) -> Vec<Finding> {
    let number = if plan.has_sessions() { plan.scenario.len() } else { 0 };
    let mut findings = vec![Finding::equal("scenarios", number, part.scenarios.len())];
    if number != part.scenarios.len() || number == 0 {
        return findings;
    }
    let names = plan.step_names();
    let of_steps = planned(plan);
    // The sum of a step's requests, in all stages.
    let of_step = |step: usize, of: fn(&StepCounts) -> u64| -> u64 {
        let parts = of_steps.iter().zip(&part.parts).filter(|(planned, _)| planned.step == step);
        parts.map(|(_, part)| of(&part.counts)).fold(0, u64::saturating_add)
    };
    let due = |step: usize| of_step(step, |counts| counts.intended);
    let unsent_in = |step: usize| of_step(step, |counts| counts.unsent);
    let cut_in = |step: usize| of_step(step, |counts| counts.unsent_reasons.of(UnsentReason::End));
    // Those without a good answer end their session, but for those that the run's end cut off.
    let failed_in = |step: usize| of_step(step, failed);
    let good_in = |step: usize| of_step(step, good);
    let total: u64 = plan.weights().into_iter().map(u64::from).sum();
    let mut later = 0_u64;
    for ((scenario, (first, length)), found) in
        plan.scenario.iter().zip(plan.scenario_steps()).zip(&part.scenarios)
    {
        let ScenarioPart { intended, completed, unsent, planned, .. } = *found;
        let ended = completed
            .saturating_add(unsent)
            .saturating_add(found.failed())
            .saturating_add(found.unfinished());
        let share = f64::from(scenario.weight) / total as f64;
        let own: Vec<&str> = names[first..first + length].iter().map(String::as_str).collect();
        let listed: Vec<&str> = found.steps.iter().map(|step| step.name.as_str()).collect();
        let last = found.steps.last().map_or(0, |step| step.failed.saturating_add(step.unfinished));
        let rows = (first..).zip(&found.steps);
        let failed: Vec<u64> = rows
            .clone()
            .map(|(step, _)| match step == first {
                true => failed_in(step),
                // A first one that is never sent ends a session that was never begun.
                false => {
                    failed_in(step).saturating_add(unsent_in(step)).saturating_sub(cut_in(step))
                }
            })
            .collect();
        let listed_failed: Vec<u64> = found.steps.iter().map(|step| step.failed).collect();
        let cut_off = rows.map(|(step, row)| {
            let own = if step == first { 0 } else { cut_in(step) };
            let least = of_step(step, |counts| counts.abandoned).saturating_add(own);
            Finding::at_most(format!("unfinished in {}", row.name), row.unfinished, least)
        });
        let end = scenario.step.last().filter(|step| step.when.is_none());
        let most = end.map_or(u64::MAX, |step| {
            good_in(first + length - 1) / u64::from(step.repeat.unwrap_or(1).max(1))
        });
        let mut checks = vec![
            Finding::equal(
                "failed by the steps",
                format!("{failed:?}"),
                format!("{listed_failed:?}"),
            ),
            Finding::equal("unsent by the first step", unsent_in(first), unsent),
            Finding::at_most("completed by the last step", most, completed),
            Finding::equal("name", &*scenario.name, &*found.name),
            Finding::new("planned", share, planned, is_close(share, planned)),
            Finding::equal("steps", own.join(", "), listed.join(", ")),
            Finding::equal("intended by its first step", due(first), intended),
            Finding::equal("intended by its ends", ended, intended),
            Finding::at_most("in its last step", due(first + length - 1).max(intended), last),
            Finding::at_most("latencies", intended, found.latency.count),
        ];
        checks.extend(cut_off);
        checks.extend(distribution("latency", &found.latency, |whole| {
            DistributionPart::alone(whole, None)
        }));
        findings.extend(summed_up(&format!("scenario {}", scenario.name), checks));
        later = (first + 1..first + length).map(due).fold(later, u64::saturating_add);
    }
    findings.push(Finding::equal("later_steps by the parts", later, part.counts.later_steps));
    findings
}

/// The requests of a step that were sent and had no good answer in time.
fn failed(counts: &StepCounts) -> u64 {
    let StepCounts { unexpected_status, failed_checks, timed_out, failed, .. } = *counts;
    [unexpected_status, failed_checks, timed_out, failed].into_iter().fold(0, u64::saturating_add)
}

/// Those with a good answer.
fn good(counts: &StepCounts) -> u64 {
    let StepCounts { answered, unexpected_status, failed_checks, .. } = *counts;
    answered.saturating_sub(unexpected_status).saturating_sub(failed_checks)
}
