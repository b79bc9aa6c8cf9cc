//! The target from outside: over loopback, on free ports.

#![forbid(unsafe_code)]

mod client;
mod config_errors;
mod http2_client;

mod faults;
mod http2;
mod http2_provoked;
mod latency;
mod ledger;
mod protocol;
mod routes;
mod shop;
mod tls;
