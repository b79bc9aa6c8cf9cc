//! The load generator: plan → shards → report.
//!
//! It offers load and measures; it prints nothing. Its rooms are crates in the folders beside these
//! sources, so that the compiler holds each of them to what its manifest names. This one puts them
//! under one name; ARCHITECTURE.md has the order to read them in.

/// The clocks, CPU placement, what a run's threads share, and numbers with units.
pub mod sys {
    pub use ::sys::*;
    pub use units;
}

pub use {host, load, plan, record, report, run, samples, shard, stats, uring, verify};
