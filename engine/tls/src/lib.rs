//! TLS as a client speaks it: what it is configured with, whether the target is to be trusted, and
//! the sessions of connections, as bytes in and bytes out.
//!
//! rustls does no I/O, so a session knows neither socket nor ring: the shard hands it what was
//! received, and sends what it writes (`shard/secure.rs`). Only the probe before a run has a
//! socket. The HTTP parser knows nothing of TLS. The cryptography is that of `ring`, which builds
//! with cargo and gcc alone.

mod accept_any;
mod client;
mod failure;
mod keep_issuer;
mod probe;
mod sessions;
mod tickets;
mod trust_own;

pub use client::ClientSetup;
pub use sessions::{End, RECORD_MAX, Sessions};
