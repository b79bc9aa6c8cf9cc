//! The controller: one plan, many agents, one result.
//!
//! - [`address`] is where agents are, and [`weights`] the share of the load that each takes;
//! - [`order`] is a run's input, and [`fault`] why an agent can't be used;
//! - [`goal`] decides the next goal of all agents, from how far each has come;
//! - `collection` is what one agent has sent of its results, `dialogue` the exchange with it, and
//!   `link` carries that over its session;
//! - [`sample_file`] writes the raw samples that agents send, on a thread of its own;
//! - [`live`] is the progress of the agents, for display, and `known` all state meanwhile;
//! - [`run`] starts all this and collects the results, [`resume`] only those of a run whose
//!   controller is gone.
//!
//! **All agents reach a goal before the next is set:** no load before all are set up, no results
//! before all have stopped. The next goal is a function of how far each agent has come, and the
//! exchange with one is a state machine, so losses at every step are tests without a network.
//!
//! **Nothing delays a heartbeat.** All sessions of a command are served by one glommio executor on
//! a thread of its own. Nothing there blocks or computes for long: shards' results are decoded
//! after the goodbye, and raw samples are written on a thread of their own. While a disk is behind,
//! agents are asked for no more of them, and heartbeats go on.
//!
//! **A session lasts one run.** The steps of a series connect anew: an agent is free between them,
//! and each step reads the clocks afresh. A step that loses an agent ends the series, since with
//! fewer agents the next would be a different load.

pub mod address;
mod attachments;
mod collection;
mod dialogue;
pub mod fault;
pub mod goal;
mod known;
mod link;
pub mod live;
pub mod order;
pub mod resume;
pub mod run;
pub mod sample_file;
pub mod weights;
