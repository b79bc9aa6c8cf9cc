//! Latency distributions: the counts of an HdrHistogram plus the exact minimum, maximum and mean.
//!
//! Memory is allocated up front. A value beyond the range is counted as overflow, never clamped
//! into the counts, which would hide it.

use std::ops::AddAssign;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::buckets::{Bucket, Buckets};
use super::encoded::{Encoded, HistogramError, NotLike, from_text};

/// The smallest nonzero value that a histogram can hold, ns.
const VALUE_MIN_NS: u64 = 1;
/// The largest value that a histogram holds, ns: 60 s.
pub const VALUE_MAX_NS: u64 = 60_000_000_000;
/// Bytes of a distribution's digest.
const DIGEST_BYTES: usize = 16;
/// Significant decimal digits of a histogram.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// Significant decimal digits of an interval's latencies.
pub const INTERVAL_DIGITS: u8 = 2;
/// Significant decimal digits of an interval's receive lateness.
pub const LATENESS_DIGITS: u8 = 1;
/// Significant decimal digits of a part's latencies over time.
pub const PIECE_DIGITS: u8 = 1;

/// Decodes the histogram with this many digits from a document's text.
///
/// # Errors
/// The text is anything else.
pub fn histogram_of_text(text: &str, digits: u8) -> Result<Histogram<u64>, HistogramError> {
    from_text(text, &empty_histogram(digits))
}

/// An empty histogram with this many digits, for times up to [`VALUE_MAX_NS`].
pub fn empty_histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(VALUE_MIN_NS, VALUE_MAX_NS, digits)
        .expect("the bounds are constants that the histogram accepts")
}

/// A distribution of times in ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "State", try_from = "State")]
pub struct Distribution {
    counts: Buckets<SIGNIFICANT_DIGITS>,
    overflow: u64,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

/// A serialized distribution.
#[derive(Serialize, Deserialize)]
struct State {
    histogram: Encoded,
    overflow: u64,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl From<Distribution> for State {
    fn from(distribution: Distribution) -> State {
        let Distribution { counts, overflow, min_ns, max_ns, sum_ns } = distribution;
        let histogram = Encoded::new(&counts.histogram());
        State { histogram, overflow, min_ns, max_ns, sum_ns }
    }
}

/// The problems of a serialized distribution.
#[derive(Debug, thiserror::Error)]
enum NotADistribution {
    #[error(transparent)]
    Histogram(#[from] NotLike),
    #[error("a distribution whose figures contradict each other")]
    Contradiction,
}

impl TryFrom<State> for Distribution {
    type Error = NotADistribution;

    fn try_from(state: State) -> Result<Distribution, NotADistribution> {
        let State { histogram, overflow, min_ns, max_ns, sum_ns } = state;
        let histogram = histogram.decode(&empty_histogram(SIGNIFICANT_DIGITS))?;
        let count = histogram.len().checked_add(overflow);
        let ok = match count.ok_or(NotADistribution::Contradiction)? {
            0 => (min_ns, max_ns, sum_ns) == (u64::MAX, 0, 0),
            count => {
                let times = |ns: u64| u128::from(ns) * u128::from(count);
                min_ns <= max_ns && (times(min_ns)..=times(max_ns)).contains(&sum_ns)
            }
        };
        let counts = Buckets::from(&histogram);
        let distribution = Distribution { counts, overflow, min_ns, max_ns, sum_ns };
        ok.then_some(distribution).ok_or(NotADistribution::Contradiction)
    }
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution::new()
    }
}

impl Distribution {
    /// An empty distribution; all its memory is allocated here.
    pub fn new() -> Distribution {
        Distribution {
            counts: Buckets::default(),
            overflow: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            sum_ns: 0,
        }
    }

    /// The distribution described by a document, without its sum, which documents don't have.
    pub fn of_document(
        histogram: &Histogram<u64>,
        overflow: u64,
        (min_ns, max_ns): (u64, u64),
    ) -> Distribution {
        Distribution { counts: Buckets::from(histogram), overflow, min_ns, max_ns, sum_ns: 0 }
    }

    /// Adds one value.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        // The counts' own range ends at a power of two above the bound.
        if VALUE_MAX_NS < value_ns {
            self.overflow += 1;
        } else {
            self.counts.record(value_ns);
        }
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.sum_ns += u128::from(value_ns);
    }

