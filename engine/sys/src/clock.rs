//! The only clock: CLOCK_MONOTONIC, in nanoseconds.
//!
//! Only a shard's turn, the run and the watch read it; everything they call takes time as an
//! argument.

use std::num::NonZeroU64;
use std::time::{Duration, SystemTime};

use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};
use units::SECOND_NS;

/// Nanoseconds of CLOCK_MONOTONIC: the same clock for every process on the machine, so a target's
/// ledger and a report can be compared.
#[inline]
pub fn now_ns() -> u64 {
    ns_of(ClockId::Monotonic)
}

/// Nanoseconds of any of the kernel's clocks.
#[inline]
pub fn ns_of(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.cast_unsigned() * SECOND_NS + time.tv_nsec.cast_unsigned()
}

/// The wall-clock time of a past time of this clock, provided the wall clock hasn't been set since.
pub fn wall_time(at_ns: u64) -> SystemTime {
    SystemTime::now() - Duration::from_nanos(now_ns().saturating_sub(at_ns))
}

/// Lets this thread's timers fire to the nanosecond instead of up to 50 µs late, the kernel's
/// default slack.
pub fn set_timer_slack() {
    set_current_timer_slack(Some(NonZeroU64::MIN))
        .expect("a thread may always set its own timer slack");
}
