//! The floor of the engine: units, the clocks, CPU placement, and what a run's threads share.

pub mod clock;
pub mod control;
pub mod kernel_files;
pub mod placement;
pub mod seal;
pub mod stat;
pub mod topology;
pub mod wall_clock;
pub mod whole_file;