    /// Adds the same value `count` times.
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        if VALUE_MAX_NS < value_ns {
            self.overflow += count;
        } else {
            self.counts.record_n(value_ns, count);
        }
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.sum_ns += u128::from(value_ns) * u128::from(count);
    }

    /// Adds another distribution; exact, in any order.
    pub fn merge(&mut self, other: &Distribution) {
        self.counts.add(&other.counts);
        self.overflow += other.overflow;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }

    /// The number of recorded values, including those beyond the range.
    pub fn count(&self) -> u64 {
        self.counts.len() + self.overflow
    }

    /// The number of values beyond [`VALUE_MAX_NS`], which the histogram doesn't hold.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// The smallest value, exact; `None` when empty.
    pub fn min_ns(&self) -> Option<u64> {
        (0 < self.count()).then_some(self.min_ns)
    }

    /// The largest value, exact, even beyond the range; `None` when empty.
    pub fn max_ns(&self) -> Option<u64> {
        (0 < self.count()).then_some(self.max_ns)
    }

    /// The mean, exact; `None` when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (0 < self.count()).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The sum of all values, exact.
    #[cfg(test)]
    pub(super) fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The value at quantile `q` in [0, 1], by rank `⌈q·n⌉` over all values: the upper edge of its
    /// histogram bucket, clamped to the exact minimum and maximum. A rank among the overflow gives
    /// [`VALUE_MAX_NS`], a lower bound. `None` when empty.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = rank(q, count);
        if self.counts.len() < rank {
            return Some(VALUE_MAX_NS);
        }
        let mut seen = 0;
        for Bucket { high_ns, count, .. } in self.counts.iter() {
            seen += count;
            if rank <= seen {
                return Some(high_ns.clamp(self.min_ns, self.max_ns));
            }
        }
        unreachable!("the rank is at most the number of counted values")
    }

    /// A digest of the counts, hexadecimal: the first half of the SHA-256 of, for each bucket with
    /// values in ascending order, its lowest value and its count, followed by the overflow, each as
    /// 8 bytes, little endian. It doesn't depend on how parts were added up.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for Bucket { low_ns, count, .. } in self.counts.iter() {
            hash.update(low_ns.to_le_bytes());
            hash.update(count.to_le_bytes());
        }
        hash.update(self.overflow.to_le_bytes());
        hash.finalize()[..DIGEST_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The counts of the values within the range.
    pub fn counts(&self) -> &Buckets<SIGNIFICANT_DIGITS> {
        &self.counts
    }

    /// The histogram of the values within the range, unit 1 ns.
    pub fn histogram(&self) -> Histogram<u64> {
        self.counts.histogram()
    }

    /// The histogram of all values, with those beyond the range as [`VALUE_MAX_NS`].
    pub fn clamped(&self) -> Histogram<u64> {
        let mut histogram = self.histogram();
        // Adding none would still raise the maximum.
        if 0 < self.overflow {
            histogram.record_n(VALUE_MAX_NS, self.overflow).expect("the bound is in range");
        }
        histogram
    }
}

impl AddAssign for Distribution {
    fn add_assign(&mut self, other: Distribution) {
        self.merge(&other);
    }
}

/// How many requests a closed loop with these response times left out: during a response that takes
/// k median times, a user at the median pace would have sent k − 1 more.
pub fn omitted(responses: &Histogram<u64>) -> u64 {
    omitted_beyond(responses, 0)
}

/// How many of these would have taken at least this long, each until that response came.
pub fn omitted_beyond(responses: &Histogram<u64>, bound_ns: u64) -> u64 {
    let typical_ns = responses.value_at_quantile(0.5).max(1);
    let least_ns = bound_ns.max(typical_ns);
    responses.iter_recorded().fold(0, |sum: u64, bucket| {
        let more = bucket.value_iterated_to().saturating_sub(least_ns) / typical_ns;
        sum.saturating_add(more.saturating_mul(bucket.count_since_last_iteration()))
    })
}

