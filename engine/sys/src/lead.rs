//! How far ahead of a time a thread must wake to be on time, learnt from how late it woke before.

/// The shortest lead, ns: on bare metal the kernel wakes a thread 5 to 30 µs late.
pub const LEAD_MIN_NS: u64 = 50_000;
/// The longest lead, ns. A virtual machine whose core was idle can take that long to wake.
const LEAD_MAX_NS: u64 = 2_000_000;
/// While a thread polls, a gap between two readings of the clock that shows that something else ran
/// on its core, ns: longer than an interrupt, shorter than a time slice.
const TAKEN_NS: u64 = 500_000;

/// The lead of one thread. It doubles whenever a wake-up was later than that, and shrinks by 1/8192
/// after any other, so that about one in 8,192 · ln 2 = 5,700 is too late: too few to reach p99.9.
#[derive(Debug)]
pub struct Lead {
    ns: u64,
}

impl Default for Lead {
    fn default() -> Self {
        Lead { ns: LEAD_MIN_NS }
    }
}

impl Lead {
    /// How long before a time to wake, ns.
    #[inline]
    pub fn ns(&self) -> u64 {
        self.ns
    }

    /// The thread slept, to be woken at `until_ns` at the latest, and was awake at `woken_ns`.
    #[inline]
    pub fn slept(&mut self, until_ns: u64, woken_ns: u64) {
        // Something else woke it before.
        let Some(late_ns) = woken_ns.checked_sub(until_ns) else { return };
        self.ns = match late_ns <= self.ns {
            true => self.ns - (self.ns - LEAD_MIN_NS) / 8_192,
            false => LEAD_MAX_NS.min(2 * self.ns),
        };
    }

    /// The thread read the clock at these two consecutive times while polling. Where others use its
    /// core, to wake earlier only takes their time and gets the thread preempted: the lead halves.
    #[inline]
    pub fn spun_past(&mut self, from_ns: u64, now_ns: u64) {
        if TAKEN_NS < now_ns - from_ns {
            self.ns = LEAD_MIN_NS.max(self.ns / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 100,000 wake-ups were later than the lead, if the nth is this late.
    fn too_late(late_ns: impl Fn(u64) -> u64) -> (usize, Lead) {
        let mut lead = Lead::default();
        let missed = (0..100_000).filter(|&n| {
            let missed = lead.ns() < late_ns(n);
            lead.slept(0, late_ns(n));
            missed
        });
        (missed.count(), lead)
    }

    #[test]
    fn where_wake_ups_are_prompt_the_lead_stays_short() {
        let (missed, lead) = too_late(|n| 5_000 + n % 25 * 1_000);
        assert_eq!((missed, lead.ns()), (0, LEAD_MIN_NS));
    }

    #[test]
    fn about_one_wake_up_in_5700_is_too_late() {
        // One in a hundred takes 300 µs.
        let (missed, _) = too_late(|n| if n % 100 == 99 { 300_000 } else { 20_000 });
        assert!((9..35).contains(&missed), "{missed}");
        // Every tenth takes 50 µs to 1 ms, in no order.
        let (missed, _) = too_late(|n| if n % 10 == 9 { 50_000 + n * 7_919 % 950_000 } else { 0 });
        assert!((9..35).contains(&missed), "{missed}");
    }

    #[test]
    fn it_is_never_longer_than_its_bound_and_gets_short_on_a_shared_core() {
        let (_, mut lead) = too_late(|_| 30_000_000);
        assert_eq!(lead.ns(), LEAD_MAX_NS);
        lead.spun_past(5, 5 + TAKEN_NS);
        assert_eq!(lead.ns(), LEAD_MAX_NS);
        for _ in 0..10 {
            lead.spun_past(5, 6 + TAKEN_NS);
        }
        assert_eq!(lead.ns(), LEAD_MIN_NS);
    }

    #[test]
    fn a_sleep_that_something_else_ended_teaches_nothing() {
        let (_, mut lead) = too_late(|_| 30_000_000);
        lead.slept(100, 99);
        assert_eq!(lead.ns(), LEAD_MAX_NS);
    }
}
