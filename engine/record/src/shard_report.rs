//! One shard's results, as plain data.

use load::schedule::Digest;
use serde::{Deserialize, Serialize};

use crate::recorder::Recorder;
use crate::samples::Sampled;
use crate::shard_stats::ShardStats;

/// One shard's results: plain data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShardReport {
    /// Its numbers.
    pub recorder: Recorder,
    /// Digest of the arrivals taken from the schedule.
    pub digest: Digest,
    /// The shard's busy time, stalls and resources.
    pub stats: ShardStats,
    /// How many raw samples it handed over.
    pub sampled: Option<Sampled>,
}
