//! Controller and agents: the wire between them, and what an agent permits.
//!
//! A controller gives one plan to many agents and merges what they report. Both ends of a
//! connection are state machines: bytes, nonces and times go in, messages and bytes come out, and
//! but for [`session`], [`listener`], [`agent`] and [`controller`], nothing here reads a socket or
//! a clock. From the wire inwards:
//!
//! - [`frame`] cuts a stream into frames and bounds them, and `codec` gives their payload meaning;
//! - [`message`] lists what may be said, and [`refusal`] why something isn't done;
//! - [`key`] is what both sides share, `seal` makes a session's tags from it, and [`channel`]
//!   authenticates the peer and every frame;
//! - [`clock`] relates the two machines' clocks, [`admission`] decides what an agent may be made to
//!   send, and [`lease`] when it has to stop;
//! - [`session`] and [`listener`] carry all this over TCP, in a glommio executor;
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
pub mod refusal;
mod seal;
pub mod session;
