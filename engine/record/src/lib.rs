//! Where outcomes become numbers: the counters and distributions of one shard, and what the shard
//! used itself.

pub mod added;
pub mod config;
pub mod counts;
pub mod littles_law;
pub mod outcome;
pub mod part;
pub mod recorder;
pub mod samples;
pub mod series;
pub mod shard_report;
pub mod shard_stats;
pub mod stamps;
pub mod times;
pub mod tls;
