//! Lays out the sessions of each scenario, if one has several steps.

use plan::Plan;
use record::scenario::ScenarioCounts;

use super::report::{DistributionPart, ScenarioPart, ScenarioStep};

/// Lays out a recorder's sessions.
///
/// # Panics
/// If the ends of a scenario's sessions don't add up to all of them.
pub fn scenarios(counts: &ScenarioCounts, plan: &Plan) -> Vec<ScenarioPart> {
    let total: u64 = plan.weights().into_iter().map(u64::from).sum();
    let names = plan.step_names();
    let each = plan.scenario.iter().zip(plan.scenario_steps()).zip(&counts.sessions);
    let each = each.map(|((scenario, (first, length)), sessions)| {
        let ended = names[first..first + length].iter().zip(&counts.ended_in[first..]);
        let steps = ended.map(|(name, ended)| ScenarioStep {
            name: name.clone(),
            failed: ended.failed,
            unfinished: ended.unfinished,
        });
        let part = ScenarioPart {
            name: scenario.name.clone(),
            planned: f64::from(scenario.weight) / total as f64,
            intended: sessions.intended,
            completed: sessions.completed,
            unsent: sessions.unsent,
            steps: steps.collect(),
            latency: DistributionPart::alone(&sessions.latency, None),
        };
        let ended = part.completed + part.unsent + part.failed() + part.unfinished();
        assert_eq!(part.intended, ended, "each session ends once: {part:?}");
        part
    });
    each.collect()
}
