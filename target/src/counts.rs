//! One executor's counts, in memory that doesn't grow: counters, the histogram of hold times, the
//! ring of arrivals.

use std::collections::VecDeque;
use std::ops::AddAssign;

use hdrhistogram::Histogram;

use crate::arrivals::ArrivalRing;
use crate::config::{HOLD_MAX, ns};
use crate::handshakes::Handshakes;
use crate::service::Due;

/// The most stalls and pauses whose start and end are kept; older ones are only counted.
pub(crate) const EDGES_MAX: usize = 4_096;

/// The counts of one executor, or their sum over several.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// Requests read in full, except those for the ledger.
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
    /// Arrivals per ms.
    pub(crate) arrivals: ArrivalRing,
    /// Start and end of the last pauses, ns.
    pub(crate) pauses: VecDeque<(u64, u64)>,
    /// The total number of pauses.
    pub(crate) pause_count: u64,
    /// Of those received, the ones that took longer because the target was cold.
    pub(crate) cold: u64,
    /// Connections accepted.
    pub(crate) accepted: u64,
    /// Connections closed, by either side.
    pub(crate) closed: u64,
    /// Failed accepts, for lack of descriptors or memory.
    pub(crate) accept_errors: u64,
    /// TLS handshakes.
    pub(crate) handshakes: Handshakes,
    /// Requests that broke the protocol, answered with an error and a close.
    pub(crate) rejected: u64,
    /// Requests for the ledger.
    pub(crate) ledger_requests: u64,
}

impl Counts {
    /// Zero counts for a target that started at `started_ns`. All memory is allocated here.
    pub(crate) fn new(started_ns: u64) -> Counts {
        Counts {
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
            arrivals: ArrivalRing::new(started_ns),
            pauses: VecDeque::with_capacity(EDGES_MAX),
            pause_count: 0,
            cold: 0,
            accepted: 0,
            closed: 0,
            accept_errors: 0,
            handshakes: Handshakes::default(),
            rejected: 0,
            ledger_requests: 0,
        }
    }

    /// Counts a request read in full, whose first bytes arrived at `arrived_ns`.
    pub(crate) fn receive(&mut self, arrived_ns: u64, due: Due) {
        self.received += 1;
        self.cold += u64::from(due.cold);
        self.in_flight += 1;
        self.arrivals.count(arrived_ns);
        if let Some(edges) = due.pause {
            self.pause_count += 1;
            if self.pauses.len() == EDGES_MAX {
                self.pauses.pop_front();
            }
            self.pauses.push_back(edges);
        }
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

    /// Counts `count` requests whose peer closed the connection before they were answered.
    pub(crate) fn close_unanswered(&mut self, count: u64) {
        self.closed_by_peer_unanswered += count;
        self.in_flight -= count;
    }
}

impl AddAssign<&Counts> for Counts {
    /// Adds another executor's counts, which contain neither pauses nor cold requests: these need a
    /// single executor.
    fn add_assign(&mut self, other: &Counts) {
        self.received += other.received;
        self.answered += other.answered;
        self.closed_by_peer_unanswered += other.closed_by_peer_unanswered;
        self.in_flight += other.in_flight;
        self.held.add(&other.held).expect("both histograms have the same bounds");
        self.held_overflow += other.held_overflow;
        self.held_sum_ns += other.held_sum_ns;
        self.held_min_ns = self.held_min_ns.min(other.held_min_ns);
        self.held_max_ns = self.held_max_ns.max(other.held_max_ns);
        self.arrivals.add(&other.arrivals);
        assert!(other.pauses.is_empty(), "only a single executor pauses");
        assert_eq!(other.cold, 0, "only a single executor starts cold");
        self.accepted += other.accepted;
        self.closed += other.closed;
        self.accept_errors += other.accept_errors;
        self.handshakes += other.handshakes;
        self.rejected += other.rejected;
        self.ledger_requests += other.ledger_requests;
    }
}
