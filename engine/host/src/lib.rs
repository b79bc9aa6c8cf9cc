//! The load generator's own machine: checks before a run, the environment in its report, and what
//! the machine did during it.

mod cgroup;
pub mod check;
pub mod environment;
mod examine;
mod kernel;
pub mod limits;
mod network;
pub mod ports;
mod processes;
mod processor;
mod reach;
pub mod stamping;
mod ticks;
mod timekeeping;
pub mod traffic;
pub mod watch;

pub use cgroup::ControlGroup;
pub use examine::{examine, require, require_executor};
pub use limits::Limit;
pub use network::Network;
pub use network::attachment_towards;
pub use processes::Contender;
pub use processor::{Core, Virtualisation};
pub use reach::resolve;
pub use reach::{Unreached, reach, reach_unix};
pub use timekeeping::check_timekeeping;
