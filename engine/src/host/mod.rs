//! What this machine offers a run, what it lacks, and what it did while the run went on.

mod cgroup;
pub mod check;
pub mod environment;
mod examine;
mod kernel;
pub(crate) mod limits;
mod network;
pub mod ports;
mod processor;
pub mod watch;

pub use cgroup::ControlGroup;
pub use examine::{examine, require};
pub use limits::Limit;
pub use network::Network;
pub use processor::{Core, Virtualisation};
