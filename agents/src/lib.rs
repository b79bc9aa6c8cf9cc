//! Controller and agents: the wire between them, and what an agent permits.
//!
//! A controller gives one plan to many agents and merges what they report. Both ends of a
//! connection are state machines: bytes and times go in, messages and bytes come out, and but for
//! [`session`], [`listener`], [`agent`] and [`controller`], nothing here reads a socket or a clock.
//! Each of these lines uses only the ones above it:
//!
//! - [`key`] is what both sides share, [`versions`] lists what else must be the same, [`lease`]
//!   decides when an agent has to stop, and [`refusal`] says why something isn't done;
//! - [`message`] lists what may be said; `codec` encodes it, with [`bytes`] and `json` for its
//!   fields;
//! - [`frame`] cuts a stream into frames of one message each, and bounds them;
//! - `noise` authenticates and encrypts with the key, and [`channel`] is one side of a session;
//! - [`session`] and [`listener`] carry it over TCP, in a glommio executor;
//! - [`clock`] relates the two machines' clocks, and [`admission`] decides what an agent may be
//!   made to send;
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
pub mod session;
pub mod versions;
