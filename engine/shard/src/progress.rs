//! A running shard's progress: a small summary, published in cache lines of its own.
//!
//! No other thread reads a running shard's counters. Twenty times a second the shard copies a few
//! numbers, with plain stores, to memory that no other shard writes; readers see only that copy.
//! The numbers only grow, so a second's worth is the difference between two readings.

use std::sync::atomic::{AtomicU64, Ordering};

use record::counts::CountsSoFar;
use record::outcome::Outcome;
use record::stamps::{Ending, Stamps};
use serde::{Deserialize, Serialize};

use crate::meter::ShardTime;

/// Buckets of a [`CoarseHistogram`]: 8 per octave, from 1 µs to 64 s.
const BUCKETS: usize = (OCTAVE_LAST - OCTAVE_FIRST + 1) * STEPS;
const OCTAVE_FIRST: usize = 10;
const OCTAVE_LAST: usize = 36;
const STEPS: usize = 8;

/// The number of latencies beyond a quantile for it to be known.
const BEYOND_MIN: u64 = 10;

/// How often the lateness is published, ns: as often as it is read.
const LATENESS_EVERY_NS: u64 = 200_000_000;

/// A coarse latency histogram for the progress line: its quantiles are accurate to 6.25 %.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u64>", try_from = "Vec<u64>")]
pub struct CoarseHistogram {
    counts: Box<[u64; BUCKETS]>,
}

/// Counts that don't fit a [`CoarseHistogram`].
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

    /// Adds another histogram's latencies.
    pub fn merge(&mut self, other: &CoarseHistogram) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count = count.saturating_add(*more);
        }
    }

    /// The latencies added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &CoarseHistogram) -> CoarseHistogram {
        let mut rest = self.clone();
        for (count, before) in rest.counts.iter_mut().zip(earlier.counts.iter()) {
            *count = count.saturating_sub(*before);
        }
        rest
    }

    /// The number of latencies in each bucket, from the shortest up.
    pub fn counts(&self) -> &[u64] {
        &*self.counts
    }

    /// The lower bound of a bucket, ns; the first one holds all shorter latencies too.
    pub fn from_ns(bucket: usize) -> u64 {
        let octave_ns = 1_u64 << (bucket / STEPS + OCTAVE_FIRST);
        octave_ns + octave_ns * (bucket % STEPS) as u64 / STEPS as u64
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count))
    }

    /// The same as [`CoarseHistogram::quantile_ns`], but also `None` with fewer than ten latencies
    /// beyond it.
    pub fn known_ns(&self, q: f64) -> Option<u64> {
        let (value, count) = (self.quantile_ns(q)?, self.count());
        let beyond = count - stats::distribution::rank(q, count);
        (BEYOND_MIN <= beyond).then_some(value)
    }

    /// The middle of the bucket that holds quantile `q`, ns; `None` if empty.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = stats::distribution::rank(q, count);
        let mut seen = 0;
        for (at, bucket_count) in self.counts.iter().enumerate() {
            seen = bucket_count.saturating_add(seen);
            if rank <= seen {
                let (from_ns, to_ns) =
                    (CoarseHistogram::from_ns(at), CoarseHistogram::from_ns(at + 1));
                return Some(u64::midpoint(from_ns, to_ns));
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

/// How late a shard was by its own doing, for the window's requests that have ended.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    /// Intended → noticed, of the sent ones.
    pub pacer: CoarseHistogram,
    /// Sent → left the host, of the sampled ones.
    pub send_path: CoarseHistogram,
    /// Received → handled, of the responses that the kernel stamped.
    pub receive: CoarseHistogram,
}

impl Lateness {
    fn each(&self) -> [&CoarseHistogram; 3] {
        [&self.pacer, &self.send_path, &self.receive]
    }

    /// The lateness added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Lateness) -> Lateness {
        Lateness {
            pacer: self.pacer.since(&earlier.pacer),
            send_path: self.send_path.since(&earlier.send_path),
            receive: self.receive.since(&earlier.receive),
        }
    }
}

