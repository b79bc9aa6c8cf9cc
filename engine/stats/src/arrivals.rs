//! What a shard records of its arrivals for the proof: gaps, their autocorrelation, and counts per
//! millisecond.
//!
//! Memory is allocated up front, about 1.5 MB; recording allocates nothing. The judgement is in
//! [`super::arrival_proof`].

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::milliseconds::Milliseconds;
use super::statistics::PairSums;
use crate::distribution::Distribution;

/// One millisecond in nanoseconds.
const MILLISECOND_NS: u64 = 1_000_000;

/// The arrivals of the recorded window of one shard, or of several after merging.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArrivalStats {
    window_ns: Range<u64>,
    intended: Moments,
    /// Of the requests that were sent, when they were due: what the sends are held against.
    due: Moments,
    sent: Moments,
}

/// One sequence of times: as intended, or as sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Moments {
    pub(super) count: u64,
    /// Time between neighbours of the same shard.
    pub(super) gaps: Distribution,
    /// Each gap with the one after it.
    pub(super) neighbours: PairSums,
    pub(super) per_ms: Milliseconds,
    last_ns: Option<u64>,
    last_gap_ns: Option<u64>,
}

impl ArrivalStats {
    /// Nothing recorded yet of a window, ns since the epoch of the run. All memory is allocated
    /// here.
    pub fn new(window_ns: Range<u64>) -> ArrivalStats {
        ArrivalStats {
            window_ns,
            intended: Moments::default(),
            due: Moments::default(),
            sent: Moments::default(),
        }
    }

    /// The window, ns since the epoch of the run.
    pub fn window_ns(&self) -> Range<u64> {
        self.window_ns.clone()
    }

    /// Records a request of the window that was sent. One sent after the window's end has a gap but
    /// isn't counted, because the requests around it aren't part of the window.
    ///
    /// # Panics
    /// When either moment lies before the one recorded last, or before the window: a shard sends in
    /// the order intended.
    #[inline]
    pub fn record(&mut self, intended_ns: u64, sent_ns: u64) {
        self.record_intended(intended_ns);
        self.due.gap(intended_ns);
        self.sent.gap(sent_ns);
        if sent_ns < self.window_ns.end {
            self.due.per_ms.add(self.ms(intended_ns));
            self.sent.per_ms.add(self.ms(sent_ns));
        }
    }

    /// Records a request of the window that will never be sent, in its place among those that are.
    ///
    /// # Panics
    /// As [`ArrivalStats::record`].
    pub fn record_unsent(&mut self, intended_ns: u64) {
        self.record_intended(intended_ns);
    }

    #[inline]
    fn record_intended(&mut self, intended_ns: u64) {
        self.intended.gap(intended_ns);
        self.intended.per_ms.add(self.ms(intended_ns));
    }

    /// The millisecond of a moment, counted from the start of the window.
    fn ms(&self, at_ns: u64) -> u64 {
        assert!(self.window_ns.start <= at_ns, "the moment lies before the window");
        (at_ns - self.window_ns.start) / MILLISECOND_NS
    }

    /// Adds another shard's arrivals: counts of the same millisecond add up, gaps stay those of
    /// each shard. Exact, in any order.
    ///
    /// # Panics
    /// When the windows differ.
    pub fn merge(&mut self, other: &ArrivalStats) {
        assert_eq!(self.window_ns, other.window_ns, "shards share one window");
        self.intended.merge(&other.intended);
        self.due.merge(&other.due);
        self.sent.merge(&other.sent);
    }

    /// The requests as intended.
    pub(super) fn intended(&self) -> &Moments {
        &self.intended
    }

    /// The requests that were sent, as intended.
    pub(super) fn due(&self) -> &Moments {
        &self.due
    }

    /// The requests as sent.
    pub(super) fn sent(&self) -> &Moments {
        &self.sent
    }

    /// Nanoseconds from the start of the window to `until_ns`, or to its end if that comes first.
    pub(super) fn length_ns(&self, until_ns: u64) -> u64 {
        until_ns.min(self.window_ns.end).saturating_sub(self.window_ns.start)
    }

