//! The instrument: plan → shards → report.
//!
//! This crate offers load and measures; it prints nothing. Reading order: [`plan`], [`schedule`], [`shard`],
//! [`connection`], [`recorder`], [`report`].

pub mod board;
pub mod buffers;
pub mod clock;
pub mod connection;
pub mod deadlines;
pub mod distribution;
pub mod endpoint;
pub mod flow;
pub mod host;
mod leaves;
pub mod load;
pub mod machine;
pub mod merge;
pub mod outcome;
pub mod placement;
pub mod plan;
pub mod pool;
pub mod proof;
pub mod recorder;
pub mod redact;
pub mod report;
pub mod ring;
pub mod samples;
pub mod schedule;
pub mod seal;
pub mod series;
pub mod shard;
pub mod slots;
pub mod socket;
pub mod status;
pub mod token;
pub mod units;
pub mod verdict;
pub mod verify;
pub mod vitals;
