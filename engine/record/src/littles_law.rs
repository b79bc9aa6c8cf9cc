//! Little's law in the window: the mean number in flight, integrated over time, against throughput
//! times latency.
//!
//! L = λ·W (Little, "A proof for the queuing formula L = λW", 1961). Over a finite window it is
//! exact if each stay counts with its part inside the window (Little and Graves, "Little's Law",
//! 2008). The two sides come from different sources: the shard's live count of requests on the
//! wire, read each time it changes, and the recorded stamps. So it checks the bookkeeping: a lost
//! or doubly counted request shows as a residual, and so does one recorded as sent or handled at
//! another time than the live count saw.
//!
//! For this check a stay lasts until the program has handled the response, so a wrong stamp of the
//! response's arrival leaves no residual. An impossible stamp, before the sending or after the
//! handling, is moved to the nearest possible time and counted (`stamps_clamped`).
//!
//! The mean number at the target is kept as well; its stays end when the response arrived. In a
//! closed loop, the difference is users who wait for the generator, and so are users whose next
//! request is ready but not sent.

use serde::{Deserialize, Serialize};

/// The number of requests in flight, integrated over the window, and the same from the requests'
/// stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlightIntegral {
    begin_ns: u64,
    end_ns: u64,
    /// How far the live count has been integrated.
    since_ns: u64,
    /// The integral of the live count, requests × ns.
    counted_ns: u128,
    /// The sum of all stays by their stamps, ns.
    stayed_ns: u128,
    /// Their part before the response arrived, ns.
    at_target_ns: u128,
    /// The sum of the times that requests were ready to be sent, ns.
    queued_ns: u128,
}

impl InFlightIntegral {
    /// An empty integral over the window from `begin_ns` to `end_ns`.
    pub fn new(begin_ns: u64, end_ns: u64) -> InFlightIntegral {
        InFlightIntegral { begin_ns, end_ns: end_ns.max(begin_ns), ..InFlightIntegral::default() }
    }

    /// `in_flight` requests have been on the wire from the last call until `at_ns`. Must be called
    /// before the number changes.
    #[inline]
    pub fn pass(&mut self, at_ns: u64, in_flight: usize) {
        self.counted_ns += in_flight as u128 * u128::from(self.within(self.since_ns, at_ns));
        self.since_ns = self.since_ns.max(at_ns);
    }

    /// A request of any phase was on the wire from `sent_ns` to `handled_ns`; its response arrived
    /// at `received_ns`.
    #[inline]
    pub fn stay(&mut self, sent_ns: u64, received_ns: u64, handled_ns: u64) {
        self.stayed_ns += u128::from(self.within(sent_ns, handled_ns));
        self.at_target_ns += u128::from(self.within(sent_ns, received_ns));
    }

    /// A request was ready at `ready_ns`, when the previous response had been handled, and was sent
    /// at `sent_ns`.
    #[inline]
    pub fn queued(&mut self, ready_ns: u64, sent_ns: u64) {
        self.queued_ns += u128::from(self.within(ready_ns, sent_ns));
    }

    /// The part of this stretch that lies in the window, ns.
    fn within(&self, from_ns: u64, to_ns: u64) -> u64 {
        to_ns.min(self.end_ns).saturating_sub(from_ns.max(self.begin_ns))
    }

    /// Ends the window early: at `end_ns`, or where the integral already is if that is later.
    pub fn stop_at(&mut self, end_ns: u64) {
        self.end_ns = self.end_ns.min(end_ns.max(self.since_ns)).max(self.begin_ns);
    }

    /// Adds another shard's integral.
    pub fn merge(&mut self, other: &InFlightIntegral) {
        // Shards see a stop within a yield of each other; the run's window is the longest.
        self.end_ns = self.end_ns.max(other.end_ns);
        self.counted_ns += other.counted_ns;
        self.stayed_ns += other.stayed_ns;
        self.at_target_ns += other.at_target_ns;
        self.queued_ns += other.queued_ns;
    }

    /// The mean number in flight, integrated; 0 for an empty window.
    pub fn in_flight_mean(&self) -> f64 {
        self.over_window(self.counted_ns)
    }

    /// Requests per ns times their mean stay in the window, ns; 0 for an empty window.
    pub fn throughput_times_latency(&self) -> f64 {
        self.over_window(self.stayed_ns)
    }

    /// The mean number of requests at the target or on the wire: sent, with the response not yet
    /// arrived. 0 for an empty window.
    pub fn at_target_mean(&self) -> f64 {
        self.over_window(self.at_target_ns)
    }

    /// The mean number of requests that were ready but not sent; 0 for an empty window.
    pub fn queued_mean(&self) -> f64 {
        self.over_window(self.queued_ns)
    }

    fn over_window(&self, area: u128) -> f64 {
        let window_ns = self.end_ns - self.begin_ns;
        if window_ns == 0 { 0.0 } else { area as f64 / window_ns as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_and_the_stays_agree_within_the_window() {
        let mut in_flight = InFlightIntegral::new(100, 200);
        // Stays 50..120, 110..160, 150..260, clipped to the window: 20 + 50 + 50.
        for (at_ns, live) in [(50, 0), (110, 1), (120, 2), (150, 1), (160, 2), (260, 1)] {
            in_flight.pass(at_ns, live);
        }
        for (sent_ns, ended_ns) in [(50, 120), (110, 160), (150, 260), (10, 90), (210, 220)] {
            // Half of each stay passes before the response arrives.
            in_flight.stay(sent_ns, sent_ns.midpoint(ended_ns), ended_ns);
        }
        assert_eq!((in_flight.in_flight_mean(), in_flight.throughput_times_latency()), (1.2, 1.2));
        // 50..85, 110..135 and 150..205, clipped to the window: 0 + 25 + 50.
        assert_eq!(in_flight.at_target_mean(), 0.75);
    }

    #[test]
    fn a_lost_request_shows() {
        let mut in_flight = InFlightIntegral::new(0, 100);
        in_flight.pass(100, 2);
        in_flight.stay(0, 100, 100);
        assert_eq!((in_flight.in_flight_mean(), in_flight.throughput_times_latency()), (2.0, 1.0));
    }

    #[test]
    fn a_stop_ends_the_window_where_it_is_seen() {
        let mut in_flight = InFlightIntegral::new(100, 1_000);
        in_flight.pass(300, 1);
        in_flight.stop_at(200);
        in_flight.stay(150, 900, 900);
        in_flight.pass(900, 1);
        // Both sides end at 300, where the count had been integrated to.
        assert_eq!((in_flight.in_flight_mean(), in_flight.throughput_times_latency()), (1.0, 0.75));

        let mut early = InFlightIntegral::new(100, 1_000);
        early.stop_at(50);
        early.pass(300, 1);
        assert_eq!(early.in_flight_mean(), 0.0, "the window never began");
    }

    #[test]
    fn shards_add_up() {
        let mut in_flight = InFlightIntegral::new(0, 100);
        in_flight.pass(100, 1);
        let mut other = InFlightIntegral::new(0, 100);
        other.pass(50, 3);
        other.stay(0, 40, 50);
        in_flight.queued(90, 120);
        other.queued(20, 40);
        in_flight.merge(&other);
        assert_eq!((in_flight.in_flight_mean(), in_flight.at_target_mean()), (2.5, 0.4));
        assert_eq!(in_flight.queued_mean(), 0.3, "10 of the 30 ns lie in the window, and all 20");
    }
}
