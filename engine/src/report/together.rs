//! Whether the runs of agents are one run, and the plan that they have in common.

use crate::load::share::Share;
use crate::plan::{Plan, StampSource};
use crate::record::config::RecorderConfig;
use crate::report::collected::{AgentRun, Collected, RunFacts};
use crate::shard::ShardReport;
use crate::sys::units::OneIn;

/// Why the runs of agents can't be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTogether {
    /// There is none.
    #[error("no agent brought anything home")]
    Nothing,
    /// The agent ran another plan than the first.
    #[error("agent {0} ran another plan than the first")]
    Plan(String),
    /// The agent's numbers aren't those of its plan.
    #[error("agent {0} brought home what isn't of its plan")]
    Numbers(String),
    /// Two agents had parts of the load in common.
    #[error("agents {0} and {1} had a part of the load in common")]
    Shares(String, String),
}

/// Whether these agents ran one plan, brought home what is of it, and had no part of the load in
/// common. What comes over a wire is checked before a report is made of it.
///
/// # Errors
/// The first agent that doesn't belong.
pub fn check(agents: &[AgentRun], facts: &RunFacts) -> Result<(), NotTogether> {
    let Some((first, _)) = agents.split_first() else { return Err(NotTogether::Nothing) };
    let unplaced = |agent: &AgentRun| Plan {
        cores: None,
        source_addresses: Vec::new(),
        raw: None,
        stamps: None,
        stamp_sends: None,
        ..agent.collected.head.plan.plan().clone()
    };
    let plan = unplaced(first);
    let mut taken: Vec<(&str, &Share)> =
        facts.lost.iter().map(|lost| (lost.name.as_str(), &lost.share)).collect();
    for agent in agents {
        let Collected { head, shards } = &agent.collected;
        let name = || agent.name.clone();
        if unplaced(agent) != plan {
            return Err(NotTogether::Plan(name()));
        }
        let config = RecorderConfig::of_plan(head.plan.plan());
        let cores = shards.iter().map(|shard| shard.stats.core);
        let fits =
            |shard: &ShardReport| shard.recorder.is_of(&config) && shard.recorder.counts.adds_up();
        if !cores.eq(head.plan.plan().cores().iter().copied()) || !shards.iter().all(fits) {
            return Err(NotTogether::Numbers(name()));
        }
        if let Some((other, _)) = taken.iter().find(|(_, other)| other.overlaps(&agent.share)) {
            return Err(NotTogether::Shares((*other).to_owned(), name()));
        }
        taken.push((&agent.name, &agent.share));
    }
    Ok(())
}

/// The plan of all agents: of several, without what is their own.
pub(super) fn common_plan(agents: &[AgentRun], facts: &RunFacts) -> Plan {
    let plans = || agents.iter().map(|agent| agent.collected.head.plan.plan());
    let first = plans().next().expect("a run is on at least one agent").clone();
    let raw = facts.raw.clone();
    if agents.len() == 1 && facts.lost.is_empty() {
        return Plan { raw: raw.or(first.raw), ..first };
    }
    // Where the kernel of one agent doesn't stamp, the others' still does.
    let stamped = plans().find(|plan| plan.stamps() != StampSource::User).unwrap_or(&first);
    let sampled = plans().find(|plan| plan.stamp_sends != Some(OneIn::OFF)).unwrap_or(&first);
    let (stamps, stamp_sends) = (stamped.stamps, sampled.stamp_sends);
    Plan { cores: None, source_addresses: Vec::new(), raw, stamps, stamp_sends, ..first }
}
