//! The life of a run: from a plan to its report.
//!
//! [`prepare()`] completes a plan and checks everything that can be checked without load. [`Run`]
//! starts a shard on each core, each with its own plan, waits for all of them and merges their
//! results. In the meantime [`Run::progress`] shows their progress, and `health.rs` the health of
//! the generator.

mod health;
mod prepare;
mod progress;
mod run;
mod shard_plan;
mod speak;

pub use health::{Health, Trouble};
pub use prepare::{
    Common, PrepareError, Prepared, Targets, check_sources, common, completed, connections,
    prepare, prepare_with,
};
pub use progress::{Phase, RunProgress};
pub use run::{Finished, Passed, Run, RunError, SetUp};
