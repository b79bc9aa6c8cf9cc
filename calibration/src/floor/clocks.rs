//! The cost of reading the clocks on one core, and their resolution.

use std::hint::black_box;
use std::thread;

use core_affinity::CoreId;
use engine::sys::clock::now_ns;
use rustix::time::{ClockId, clock_getres, clock_gettime};
use serde::{Deserialize, Serialize};

/// Reads of a batch.
const READS: u32 = 20_000;
/// Batches: nothing interrupted the fastest one.
const BATCHES: usize = 25;

/// The clock of all stamps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// The resolution that the kernel states for CLOCK_MONOTONIC, ns.
    pub resolution_ns: u64,
    /// The smallest step seen between two different consecutive reads, ns.
    pub step_ns: u64,
    /// One read of it, ns.
    pub read_ns: f64,
    /// One stamp after a system call, ns: a read of it and one of the wall clock, which the
    /// kernel's stamps use.
    pub stamp_pair_ns: f64,
}

/// Measures the clocks on this core, or on any if the kernel refuses that.
pub(super) fn measure(core: usize) -> Clocks {
    let on_core = move || {
        core_affinity::set_for_current(CoreId { id: core });
        Clocks {
            resolution_ns: {
                let resolution = clock_getres(ClockId::Monotonic);
                resolution.tv_nsec.cast_unsigned()
            },
            step_ns: (0..READS).filter_map(|_| step_ns()).min().unwrap_or(0),
            read_ns: fastest(|| {
                black_box(now_ns());
            }),
            stamp_pair_ns: fastest(|| {
                black_box(now_ns());
                black_box(clock_gettime(ClockId::Realtime));
            }),
        }
    };
    thread::scope(|scope| scope.spawn(on_core).join().expect("reading clocks doesn't panic"))
}

fn step_ns() -> Option<u64> {
    let before = now_ns();
    now_ns().checked_sub(before).filter(|step| 0 < *step)
}

/// The cost of one call in the fastest batch, ns.
fn fastest(mut call: impl FnMut()) -> f64 {
    let mut batch = || {
        let began = now_ns();
        (0..READS).for_each(|_| call());
        (now_ns() - began) as f64 / f64::from(READS)
    };
    (0..BATCHES).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_have_a_resolution_and_two_reads_cost_more_than_none() {
        let clocks = measure(engine::sys::placement::allowed_cores()[0]);
        assert!(0 < clocks.resolution_ns && 0 < clocks.step_ns, "{clocks:?}");
        assert!(0.0 < clocks.read_ns && 0.0 < clocks.stamp_pair_ns, "{clocks:?}");
        assert!(clocks.stamp_pair_ns.is_finite(), "{clocks:?}");
    }
}
