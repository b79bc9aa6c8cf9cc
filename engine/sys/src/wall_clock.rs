//! The kernel's stamps on the one clock: CLOCK_REALTIME converted to CLOCK_MONOTONIC.
//!
//! Rate adjustments change both clocks alike, so their difference is constant until the wall clock
//! is set. Each reading of both clocks bounds it, and each batch of completions takes one. A
//! reading that contradicts the known difference means a step, and the program's stamps are used
//! for a second.

use rustix::time::ClockId;
use units::SECOND_NS;

use super::clock;

/// How far two readings may contradict each other, ns: both clocks round separately.
const SLACK_NS: u64 = 1_000;
/// How long after a step no stamp is converted, ns: it may have been taken before.
const DISTRUST_NS: u64 = SECOND_NS;

/// One reading of both clocks: the wall clock was read between the two readings of the monotonic
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLook {
    /// CLOCK_MONOTONIC before, ns.
    pub(crate) before_ns: u64,
    /// CLOCK_REALTIME, ns.
    pub wall_ns: u64,
    /// CLOCK_MONOTONIC after, ns.
    pub after_ns: u64,
}

impl ClockLook {
    /// Reads the clocks now.
    #[inline]
    pub fn now() -> ClockLook {
        let before_ns = clock::now_ns();
        let wall_ns = clock::ns_of(ClockId::Realtime);
        ClockLook { before_ns, wall_ns, after_ns: clock::now_ns() }
    }

    #[inline]
    fn length_ns(&self) -> u64 {
        self.after_ns - self.before_ns
    }
}

/// Converts stamps of the wall clock, and detects when it is set.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    /// The tightest reading: it bounds CLOCK_REALTIME − CLOCK_MONOTONIC to within its length.
    look: ClockLook,
    /// No stamp is converted before this, ns of CLOCK_MONOTONIC.
    trusted_from_ns: u64,
    steps: u64,
}

impl WallClock {
    /// The wall clock as shown by this reading.
    pub fn new(look: ClockLook) -> WallClock {
        WallClock { look, trusted_from_ns: 0, steps: 0 }
    }

    /// The wall clock's time at this time of the monotonic clock, ns.
    pub fn wall_ns(&self, monotonic_ns: u64) -> u64 {
        let since_ns = monotonic_ns.wrapping_sub(self.look.after_ns);
        self.look.wall_ns.wrapping_add(since_ns)
    }

    /// Takes another reading into account.
    #[inline]
    pub fn observe(&mut self, look: ClockLook) {
        // The clocks' difference is at least this, and at most the length of the reading more. It
        // wraps, because the wall clock may be set to anything.
        let least_ns = |look: &ClockLook| look.wall_ns.wrapping_sub(look.after_ns);
        let more_ns = least_ns(&look).wrapping_sub(least_ns(&self.look)).cast_signed();
        let meet = if more_ns < 0 {
            more_ns.unsigned_abs() <= look.length_ns() + SLACK_NS
        } else {
            more_ns.unsigned_abs() <= self.look.length_ns() + SLACK_NS
        };
        if !meet {
            self.steps += 1;
            self.trusted_from_ns = look.after_ns + DISTRUST_NS;
            self.look = look;
        } else if look.length_ns() < self.look.length_ns() {
            self.look = look;
        }
    }

    /// A stamp of the wall clock as ns of CLOCK_MONOTONIC; `None` for a second after a step.
    #[inline]
    pub fn monotonic_ns(&self, wall_ns: u64, now_ns: u64) -> Option<u64> {
        let at_ns = self.look.before_ns + self.look.length_ns() / 2;
        (self.trusted_from_ns <= now_ns)
            .then(|| wall_ns.wrapping_sub(self.look.wall_ns).wrapping_add(at_ns))
    }

    /// How often the wall clock has been set.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL_NS: u64 = 1_700_000_000 * SECOND_NS;

    /// A reading that began at `before_ns` and took `width_ns`, with the wall clock `offset_ns`
    /// ahead and read at its start.
    fn look(before_ns: u64, width_ns: u64, offset_ns: u64) -> ClockLook {
        let wall_ns = before_ns.wrapping_add(offset_ns);
        ClockLook { before_ns, wall_ns, after_ns: before_ns + width_ns }
    }

    #[test]
    fn a_stamp_is_converted_within_half_the_width_of_the_tightest_reading() {
        let mut clock = WallClock::new(look(1_000, 40_000, WALL_NS));
        for (at_ns, width_ns) in [(100_000, 60), (200_000, 50), (300_000, 9_000_000)] {
            clock.observe(look(at_ns, width_ns, WALL_NS));
        }
        let found_ns = clock.monotonic_ns(WALL_NS + 400_000, 500_000).expect("no step");
        assert!(found_ns.abs_diff(400_000) <= 25, "{found_ns}");
        assert_eq!(clock.steps(), 0, "a long reading contradicts nothing");
    }

    #[test]
    fn a_step_either_way_is_counted_once_and_stamps_around_it_are_not_converted() {
        for step_ns in [5_000_i64, -5_000, 3_600_000_000_000, -3_600_000_000_000] {
            let mut clock = WallClock::new(look(0, 50, WALL_NS));
            clock.observe(look(1_000_000, 50, WALL_NS));
            let after_ns = WALL_NS.wrapping_add_signed(step_ns);
            for at_ns in [2_000_000, 3_000_000] {
                clock.observe(look(at_ns, 50, after_ns));
                assert_eq!(clock.steps(), 1, "{step_ns}");
                assert_eq!(clock.monotonic_ns(WALL_NS, at_ns), None, "taken before the step?");
            }
            let later_ns = 3_000_000 + DISTRUST_NS;
            let stamp_ns = later_ns.wrapping_add(after_ns);
            let found_ns = clock.monotonic_ns(stamp_ns, later_ns).expect("trusted again");
            assert!(found_ns.abs_diff(later_ns) <= 50, "{step_ns}: {found_ns}");
        }
    }

    #[test]
    fn this_machines_clocks_agree_with_themselves() {
        let mut clock = WallClock::new(ClockLook::now());
        for _ in 0..10_000 {
            clock.observe(ClockLook::now());
        }
        let look = ClockLook::now();
        if clock.steps() == 0 {
            let found_ns = clock.monotonic_ns(look.wall_ns, look.after_ns).expect("no step");
            let around_ns = look.before_ns - SLACK_NS..=look.after_ns + SLACK_NS;
            assert!(around_ns.contains(&found_ns), "{found_ns} is not in {look:?}");
        }
    }
}