    /// Whole milliseconds from the start of the window to `until_ns`, or to its end if that comes
    /// first.
    pub(super) fn length_ms(&self, until_ns: u64) -> u64 {
        self.length_ns(until_ns) / MILLISECOND_NS
    }
}

impl Moments {
    /// Takes in the time since the last moment.
    #[inline]
    fn gap(&mut self, at_ns: u64) {
        self.count += 1;
        if let Some(last_ns) = self.last_ns {
            assert!(last_ns <= at_ns, "moments come in order");
            let gap_ns = at_ns - last_ns;
            self.gaps.record(gap_ns);
            if let Some(last_gap_ns) = self.last_gap_ns {
                self.neighbours.add(last_gap_ns, gap_ns);
            }
            self.last_gap_ns = Some(gap_ns);
        }
        self.last_ns = Some(at_ns);
    }

    fn merge(&mut self, other: &Moments) {
        self.count += other.count;
        self.gaps.merge(&other.gaps);
        self.neighbours.merge(&other.neighbours);
        self.per_ms.merge(&other.per_ms);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gaps_are_of_neighbours_and_counts_of_the_window() {
        let mut arrivals = ArrivalStats::new(5_000_000..8_000_000);
        arrivals.record(5_000_000, 5_000_100);
        arrivals.record(6_500_000, 6_500_100);
        arrivals.record_unsent(7_000_000);
        arrivals.record(7_900_000, 8_000_000);
        assert_eq!((arrivals.intended.count, arrivals.sent.count), (4, 3));
        assert_eq!(arrivals.intended.gaps.sum_ns(), 2_900_000);
        assert_eq!(arrivals.sent.gaps.max_ns(), Some(1_500_000));
        let per_ms = |stream: &Moments| stream.per_ms.windows(1, 3).collect::<Vec<u64>>();
        assert_eq!(per_ms(&arrivals.intended), [1, 1, 2]);
        assert_eq!(per_ms(&arrivals.sent), [1, 1, 0]);
        assert_eq!((arrivals.length_ms(6_500_000), arrivals.length_ms(90_000_000)), (1, 3));
    }

    #[test]
    #[should_panic(expected = "in order")]
    fn a_moment_out_of_order_is_refused() {
        let mut arrivals = ArrivalStats::new(0..1_000);
        arrivals.record(10, 20);
        arrivals.record(9, 20);
    }

    #[test]
    #[should_panic(expected = "one window")]
    fn another_window_is_refused() {
        ArrivalStats::new(0..1_000).merge(&ArrivalStats::new(0..1_001));
    }

    proptest! {
        #[test]
        fn merging_is_exact_in_any_order(
            shards in proptest::collection::vec(proptest::collection::vec((0_u64..100_000_000, 0_u64..1_000_000), 0..20), 1..4),
        ) {
            let fill = |gaps: &Vec<(u64, u64)>| {
                let mut arrivals = ArrivalStats::new(0..u64::MAX);
                let mut intended_ns = 0;
                let mut sent_ns = 0;
                for (gap_ns, late_ns) in gaps {
                    intended_ns += gap_ns;
                    sent_ns = sent_ns.max(intended_ns + late_ns);
                    arrivals.record(intended_ns, sent_ns);
                }
                arrivals
            };
            let parts: Vec<ArrivalStats> = shards.iter().map(fill).collect();
            let merged = |order: Vec<&ArrivalStats>| {
                let mut whole = ArrivalStats::new(0..u64::MAX);
                order.into_iter().for_each(|part| whole.merge(part));
                whole
            };
            let (one, other) = (merged(parts.iter().collect()), merged(parts.iter().rev().collect()));
            for (a, b) in [(&one.intended, &other.intended), (&one.sent, &other.sent)] {
                prop_assert_eq!(a.count, shards.iter().map(Vec::len).sum::<usize>() as u64);
                prop_assert_eq!(a.gaps.count(), shards.iter().map(|shard| shard.len().saturating_sub(1) as u64).sum::<u64>());
                prop_assert_eq!(&a.gaps, &b.gaps);
                prop_assert_eq!(a.neighbours, b.neighbours);
                prop_assert_eq!(&a.per_ms, &b.per_ms);
                prop_assert_eq!(a.per_ms.windows(1, 3_000).sum::<u64>(), a.count);
            }
        }
    }
}
