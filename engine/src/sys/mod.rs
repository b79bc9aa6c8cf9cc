//! The floor of the engine: units, the clocks, CPU placement, and what a run's threads share.

pub mod address;
pub mod clock;
pub(crate) mod control;
pub(crate) mod flatten;
pub(crate) mod kernel_files;
pub mod placement;
pub mod seal;
pub(crate) mod stat;
pub mod topology;
pub mod units;
pub(crate) mod wall_clock;
pub mod whole_file;
