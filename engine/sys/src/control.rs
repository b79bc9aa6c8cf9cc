//! Start and stop signals: the few words that a run and its shards share while they run.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The words that a run and its shards share while they run; rarely written. Shards read the first
/// of them as they send, so those that shards write are on lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Signals {
    /// Start of the run on CLOCK_MONOTONIC, ns; 0 while shards are still setting up, `u64::MAX` if
    /// the run is cancelled.
    pub epoch_ns: AtomicU64,
    /// When an interrupted run stops issuing, on CLOCK_MONOTONIC, ns; 0 if not interrupted.
    pub stop_ns: AtomicU64,
    /// When sending stops unless the lease is extended, on CLOCK_MONOTONIC, ns; 0 without a lease.
    pub lease_ns: AtomicU64,
    /// True if the epoch is set from outside; otherwise the last shard to be ready sets it.
    pub held: bool,
    /// What shards write, each shard once.
    pub by_shards: ByShards,
}

/// What shards tell the run: when they are set up, and when they have ended.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ByShards {
    /// Shards that have finished setting up.
    pub ready: AtomicUsize,
    /// True if a shard offered setup load until its number of connections had settled.
    pub settled: AtomicBool,
    /// True if a shard's setup load ended before it had settled.
    pub unsettled: AtomicBool,
    /// When the window of the last shard to end was over, ns since the epoch.
    pub end_ns: AtomicU64,
    /// Shards that have ended.
    pub ended: AtomicUsize,
}

/// An interruption takes effect this much later, ns, when every shard has seen it: twice the
/// interval at which they yield.
const STOP_AHEAD_NS: u64 = 100_000_000;

impl Signals {
    /// Sets the epoch, unless it is set or the run was cancelled.
    pub fn begin_at(&self, epoch_ns: u64) {
        let (set, read) = (Ordering::AcqRel, Ordering::Acquire);
        // In either case nothing is left to do: the first to set it decides.
        let _ = self.epoch_ns.compare_exchange(0, epoch_ns, set, read);
    }

    /// Ends the load at a time that all shards see before it comes. A second call changes nothing.
    pub fn stop(&self, now_ns: u64) {
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.stop_ns.compare_exchange(0, now_ns + STOP_AHEAD_NS, set, read);
    }

    /// True if the load ends by itself unless the lease is extended.
    #[inline]
    pub fn is_leased(&self) -> bool {
        self.lease_ns.load(Ordering::Relaxed) != 0
    }

    /// True once the lease has ended without an extension; the load ends with it.
    #[inline]
    pub fn is_lease_over(&self, now_ns: u64) -> bool {
        let lease_ns = self.lease_ns.load(Ordering::Relaxed);
        let is_over = 0 < lease_ns && lease_ns <= now_ns;
        if is_over {
            self.stop(now_ns);
        }
        is_over
    }

    /// Cancels a run that hasn't begun: threads that wait for its epoch end.
    pub fn cancel(&self) {
        self.epoch_ns.store(u64::MAX, Ordering::Release);
    }
}
