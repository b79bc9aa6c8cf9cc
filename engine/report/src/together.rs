//! Whether the runs of agents form one run, and the plan that they share.

use load::share::Share;
use plan::redact::Redacted;
use plan::{Plan, StampSource};
use units::OneIn;

use crate::AgentPart;
use crate::collected::{CollectedHead, RunFacts};

/// Why the runs of agents can't form one run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTogether {
    /// There are none.
    #[error("no agent returned results")]
    Nothing,
    /// Two agents had overlapping parts of the load.
    #[error("agents {0} and {1} had a part of the load in common")]
    Shares(String, String),
}

/// A plan without the agents' own settings: the agents of one run have the rest in common.
pub(super) fn unplaced(plan: &Plan) -> Plan {
    Plan {
        cores: None,
        source_addresses: Vec::new(),
        raw: None,
        stamps: None,
        stamp_sends: None,
        // Each agent's target may take fewer.
        streams: None,
        ..plan.clone()
    }
}

impl CollectedHead {
    /// True if this was the plan, apart from the agent's own settings.
    pub fn is_of(&self, plan: &Redacted) -> bool {
        unplaced(self.plan.plan()) == unplaced(plan.plan())
    }
}

/// Checks that no two agents, present or lost, had overlapping parts of the load.
///
/// # Errors
/// The first two that had.
pub(super) fn check_shares(per_agent: &[AgentPart], facts: &RunFacts) -> Result<(), NotTogether> {
    let lost = facts.lost.iter().map(|lost| (&lost.name, &lost.share));
    let mut taken: Vec<(&String, &Share)> = lost.collect();
    for agent in per_agent {
        let (name, share) = (&agent.name, &agent.config.share);
        if let Some((other, _)) = taken.iter().find(|(_, other)| other.overlaps(share)) {
            return Err(NotTogether::Shares((*other).clone(), name.clone()));
        }
        taken.push((name, share));
    }
    Ok(())
}

/// The plan of all agents, given the first one's; with several agents, without their own settings.
pub(super) fn common_plan(first: Plan, per_agent: &[AgentPart], facts: &RunFacts) -> Plan {
    let raw = facts.raw.clone();
    if per_agent.len() == 1 && facts.lost.is_empty() {
        return Plan { raw: raw.or(first.raw), ..first };
    }
    // If one agent's kernel doesn't stamp, the others' still do.
    let own = || per_agent.iter().map(|agent| &agent.config);
    let stamped = own().map(|own| own.stamps).find(|stamps| *stamps != Some(StampSource::User));
    let sampled = own().map(|own| own.stamp_sends).find(|one_in| *one_in != Some(OneIn::OFF));
    let stamps = stamped.unwrap_or(first.stamps);
    let stamp_sends = sampled.unwrap_or(first.stamp_sends);
    Plan { cores: None, source_addresses: Vec::new(), raw, stamps, stamp_sends, ..first }
}
