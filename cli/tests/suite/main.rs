//! The binary as its users run it, and which crate may import which.

#![forbid(unsafe_code)]

mod support;

mod ab;
mod ceiling;
mod deploy;
mod edges;
mod exports;
mod floor;
mod forged;
mod gates;
mod habits;
mod runs;
mod schema;
mod series;
mod tls;
mod usage;
