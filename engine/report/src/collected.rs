//! What a run on one agent brings home, and what a report of several agents is made from.

use std::path::PathBuf;
use std::time::SystemTime;

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

/// What a run on one agent brings home: everything that a report needs of it.
#[derive(Clone, Debug)]
pub struct Collected {
    /// All but what the shards measured.
    pub head: CollectedHead,
    /// What each shard measured.
    pub shards: Vec<ShardReport>,
}

/// What a run brings home beside its shards' numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectedHead {
    /// The completed plan, as a report may show it.
    pub plan: Redacted,
    /// The target's address.
    pub address: Address,
    /// Where it ran.
    pub environment: Environment,
    /// What the machine did meanwhile.
    pub machine: Machine,
    /// Whether it was interrupted, in its window or its drain.
    pub interrupted: bool,
    /// Where the window ended, ns since the epoch.
    pub until_ns: u64,
    /// Time zero of the run's stamps, ns of the agent's CLOCK_MONOTONIC.
    pub epoch_ns: u64,
    /// What became of the raw samples.
    pub samples: Option<Samples>,
}

/// A run on one agent, as a report is made from it: its shards' numbers are added up.
#[derive(Clone, Debug)]
pub struct AgentRun {
    /// The agent's name.
    pub name: String,
    /// What it offered of the whole load.
    pub share: Share,
    /// What it brought home beside its shards' numbers.
    pub head: CollectedHead,
    /// Each shard's own figures.
    pub shards: Vec<ShardStats>,
    /// How its clock was held against the controller's; `None` of a run without agents.
    pub synchronization: Option<Synchronization>,
    /// What `truetail doctor` finds amiss there, each in one line; empty of a run without agents.
    pub findings: Vec<String>,
    /// What its shards recorded.
    pub(super) recorder: Recorder,
    /// What they took of the schedule.
    pub(super) digest: Digest,
}

/// What an agent's shards measured isn't of its plan, or not of all its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what it brought home isn't of its plan")]
pub struct NotOfPlan;

impl AgentRun {
    /// Adds up what an agent's shards measured. Each is dropped before the next one is asked for,
    /// since a shard's numbers take megabytes.
    ///
    /// # Errors
    /// A shard that can't be had, or that isn't of the agent's plan; shards that are missing.
    pub fn new<E: From<NotOfPlan>>(
        name: String,
        share: Share,
        head: CollectedHead,
        shards: impl IntoIterator<Item = Result<ShardReport, E>>,
    ) -> Result<AgentRun, E> {
        let plan = head.plan.plan();
        let config = RecorderConfig::of_plan(plan);
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
                    recorder.merge(&shard.recorder);
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

    /// The same of an agent that is this process.
    ///
    /// # Panics
    /// If its shards' numbers aren't of their plan.
    pub fn of(name: &str, share: Share, collected: Collected) -> AgentRun {
        let Collected { head, shards } = collected;
        let shards = shards.into_iter().map(Ok::<ShardReport, NotOfPlan>);
        AgentRun::new(name.to_owned(), share, head, shards)
            .expect("what shards of this process measure is of their plan")
    }
}

/// What a report of several agents needs beside what they brought home; the default is that of a
/// run without agents.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Agents that brought nothing home.
    pub lost: Vec<LostAgent>,
    /// Whether somebody stopped the run.
    pub stopped: bool,
    /// The controller's machine; `None` of a run without agents.
    pub controller: Option<Environment>,
    /// The folder of the agents' raw samples.
    pub raw: Option<PathBuf>,
    /// When the load began; `None` of a run that was made up, which began in 1970.
    pub began: Option<SystemTime>,
}

/// An agent that was lost during the run. What it measured is in no number of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LostAgent {
    /// Its name.
    pub name: String,
    /// When nothing more was heard of it, seconds since the epoch of the run.
    pub at_s: f64,
    /// What it was to offer of the whole load.
    pub share: Share,
    /// What it had reported of its run; `None` if it reported nothing.
    pub reported: Option<AgentReported>,
}
