//! The wire as a peer sees it: bytes in, bytes out. And an agent as a controller sees it, over
//! loopback: it takes one run at a time, obeys messages in their turn, and stops by itself when
//! none come.

#![forbid(unsafe_code)]

mod attachments;
mod controller;
mod examples;
mod golden;
mod handshake;
#[path = "../../fuzz/harness.rs"]
mod harness;
mod lives;
mod lost;
mod properties;
mod refusals;
mod sessions;
mod support;
