//! Preparation of a run: all checks that need no load, and the agent's limits.
//!
//! It resolves the target's name and connects to it once. A silent name server or target can block
//! it for half a minute, so it has a thread of its own, which a run that is called off abandons:
//! see `Job::unless_called_off`.

use std::sync::Arc;

use engine::host;
use engine::load::replay::ReplayedLog;
use engine::load::share::Share;
use engine::plan::body::SharedBody;
use engine::plan::endpoints::{Endpoints, PlanEndpoint};
use engine::plan::{Plan, PlanError};
use engine::run::{self, PrepareError, Prepared, Targets};

use super::config::AgentConfig;
use crate::admission::{AllowedTarget, Demand, check_placement};
use crate::refusal::Refusal;

/// A permitted share of a plan, ready to run.
pub(super) struct Admitted {
    pub(super) prepared: Prepared,
    /// The names of its targets.
    pub(super) targets: Vec<AllowedTarget>,
    /// The most that it demands.
    pub(super) demand: Demand,
    /// The log that it sends again.
    pub(super) replay: Option<ReplayedLog>,
}

/// Prepares an agent's share of a plan, whose files came with it.
///
/// # Errors
/// The plan is wrong, isn't permitted, or needs what this machine lacks.
pub(super) fn prepare(
    config: &AgentConfig,
    plan: Plan,
    files: &SharedBody,
    share: Share,
) -> Result<Admitted, Refusal> {
    let refused = |error: PlanError| Refusal::Plan(error.to_string());
    check_placement(&plan).map_err(refused)?;
    let plan = Plan {
        cores: config.cores.clone(),
        source_addresses: config.source_addresses.clone(),
        ..plan
    };
    let (completed, replay) = run::completed(plan.clone(), files).map_err(refused)?;
    let log = replay.as_ref().map(|replay| Arc::clone(&replay.due_ns));
    let demand = config.admission.check_plan(&completed, log, &share).map_err(refused)?;
    let endpoints = Endpoints::of(&completed).map_err(refused)?;
    let mut allowed = Vec::new();
    for endpoint in endpoints.each() {
        let addresses =
            host::resolve(endpoint).map_err(|error| Refusal::Target(error.to_string()))?;
        allowed
            .push(config.admission.check_target(&endpoint.endpoint, &addresses).map_err(refused)?);
    }
    // No name is resolved again: each connection of the run goes to one of these addresses.
    let prepared = run::prepare_with(plan, files, Targets::Only(allowed), share);
    let prepared = prepared.map_err(|error| unprepared(&error))?;
    let target = |endpoint: &PlanEndpoint| AllowedTarget::Host {
        host: endpoint.endpoint.host.clone(),
        port: endpoint.endpoint.port,
    };
    let targets = endpoints.each().iter().map(target).collect();
    let replay = replay.map(|replay| replay.log.clone());
    Ok(Admitted { prepared, targets, demand, replay })
}

/// Why a plan can't be run here.
fn unprepared(error: &PrepareError) -> Refusal {
    let line = error.to_string();
    match error {
        PrepareError::Plan(_) => Refusal::Plan(line),
        PrepareError::Target(_) => Refusal::Target(line),
        PrepareError::Host(_) | PrepareError::NoPort(_) | PrepareError::File(_) => {
            Refusal::Run(line)
        }
    }
}
