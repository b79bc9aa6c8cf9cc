//! The life of a run: from a plan to its report.

mod health;
mod prepare;
mod progress;
mod run;
mod shard_plan;

pub use health::{Health, Trouble};
pub use prepare::{
    PrepareError, Prepared, Targets, check_sources, common, connections, prepare, prepare_with,
};
pub use progress::{Phase, RunProgress};
pub use run::{Finished, Passed, Run, RunError, SetUp};
