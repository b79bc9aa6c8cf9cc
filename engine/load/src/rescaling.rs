//! Time rescaling: the arrivals of any curve as arrivals at rate 1.
//!
//! If time is measured by Λ, the number of arrivals expected so far, a Poisson process of any rate
//! becomes one of rate 1 (Brown et al., "The time-rescaling theorem", Neural Computation 14, 2002).
//! So one set of tests holds for any curve and any part of the load. A Poisson schedule's rate is
//! constant within each block, so Λ is linear within a block and the theorem holds exactly.

use super::curve::Curve;
use super::schedule::mix;
use super::tree::BLOCK_NS;

/// Measures time by a curve's expected arrivals, block by block.
pub struct Rescaling {
    curve: Curve,
    /// The last block asked for, the number of arrivals expected before it, and in it.
    block: u64,
    before: f64,
    within: f64,
    /// The number of arrivals rescaled.
    arrivals: u64,
}

impl Rescaling {
    /// Rescales by this curve, from the epoch on.
    pub fn new(curve: Curve) -> Rescaling {
        let mut rescaling = Rescaling { curve, block: 0, before: 0.0, within: 0.0, arrivals: 0 };
        rescaling.look_up(0);
        rescaling
    }

    /// The number of arrivals expected before this time.
    pub fn at(&mut self, at_ns: u64) -> f64 {
        self.look_up(at_ns / BLOCK_NS);
        self.before + self.within * ((at_ns % BLOCK_NS) as f64 / BLOCK_NS as f64)
    }

    /// The rescaled time of an arrival that is due at `due_ns`. Its due time is rounded to a ns, so
    /// a point within that ns is drawn, which undoes the rounding and puts arrivals of the same ns
    /// in random order.
    pub fn arrival(&mut self, due_ns: u64) -> f64 {
        let within_ns = mix(self.arrivals) as f64 / u64::MAX as f64;
        self.arrivals += 1;
        self.at(due_ns) + self.within * (within_ns / BLOCK_NS as f64)
    }

    fn look_up(&mut self, block: u64) {
        if block == self.block && 0.0 < self.within {
            return;
        }
        let start_ns = block * BLOCK_NS;
        self.block = block;
        self.before = self.curve.expected(0, start_ns);
        self.within = self.curve.expected(start_ns, start_ns.saturating_add(BLOCK_NS));
    }
}

#[cfg(test)]
mod tests {
    use super::super::curve::Segment;
    use super::*;
    use units::{Nanos, Rate};

    #[test]
    fn time_is_what_the_curve_expects_in_steps_of_a_block() {
        let (from, to) = (Rate::ZERO, "2M".parse().expect("a rate"));
        let ramp = Curve::new(&[Segment { from, to, length: Nanos(10 * BLOCK_NS) }]);
        let mut rescaling = Rescaling::new(ramp.clone());
        for block in [0, 3, 9, 10, 500, 3] {
            let [start_ns, end_ns] = [block, block + 1].map(|block| block * BLOCK_NS);
            let (before, after) = (ramp.expected(0, start_ns), ramp.expected(0, end_ns));
            assert!((rescaling.at(start_ns) - before).abs() < 1e-6, "{block}");
            let quarter = rescaling.at(start_ns + BLOCK_NS / 4);
            assert!((quarter - before - (after - before) / 4.0).abs() < 1e-6, "{block}: {quarter}");
            let last = rescaling.arrival(end_ns - 1);
            assert!(rescaling.at(end_ns - 1) <= last && last <= after + 1e-9, "{block}: {last}");
        }
    }

    #[test]
    fn arrivals_of_one_ns_come_apart() {
        let mut rescaling = Rescaling::new(Curve::constant("64M".parse().expect("a rate")));
        let mut times = [0; 1_000].map(|_| rescaling.arrival(5 * BLOCK_NS + 7));
        times.sort_by(f64::total_cmp);
        let from = rescaling.at(5 * BLOCK_NS + 7);
        let of_ns = times.map(|time| (time - from) / 0.064);
        assert!(of_ns.is_sorted() && 0.0 <= of_ns[0] && of_ns[999] <= 1.0 + 1e-6);
        assert!((of_ns.iter().sum::<f64>() / 1_000.0 - 0.5).abs() < 0.05);
    }
}