/// The rank of quantile `q` among `count` values, from 1 to `count`: `⌈q·count⌉`, computed so that
/// `0.99 · 100` is 99.
#[expect(clippy::cast_possible_truncation, reason = "a rank is at most the count, which was a u64")]
#[expect(clippy::cast_sign_loss, reason = "q is at least zero")]
pub fn rank(q: f64, count: u64) -> u64 {
    let exact = q.clamp(0.0, 1.0) * count as f64;
    let nearest = exact.round();
    let up = if (exact - nearest).abs() < 1e-9 * exact.max(1.0) { nearest } else { exact.ceil() };
    (up as u64).clamp(1, count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranks_are_those_of_the_definition() {
        for (q, count, want) in [
            (0.99, 100, 99),
            (0.5, 1, 1),
            (0.0, 10, 1),
            (1.0, 10, 10),
            (0.999, 1_000, 999),
            (0.5, 3, 2),
            (0.9, 13_500, 12_150),
        ] {
            assert_eq!(rank(q, count), want, "{q} of {count}");
        }
    }

    #[test]
    fn figures_that_contradict_each_other_are_refused() {
        let mut distribution = Distribution::new();
        (5_000..5_010).for_each(|value_ns| distribution.record(value_ns));
        let is_one = |change: fn(&mut State)| {
            let mut state = State::from(distribution.clone());
            change(&mut state);
            Distribution::try_from(state).is_ok()
        };
        assert!(is_one(|_| {}));
        let changes: [fn(&mut State); 5] = [
            |state| state.min_ns = 6_000,
            |state| state.max_ns = 4_000,
            |state| state.sum_ns = 0,
            |state| state.sum_ns *= 2,
            |state| state.overflow = u64::MAX,
        ];
        assert!(changes.into_iter().all(|change| !is_one(change)));
        let empty = State { sum_ns: 1, ..State::from(Distribution::new()) };
        assert!(Distribution::try_from(empty).is_err());
    }

    #[test]
    fn overflow_is_counted_and_keeps_its_rank() {
        let mut distribution = Distribution::new();
        distribution.record_n(1_000, 90);
        distribution.record_n(VALUE_MAX_NS + 1, 10);
        assert_eq!((distribution.count(), distribution.overflow()), (100, 10));
        assert_eq!(distribution.max_ns(), Some(VALUE_MAX_NS + 1));
        assert_eq!(distribution.quantile_ns(0.9), Some(1_000));
        assert_eq!(distribution.quantile_ns(0.99), Some(VALUE_MAX_NS), "a lower bound");
    }

    #[test]
    fn clamped_it_has_all_values() {
        let mut distribution = Distribution::new();
        distribution.record(7);
        assert_eq!(distribution.clamped(), distribution.histogram());
        distribution.record_n(2 * VALUE_MAX_NS, 3);
        let clamped = distribution.clamped();
        assert_eq!((clamped.len(), clamped.count_at(VALUE_MAX_NS)), (4, 3));
    }

    #[test]
    fn an_empty_distribution_has_no_numbers() {
        let empty = Distribution::new();
        assert_eq!(
            (empty.min_ns(), empty.max_ns(), empty.mean_ns(), empty.quantile_ns(0.5)),
            (None, None, None, None)
        );
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_bucket_of_the_sorted_values(
            mut values in proptest::collection::vec(0_u64..10_000_000_000, 1..300), q in 0.0_f64..1.0,
        ) {
            let mut distribution = Distribution::new();
            values.iter().for_each(|value| distribution.record(*value));
            values.sort_unstable();
            let at = usize::try_from(rank(q, values.len() as u64) - 1).expect("an index");
            let exact = values[at];
            let seen = distribution.quantile_ns(q).expect("not empty");
            prop_assert!(exact <= seen || seen == *values.last().expect("not empty"));
            prop_assert!(seen as f64 <= exact as f64 * 1.001 + 1.0, "{seen} for {exact}");
            prop_assert_eq!(distribution.sum_ns(), values.iter().map(|value| u128::from(*value)).sum::<u128>());
        }

        #[test]
        fn merging_is_recording_all(values in proptest::collection::vec(0_u64..100_000_000_000, 0..100), cut in 0_usize..100) {
            let cut = cut.min(values.len());
            let fill = |values: &[u64]| {
                let mut distribution = Distribution::new();
                values.iter().for_each(|value| distribution.record(*value));
                distribution
            };
            let mut merged = fill(&values[..cut]);
            merged.merge(&fill(&values[cut..]));
            prop_assert_eq!(merged, fill(&values));
        }
    }
}
