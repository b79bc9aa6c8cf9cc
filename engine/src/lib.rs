//! The load generator: plan → shards → report.
//!
//! It offers load and measures; it prints nothing. Its rooms are crates of their own, in the folders
//! beside this one's sources, so that the compiler holds each of them to what its manifest names.
//! This crate puts them under one name, in the order to read them in.

/// The clocks, CPU placement, what a run's threads share, and numbers with units.
pub mod sys {
    pub use ::sys::*;
    pub use units;
}

pub use {host, load, plan, record, report, run, samples, shard, stats, uring, verify};
