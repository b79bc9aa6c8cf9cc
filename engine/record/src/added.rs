//! The latency that the generator added, by corrected latency.
//!
//! The quantile of a lateness belongs to other requests than the same quantile of a latency: the
//! late ones may be the fastest, and then a p99 caused by the target's queue would be blamed on the
//! generator. So lateness is summed by corrected latency, in buckets of a sixteenth of an octave,
//! and averaged over the requests at a given latency. A request that was given up before the
//! generator noticed it adds its whole age.
//!
//! Requests for which a connection was added to the pool are counted in the same buckets: their
//! share, times the usual cost of opening one on this machine, is added too, excluding lost
//! segments and stalling targets. The verdict counts at most the difference between a percentile
//! and naive's, since other causes may have taken as long.
//!
//! A request's wait on a busy connection isn't counted here, although the response ahead of it may
//! have arrived and not been handled yet: how much earlier the request would have left can't be
//! known. The last response's lateness alone would be exact for the first request in the queue, and
//! next to nothing for those behind it; passing it down the queue would assume that the target
//! answers as fast as it is asked. What is measured instead is the share of their time in flight
//! for which responses waited for the generator; the verdict reports it if requests did wait
//! (`report/rules/client.rs`).

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Buckets per octave, as a power of two.
const OCTAVE_BITS: u32 = 4;
/// Buckets for every latency that 64 bits can hold, ns.
const BUCKETS: usize = ((u64::BITS - OCTAVE_BITS + 1) << OCTAVE_BITS) as usize;
/// A mean is taken over at least this many requests, from neighbouring buckets if need be.
const REQUESTS_MIN: u64 = 10;

/// The requests of one bucket.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Bucket {
    requests: u64,
    added_ns: u128,
    /// Those for which a connection was added to the pool.
    opened: u64,
}

impl AddAssign for Bucket {
    fn add_assign(&mut self, other: Bucket) {
        self.requests += other.requests;
        self.added_ns += other.added_ns;
        self.opened += other.opened;
    }
}

impl Bucket {
    fn sum(buckets: &[Bucket]) -> Bucket {
        buckets.iter().fold(Bucket::default(), |mut sum, bucket| {
            sum += *bucket;
            sum
        })
    }

    fn mean_ns(self) -> Option<f64> {
        (0 < self.requests).then(|| self.added_ns as f64 / self.requests as f64)
    }

    fn opened(self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.opened as f64 / self.requests as f64 }
    }
}

/// The generator's part of the latency, by latency.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "Vec<Bucket>", try_from = "Vec<Bucket>")]
pub struct Added {
    buckets: Box<[Bucket; BUCKETS]>,
}

impl From<Added> for Vec<Bucket> {
    fn from(added: Added) -> Vec<Bucket> {
        added.buckets.to_vec()
    }
}

impl TryFrom<Vec<Bucket>> for Added {
    type Error = String;

    fn try_from(buckets: Vec<Bucket>) -> Result<Added, String> {
        let buckets = buckets.try_into();
        let wrong = |buckets: Vec<Bucket>| format!("{} buckets, not {BUCKETS}", buckets.len());
        Ok(Added { buckets: buckets.map_err(wrong)? })
    }
}

impl Default for Added {
    fn default() -> Added {
        Added { buckets: Box::new([Bucket::default(); BUCKETS]) }
    }
}

impl Added {
    /// Adds a request that took `latency_ns`, `added_ns` of which the generator added.
    #[inline]
    pub fn record(&mut self, latency_ns: u64, added_ns: u64) {
        self.record_n(latency_ns, added_ns, 1);
    }

    /// The same for `requests` requests.
    #[inline]
    pub fn record_n(&mut self, latency_ns: u64, added_ns: u64, requests: u64) {
        let bucket = &mut self.buckets[bucket(latency_ns)];
        bucket.requests += requests;
        bucket.added_ns += u128::from(added_ns) * u128::from(requests);
    }

    /// Counts a recorded request that took `latency_ns` and for which a connection was added to the
    /// pool.
    pub fn opened(&mut self, latency_ns: u64) {
        self.buckets[bucket(latency_ns)].opened += 1;
    }

    /// The mean added, ns; `None` without requests.
    pub fn mean_ns(&self) -> Option<f64> {
        Bucket::sum(&self.buckets[..]).mean_ns()
    }

