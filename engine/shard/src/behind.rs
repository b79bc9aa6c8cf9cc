//! The requests of a connection behind its oldest, for a protocol that answers in any order.
//!
//! They are kept in the order in which they began, and found by number with one look on average:
//! a slab of fixed size, whose entries are linked in order, and a table from numbers to places in
//! it. The numbers on one connection are those of one load, so a multiplication spreads them.

use super::exchange::Exchange;

/// No entry.
const NONE: u32 = u32::MAX;

/// Requests in order, found by number.
#[derive(Debug)]
pub struct Behind {
    entries: Vec<Entry>,
    /// The first free entry; the others follow it.
    free: u32,
    first: u32,
    last: u32,
    /// The first that leaves with the next system call.
    queued: u32,
    /// Places by number: each is at its number's index or behind it, with no gap before it.
    table: Box<[u32]>,
}

#[derive(Clone, Debug)]
struct Entry {
    exchange: Exchange,
    before: u32,
    after: u32,
}

impl Behind {
    /// Room for this many.
    pub fn new(most: usize) -> Behind {
        let most = u32::try_from(most).expect("a small number");
        let entry = |place| Entry {
            exchange: Exchange::default(),
            before: NONE,
            after: if place == most { NONE } else { place },
        };
        let table = vec![NONE; (2 * most as usize + 2).next_power_of_two()].into();
        let entries: Vec<Entry> = (1..=most).map(entry).collect();
        let free = if entries.is_empty() { NONE } else { 0 };
        Behind { entries, free, first: NONE, last: NONE, queued: NONE, table }
    }

    /// Adds one that is queued, behind the others.
    pub fn push(&mut self, exchange: Exchange) {
        let place = self.free;
        let before = self.last;
        let entry = &mut self.entries[place as usize];
        self.free = entry.after;
        *entry = Entry { exchange, before, after: NONE };
        match before {
            NONE => self.first = place,
            before => self.entries[before as usize].after = place,
        }
        self.last = place;
        if self.queued == NONE {
            self.queued = place;
        }
        let mut at = self.index(exchange.number);
        while self.table[at] != NONE {
            at = self.next(at);
        }
        self.table[at] = place;
    }

    /// The one with this number.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&Exchange> {
        let at = self.find(number)?;
        Some(&self.entries[self.table[at] as usize].exchange)
    }

    /// Takes the first.
    #[inline]
    pub fn pop(&mut self) -> Option<Exchange> {
        let first = self.entries.get(self.first as usize)?.exchange;
        self.remove(first.number)
    }

    /// Takes the one with this number.
    pub fn remove(&mut self, number: u64) -> Option<Exchange> {
        let at = self.find(number)?;
        let place = self.table[at];
        self.forget(at);
        let Entry { exchange, before, after } = self.entries[place as usize].clone();
        match before {
            NONE => self.first = after,
            before => self.entries[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.entries[after as usize].before = before,
        }
        if self.queued == place {
            self.queued = after;
        }
        self.entries[place as usize].after = self.free;
        self.free = place;
        Some(exchange)
    }

    /// The first queued one leaves; returns it.
    pub fn send(&mut self) -> Option<&mut Exchange> {
        let entry = self.entries.get_mut(self.queued as usize)?;
        self.queued = entry.after;
        Some(&mut entry.exchange)
    }

    /// All, in order.
    pub fn all(&self) -> impl Iterator<Item = &Exchange> {
        self.from(self.first)
    }

    /// Those that are queued, in order.
    pub fn queued(&self) -> impl Iterator<Item = &Exchange> {
        self.from(self.queued)
    }

    fn from(&self, place: u32) -> impl Iterator<Item = &Exchange> {
        let mut place = place;
        std::iter::from_fn(move || {
            let entry = self.entries.get(place as usize)?;
            place = entry.after;
            Some(&entry.exchange)
        })
    }

    /// Where a number belongs in the table.
    #[inline]
    fn index(&self, number: u64) -> usize {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let spread = number.wrapping_mul(GOLDEN) >> 32;
        usize::try_from(spread).expect("32 bits") & (self.table.len() - 1)
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.table.len() - 1)
    }

    #[inline]
    fn number_at(&self, at: usize) -> Option<u64> {
        self.entries.get(self.table[at] as usize).map(|entry| entry.exchange.number)
    }

    /// Where a number is in the table.
    #[inline]
    fn find(&self, number: u64) -> Option<usize> {
        let mut at = self.index(number);
        loop {
            if self.number_at(at)? == number {
                return Some(at);
            }
            at = self.next(at);
        }
    }

    /// Empties a place of the table, and closes the gap.
    fn forget(&mut self, at: usize) {
        let mask = self.table.len() - 1;
        let mut gap = at;
        let mut at = self.next(gap);
        while let Some(number) = self.number_at(at) {
            // It may move into the gap unless its own index is behind that.
            let (from_own, from_gap) = (at.wrapping_sub(self.index(number)), at.wrapping_sub(gap));
            if from_gap & mask <= from_own & mask {
                self.table[gap] = self.table[at];
                gap = at;
            }
            at = self.next(at);
        }
        self.table[gap] = NONE;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_queue_from_which_any_can_be_taken(
            steps in proptest::collection::vec((0_u8..5, 0_u64..40), 1..300)
        ) {
            let mut behind = Behind::new(7);
            let mut queue: VecDeque<(u64, bool)> = VecDeque::new();
            let mut number = 0;
            for (step, choice) in steps {
                match step {
                    0 | 1 if queue.len() < 7 => {
                        number += 1 + choice % 9 * 64;
                        queue.push_back((number, true));
                        behind.push(Exchange { number, ..Exchange::default() });
                    }
                    2 => {
                        let sent = queue.iter_mut().find(|(_, queued)| *queued);
                        let found = behind.send().map(|exchange| exchange.number);
                        prop_assert_eq!(found, sent.as_ref().map(|(number, _)| *number));
                        if let Some((_, queued)) = sent {
                            *queued = false;
                        }
                    }
                    3 => {
                        let popped = behind.pop().map(|exchange| exchange.number);
                        prop_assert_eq!(popped, queue.pop_front().map(|(number, _)| number));
                    }
                    _ if !queue.is_empty() => {
                        let at = usize::try_from(choice).expect("small") % queue.len();
                        let (number, _) = queue.remove(at).expect("it is there");
                        prop_assert_eq!(behind.get(number).map(|it| it.number), Some(number));
                        prop_assert_eq!(behind.remove(number).map(|it| it.number), Some(number));
                        prop_assert!(behind.get(number).is_none());
                    }
                    _ => {}
                }
                let numbers: Vec<u64> = behind.all().map(|exchange| exchange.number).collect();
                let expected: Vec<u64> = queue.iter().map(|(number, _)| *number).collect();
                prop_assert_eq!(numbers, expected);
                let numbers: Vec<u64> = behind.queued().map(|exchange| exchange.number).collect();
                let expected = queue.iter().filter(|(_, queued)| *queued);
                prop_assert_eq!(numbers, expected.map(|(number, _)| *number).collect::<Vec<_>>());
            }
        }
    }
}
