//! TLS for a client: its configuration, whether to trust the target, and the sessions of
//! connections, as bytes in and bytes out.
//!
//! rustls does no I/O, so a session knows neither socket nor ring: the shard passes received bytes
//! to it, and sends the bytes that it writes (`shard/secure.rs`). Only the probe before a run has a
//! socket. The HTTP parser knows nothing of TLS. The cryptography is `ring`'s, which builds with
//! only cargo and gcc.

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
