//! Event counts per millisecond over the last minute, in a ring of fixed size.
//!
//! Milliseconds are numbered from the start of the window, the same on every shard, so merged
//! counts are those of all events.

use serde::{Deserialize, Serialize};

/// How many of the latest milliseconds are kept: 60 s.
pub(super) const KEPT_MS: u64 = 60_000;

/// Counts per millisecond. Slot `ms % KEPT_MS` belongs to the one kept millisecond with that
/// remainder; slots not reached yet are zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "State", try_from = "State")]
pub(super) struct Milliseconds {
    slots: Box<[u32]>,
    /// The first millisecond not reached yet.
    next_ms: u64,
}

/// The counts outside of a recorder.
#[derive(Serialize, Deserialize)]
struct State {
    /// Of the kept milliseconds, in order.
    counts: Vec<u32>,
    next_ms: u64,
}

/// Counts that aren't those of the milliseconds kept.
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
    /// Nothing counted; all memory is allocated here.
    pub(super) fn new() -> Milliseconds {
        Milliseconds { slots: vec![0; slot(KEPT_MS - 1) + 1].into_boxed_slice(), next_ms: 0 }
    }

    /// Counts one event. Events older than the kept milliseconds are dropped.
    #[inline]
    pub(super) fn add(&mut self, ms: u64) {
        if self.next_ms <= ms {
            self.reach(ms + 1);
        }
        if self.oldest_ms() <= ms {
            self.slots[slot(ms)] += 1;
        }
    }

    /// The oldest millisecond that is kept.
    pub(super) fn oldest_ms(&self) -> u64 {
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

    /// Counts of the whole windows of `length_ms` that are kept and end by `until_ms`, in order.
    /// Windows are aligned to the start; one that is cut off at either end would be undercounted,
    /// so it is left out.
    pub(super) fn windows(&self, length_ms: u64, until_ms: u64) -> impl Iterator<Item = u64> + '_ {
        let first = self.oldest_ms().div_ceil(length_ms);
        let end = until_ms / length_ms;
        (first..end).map(move |window| {
            let window_ms = window * length_ms..(window + 1) * length_ms;
            window_ms.map(|ms| self.count(ms)).sum()
        })
    }

    /// Events of a kept millisecond; none of one that was not reached yet.
    fn count(&self, ms: u64) -> u64 {
        if ms < self.next_ms { u64::from(self.slots[slot(ms)]) } else { 0 }
    }

    /// Moves the end to `next_ms` and clears the milliseconds skipped, each slot at most once.
    fn reach(&mut self, next_ms: u64) {
        for ms in self.next_ms.max(next_ms.saturating_sub(KEPT_MS))..next_ms {
            self.slots[slot(ms)] = 0;
        }
        self.next_ms = next_ms;
    }
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
        events_ms.iter().for_each(|ms| counted.add(*ms));
        counted
    }

    #[test]
    fn only_whole_windows_count() {
        let counted = filled(&[0, 3, 9, 10, 11, 25]);
        let windows =
            |length_ms, until_ms| counted.windows(length_ms, until_ms).collect::<Vec<u64>>();
        assert_eq!(windows(10, 30), [3, 2, 1]);
        assert_eq!(windows(10, 29), [3, 2], "the last is cut off");
        assert_eq!(windows(10, 40), [3, 2, 1, 0], "an idle window is a window");
        assert_eq!(windows(1, 4), [1, 0, 0, 1]);
    }

    #[test]
    fn a_window_that_lost_its_beginning_is_left_out() {
        let counted = filled(&[0, 1, 99, 100, KEPT_MS]);
        assert_eq!(counted.oldest_ms(), 1);
        assert_eq!(counted.windows(100, 300).collect::<Vec<u64>>(), [1, 0]);
        assert_eq!(filled(&[10 * KEPT_MS]).windows(100, 300).count(), 0, "all of them are gone");
    }

    #[test]
    fn a_full_minute_has_600_windows_of_100_ms() {
        let every_ms: Vec<u64> = (0..KEPT_MS + 100).collect();
        let counted = filled(&every_ms);
        assert_eq!(counted.windows(100, KEPT_MS + 100).collect::<Vec<u64>>(), [100; 600]);
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
