//! The sample target: a server of HTTP/1.1 and HTTP/2 whose latency is known by construction, with a
//! ledger of what it actually did.
//!
//! [`start`] binds and runs it; [`Target::stop`] ends it and returns the [`Ledger`]. It shares no
//! code with the engine or its HTTP parsers and uses another path to the network, because a fault
//! common to both would cancel out.
//!
//! How long a request waits, with service time `s` (the base latency, or the tail latency for a
//! tail request; longer while the target is cold):
//!
//! - by default, `s`: the response is sent `s` after the whole request was read;
//! - if it arrives during a stall, the rest of the stall, then `s`; a stall doesn't delay requests
//!   that arrived before it;
//! - with `serial`, its turn: one server takes the requests of all connections in the order they
//!   were read, `s` each, and makes no progress during a stall.
//!
//! A stream of HTTP/2 is a request like one of HTTP/1.1; it waits for no other stream.
//!
//! A route is a server of its own in all of this: its stalls and its queue don't delay the requests
//! of other paths.
//!
//! With faults, every so many requests over HTTP/1.1 get a wrong response, or none.
//!
//! As a shop, it also checks what users of several steps carry from one to the next, and the
//! replies of the shop are held like any other.
//!
//! Deliberately absent: handlers for users' signals, printing, files, and counters that running
//! executors share. Each executor keeps its own and publishes a copy when a ledger is asked for.
//! Only the shop's sessions and their paths are shared.

mod config;
mod error;
mod start;

mod listener;
mod system;

mod executor;
mod executor_state;

mod certificate;
mod stream;

mod http1;
mod http2;
mod input;
mod preface;
mod request;
mod sent_frames;
mod wire;

mod body;
mod responses;

mod shop;

mod hold_queue;
mod router;
mod service;

mod arrivals;
mod control;
mod counts;
mod distribution;
mod handshakes;
mod ledger;
mod outcomes;
mod watchdog;

pub use certificate::{Certificate, CertificateError};
pub use config::{Cold, Fault, FaultKind, Http2, Pause, Route, Stall, TargetConfig};
pub use error::TargetError;
pub use handshakes::Handshakes;
pub use ledger::{
    ArrivalsPerMs, Connections, Held, LEDGER_SCHEMA, Ledger, LedgerError, RouteCounts, ShopLedger,
    Span, Think,
};
pub use listener::listen;
pub use shop::ShopErrors;
pub use start::{Target, start};
