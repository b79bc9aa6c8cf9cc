//! One pinned core's request loop; one pass of it is a turn.
//!
//! A shard shares nothing: a [`ShardPlan`] goes in and a `ShardReport` comes out, both plain
//! data. Below it nobody reads the clock. Follow a request from `turn` through `request`, `wire`
//! and `http1`; `connect` opens connections where one is missing; `secure` stands between where TLS
//! is spoken; `setup` and `life` are what happens before and after the turns. A `connection` is a
//! `socket`, the `exchanges` on it, its `protocol` and its `output`.

mod clock;
mod connect;
mod connection;
mod connections;
mod deadlines;
mod event;
mod exchanges;
mod http1;
mod life;
mod meter;
#[cfg(test)]
mod mixed;
mod output;
mod phases;
mod plan;
mod polling;
pub mod progress;
mod protocol;
mod receive_stamps;
mod recording;
mod request;
mod secure;
mod send_stamps;
mod setup;
mod shard;
mod slots;
mod socket;
mod wire;

pub use self::plan::{Drive, ShardPlan, Step};
pub use self::shard::SEND_SILENT_MAX;
pub use self::shard::Shard;
pub use life::DRAIN_INTERRUPTED_NS;
pub use life::EPOCH_AHEAD_NS;
pub use meter::{ShardMeter, ShardTime};
pub use progress::{CoarseHistogram, Lateness};