/// One shard's published summary. The alignment keeps two shards from sharing a cache line, or a
/// pair of lines that is prefetched together.
#[repr(align(128))]
pub struct SharedProgress {
    intended: AtomicU64,
    answered: AtomicU64,
    errors: AtomicU64,
    in_flight: AtomicU64,
    counts: [AtomicU64; size_of::<CountsSoFar>() / size_of::<u64>()],
    latency: [AtomicU64; BUCKETS],
    lateness: [[AtomicU64; BUCKETS]; 3],
    time: [AtomicU64; 4],
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
            lateness: [const { [const { AtomicU64::new(0) }; BUCKETS] }; 3],
            time: Default::default(),
        }
    }
}

/// The progress so far of one shard, or of all together, including the warm-up.
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
    /// The report's counts, as far as they are known.
    pub counts: CountsSoFar,
    /// Corrected latency of the window so far.
    pub latency: CoarseHistogram,
    /// The generator's lateness.
    pub lateness: Lateness,
    /// How one shard spent its time; zero for all together.
    pub time: ShardTime,
}

impl ShardProgress {
    /// A request that was due in the window or before it has ended.
    #[inline]
    pub(super) fn ended(
        &mut self,
        stamps: &Stamps,
        ending: Ending,
        outcome: Outcome,
        due_in: bool,
    ) {
        match outcome {
            Outcome::Answered(_) | Outcome::CheckFailed { .. } => self.answered += 1,
            Outcome::Unsent(_) => {}
            Outcome::TimedOut(_) | Outcome::Failed(_) | Outcome::Abandoned => self.errors += 1,
        }
        if !due_in {
            return;
        }
        if outcome.has_latency() {
            self.latency.record(ending.ended_ns() - stamps.intended_ns);
        }
        match stamps.noticed_ns - stamps.intended_ns {
            _ if matches!(outcome, Outcome::Unsent(_)) => {}
            // Users who wait for their responses are never late.
            0 => self.lateness.pacer.counts[0] += 1,
            late_ns => self.lateness.pacer.record(late_ns),
        }
        if let Some(late_ns) = ending.receive_lateness_ns() {
            self.lateness.receive.record(late_ns);
        }
    }
}

impl SharedProgress {
    /// Publishes a new summary; only the shard calls it.
    pub fn show(&self, summary: &ShardProgress) {
        // A reader may see numbers from two different times together: good enough for a progress
        // line.
        self.intended.store(summary.intended, Ordering::Relaxed);
        self.answered.store(summary.answered, Ordering::Relaxed);
        self.errors.store(summary.errors, Ordering::Relaxed);
        self.in_flight.store(summary.in_flight, Ordering::Relaxed);
        for (shown, count) in self.counts.iter().zip(&summary.counts) {
            shown.store(*count, Ordering::Relaxed);
        }
        let ShardTime { at_ns, cpu_ns, polling_ns, stopped_ns } = summary.time;
        let before_ns = self.time[0].load(Ordering::Relaxed);
        let lateness_due = before_ns / LATENESS_EVERY_NS != at_ns / LATENESS_EVERY_NS;
        let lateness = self.lateness.iter().zip(summary.lateness.each());
        let lateness = lateness.filter(|_| lateness_due);
        for (shown, histogram) in lateness.chain([(&self.latency, &summary.latency)]) {
            for (shown, count) in shown.iter().zip(histogram.counts.iter()) {
                shown.store(*count, Ordering::Relaxed);
            }
        }
        for (shown, ns) in self.time.iter().zip([at_ns, cpu_ns, polling_ns, stopped_ns]) {
            shown.store(ns, Ordering::Relaxed);
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
        let Lateness { pacer, send_path, receive } = &mut total.lateness;
        let lateness = self.lateness.iter().zip([pacer, send_path, receive]);
        for (shown, histogram) in lateness.chain([(&self.latency, &mut total.latency)]) {
            for (shown, count) in shown.iter().zip(histogram.counts.iter_mut()) {
                *count += shown.load(Ordering::Relaxed);
            }
        }
    }

    /// How the shard had spent its time at its last summary.
    pub fn time(&self) -> ShardTime {
        let [at_ns, cpu_ns, polling_ns, stopped_ns] =
            self.time.each_ref().map(|shown| shown.load(Ordering::Relaxed));
        ShardTime { at_ns, cpu_ns, polling_ns, stopped_ns }
    }
}

#[cfg(test)]
mod tests {
    use record::outcome::UnsentReason;
    use record::stamps::StampedBy;

