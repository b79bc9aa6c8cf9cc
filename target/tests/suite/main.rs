//! The target from outside: over loopback, on free ports.

#![forbid(unsafe_code)]

mod client;

mod latency;
mod ledger;
mod protocol;
mod refusals;
