//! The witness: a sample HTTP/1.1 service whose latency is known by construction, with a ledger of what it really did.
//!
//! [`start`] binds and runs it, [`Target::stop`] ends it and gives the [`Ledger`]. It shares no code with the engine
//! or its HTTP parser, and reaches the network by another path, because a fault common to both would cancel out.
//!
//! What a request waits for, with service time `s` (the base latency, or the tail latency for a tail request):
//!
//! - alone, `s`: it is answered `s` after it was read whole;
//! - arriving in a stall, the rest of the stall, then `s`; a request that arrived before a stall is not touched by it;
//! - with `serial`, its turn: one server takes the requests of all connections in the order they were read, `s` each,
//!   and makes no progress in a stall.
//!
//! Deliberately absent: handlers of signals that users send, printing, and any state that two executors share while they run. Each keeps
//! its own tally, and publishes a copy of it when a ledger is asked for.

mod config;
mod error;
mod start;

mod listener;
mod system;

mod executor;

mod connection;
mod request;

mod body;
mod replies;

mod holds;
mod service;

mod arrivals;
mod ledger;
mod ledger_file;
mod publication;
mod tally;
mod watch;

pub use config::{Pause, Stall, TargetConfig};
pub use error::TargetError;
pub use ledger::{Arrivals, Connections, Held, LEDGER_SCHEMA, Ledger, LedgerError, Span};
pub use ledger_file::ledger_temporary;
pub use start::{Target, start};
