//! Which slot's time is over first: a queue in order of deadlines, from which any slot can leave in constant time.
//!
//! Requests have the same patience and begin one after another, so a new deadline is nearly always the latest: it goes to
//! the end, or is carried a few places forward. No heap, and no timer for each request. Memory is fixed: a doubly linked
//! list over slot numbers.

/// No neighbour.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    over_ns: u64,
    before: u32,
    after: u32,
    queued: bool,
}

/// Slots in order of their deadlines.
#[derive(Clone, Debug)]
pub struct Deadlines {
    links: Vec<Link>,
    first: u32,
    last: u32,
}

impl Deadlines {
    /// For slots `0..slots`, none of them waiting.
    pub fn new(slots: usize) -> Deadlines {
        let link = Link { over_ns: 0, before: NONE, after: NONE, queued: false };
        Deadlines { links: vec![link; slots], first: NONE, last: NONE }
    }

    /// Slot `slot`'s time is over at `over_ns`.
    pub fn push(&mut self, slot: u32, over_ns: u64) {
        assert!(!self.links[slot as usize].queued, "a slot waits for one thing at a time");
        let mut before = self.last;
        let mut after = NONE;
        while before != NONE && over_ns < self.links[before as usize].over_ns {
            after = before;
            before = self.links[before as usize].before;
        }
        self.links[slot as usize] = Link { over_ns, before, after, queued: true };
        match before {
            NONE => self.first = slot,
            before => self.links[before as usize].after = slot,
        }
        match after {
            NONE => self.last = slot,
            after => self.links[after as usize].before = slot,
        }
    }

    /// Slot `slot` waits no longer.
    pub fn remove(&mut self, slot: u32) {
        let Link { before, after, queued, .. } = self.links[slot as usize];
        assert!(queued, "only a waiting slot can leave");
        if before == NONE {
            self.first = after;
        } else {
            self.links[before as usize].after = after;
        }
        if after == NONE {
            self.last = before;
        } else {
            self.links[after as usize].before = before;
        }
        self.links[slot as usize].queued = false;
    }

    /// The slot whose time is over first, and when.
    pub fn first(&self) -> Option<(u32, u64)> {
        (self.first != NONE).then(|| (self.first, self.links[self.first as usize].over_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_list(steps in proptest::collection::vec((0_u32..8, any::<bool>(), 0_u64..20), 1..200)) {
            let mut deadlines = Deadlines::new(8);
            let mut model: Vec<(u64, u32)> = Vec::new();
            for (step, (slot, push, jitter_ns)) in (0_u64..).zip(steps) {
                let at = model.iter().position(|(_, known)| *known == slot);
                match (push, at) {
                    (true, None) => {
                        let over_ns = 5 * step + jitter_ns;
                        deadlines.push(slot, over_ns);
                        let place = model.partition_point(|(other_ns, _)| *other_ns <= over_ns);
                        model.insert(place, (over_ns, slot));
                    }
                    (false, Some(at)) => {
                        deadlines.remove(slot);
                        model.remove(at);
                    }
                    _ => {}
                }
                prop_assert_eq!(deadlines.first(), model.first().map(|(over_ns, slot)| (*slot, *over_ns)));
            }
        }
    }
}