    /// The mean added to requests that took about this long, ns: those in its bucket, or in as many
    /// buckets around it as hold ten requests.
    pub fn mean_at_ns(&self, latency_ns: u64) -> Option<f64> {
        self.around(latency_ns).mean_ns()
    }

    /// The share of these requests for which a connection was added to the pool.
    pub fn opened_at(&self, latency_ns: u64) -> f64 {
        self.around(latency_ns).opened()
    }

    fn around(&self, latency_ns: u64) -> Bucket {
        let at = bucket(latency_ns);
        let around = (0..BUCKETS).map(|reach| {
            let end = BUCKETS.min(at + reach + 1);
            Bucket::sum(&self.buckets[at.saturating_sub(reach)..end])
        });
        let mut last = Bucket::default();
        for bucket in around {
            last = bucket;
            if REQUESTS_MIN <= bucket.requests {
                break;
            }
        }
        last
    }
}

impl AddAssign for Added {
    fn add_assign(&mut self, other: Added) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine += *theirs;
        }
    }
}

/// The bucket of a latency. Below two octaves of buckets, each holds a single value.
#[inline]
fn bucket(ns: u64) -> usize {
    let shift = u64::BITS - 1 - OCTAVE_BITS - (ns | 1 << OCTAVE_BITS).leading_zeros();
    let within = usize::try_from(ns >> shift).expect("a number below two octaves of buckets");
    ((shift as usize) << OCTAVE_BITS) + within
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        assert_eq!((0..32).map(bucket).collect::<Vec<_>>(), (0..32).collect::<Vec<_>>());
        let mut last = 31;
        for shift in 1..=59 {
            for step in 16..32_u64 {
                let low = step << shift;
                assert_eq!((bucket(low - 1), bucket(low)), (last, last + 1));
                last += 1;
            }
        }
        assert_eq!((bucket(u64::MAX), last), (BUCKETS - 1, BUCKETS - 1));
    }

    #[test]
    fn the_mean_is_that_of_the_requests_at_a_latency() {
        let mut added = Added::default();
        // The fast ones were late and the slow ones weren't: quantiles of the lateness would show
        // the opposite.
        added.record_n(50_000, 20_000, 900);
        added.record_n(10_000_000, 100, 100);
        assert_eq!(added.mean_at_ns(50_000), Some(20_000.0));
        assert_eq!(added.mean_at_ns(10_000_000), Some(100.0));
        assert_eq!(added.mean_ns(), Some(18_010.0));
    }

    #[test]
    fn few_requests_are_averaged_with_their_neighbours() {
        let mut added = Added::default();
        assert_eq!((added.mean_ns(), added.mean_at_ns(1_000)), (None, None));
        added.record(1_000_000, 7);
        assert_eq!(added.mean_at_ns(1), Some(7.0), "there are no others");
        added.record_n(1_100_000, 18, 10);
        assert_eq!(added.mean_at_ns(1_000_000), Some(17.0));
        assert_eq!(added.mean_at_ns(1_100_000), Some(18.0), "these are enough");
    }

    #[test]
    fn opened_connections_are_counted_at_the_latency_of_their_requests() {
        let mut added = Added::default();
        added.record_n(50_000, 0, 900);
        added.record_n(10_000_000, 0, 100);
        (0..50).for_each(|_| added.opened(10_000_000));
        assert_eq!((added.opened_at(50_000), added.opened_at(10_000_000)), (0.0, 0.5));
        assert_eq!(Added::default().opened_at(1), 0.0);
        let mut both = added.clone();
        both += added;
        assert_eq!(both.opened_at(10_000_000), 0.5);
    }

    proptest! {
        #[test]
        fn merging_is_recording_all(
            requests in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..50),
            cut in 0_usize..50,
            at in any::<u64>(),
        ) {
            let fill = |requests: &[(u64, u64)]| {
                let mut added = Added::default();
                requests.iter().for_each(|(latency_ns, ns)| added.record(*latency_ns, *ns));
                added
            };
            let (one, other) = requests.split_at(cut.min(requests.len()));
            let mut merged = fill(one);
            merged += fill(other);
            let whole = fill(&requests);
            prop_assert_eq!(merged.mean_ns(), whole.mean_ns());
            prop_assert_eq!(merged.mean_at_ns(at), whole.mean_at_ns(at));
        }
    }
}
