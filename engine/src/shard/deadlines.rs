//! Timeouts: queues of slots by deadline, which any slot can leave in constant time.
//!
//! All requests have the same timeout, so a new deadline is nearly always the latest: it goes to
//! the end of its queue, or a few places before it. Connects have a queue of their own, since their
//! deadlines may be far later than those of requests that start after them. There is no heap and no
//! timer per request; memory is fixed, doubly linked lists over slot numbers.

/// No neighbour.
const NONE: u32 = u32::MAX;

/// What a slot waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Its response.
    Response,
    /// Its connection.
    Connect,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    over_ns: u64,
    before: u32,
    after: u32,
    queue: Option<Awaited>,
}

/// The ends of one queue.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// Slots ordered by deadline.
#[derive(Clone, Debug)]
pub struct Deadlines {
    links: Vec<Link>,
    responses: Ends,
    connects: Ends,
}

impl Deadlines {
    /// Empty queues for slots `0..slots`.
    pub fn new(slots: usize) -> Deadlines {
        let link = Link { over_ns: 0, before: NONE, after: NONE, queue: None };
        let empty = Ends { first: NONE, last: NONE };
        Deadlines { links: vec![link; slots], responses: empty, connects: empty }
    }

    fn ends(&mut self, awaited: Awaited) -> &mut Ends {
        match awaited {
            Awaited::Response => &mut self.responses,
            Awaited::Connect => &mut self.connects,
        }
    }

    /// Gives slot `slot` a deadline.
    pub fn push(&mut self, slot: u32, over_ns: u64, awaited: Awaited) {
        assert_eq!(self.links[slot as usize].queue, None, "a slot waits for one thing at a time");
        let mut before = self.ends(awaited).last;
        let mut after = NONE;
        while before != NONE && over_ns < self.links[before as usize].over_ns {
            after = before;
            before = self.links[before as usize].before;
        }
        self.links[slot as usize] = Link { over_ns, before, after, queue: Some(awaited) };
        match before {
            NONE => self.ends(awaited).first = slot,
            before => self.links[before as usize].after = slot,
        }
        match after {
            NONE => self.ends(awaited).last = slot,
            after => self.links[after as usize].before = slot,
        }
    }

    /// Removes slot `slot`'s deadline.
    pub fn remove(&mut self, slot: u32) {
        let Link { before, after, queue, .. } = self.links[slot as usize];
        let awaited = queue.expect("only a waiting slot can leave");
        match before {
            NONE => self.ends(awaited).first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.ends(awaited).last = before,
            after => self.links[after as usize].before = before,
        }
        self.links[slot as usize].queue = None;
    }

    /// The slot with the earliest deadline, and that deadline.
    #[inline]
    pub fn first(&self) -> Option<(u32, u64)> {
        let over_ns = |slot: u32| self.links.get(slot as usize).map(|link| (slot, link.over_ns));
        match (over_ns(self.responses.first), over_ns(self.connects.first)) {
            (Some(response), Some(connect)) if connect.1 < response.1 => Some(connect),
            (response, connect) => response.or(connect),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_sorted_lists(
            steps in proptest::collection::vec((0_u32..8, any::<bool>(), 0_u64..20, any::<bool>()), 1..200)
        ) {
            let mut deadlines = Deadlines::new(8);
            let mut models: [Vec<(u64, u32)>; 2] = [Vec::new(), Vec::new()];
            for (step, (slot, push, jitter_ns, connect)) in (0_u64..).zip(steps) {
                let at = |model: &Vec<(u64, u32)>| model.iter().position(|(_, known)| *known == slot);
                let places = [at(&models[0]), at(&models[1])];
                if push && places == [None, None] {
                    let over_ns = 5 * step + jitter_ns;
                    let awaited = if connect { Awaited::Connect } else { Awaited::Response };
                    deadlines.push(slot, over_ns, awaited);
                    let model = &mut models[usize::from(connect)];
                    let place = model.partition_point(|(other_ns, _)| *other_ns <= over_ns);
                    model.insert(place, (over_ns, slot));
                } else if !push && places != [None, None] {
                    deadlines.remove(slot);
                    models.iter_mut().for_each(|model| model.retain(|(_, known)| *known != slot));
                }
                let first = models.iter().filter_map(|model| model.first()).min_by_key(|(over_ns, _)| *over_ns);
                prop_assert_eq!(deadlines.first(), first.map(|(over_ns, slot)| (*slot, *over_ns)));
            }
        }
    }

    #[test]
    fn an_earlier_deadline_passes_no_connect() {
        let mut deadlines = Deadlines::new(100_000);
        (0..99_000).for_each(|slot| deadlines.push(slot, 1_000_000, Awaited::Connect));
        // Each push would walk over all connects: together 10^8 steps.
        (99_000..100_000).for_each(|slot| deadlines.push(slot, u64::from(slot), Awaited::Response));
        assert_eq!(deadlines.links[99_000].before, NONE);
        assert_eq!(deadlines.first(), Some((99_000, 99_000)));
    }
}
