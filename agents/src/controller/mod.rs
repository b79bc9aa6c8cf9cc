//! The controller: one plan, many agents, one result.
//!
//! - [`address`] is where agents are, and [`weights`] which share of the load each takes;
//! - [`order`] is what a run takes, and [`fault`] why an agent can't be used;
//! - [`goal`] decides what all agents should do next, from how far each has come;
//! - `dialogue` is the exchange with one agent, and `link` carries that over its session;
//! - [`sample_file`] keeps the raw samples that agents send, on a thread of its own;
//! - [`live`] is how far the agents are, to be shown, and `known` all that is known meanwhile;
//! - [`run`] starts all this and brings the results home.
//!
//! **All agents reach a goal before the next is set:** no load before all are set up, no results
//! before all have stopped. What follows a goal is a function of how far each agent has come, and
//! the exchange with one is a state machine, so losses at every step are tests without a network.
//!
//! **Nothing delays a heartbeat.** All sessions of a command are served by one glommio executor on
//! a thread of its own. Nothing blocks it and nothing long is computed there: shards' results are
//! decoded after the goodbye, and raw samples are written on a thread of their own. While a disk is
//! behind, nothing more is read from agents, and heartbeats go on.
//!
//! **A session lasts one run.** The steps of a series connect anew: an agent is free between them,
//! and each step reads the clocks afresh. A step in which an agent is lost ends the series, since
//! with fewer agents the next would be a different load.

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
