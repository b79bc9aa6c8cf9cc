//! Requests and responses as bytes.

#![forbid(unsafe_code)]

#[path = "../../fuzz/harness.rs"]
mod harness;
mod properties;
mod request;
mod responses;
