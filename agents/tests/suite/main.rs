//! The wire as a peer sees it: bytes in, bytes out.

#![forbid(unsafe_code)]

mod controller;
mod examples;
mod golden;
mod handshake;
#[path = "../../fuzz/harness.rs"]
mod harness;
mod properties;
mod sessions;
