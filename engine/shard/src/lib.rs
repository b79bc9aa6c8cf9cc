//! One pinned core's request loop; one pass of it is a turn.
//!
//! A shard shares nothing: a [`ShardPlan`] goes in and a [`ShardReport`] comes out, both plain
//! data. Below it nobody reads the clock. Follow a request from `turn` through `request`, `wire`
//! and `connections`; `connect` opens connections where one is missing; `secure` stands between where
//! TLS is spoken; `setup` and `life` are what happens before and after the turns.

mod connect;
mod connection;
mod connections;
mod deadlines;
mod leaving;
mod life;
#[cfg(test)]
mod mixed;
mod plan;
mod polling;
pub mod progress;
mod receive_stamps;
mod request;
mod secure;
mod send_stamps;
mod setup;
mod shard;
mod slots;
mod unrecorded;
mod wire;

pub use self::plan::{Drive, ShardPlan, ShardReport, Step};
pub use life::DRAIN_INTERRUPTED_NS;
pub use life::EPOCH_AHEAD_NS;
pub use progress::{CoarseHistogram, Lateness};
pub use shard::Shard;
pub use wire::SEND_SILENT_MAX;
