//! The results of a run on one agent, and the facts for a report of several agents.

use std::path::PathBuf;
use std::time::SystemTime;

use load::replay::ReplayedLog;
use load::schedule::Digest;
use load::share::Share;
use plan::address::Address;
use plan::redact::Redacted;
use record::config::RecorderConfig;
use record::recorder::Recorder;
use record::shard_report::ShardReport;
use record::shard_stats::ShardStats;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::machine::Machine;
use crate::{AgentReported, Samples};

pub use crate::{LOCAL, Synchronization};

/// The results of a run on one agent: everything that its report needs.
#[derive(Clone, Debug)]
pub struct Collected {
    /// Everything but the shards' measurements.
    pub head: CollectedHead,
    /// Each shard's measurements.
    pub shards: Vec<ShardReport>,
}

/// The results of a run besides its shards' numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectedHead {
    /// The completed plan, as a report may show it.
    pub plan: Redacted,
    /// The address of each endpoint, in the order of the plan's requests.
    pub addresses: Vec<Address>,
    /// Where it ran.
    pub environment: Environment,
    /// What the machine did during the run.
    pub machine: Machine,
    /// Whether it was interrupted, in its window or its drain.
    pub interrupted: bool,
    /// Where the window ended, ns since the epoch.
    pub until_ns: u64,
    /// Time zero of the run's stamps, ns of the agent's CLOCK_MONOTONIC.
    pub epoch_ns: u64,
    /// The raw samples.
    pub samples: Option<Samples>,
}

/// A run on one agent, with its shards' numbers added up, ready for a report.
#[derive(Clone, Debug)]
pub struct AgentRun {
    /// The agent's name.
    pub name: String,
    /// Its share of the whole load.
    pub share: Share,
    /// Its results besides the shards' numbers.
    pub head: CollectedHead,
    /// Each shard's own statistics.
    pub shards: Vec<ShardStats>,
    /// How its clock compared with the controller's; `None` for a run without agents.
    pub synchronization: Option<Synchronization>,
    /// The problems that `truetail doctor` finds there, one line each; empty for a run without
    /// agents.
    pub findings: Vec<String>,
    /// Its shards' recordings.
    pub(super) recorder: Recorder,
    /// The arrivals they took from the schedule.
    pub(super) digest: Digest,
}

/// An agent's measurements don't match its plan, or don't cover all its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its results don't match its plan")]
pub struct NotOfPlan;

impl AgentRun {
    /// Adds up the measurements of an agent's shards. Each is dropped before the next one is taken,
    /// since a shard's numbers take megabytes.
    ///
    /// # Errors
    /// A shard that can't be read or doesn't match the agent's plan; missing shards.
    pub fn new<E: From<NotOfPlan>>(
        name: String,
        share: Share,
        head: CollectedHead,
        shards: impl IntoIterator<Item = Result<ShardReport, E>>,
    ) -> Result<AgentRun, E> {
        let plan = head.plan.plan();
        let config = RecorderConfig::of_plan(plan);
        if head.addresses.len() != config.endpoints().max(1) {
            return Err(NotOfPlan.into());
        }
        let mut sum: Option<(Recorder, Digest)> = None;
        let mut stats = Vec::new();
        if plan.end_ns() < head.until_ns {
            return Err(NotOfPlan.into());
        }
        for shard in shards {
            let shard = shard?;
            let Recorder { counts, times, .. } = &shard.recorder;
            let adds_up = counts.adds_up() && times.are_of(counts);
            if !adds_up || !shard.recorder.is_of(&config) {
                return Err(NotOfPlan.into());
            }
            stats.push(shard.stats);
            match &mut sum {
                None => sum = Some((shard.recorder, shard.digest)),
                Some((recorder, digest)) => {
                    recorder.merge(shard.recorder);
                    digest.merge(shard.digest);
                }
            }
        }
        let cores = stats.iter().map(|shard| shard.core);
        match sum {
            Some((recorder, digest)) if cores.eq(plan.cores().iter().copied()) => Ok(AgentRun {
                name,
                share,
                head,
                shards: stats,
                synchronization: None,
                findings: Vec::new(),
                recorder,
                digest,
            }),
            _ => Err(NotOfPlan.into()),
        }
    }

    /// The same for this process as the agent.
    ///
    /// # Panics
    /// If its shards' numbers don't match their plan.
    pub fn of(name: &str, share: Share, collected: Collected) -> AgentRun {
        let Collected { head, shards } = collected;
        let shards = shards.into_iter().map(Ok::<ShardReport, NotOfPlan>);
        AgentRun::new(name.to_owned(), share, head, shards)
            .expect("this process's shards match their plan")
    }
}

/// What a report of several agents needs besides their results; the default is for a run without
/// agents.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Agents without results.
    pub lost: Vec<LostAgent>,
    /// True if the run was stopped.
    pub stopped: bool,
    /// True if its controller was lost, and another one collected it.
    pub resumed: bool,
    /// The controller's machine; `None` for a run without agents.
    pub controller: Option<Environment>,
    /// The folder of the agents' raw samples.
    pub raw: Option<PathBuf>,
    /// The log that was replayed.
    pub replay: Option<ReplayedLog>,
    /// When the load began; `None` for a made-up run, which began in 1970.
    pub began: Option<SystemTime>,
}

/// An agent that was lost during the run. Its measurements are in no number of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LostAgent {
    /// Its name.
    pub name: String,
    /// When it was last heard from, seconds since the epoch of the run.
    pub at_s: f64,
    /// Its planned share of the whole load.
    pub share: Share,
    /// Its last progress report; `None` if there was none.
    pub reported: Option<AgentReported>,
}
