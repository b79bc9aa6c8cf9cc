//! The few words that a run and its shards share while they run: when it begins, when it stops.

use std::sync::atomic::{AtomicU64, AtomicUsize};

/// What a run and its shards share while they run: read-mostly words.
#[derive(Debug, Default)]
pub struct Signals {
    /// Start of the run on CLOCK_MONOTONIC, ns; 0 while shards are still in their set-up, `u64::MAX`
    /// when the run is called off.
    pub(crate) epoch_ns: AtomicU64,
    /// When an interrupted run stops issuing, on CLOCK_MONOTONIC, ns; 0 while it goes on.
    pub(crate) stop_ns: AtomicU64,
    /// Shards that have finished their set-up.
    pub(crate) ready: AtomicUsize,
    /// Shards that have ended.
    pub(crate) ended: AtomicUsize,
}
