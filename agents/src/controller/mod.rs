//! The controller: one plan, many agents, one result.
//!
//! - [`address`] says where agents are, and [`weights`] which share of the load each takes;
//! - [`order`] is what a run takes, and [`fault`] why an agent can't be used;
//! - [`goal`] decides what all agents should do next, from how far each has come;
//! - `dialogue` is what is said to one agent, and `link` carries that over its session;
//! - [`sample_file`] keeps the raw samples that agents send, on a thread of its own;
//! - [`live`] is how far the agents are, to be shown, and `known` all that is known meanwhile;
//! - [`run`] starts all this and brings the results home.
//!
//! All sessions of a command are served by one glommio executor on a thread of its own. Nothing
//! blocks it and nothing long is computed there, so heartbeats leave on time.

pub mod address;
mod dialogue;
pub mod fault;
pub mod goal;
mod known;
mod link;
pub mod live;
pub mod order;
pub mod run;
pub mod sample_file;
pub mod weights;
