//! One pinned core's engine: a loop whose every pass is a turn.
//!
//! A shard owns all it touches; two types of plain data cross its border, a [`ShardPlan`] in and a
//! [`ShardReport`] out. It is the only place below the run that reads the clock. One request is
//! followed from `turn` in `request`, `wire` and `connections`; `life` and `setup` are what
//! surrounds the turns.

mod connections;
mod deadlines;
mod life;
mod plan;
pub(crate) mod progress;
mod request;
mod setup;
mod shard;
mod slots;
mod wire;

pub use plan::{Drive, ShardPlan, ShardReport};
pub use shard::Shard;
