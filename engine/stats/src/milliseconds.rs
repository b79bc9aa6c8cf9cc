//! Event counts per millisecond over the last minute, in a ring of fixed size.
//!
//! Milliseconds are numbered from the start of the window, the same on every shard, so merged
//! counts are those of all events.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// One millisecond in nanoseconds.
pub(super) const MILLISECOND_NS: u64 = 1_000_000;

/// The stretch before the end of a run whose windows are evaluated, 60 s.
const LOOKED_AT_MS: u64 = 60_000;
/// How many of the latest milliseconds are kept: that stretch, plus a second, since agents that are
/// stopped may end up to that far apart.
const KEPT_MS: u64 = LOOKED_AT_MS + 1_000;

/// Counts per millisecond. Slot `ms % KEPT_MS` belongs to the one kept millisecond with that
/// remainder; slots not reached yet are zero.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "State", try_from = "State")]
pub(super) struct Milliseconds {
    slots: Box<[u32]>,
    /// The first millisecond not reached yet.
    next_ms: u64,
    /// The millisecond last counted in, if it is kept: its bounds, ns, and its slot. Most events
    /// are in it.
    last_ns: Range<u64>,
    last: usize,
}

impl PartialEq for Milliseconds {
    fn eq(&self, other: &Milliseconds) -> bool {
        self.next_ms == other.next_ms && self.slots == other.slots
    }
}

/// The serialized counts.
#[derive(Serialize, Deserialize)]
struct State {
    /// Counts of the kept milliseconds, in order.
    counts: Vec<u32>,
    next_ms: u64,
}

/// Counts whose number doesn't match the milliseconds kept.
#[derive(Debug, thiserror::Error)]
#[error("{counts} counts of milliseconds up to number {next_ms}")]
struct NotTheKept {
    counts: usize,
    next_ms: u64,
}

impl From<Milliseconds> for State {
    fn from(all: Milliseconds) -> State {
        let kept = all.oldest_ms()..all.next_ms;
        State { counts: kept.map(|ms| all.slots[slot(ms)]).collect(), next_ms: all.next_ms }
    }
}

impl TryFrom<State> for Milliseconds {
    type Error = NotTheKept;

    fn try_from(State { counts, next_ms }: State) -> Result<Milliseconds, NotTheKept> {
        let mut all = Milliseconds { next_ms, ..Milliseconds::new() };
        let kept = all.oldest_ms()..next_ms;
        if counts.len() as u64 != kept.end - kept.start {
            return Err(NotTheKept { counts: counts.len(), next_ms });
        }
        kept.zip(counts).for_each(|(ms, count)| all.slots[slot(ms)] = count);
        Ok(all)
    }
}

impl Default for Milliseconds {
    fn default() -> Milliseconds {
        Milliseconds::new()
    }
}

impl Milliseconds {
    /// Empty counts; all memory is allocated here.
    pub(super) fn new() -> Milliseconds {
        let slots = vec![0; slot(KEPT_MS - 1) + 1].into_boxed_slice();
        Milliseconds { slots, next_ms: 0, last_ns: 0..0, last: 0 }
    }

    /// Counts one event, `at_ns` after the start of the window. Events older than the kept
    /// milliseconds are dropped.
    #[inline]
    pub(super) fn add(&mut self, at_ns: u64) {
        if self.last_ns.contains(&at_ns) {
            self.slots[self.last] += 1;
        } else {
            self.add_in_another(at_ns / MILLISECOND_NS);
        }
    }

    fn add_in_another(&mut self, ms: u64) {
        if self.next_ms <= ms {
            self.reach(ms + 1);
        }
        if self.oldest_ms() <= ms {
            let start_ns = ms * MILLISECOND_NS;
            (self.last_ns, self.last) = (start_ns..start_ns + MILLISECOND_NS, slot(ms));
            self.slots[self.last] += 1;
        }
    }

    /// The oldest millisecond that is kept.
    fn oldest_ms(&self) -> u64 {
        self.next_ms.saturating_sub(KEPT_MS)
    }

    /// Adds another ring's counts: the same as counting all events in one ring.
    pub(super) fn merge(&mut self, other: &Milliseconds) {
        if self.next_ms < other.next_ms {
            self.reach(other.next_ms);
        }
        for ms in self.oldest_ms()..other.next_ms {
            self.slots[slot(ms)] += other.slots[slot(ms)];
        }
    }

