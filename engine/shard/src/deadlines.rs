//! When to check each connection's deadline.
//!
//! A connection is checked once per timeout, not once per request: its next request nearly always
//! has a later deadline than the last, so the pending check stays, and finds out when it comes due
//! whether anything has expired. A request costs one comparison, however many connections there
//! are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No check is pending.
const NEVER: u64 = u64::MAX;

/// The pending checks, at most one per slot.
#[derive(Clone, Debug)]
pub struct Deadlines {
    /// By time. A slot whose check was brought forward still has its old one here.
    checks: BinaryHeap<Reverse<(u64, u32)>>,
    /// Each slot's next check, ns since the epoch.
    next_ns: Vec<u64>,
}

impl Deadlines {
    /// No checks, for slots `0..slots`.
    pub fn new(slots: usize) -> Deadlines {
        // Room for each slot's check and its old one.
        Deadlines { checks: BinaryHeap::with_capacity(2 * slots), next_ns: vec![NEVER; slots] }
    }

    /// Slot `slot` is checked at `over_ns` at the latest.
    #[inline]
    pub fn check_by(&mut self, slot: u32, over_ns: u64) {
        if over_ns < self.next_ns[slot as usize] {
            self.bring_forward(slot, over_ns);
        }
    }

    #[cold]
    fn bring_forward(&mut self, slot: u32, over_ns: u64) {
        if self.checks.len() == self.checks.capacity() {
            let next_ns = &self.next_ns;
            let mut checks = std::mem::take(&mut self.checks).into_vec();
            checks.clear();
            let slots = (0..).zip(next_ns).filter(|(_, at_ns)| **at_ns != NEVER);
            checks.extend(slots.map(|(slot, at_ns)| Reverse((*at_ns, slot))));
            self.checks = checks.into();
        }
        self.next_ns[slot as usize] = over_ns;
        self.checks.push(Reverse((over_ns, slot)));
    }

    /// When the next check is due; `u64::MAX` for never.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.checks.peek().map_or(NEVER, |Reverse((at_ns, _))| *at_ns)
    }

    /// Takes a slot whose check is due.
    pub fn take_due(&mut self, now_ns: u64) -> Option<u32> {
        while self.next_ns() <= now_ns {
            let Reverse((at_ns, slot)) = self.checks.pop()?;
            let next_ns = &mut self.next_ns[slot as usize];
            if *next_ns == at_ns {
                *next_ns = NEVER;
                return Some(slot);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_slot_is_taken_at_its_earliest_deadline_and_once(
            steps in proptest::collection::vec((0_u32..8, 0_u64..40, 0_u64..3), 1..300)
        ) {
            let mut deadlines = Deadlines::new(8);
            let capacity = deadlines.checks.capacity();
            let mut earliest = [NEVER; 8];
            let mut now_ns = 0;
            for (slot, ahead_ns, passed_ns) in steps {
                let over_ns = now_ns + ahead_ns;
                deadlines.check_by(slot, over_ns);
                earliest[slot as usize] = earliest[slot as usize].min(over_ns);
                now_ns += passed_ns;
                let mut taken = Vec::new();
                while let Some(slot) = deadlines.take_due(now_ns) {
                    taken.push(slot);
                }
                taken.sort_unstable();
                let due: Vec<u32> =
                    (0..8).filter(|slot| earliest[*slot as usize] <= now_ns).collect();
                prop_assert_eq!(&taken, &due);
                due.iter().for_each(|slot| earliest[*slot as usize] = NEVER);
                prop_assert!(deadlines.next_ns() <= earliest.into_iter().min().expect("eight"));
                prop_assert_eq!(deadlines.checks.capacity(), capacity, "it allocates nothing");
            }
        }
    }
}
