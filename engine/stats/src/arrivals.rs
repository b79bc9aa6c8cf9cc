//! A shard's arrival counts per millisecond: when the requests that it sent were due, and when they
//! were sent.
//!
//! Memory is allocated up front, about 0.5 MB; recording allocates nothing. The judgement is in
//! [`super::arrival_proof`].

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::milliseconds::{MILLISECOND_NS, Milliseconds, whole_windows};
use super::statistics::{Dispersion, index_of_dispersion};

/// The requests that one shard, or after merging several, sent in the window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArrivalStats {
    window_ns: Range<u64>,
    due: Milliseconds,
    sent: Milliseconds,
}

impl ArrivalStats {
    /// Empty counts for a window, ns since the epoch of the run. All memory is allocated here.
    pub fn new(window_ns: Range<u64>) -> ArrivalStats {
        ArrivalStats { window_ns, due: Milliseconds::new(), sent: Milliseconds::new() }
    }

    /// The window, ns since the epoch of the run.
    pub fn window_ns(&self) -> Range<u64> {
        self.window_ns.clone()
    }

    /// Counts a request of the window that was sent before its end. A request sent later would be
    /// missing from the windows around it.
    ///
    /// # Panics
    /// If either time lies before the window.
    #[inline]
    pub fn record(&mut self, intended_ns: u64, sent_ns: u64) {
        let start_ns = self.window_ns.start;
        assert!(start_ns <= intended_ns.min(sent_ns), "the time lies before the window");
        self.due.add(intended_ns - start_ns);
        self.sent.add(sent_ns - start_ns);
    }

    /// Adds another shard's arrivals: counts of the same millisecond add up. Exact, in any order.
    ///
    /// # Panics
    /// If the windows differ.
    pub fn merge(&mut self, other: &ArrivalStats) {
        assert_eq!(self.window_ns, other.window_ns, "shards share one window");
        self.due.merge(&other.due);
        self.sent.merge(&other.sent);
    }

    /// The indices of dispersion of the requests as due and as sent, over the whole windows of
    /// `length_ms` in the last minute before `until_ms`, with the number of windows. `expected`
    /// gives the mean number of arrivals between two times, or a number proportional to it.
    pub(super) fn dispersion(
        &self,
        length_ms: u64,
        until_ns: u64,
        expected: impl Fn(u64, u64) -> f64,
    ) -> Dispersed {
        let start_ns = self.window_ns.start;
        let until_ms = until_ns.min(self.window_ns.end).saturating_sub(start_ns) / MILLISECOND_NS;
        let windows = whole_windows(length_ms, until_ms);
        let at_ns = |window: u64| start_ns + window * length_ms * MILLISECOND_NS;
        let index = |counted: &Milliseconds| {
            let counts: Vec<(u64, f64)> = windows
                .clone()
                .map(|at| (counted.window(at, length_ms), expected(at_ns(at), at_ns(at + 1))))
                .collect();
            index_of_dispersion(&counts).map(|Dispersion { index, .. }| index)
        };
        Dispersed {
            windows: windows.clone().count() as u64,
            due: index(&self.due),
            sent: index(&self.sent),
        }
    }
}

/// The dispersion over windows of one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dispersed {
    pub(super) windows: u64,
    /// Of the sent requests' intended times; `None` if there were none, or only one window.
    pub(super) due: Option<f64>,
    /// Of the times when they were sent.
    pub(super) sent: Option<f64>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_are_of_the_window() {
        let mut arrivals = ArrivalStats::new(5_000_000..8_000_000);
        arrivals.record(5_000_000, 5_000_100);
        arrivals.record(6_500_000, 6_500_100);
        arrivals.record(7_900_000, 8_000_000);
        let per_ms = |counted: &Milliseconds| [0, 1, 2].map(|ms| counted.window(ms, 1));
        assert_eq!(per_ms(&arrivals.due), [1, 1, 1]);
        assert_eq!(per_ms(&arrivals.sent), [1, 1, 0]);
        let over = |until_ns| arrivals.dispersion(1, until_ns, |_, _| 1.0);
        let Dispersed { windows, due, sent } = over(8_000_000);
        assert_eq!((windows, due), (3, Some(0.0)));
        // Two of every three windows: their variance is 1/3, their mean 2/3.
        assert!((sent.expect("sends") - 0.5).abs() < 1e-12, "{sent:?}");
        assert_eq!(over(90_000_000), over(8_000_000), "a window has an end");
        let stopped = Dispersed { windows: 1, due: None, sent: None };
        assert_eq!(over(6_500_000), stopped);
        assert_eq!(over(4_000_000).windows, 0);
    }

    #[test]
    #[should_panic(expected = "before the window")]
    fn a_time_before_the_window_is_refused() {
        ArrivalStats::new(10..1_000).record(9, 20);
    }

    #[test]
    #[should_panic(expected = "one window")]
    fn another_window_is_refused() {
        ArrivalStats::new(0..1_000).merge(&ArrivalStats::new(0..1_001));
    }

    proptest! {
        #[test]
        fn merging_is_exact_in_any_order(
            shards in proptest::collection::vec(proptest::collection::vec((0_u64..2_000_000_000, 0_u64..1_000_000), 0..20), 1..4),
        ) {
            let fill = |requests: &Vec<(u64, u64)>| {
                let mut arrivals = ArrivalStats::new(0..u64::MAX);
                requests.iter().for_each(|(due_ns, late_ns)| arrivals.record(*due_ns, due_ns + late_ns));
                arrivals
            };
            let parts: Vec<ArrivalStats> = shards.iter().map(fill).collect();
            let merged = |order: Vec<&ArrivalStats>| {
                let mut whole = ArrivalStats::new(0..u64::MAX);
                order.into_iter().for_each(|part| whole.merge(part));
                whole
            };
            let (one, other) = (merged(parts.iter().collect()), merged(parts.iter().rev().collect()));
            for (a, b) in [(&one.due, &other.due), (&one.sent, &other.sent)] {
                prop_assert_eq!(a, b);
                prop_assert_eq!(a.window(0, 2_001), shards.iter().map(Vec::len).sum::<usize>() as u64);
            }
        }
    }
}
