//! A shard's time: its epoch, the handling time of completions, and the wall clock, which the
//! kernel's stamps use.
//!
//! Everything that one system call brought has one handling time, read once, with one reading of
//! the wall clock.

use sys::clock;
use sys::wall_clock::{ClockLook, WallClock};
use units::SECOND_NS;

/// How long before its bytes are read a stamp counts as old, ns: a shard with time reads them
/// sooner.
const OLD_NS: u64 = 500_000;
/// The most completions at hand for a shard that surely isn't behind. A shard that is behind has
/// more, and no time to query a socket for each.
const AT_HAND_MAX: usize = 15;
/// The most kernel time, ns, between the event that wakes a shard and its return.
const RETURN_MAX_NS: u64 = 1_000_000;

/// A shard's clock: all its times are ns since its epoch.
pub(super) struct Clock {
    /// Time zero, ns of CLOCK_MONOTONIC.
    epoch_ns: u64,
    wall_clock: WallClock,
    /// When the completions at hand were posted: one clock reading for everything that a system
    /// call brought.
    handled_ns: u64,
    /// The number of these completions.
    at_hand: usize,
    /// The last known time without completions at hand.
    idle_ns: u64,
}

impl Clock {
    /// A clock whose epoch is now.
    pub(super) fn new() -> Clock {
        Clock {
            epoch_ns: clock::now_ns(),
            wall_clock: WallClock::new(ClockLook::now()),
            handled_ns: 0,
            at_hand: 0,
            idle_ns: 0,
        }
    }

    /// Counts from another epoch, ns of CLOCK_MONOTONIC.
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

    /// A reader of this clock with the current epoch.
    pub(super) fn reader(&self) -> impl FnOnce() -> u64 + use<> {
        let epoch_ns = self.epoch_ns;
        move || clock::now_ns().saturating_sub(epoch_ns)
    }

    /// When the completions at hand were posted.
    #[inline]
    pub(super) fn handled_ns(&self) -> u64 {
        self.handled_ns
    }

    /// This many completions are at hand.
    #[inline]
    pub(super) fn stamp_posted(&mut self, posted: usize) {
        self.at_hand = posted;
        self.stamp_handled();
    }

    /// Stamps the posted completions.
    #[inline]
    pub(super) fn stamp_handled(&mut self) {
        let look = ClockLook::now();
        self.wall_clock.observe(look);
        self.handled_no_earlier(look.after_ns.saturating_sub(self.epoch_ns));
    }

    /// Completions from now on are handled no earlier than this.
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

    /// The wall clock's time as completions were handled, whole seconds of Unix time.
    pub(super) fn wall_s(&self) -> i64 {
        let wall_ns = self.wall_clock.wall_ns(self.epoch_ns + self.handled_ns);
        (wall_ns / SECOND_NS).cast_signed()
    }

    /// How often the wall clock has been set.
    pub(super) fn steps(&self) -> u64 {
        self.wall_clock.steps()
    }

    /// The shard polled until this time, with nothing at hand.
    pub(super) fn polled(&mut self, until_ns: u64) {
        self.idle_ns = until_ns;
    }

    /// The shard has been in the kernel, which posts completions, or waits if there are none.
    pub(super) fn waited(&mut self, from_ns: u64, to_ns: u64) {
        if from_ns + RETURN_MAX_NS < to_ns {
            self.idle_ns = to_ns - RETURN_MAX_NS;
        }
    }

    /// True if a stamp is old although the shard has been idle since, or isn't behind.
    #[inline]
    pub(super) fn is_oddly_old(&self, stamp_ns: u64) -> bool {
        let had_time = stamp_ns + OLD_NS < self.idle_ns || self.at_hand <= AT_HAND_MAX;
        stamp_ns + OLD_NS < self.handled_ns && had_time
    }
}

#[cfg(test)]
impl Clock {
    /// Advances the time by this much at once.
    pub(super) fn pass(&mut self, ns: u64) {
        self.epoch_ns -= ns;
    }
}
