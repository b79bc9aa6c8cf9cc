//! Little's law: the mean number in flight, measured by integrating it over time, against throughput times latency.
//!
//! L = λ·W holds for any system in which what enters also leaves (Little, "A proof for the queuing formula L = λW", 1961).
//! Here it checks the bookkeeping: requests that were lost, or counted twice, or given a latency that they didn't have,
//! show as a residual.

/// The number of requests in flight, integrated over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    in_flight: i128,
    since_ns: u64,
    /// Request · ns.
    area: i128,
}

impl Flow {
    /// A request was sent.
    #[inline]
    pub fn enter(&mut self, at_ns: u64) {
        self.pass(at_ns);
        self.in_flight += 1;
    }

    /// A request ended. A timeout ends a request at a moment that may lie a little before the last event.
    #[inline]
    pub fn leave(&mut self, at_ns: u64) {
        self.pass(at_ns);
        self.in_flight -= 1;
    }

    #[inline]
    fn pass(&mut self, at_ns: u64) {
        self.area += self.in_flight * (i128::from(at_ns) - i128::from(self.since_ns));
        self.since_ns = at_ns;
    }

    /// Requests in flight now.
    pub fn in_flight(&self) -> i128 {
        self.in_flight
    }

    /// Adds another shard's.
    pub fn merge(&mut self, other: &Flow) {
        self.in_flight += other.in_flight;
        self.area += other.area;
    }

    /// The mean number in flight over a window of `window_ns`; 0 for an empty window.
    pub fn mean(&self, window_ns: u64) -> f64 {
        if window_ns == 0 { 0.0 } else { self.area as f64 / window_ns as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_is_the_sum_of_the_stays() {
        let mut flow = Flow::default();
        for (enter, at_ns) in
            [(true, 10), (true, 20), (false, 50), (true, 60), (false, 100), (false, 95)]
        {
            if enter { flow.enter(at_ns) } else { flow.leave(at_ns) }
        }
        // Stays: 10..50, 20..100, 60..95.
        assert_eq!(flow.mean(100), (40.0 + 80.0 + 35.0) / 100.0);
        assert_eq!(flow.in_flight(), 0);
    }
}
