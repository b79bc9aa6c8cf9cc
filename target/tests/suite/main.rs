//! The target from outside: over loopback, on free ports.

#![forbid(unsafe_code)]

mod client;
mod config_errors;

mod latency;
mod ledger;
mod protocol;
mod routes;
mod tls;
