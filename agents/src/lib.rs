//! Controller and agents: the wire between them, and what an agent permits.
//!
//! (Where to start in the workspace: the pages of [`engine`] and of the binary, `truetail`.)
//!
//! A controller gives one plan to many agents and merges their reports. Both ends of a connection
//! are state machines: bytes and times go in, messages and bytes come out, and except for
//! [`session`], [`listener`], [`agent`] and [`controller`], nothing here reads a socket or a clock.
//! So replays, cuts at every byte and asymmetric delays are tests without a network.
//!
//! Start at [`message`] for what the two exchange, at [`agent`] for an agent's life, and at
//! [`controller`] for a run on many. Each of these lines uses only the ones above it:
//!
//! - [`key`] is what both sides share, [`run_id`] names a run, [`versions`] lists what else must
//!   match, [`lease`] decides when an agent must stop, and [`refusal`] gives the reasons for a
//!   refusal;
//! - [`message`] lists the messages; `codec` encodes them, with [`bytes`] and `json` for their
//!   fields;
//! - [`frame`] cuts a stream into frames of one message each, and bounds them;
//! - `noise` authenticates and encrypts with the key, and [`channel`] is one side of a session;
//! - [`session`] and [`listener`] carry it over TCP, in a glommio executor;
//! - [`clock`] relates the two machines' clocks, and [`admission`] limits the load and the targets
//!   of an agent;
//! - [`agent`] is the life of an agent;
//! - [`controller`] runs one plan on many agents.

#![forbid(unsafe_code)]

pub mod admission;
pub mod agent;
pub mod bytes;
pub mod channel;
pub mod clock;
mod codec;
pub mod controller;
pub mod frame;
mod json;
pub mod key;
pub mod lease;
pub mod listener;
pub mod message;
mod noise;
pub mod refusal;
pub mod run_id;
pub mod session;
pub mod versions;