    /// The number of events in window `window` of those of `length_ms`.
    pub(super) fn window(&self, window: u64, length_ms: u64) -> u64 {
        (window * length_ms..(window + 1) * length_ms).map(|ms| self.count(ms)).sum()
    }

    /// The number of events in a kept millisecond; 0 if it hasn't been reached yet.
    fn count(&self, ms: u64) -> u64 {
        let kept = self.oldest_ms()..self.next_ms;
        if kept.contains(&ms) { u64::from(self.slots[slot(ms)]) } else { 0 }
    }

    /// Moves the end to `next_ms` and clears the milliseconds skipped, each slot at most once.
    fn reach(&mut self, next_ms: u64) {
        for ms in self.next_ms.max(next_ms.saturating_sub(KEPT_MS))..next_ms {
            self.slots[slot(ms)] = 0;
        }
        // It may not be kept any more.
        self.last_ns = 0..0;
        self.next_ms = next_ms;
    }
}

/// The windows of `length_ms` within the last minute before `until_ms`, where a run ended. Windows
/// are aligned to the start; one that is cut off at either end would be undercounted, so it is left
/// out.
pub(super) fn whole_windows(length_ms: u64, until_ms: u64) -> Range<u64> {
    until_ms.saturating_sub(LOOKED_AT_MS).div_ceil(length_ms)..until_ms / length_ms
}

fn slot(ms: u64) -> usize {
    (ms % KEPT_MS) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn filled(events_ms: &[u64]) -> Milliseconds {
        let mut counted = Milliseconds::new();
        events_ms.iter().for_each(|ms| counted.add(*ms * MILLISECOND_NS + *ms % MILLISECOND_NS));
        counted
    }

    /// The counts of the windows of a run that ended at this time.
    fn windows(counted: &Milliseconds, length_ms: u64, until_ms: u64) -> Vec<u64> {
        whole_windows(length_ms, until_ms).map(|at| counted.window(at, length_ms)).collect()
    }

    #[test]
    fn only_whole_windows_count() {
        let counted = filled(&[0, 3, 9, 10, 11, 25]);
        assert_eq!(windows(&counted, 10, 30), [3, 2, 1]);
        assert_eq!(windows(&counted, 10, 29), [3, 2], "the last is cut off");
        assert_eq!(windows(&counted, 10, 40), [3, 2, 1, 0], "an idle window counts");
        assert_eq!(windows(&counted, 1, 4), [1, 0, 0, 1]);
    }

    #[test]
    fn windows_are_of_the_last_minute_whatever_was_counted() {
        assert_eq!(whole_windows(100, LOOKED_AT_MS), 0..600);
        assert_eq!(whole_windows(100, LOOKED_AT_MS + 150), 2..601);
        let none = windows(&filled(&[]), 100, LOOKED_AT_MS + 100);
        assert_eq!(none, [0; 600]);
        let every_ms: Vec<u64> = (0..LOOKED_AT_MS + 100).collect();
        assert_eq!(windows(&filled(&every_ms), 100, LOOKED_AT_MS + 100), [100; 600]);
    }

    #[test]
    fn dropped_milliseconds_are_not_counted() {
        let counted = filled(&[0, 1, 99, KEPT_MS]);
        assert_eq!(counted.oldest_ms(), 1);
        assert_eq!(counted.window(0, 100), 2);
        assert_eq!(filled(&[10 * KEPT_MS]).window(0, 100), 0);
    }

    proptest! {
        #[test]
        fn a_ring_is_a_map_of_the_latest_minute(
            events_ms in proptest::collection::vec(0_u64..4 * KEPT_MS, 0..80), cut in 0_usize..80,
        ) {
            let mut map = BTreeMap::new();
            events_ms.iter().for_each(|ms| *map.entry(*ms).or_insert(0) += 1);
            let counted = filled(&events_ms);
            let newest_ms = events_ms.iter().max().copied().unwrap_or(0);
            for ms in (newest_ms + 1).saturating_sub(KEPT_MS)..=newest_ms {
                prop_assert_eq!(counted.count(ms), map.get(&ms).copied().unwrap_or(0), "{}", ms);
            }
            let cut = cut.min(events_ms.len());
            let (one, other) = (filled(&events_ms[..cut]), filled(&events_ms[cut..]));
            for (mut into, from) in [(one.clone(), &other), (other.clone(), &one)] {
                into.merge(from);
                prop_assert_eq!(&into, &counted);
            }
        }
    }
}
