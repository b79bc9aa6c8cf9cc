//! The distribution of times: a histogram, with the count, the sum and both ends exact.

use std::ops::AddAssign;

use hdrhistogram::Histogram;

use crate::config::{HOLD_MAX, ns};

/// Times, ns.
#[derive(Clone, Debug)]
pub(crate) struct Distribution {
    /// Those within the histogram's range, an hour.
    pub(crate) histogram: Histogram<u64>,
    /// The number of those beyond it.
    pub(crate) overflow: u64,
    /// The sum of all times, ns.
    pub(crate) sum_ns: u128,
    /// The shortest time, ns.
    pub(crate) min_ns: u64,
    /// The longest time, ns.
    pub(crate) max_ns: u64,
}

impl Distribution {
    /// No times. All memory is allocated here.
    pub(crate) fn new() -> Distribution {
        Distribution {
            histogram: Histogram::new_with_bounds(1, ns(HOLD_MAX), 3)
                .expect("the bounds are valid constants"),
            overflow: 0,
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }

    /// Adds a time.
    pub(crate) fn record(&mut self, time_ns: u64) {
        if self.histogram.record(time_ns).is_err() {
            self.overflow += 1;
        }
        self.sum_ns += u128::from(time_ns);
        self.min_ns = self.min_ns.min(time_ns);
        self.max_ns = self.max_ns.max(time_ns);
    }

    /// The number of times.
    pub(crate) fn count(&self) -> u64 {
        self.histogram.len() + self.overflow
    }

    /// The time at quantile `parts / of`, ns; in integers, so that rounding can't move the rank.
    pub(crate) fn quantile_ns(&self, parts: u64, of: u64) -> u64 {
        let rank = (u128::from(self.count()) * u128::from(parts)).div_ceil(u128::from(of)).max(1);
        let mut seen = 0;
        for bucket in self.histogram.iter_recorded() {
            seen += u128::from(bucket.count_since_last_iteration());
            if rank <= seen {
                let edge_ns = self.histogram.highest_equivalent(bucket.value_iterated_to());
                return edge_ns.clamp(self.min_ns, self.max_ns);
            }
        }
        // The rank is beyond the histogram's range, where only the longest time is known.
        self.max_ns
    }
}

impl AddAssign<&Distribution> for Distribution {
    fn add_assign(&mut self, other: &Distribution) {
        self.histogram.add(&other.histogram).expect("both histograms have the same bounds");
        self.overflow += other.overflow;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}
