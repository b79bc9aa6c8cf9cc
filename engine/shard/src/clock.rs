//! A shard's time: its epoch, when it handles what, and the wall clock, in which the kernel's
//! stamps are.
//!
//! All that one system call brought is handled at one time, read once, with one look at the wall
//! clock.

use sys::clock;
use sys::wall_clock::{ClockLook, WallClock};

/// How long before its bytes were read a stamp is old, ns: a shard with time reads them sooner.
const OLD_NS: u64 = 500_000;
/// The most completions at hand of a shard that surely isn't behind. One that is has more, and no
/// time to ask a socket for each of them.
const AT_HAND_MAX: usize = 15;
/// The most that the kernel works, ns, between the event that wakes a shard and its return.
const RETURN_MAX_NS: u64 = 1_000_000;

/// A shard's clock: all its times are ns since its epoch.
pub(super) struct Clock {
    /// Time zero, ns of CLOCK_MONOTONIC.
    epoch_ns: u64,
    wall_clock: WallClock,
    /// When the completions at hand were posted: one reading of the clock for all that a system
    /// call brought.
    handled_ns: u64,
    /// How many completions that was.
    at_hand: usize,
    /// When nothing was at hand, as far as is known: the last such moment.
    idle_ns: u64,
}

impl Clock {
    /// One whose epoch is now.
    pub(super) fn new() -> Clock {
        Clock {
            epoch_ns: clock::now_ns(),
            wall_clock: WallClock::new(ClockLook::now()),
            handled_ns: 0,
            at_hand: 0,
            idle_ns: 0,
        }
    }

    /// Counts from another epoch on, ns of CLOCK_MONOTONIC.
    pub(super) fn restart(&mut self, epoch_ns: u64) {
        self.epoch_ns = epoch_ns;
        (self.handled_ns, self.idle_ns) = (0, 0);
    }

    /// ns since the epoch.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        clock::now_ns().saturating_sub(self.epoch_ns)
    }

    /// A time of this clock, or its epoch at 0, as ns of CLOCK_MONOTONIC.
    #[inline]
    pub(super) fn monotonic_ns(&self, ns: u64) -> u64 {
        self.epoch_ns + ns
    }

    /// A time of CLOCK_MONOTONIC, or the epoch if it was before.
    pub(super) fn of_monotonic_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_sub(self.epoch_ns)
    }

    /// The clock, from this epoch on.
    pub(super) fn reader(&self) -> impl FnOnce() -> u64 + use<> {
        let epoch_ns = self.epoch_ns;
        move || clock::now_ns().saturating_sub(epoch_ns)
    }

    /// When the completions at hand were posted.
    #[inline]
    pub(super) fn handled_ns(&self) -> u64 {
        self.handled_ns
    }

    /// So many completions are at hand.
    #[inline]
    pub(super) fn stamp_posted(&mut self, posted: usize) {
        self.at_hand = posted;
        self.stamp_handled();
    }

    /// Stamps the completions that are posted.
    #[inline]
    pub(super) fn stamp_handled(&mut self) {
        let look = ClockLook::now();
        self.wall_clock.observe(look);
        self.handled_no_earlier(look.after_ns.saturating_sub(self.epoch_ns));
    }

    /// What completes from now on is handled no earlier than this.
    #[inline]
    pub(super) fn handled_no_earlier(&mut self, ns: u64) {
        self.handled_ns = self.handled_ns.max(ns);
    }

    /// A stamp of the wall clock; `None` if that clock has just been set.
    #[inline]
    pub(super) fn since_epoch_ns(&self, wall_ns: u64) -> Option<u64> {
        let stamp_ns = self.wall_clock.monotonic_ns(wall_ns, self.epoch_ns + self.handled_ns)?;
        Some(stamp_ns.saturating_sub(self.epoch_ns))
    }

    /// How often the wall clock was set.
    pub(super) fn steps(&self) -> u64 {
        self.wall_clock.steps()
    }

    /// The shard polled until then, with nothing at hand.
    pub(super) fn polled(&mut self, until_ns: u64) {
        self.idle_ns = until_ns;
    }

    /// The shard has been in the kernel, which posts what is at hand and waits if nothing is.
    pub(super) fn waited(&mut self, from_ns: u64, to_ns: u64) {
        if from_ns + RETURN_MAX_NS < to_ns {
            self.idle_ns = to_ns - RETURN_MAX_NS;
        }
    }

    /// Whether a stamp is old although the shard has been idle since, or isn't behind.
    #[inline]
    pub(super) fn is_oddly_old(&self, stamp_ns: u64) -> bool {
        let had_time = stamp_ns + OLD_NS < self.idle_ns || self.at_hand <= AT_HAND_MAX;
        stamp_ns + OLD_NS < self.handled_ns && had_time
    }
}

#[cfg(test)]
impl Clock {
    /// So much time passes at once.
    pub(super) fn pass(&mut self, ns: u64) {
        self.epoch_ns -= ns;
    }
}
