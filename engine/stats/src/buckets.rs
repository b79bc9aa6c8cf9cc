//! Counts of times by the buckets of an HdrHistogram whose bounds and digits are constants.
//!
//! A request's times are recorded in several distributions while others wait to be sent. Here the
//! bucket of a time is a shift and an addition, where the crate `hdrhistogram`, whose geometry is
//! known at run time only, takes four times as many instructions. For everything but recording and
//! adding up, [`Buckets::histogram`] makes its histogram, which has the same counts.

use hdrhistogram::Histogram;

use super::distribution::{VALUE_MAX_NS, empty_histogram};

/// The counts of times from 0 to [`VALUE_MAX_NS`], in ns, by buckets with this many significant
/// decimal digits.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets<const DIGITS: u8> {
    counts: Box<[u64]>,
    len: u64,
}

/// A bucket with times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The lowest time that belongs to it.
    pub low_ns: u64,
    /// The highest.
    pub high_ns: u64,
    /// The number of times.
    pub count: u64,
}

impl<const DIGITS: u8> Default for Buckets<DIGITS> {
    fn default() -> Buckets<DIGITS> {
        Buckets { counts: vec![0; Self::LENGTH].into_boxed_slice(), len: 0 }
    }
}

impl<const DIGITS: u8> Buckets<DIGITS> {
    /// Up to 2 to this power, each value has a bucket of its own: the first power of two of at
    /// least twice the resolution. From there on, each octave has half as many buckets.
    const BITS: u32 = (2 * 10_u64.pow(DIGITS as u32)).next_power_of_two().ilog2();
    /// The number of buckets.
    const LENGTH: usize = Self::bucket(VALUE_MAX_NS.next_power_of_two() - 1) + 1;

    /// No times; all memory is allocated, and touched, here, since it mustn't grow during a run.
    pub fn touched() -> Buckets<DIGITS> {
        let mut buckets = Buckets::default();
        std::hint::black_box(&mut buckets).clear();
        buckets
    }

    /// The bucket of a time.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "shifted, it is below 2^BITS")]
    const fn bucket(value_ns: u64) -> usize {
        let shift = u64::BITS - Self::BITS - (value_ns | ((1 << Self::BITS) - 1)).leading_zeros();
        ((shift as usize) << (Self::BITS - 1)) + (value_ns >> shift) as usize
    }

    /// The lowest time of a bucket, ns, and how many there are, as a power of two.
    fn bounds(bucket: usize) -> (u64, u32) {
        let octave = (bucket >> (Self::BITS - 1)).saturating_sub(1);
        let within = bucket - (octave << (Self::BITS - 1));
        ((within as u64) << octave, u32::try_from(octave).expect("at most 64 octaves"))
    }

    /// Adds one time, of at most [`VALUE_MAX_NS`].
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.record_n(value_ns, 1);
    }

    /// Adds the same time `count` times.
    #[inline]
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        self.counts[Self::bucket(value_ns)] += count;
        self.len += count;
    }

    /// Adds the times of another.
    pub fn add(&mut self, other: &Buckets<DIGITS>) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.len += other.len;
    }

    /// Removes all times.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.len = 0;
    }

    /// The number of times.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The buckets with times, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Bucket> {
        let with_times = self.counts.iter().enumerate().filter(|(_, count)| **count != 0);
        with_times.map(|(at, &count)| {
            let (low_ns, octave) = Self::bounds(at);
            Bucket { low_ns, high_ns: low_ns + ((1 << octave) - 1), count }
        })
    }

    /// The histogram with these counts, unit 1 ns.
    pub fn histogram(&self) -> Histogram<u64> {
        let mut histogram = empty_histogram(DIGITS);
        for Bucket { low_ns, count, .. } in self.iter() {
            histogram.record_n(low_ns, count).expect("both have the same bounds");
        }
        histogram
    }
}

/// The counts of a histogram with these bounds and digits.
impl<const DIGITS: u8> From<&Histogram<u64>> for Buckets<DIGITS> {
    fn from(histogram: &Histogram<u64>) -> Buckets<DIGITS> {
        let mut buckets = Buckets::default();
        for one in histogram.iter_recorded() {
            buckets.record_n(one.value_iterated_to(), one.count_at_value());
        }
        buckets
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The counts of these times are those of the crate's histogram, and come back from it.
    fn are_the_same<const DIGITS: u8>(times_ns: &[u64]) {
        let (mut buckets, mut histogram) = (Buckets::<DIGITS>::default(), empty_histogram(DIGITS));
        for ns in times_ns {
            buckets.record(*ns);
            histogram.record(*ns).expect("within the bounds");
        }
        assert_eq!(buckets.histogram(), histogram, "{times_ns:?}");
        assert_eq!(Buckets::from(&histogram), buckets, "{times_ns:?}");
        let edges: Vec<(u64, u64)> = buckets.iter().map(|one| (one.low_ns, one.high_ns)).collect();
        let of_histogram = histogram.iter_recorded().map(|one| one.value_iterated_to());
        let edge = |ns| (histogram.lowest_equivalent(ns), histogram.highest_equivalent(ns));
        assert_eq!(edges, of_histogram.map(edge).collect::<Vec<_>>(), "{times_ns:?}");
    }

    #[test]
    fn both_ends_of_every_bucket_are_in_it() {
        fn all<const DIGITS: u8>() {
            let histogram = empty_histogram(DIGITS);
            let mut low_ns = 0;
            while low_ns <= VALUE_MAX_NS {
                let (next_ns, bucket) =
                    (histogram.next_non_equivalent(low_ns), Buckets::<DIGITS>::bucket(low_ns));
                assert_eq!(Buckets::<DIGITS>::bucket(next_ns - 1), bucket, "{low_ns} ns");
                assert_eq!(Buckets::<DIGITS>::bounds(bucket).0, low_ns);
                if next_ns <= VALUE_MAX_NS {
                    assert_eq!(Buckets::<DIGITS>::bucket(next_ns), bucket + 1, "{next_ns} ns");
                }
                low_ns = next_ns;
            }
            assert_eq!(Buckets::<DIGITS>::LENGTH, histogram.distinct_values());
        }
        all::<1>();
        all::<2>();
        all::<3>();
    }

    #[test]
    fn cleared_it_is_empty() {
        let mut buckets = Buckets::<2>::touched();
        buckets.record_n(1_000, 3);
        assert_eq!((buckets.len(), buckets.is_empty()), (3, false));
        buckets.clear();
        assert_eq!((buckets.is_empty(), buckets), (true, Buckets::default()));
    }

    proptest! {
        #[test]
        fn times_are_counted_as_in_a_histogram(
            times_ns in proptest::collection::vec((0..VALUE_MAX_NS, 0_u32..36), 0..200),
        ) {
            let times_ns: Vec<u64> = times_ns.into_iter().map(|(ns, by)| ns >> by).collect();
            are_the_same::<1>(&times_ns);
            are_the_same::<2>(&times_ns);
            are_the_same::<3>(&times_ns);
        }
    }
}