    use super::*;

    #[test]
    fn a_quantile_is_within_its_error() {
        for value_ns in [1_100, 5_000, 1_000_000, 41_000_000, 10_000_000_000] {
            let mut latency = CoarseHistogram::default();
            latency.record(value_ns);
            let seen = latency.quantile_ns(0.5).expect("one value") as f64;
            assert!(
                (seen / value_ns as f64 - 1.0).abs() <= 0.0625 + 1e-9,
                "{value_ns} is reported as {seen}"
            );
            let at = bucket(value_ns);
            let range = CoarseHistogram::from_ns(at)..CoarseHistogram::from_ns(at + 1);
            assert!(range.contains(&value_ns) && latency.counts()[at] == 1, "{range:?}");
        }
        assert_eq!(CoarseHistogram::default().quantile_ns(0.5), None);
    }

    #[test]
    fn a_quantile_is_known_with_ten_values_beyond_it() {
        for (quantile, least) in [(0.5, 20), (0.9, 100), (0.99, 1_000)] {
            let mut latency = CoarseHistogram::default();
            assert_eq!(latency.known_ns(quantile), None);
            (1..least).for_each(|_| latency.record(5_000));
            assert_eq!(latency.known_ns(quantile), None, "{quantile}");
            latency.record(5_000);
            assert_eq!(latency.known_ns(quantile), latency.quantile_ns(quantile));
            assert!(latency.known_ns(quantile).is_some(), "{quantile}");
        }
    }

    #[test]
    fn a_reader_sees_what_all_shards_published() {
        let shards = [SharedProgress::default(), SharedProgress::default()];
        for (number, shard) in (1_u64..).zip(&shards) {
            let mut summary = ShardProgress { intended: number, ..ShardProgress::default() };
            let stamps = Stamps { noticed_ns: 30_000, sent_ns: 40_000, ..Stamps::default() };
            let (received_ns, handled_ns) = (900_000, 1_000_000);
            let ending = Ending { received_ns, handled_ns, stamped_by: StampedBy::Kernel };
            summary.ended(&stamps, ending, Outcome::Answered(200), true);
            summary.ended(&stamps, ending, Outcome::Answered(200), false);
            summary.ended(&stamps, Ending::at(900_000), Outcome::Abandoned, false);
            let unsent = Outcome::Unsent(UnsentReason::End);
            summary.ended(&stamps, Ending::at(900_000), unsent, true);
            summary.lateness.send_path.record(5_000);
            summary.time = ShardTime {
                at_ns: LATENESS_EVERY_NS,
                cpu_ns: 2,
                polling_ns: 3,
                stopped_ns: number,
            };
            shard.show(&summary);
            assert_eq!(shard.time(), summary.time);
        }
        let mut total = ShardProgress::default();
        shards.iter().for_each(|shard| shard.add_to(&mut total));
        assert_eq!((total.intended, total.answered, total.errors), (3, 4, 2));
        let each = total.lateness.each();
        assert_eq!(each.map(CoarseHistogram::count), [2, 2, 2], "of the window");
        assert_eq!(total.latency.count(), 4, "requests given up unsent waited too");
        for (histogram, ns) in each.into_iter().zip([30_000.0, 5_000.0, 100_000.0]) {
            let seen = histogram.quantile_ns(0.5).expect("two values") as f64;
            assert!((seen / ns - 1.0).abs() <= 0.0625, "{seen}, {ns}");
        }
        let none = total.lateness.since(&total.lateness);
        assert_eq!(none.each().map(CoarseHistogram::count), [0, 0, 0]);
    }

    #[test]
    fn values_out_of_range_go_into_the_outermost_buckets() {
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
