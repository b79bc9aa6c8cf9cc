//! The life of a run: from a plan to its report.

mod prepare;
mod run;
mod shard_plan;

pub use prepare::{PrepareError, Prepared, prepare, prepare_with};
pub use run::{Finished, Passed, Phase, Progress, Run, RunError};
