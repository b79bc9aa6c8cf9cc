//! The load generator: plan → shards → report.
//!
//! It offers load and measures; it prints nothing. Each room uses only the rooms above it in this
//! list, which is also the order to read them in; `tests/suite/rooms.rs` holds it to that.

pub mod sys;

pub mod plan;

pub mod ring;

pub mod load;

pub mod stats;

pub mod record;

pub mod tls;

pub mod host;

pub mod samples;

pub mod shard;

pub mod report;

pub mod run;

pub mod verify;
