//! The counts of the requests of one route: what became of them, and how long they were held.

use std::ops::AddAssign;

use hdrhistogram::Histogram;

use crate::config::{HOLD_MAX, ns};

/// The counts of one route in one executor, or their sum over several.
#[derive(Clone, Debug)]
pub(crate) struct Outcomes {
    /// Requests read in full.
    pub(crate) received: u64,
    /// Of these, those whose complete response was written to the socket.
    pub(crate) answered: u64,
    /// Of these, those whose peer closed the connection first.
    pub(crate) closed_by_peer_unanswered: u64,
    /// Of these, those still being held.
    pub(crate) in_flight: u64,
    /// Hold times of the answered requests, ns.
    pub(crate) held: Histogram<u64>,
    /// Hold times beyond the histogram's range.
    pub(crate) held_overflow: u64,
    /// The sum of all hold times, ns.
    pub(crate) held_sum_ns: u128,
    /// The shortest hold time, ns.
    pub(crate) held_min_ns: u64,
    /// The longest hold time, ns.
    pub(crate) held_max_ns: u64,
}

impl Outcomes {
    /// Zero counts. All memory is allocated here.
    pub(crate) fn new() -> Outcomes {
        Outcomes {
            received: 0,
            answered: 0,
            closed_by_peer_unanswered: 0,
            in_flight: 0,
            held: Histogram::new_with_bounds(1, ns(HOLD_MAX), 3)
                .expect("the bounds are valid constants"),
            held_overflow: 0,
            held_sum_ns: 0,
            held_min_ns: u64::MAX,
            held_max_ns: 0,
        }
    }

    /// Counts a request read in full.
    pub(crate) fn receive(&mut self) {
        self.received += 1;
        self.in_flight += 1;
    }

    /// Counts a request answered after `held_ns`.
    pub(crate) fn answer(&mut self, held_ns: u64) {
        self.answered += 1;
        self.in_flight -= 1;
        if self.held.record(held_ns).is_err() {
            self.held_overflow += 1;
        }
        self.held_sum_ns += u128::from(held_ns);
        self.held_min_ns = self.held_min_ns.min(held_ns);
        self.held_max_ns = self.held_max_ns.max(held_ns);
    }

    /// Counts a request whose peer closed the connection before it was answered.
    pub(crate) fn close_unanswered(&mut self) {
        self.closed_by_peer_unanswered += 1;
        self.in_flight -= 1;
    }

    /// Panics if the sums don't match: the counts are wrong then, and none of them may be used.
    pub(crate) fn assert_closes(&self) {
        assert_eq!(
            self.received,
            self.answered + self.closed_by_peer_unanswered + self.in_flight,
            "every request received has exactly one outcome"
        );
        assert_eq!(
            self.held.len() + self.held_overflow,
            self.answered,
            "every answer has one hold time"
        );
    }

    /// The hold time at quantile `parts / of`, ns; in integers, so that rounding can't move the
    /// rank.
    pub(crate) fn quantile_ns(&self, parts: u64, of: u64) -> u64 {
        let rank = (u128::from(self.answered) * u128::from(parts)).div_ceil(u128::from(of)).max(1);
        let mut seen = 0;
        for bucket in self.held.iter_recorded() {
            seen += u128::from(bucket.count_since_last_iteration());
            if rank <= seen {
                let edge_ns = self.held.highest_equivalent(bucket.value_iterated_to());
                return edge_ns.clamp(self.held_min_ns, self.held_max_ns);
            }
        }
        // The rank is beyond the histogram's range, where only the longest time is known.
        self.held_max_ns
    }
}

impl AddAssign<&Outcomes> for Outcomes {
    fn add_assign(&mut self, other: &Outcomes) {
        self.received += other.received;
        self.answered += other.answered;
        self.closed_by_peer_unanswered += other.closed_by_peer_unanswered;
        self.in_flight += other.in_flight;
        self.held.add(&other.held).expect("both histograms have the same bounds");
        self.held_overflow += other.held_overflow;
        self.held_sum_ns += other.held_sum_ns;
        self.held_min_ns = self.held_min_ns.min(other.held_min_ns);
        self.held_max_ns = self.held_max_ns.max(other.held_max_ns);
    }
}
