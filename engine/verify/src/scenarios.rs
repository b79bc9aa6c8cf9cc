//! Checks the sessions of a part's scenarios against each other and against the results of their
//! steps.

use plan::Plan;
use report::steps::planned;
use report::{Part, ScenarioPart};

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
    // The requests of a step that were due, in all stages.
    let due = |step: usize| -> u64 {
        let parts = of_steps.iter().zip(&part.parts).filter(|(planned, _)| planned.step == step);
        parts.map(|(_, part)| part.counts.intended).fold(0, u64::saturating_add)
    };
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
        let checks = vec![
            Finding::equal("name", &*scenario.name, &*found.name),
            Finding::new("planned", share, planned, is_close(share, planned)),
            Finding::equal("steps", own.join(", "), listed.join(", ")),
            Finding::equal("intended by its first step", due(first), intended),
            Finding::equal("intended by its ends", ended, intended),
            Finding::at_most("in its last step", due(first + length - 1).max(intended), last),
            Finding::at_most("latencies", intended, found.latency.count),
        ];
        findings.extend(summed_up(&format!("scenario {}", scenario.name), checks));
        later = (first + 1..first + length).map(due).fold(later, u64::saturating_add);
    }
    findings.push(Finding::equal("later_steps by the parts", later, part.counts.later_steps));
    findings
}
