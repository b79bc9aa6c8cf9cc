//! Arrivals per millisecond over the last three minutes, enough for a two-minute run with its
//! warm-up: a ring of counters, one per ms of CLOCK_MONOTONIC.

/// Milliseconds kept.
pub(crate) const SLOTS_MAX: u64 = 180_000;

/// The ring. Slot `ms % SLOTS_MAX` counts the arrivals of that ms, while it is among the last
/// [`SLOTS_MAX`].
#[derive(Clone, Debug)]
pub(crate) struct ArrivalRing {
    counts: Box<[u32]>,
    first_ms: u64,
    newest_ms: u64,
}

impl ArrivalRing {
    /// An empty ring whose first slot is the ms of `started_ns`.
    pub(crate) fn new(started_ns: u64) -> ArrivalRing {
        let started_ms = started_ns / 1_000_000;
        ArrivalRing {
            counts: vec![0; index(SLOTS_MAX)].into_boxed_slice(),
            first_ms: started_ms,
            newest_ms: started_ms,
        }
    }

    /// Counts one arrival. An arrival older than the ring's span no longer has a slot and is left
    /// out, such as that of a request whose body took longer than that.
    pub(crate) fn count(&mut self, at_ns: u64) {
        let at_ms = at_ns / 1_000_000;
        self.advance(at_ms);
        if self.first_ms <= at_ms {
            self.counts[index(at_ms % SLOTS_MAX)] += 1;
        }
    }

    /// Moves the newest ms forward to `now_ms`, with zeros in between; does nothing if it is past.
    pub(crate) fn advance(&mut self, now_ms: u64) {
        if now_ms <= self.newest_ms {
            return;
        }
        if SLOTS_MAX <= now_ms - self.newest_ms {
            self.counts.fill(0);
        } else {
            for ms in self.newest_ms + 1..=now_ms {
                self.counts[index(ms % SLOTS_MAX)] = 0;
            }
        }
        self.newest_ms = now_ms;
        self.first_ms = self.first_ms.max((now_ms + 1).saturating_sub(SLOTS_MAX));
    }

    /// Adds the other ring's counts ms by ms, over the span that ends with the newer of the two.
    pub(crate) fn add(&mut self, other: &ArrivalRing) {
        self.advance(other.newest_ms);
        for ms in other.first_ms.max(self.first_ms)..=other.newest_ms {
            self.counts[index(ms % SLOTS_MAX)] += other.counts[index(ms % SLOTS_MAX)];
        }
    }

    /// The first ms, and the counts from there to the newest.
    pub(crate) fn span(&self) -> (u64, Vec<u32>) {
        let slots = self.first_ms..=self.newest_ms;
        (self.first_ms, slots.map(|ms| self.counts[index(ms % SLOTS_MAX)]).collect())
    }
}

fn index(slot: u64) -> usize {
    usize::try_from(slot).expect("a slot is below SLOTS_MAX")
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: u64 = 123_456;

    fn ring(arrivals_ms: &[u64]) -> ArrivalRing {
        let mut ring = ArrivalRing::new(START_MS * 1_000_000);
        for at_ms in arrivals_ms {
            ring.count((START_MS + at_ms) * 1_000_000 + 999_999);
        }
        ring
    }

    #[test]
    fn each_ms_has_its_own_count() {
        assert_eq!(ring(&[0, 0, 3, 4, 3]).span(), (START_MS, vec![2, 0, 0, 2, 1]));
    }

    #[test]
    fn only_the_latest_are_kept() {
        let (first_ms, counts) = ring(&[0, 1, SLOTS_MAX, 0]).span();
        assert_eq!(first_ms, START_MS + 1);
        assert_eq!(counts.len(), index(SLOTS_MAX));
        assert_eq!((counts[0], counts[counts.len() - 1]), (1, 1));
        assert_eq!(counts.iter().sum::<u32>(), 2, "the arrival at 0 has left the ring");
    }

    #[test]
    fn a_long_silence_leaves_zeros() {
        let (first_ms, counts) = ring(&[5, 500_000]).span();
        assert_eq!(first_ms, START_MS + 500_000 - (SLOTS_MAX - 1));
        assert_eq!(counts.iter().sum::<u32>(), 1);
    }

    #[test]
    fn rings_add_ms_by_ms() {
        let mut older = ring(&[1, 10, SLOTS_MAX + 1_000]);
        older.add(&ring(&[1_500, SLOTS_MAX + 2_000]));
        let (first_ms, counts) = older.span();
        assert_eq!(first_ms, START_MS + 2_001);
        assert_eq!(counts[index(SLOTS_MAX + 1_000 - 2_001)], 1);
        assert_eq!(counts[index(SLOTS_MAX + 2_000 - 2_001)], 1);
        assert_eq!(counts.iter().sum::<u32>(), 2);

        let mut newer = ring(&[SLOTS_MAX + 2_000]);
        newer.add(&ring(&[10, SLOTS_MAX + 1_000]));
        assert_eq!(newer.span(), older.span());
    }
}
