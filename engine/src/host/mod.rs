//! What this machine offers a run, what it lacks, and what it did while the run went on.

pub mod cgroup;
pub mod check;
pub mod environment;
mod examine;
mod kernel;
pub mod limits;
pub mod network;
pub mod ports;
pub mod processor;
pub mod watch;

pub use examine::{examine, require};
