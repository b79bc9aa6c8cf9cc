//! A running shard's progress: a small summary that it publishes in a cache line of its own.
//!
//! Nobody reads a running shard's counters. Twenty times a second it copies a few numbers, with
//! plain stores, to memory that no other shard writes; readers see only that copy.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::record::counts::CountsSoFar;

/// Buckets of a [`CoarseHistogram`]: 8 per octave, from 1 µs to 64 s.
const BUCKETS: usize = (OCTAVE_LAST - OCTAVE_FIRST + 1) * STEPS;
const OCTAVE_FIRST: usize = 10;
const OCTAVE_LAST: usize = 36;
const STEPS: usize = 8;

/// A coarse latency histogram for the progress line: its quantiles are within 6.25 %.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u64>", try_from = "Vec<u64>")]
pub struct CoarseHistogram {
    counts: Box<[u64; BUCKETS]>,
}

/// Counts that aren't those of a [`CoarseHistogram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} buckets, not {BUCKETS}")]
pub struct NotCoarse(usize);

impl Default for CoarseHistogram {
    fn default() -> CoarseHistogram {
        CoarseHistogram { counts: Box::new([0; BUCKETS]) }
    }
}

impl From<CoarseHistogram> for Vec<u64> {
    fn from(histogram: CoarseHistogram) -> Vec<u64> {
        histogram.counts.to_vec()
    }
}

impl TryFrom<Vec<u64>> for CoarseHistogram {
    type Error = NotCoarse;

    fn try_from(counts: Vec<u64>) -> Result<CoarseHistogram, NotCoarse> {
        let buckets = counts.len();
        let counts = counts.into_boxed_slice().try_into().map_err(|_| NotCoarse(buckets))?;
        Ok(CoarseHistogram { counts })
    }
}

impl CoarseHistogram {
    /// Adds one latency.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.counts[bucket(value_ns)] += 1;
    }

    /// Adds another's latencies.
    pub fn merge(&mut self, other: &CoarseHistogram) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count = count.saturating_add(*more);
        }
    }

    /// The latencies that were added since it was as `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &CoarseHistogram) -> CoarseHistogram {
        let mut rest = self.clone();
        for (count, before) in rest.counts.iter_mut().zip(earlier.counts.iter()) {
            *count = count.saturating_sub(*before);
        }
        rest
    }

    /// The middle of the bucket that holds quantile `q`, ns; `None` if empty.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let count = self.counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
        if count == 0 {
            return None;
        }
        let rank = crate::stats::distribution::rank(q, count);
        let mut seen = 0;
        for (at, bucket_count) in self.counts.iter().enumerate() {
            seen = bucket_count.saturating_add(seen);
            if rank <= seen {
                let octave_ns = 1_u64 << (at / STEPS + OCTAVE_FIRST);
                return Some(
                    octave_ns + octave_ns * (2 * (at % STEPS) as u64 + 1) / (2 * STEPS as u64),
                );
            }
        }
        unreachable!("the rank is at most the count")
    }
}

/// The bucket of a value, by octave and eighth; values out of range go into the outermost buckets.
#[inline]
fn bucket(value_ns: u64) -> usize {
    let value_ns = value_ns.clamp(1 << OCTAVE_FIRST, (1 << (OCTAVE_LAST + 1)) - 1);
    let octave = value_ns.ilog2() as usize;
    let step = (value_ns >> (octave - 3)) as usize & (STEPS - 1);
    (octave - OCTAVE_FIRST) * STEPS + step
}

/// What one shard publishes. The alignment keeps two shards from sharing a cache line, or the pair
/// of lines that is prefetched together.
#[repr(align(128))]
pub struct SharedProgress {
    intended: AtomicU64,
    answered: AtomicU64,
    errors: AtomicU64,
    in_flight: AtomicU64,
    counts: [AtomicU64; size_of::<CountsSoFar>() / size_of::<u64>()],
    latency: [AtomicU64; BUCKETS],
}

impl Default for SharedProgress {
    fn default() -> SharedProgress {
        SharedProgress {
            intended: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            counts: Default::default(),
            latency: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

/// What one shard, or all of them together, have done so far, warm-up included.
#[derive(Clone, Debug, Default)]
pub struct ShardProgress {
    /// Requests that have fallen due.
    pub intended: u64,
    /// Requests with a complete response.
    pub answered: u64,
    /// Requests that timed out, failed or were abandoned.
    pub errors: u64,
    /// Requests awaiting their response.
    pub in_flight: u64,
    /// What the report will count, as far as it is known.
    pub counts: CountsSoFar,
    /// Corrected latency of the window so far.
    pub latency: CoarseHistogram,
}

impl SharedProgress {
    /// Publishes a new summary; only the shard calls it.
    pub fn show(&self, summary: &ShardProgress) {
        // A reader may see numbers of two moments side by side: good enough for a progress line.
        self.intended.store(summary.intended, Ordering::Relaxed);
        self.answered.store(summary.answered, Ordering::Relaxed);
        self.errors.store(summary.errors, Ordering::Relaxed);
        self.in_flight.store(summary.in_flight, Ordering::Relaxed);
        for (shown, count) in self.counts.iter().zip(&summary.counts) {
            shown.store(*count, Ordering::Relaxed);
        }
        for (shown, count) in self.latency.iter().zip(summary.latency.counts.iter()) {
            shown.store(*count, Ordering::Relaxed);
        }
    }

    /// Adds the last summary to `total`.
    pub fn add_to(&self, total: &mut ShardProgress) {
        total.intended += self.intended.load(Ordering::Relaxed);
        total.answered += self.answered.load(Ordering::Relaxed);
        total.errors += self.errors.load(Ordering::Relaxed);
        total.in_flight += self.in_flight.load(Ordering::Relaxed);
        for (shown, count) in self.counts.iter().zip(&mut total.counts) {
            *count += shown.load(Ordering::Relaxed);
        }
        for (shown, count) in self.latency.iter().zip(total.latency.counts.iter_mut()) {
            *count += shown.load(Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_within_its_error() {
        for value_ns in [1_100, 5_000, 1_000_000, 41_000_000, 10_000_000_000] {
            let mut latency = CoarseHistogram::default();
            latency.record(value_ns);
            let seen = latency.quantile_ns(0.5).expect("one value") as f64;
            assert!(
                (seen / value_ns as f64 - 1.0).abs() <= 0.0625 + 1e-9,
                "{value_ns} was seen as {seen}"
            );
        }
        assert_eq!(CoarseHistogram::default().quantile_ns(0.5), None);
    }

    #[test]
    fn values_out_of_range_go_into_the_outermost_buckets() {
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
