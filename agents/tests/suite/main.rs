//! The wire as a peer sees it: bytes in, bytes out.

#![forbid(unsafe_code)]

mod examples;
mod golden;
mod handshake;
#[path = "../../fuzz/harness.rs"]
mod harness;
#[path = "../../../engine/tests/suite/made_up.rs"]
mod made_up;
mod properties;
mod sessions;
