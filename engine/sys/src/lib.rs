//! The floor of the engine: the clocks, CPU placement, and what a run's threads share.
//!
//! Only a shard with its meter, the run and the watch over the machine read a clock ([`clock`]);
//! all other code takes time as an argument.

pub mod clock;
pub mod control;
pub mod kernel_files;
pub mod lead;
pub mod placement;
pub mod seal;
pub mod stat;
pub mod topology;
pub mod wall_clock;
pub mod whole_file;
