//! The load generator's own machine: checks before a run, the environment in its report, and what
//! the machine did during it.
//!
//! [`examine()`] makes the checks of `truetail doctor`; a run makes those without which it can't
//! start, with the same texts. [`watch`] follows the machine during a run, on a thread of its own.

mod cgroup;
pub mod check;
pub mod environment;
mod examine;
mod kernel;
pub mod limits;
mod network;
mod ports;
mod processes;
mod processor;
mod reach;
mod request_path;
pub mod stamping;
mod ticks;
mod timekeeping;
mod traffic;
pub mod watch;

pub use examine::{examine, require, require_executor};
pub use network::attachment_towards;
pub use reach::{Unreached, reach, reach_unix, resolve};
pub use timekeeping::check_timekeeping;
