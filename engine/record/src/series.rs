//! The run over time: counts and latencies per interval, in fixed memory for any length of run.
//!
//! There are at most [`SLOTS_MAX`] intervals. When a run outlasts them the interval doubles and
//! neighbours merge, which is exact: counts and histograms add up. A request belongs to the
//! interval of its intended time, so that the intervals add up to the run. Sends and answers are
//! also counted by their own stamps, where a stopped target shows as a gap. The histograms have two
//! significant digits, those of lateness one, so that 512 of them stay small; the run's own
//! distributions have three.

use std::ops::Range;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use stats::buckets::Buckets;
use stats::distribution::{INTERVAL_DIGITS, LATENESS_DIGITS, VALUE_MAX_NS, empty_histogram};
use stats::encoded::{Encoded, NotLike};
use stats::pieces::Pieces;
use units::SECOND_NS;

use crate::counts::IntervalCounts;
use crate::outcome::Outcome;

/// The most intervals that a series holds.
pub const SLOTS_MAX: usize = 512;
/// Initial length of an interval, ns: an eighth of a second, so that after three doublings it is a
/// whole second.
pub const INTERVAL_FIRST_NS: u64 = 125_000_000;

/// The largest factor by which an interval may grow: 512 such intervals are 35 years.
const DOUBLINGS_MAX: u64 = 1 << 24;

/// One interval's numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesInterval {
    /// The outcomes of the requests due in it, and the events in it.
    pub counts: IntervalCounts,
    /// Requests in flight at the interval's last count, whenever they were due.
    pub in_flight: u64,
    /// Corrected latencies of the requests due in it, without failures and dropped arrivals.
    pub latency: Buckets<INTERVAL_DIGITS>,
    /// Receive lateness of their responses.
    pub receive_lateness: Buckets<LATENESS_DIGITS>,
}

impl SeriesInterval {
    fn new() -> SeriesInterval {
        SeriesInterval {
            counts: IntervalCounts::default(),
            in_flight: 0,
            latency: Buckets::touched(),
            receive_lateness: Buckets::touched(),
        }
    }

    fn clear(&mut self) {
        self.counts = IntervalCounts::default();
        self.in_flight = 0;
        self.latency.clear();
        self.receive_lateness.clear();
    }

    /// Adds everything but the number in flight.
    fn add(&mut self, other: &SeriesInterval) {
        self.counts += other.counts;
        self.latency.add(&other.latency);
        self.receive_lateness.add(&other.receive_lateness);
    }
}

/// The length of an interval at the end of a window of this length, ns.
pub fn interval_ns_of(window_ns: u64) -> u64 {
    let mut interval_ns = INTERVAL_FIRST_NS;
    while interval_ns * (SLOTS_MAX as u64) < window_ns {
        interval_ns *= 2;
    }
    interval_ns
}

/// A series of intervals from the start of the window.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "State", try_from = "State")]
pub struct Series {
    interval_ns: u64,
    /// The intervals in use, and empty ones with their memory allocated.
    slots: Vec<SeriesInterval>,
    /// The interval last counted in, and its bounds, ns: most times lie in it.
    last: usize,
    last_ns: Range<u64>,
    /// The number of intervals in use: all up to the last one with an event.
    len: usize,
}

/// A serialized series: its intervals in use.
#[derive(Serialize, Deserialize)]
struct State {
    interval_ns: u64,
    slots: Vec<SlotState>,
}

#[derive(Serialize, Deserialize)]
struct SlotState {
    counts: IntervalCounts,
    in_flight: u64,
    latency: Encoded,
    receive_lateness: Encoded,
}

/// A serialized series whose length or number of intervals is invalid.
#[derive(Debug, thiserror::Error)]
enum NotASeries {
    #[error("{0} intervals of {1} ns")]
    Intervals(usize, u64),
    #[error(transparent)]
    Histogram(#[from] NotLike),
}

impl From<Series> for State {
    fn from(series: Series) -> State {
        let slot = |slot: &SeriesInterval| SlotState {
            counts: slot.counts,
            in_flight: slot.in_flight,
            latency: Encoded::new(&slot.latency.histogram()),
            receive_lateness: Encoded::new(&slot.receive_lateness.histogram()),
        };
        State { interval_ns: series.interval_ns, slots: series.slots().iter().map(slot).collect() }
    }
}

impl TryFrom<State> for Series {
    type Error = NotASeries;

    fn try_from(State { interval_ns, slots }: State) -> Result<Series, NotASeries> {
        let doublings = interval_ns / INTERVAL_FIRST_NS;
        let is_length = interval_ns % INTERVAL_FIRST_NS == 0 && doublings.is_power_of_two();
        if SLOTS_MAX < slots.len() || !is_length || DOUBLINGS_MAX < doublings {
            return Err(NotASeries::Intervals(slots.len(), interval_ns));
        }
        let slot = |state: SlotState| {
            Ok(SeriesInterval {
                counts: state.counts,
                in_flight: state.in_flight,
                latency: Buckets::from(&state.latency.decode(&empty_histogram(INTERVAL_DIGITS))?),
                receive_lateness: Buckets::from(
                    &state.receive_lateness.decode(&empty_histogram(LATENESS_DIGITS))?,
                ),
            })
        };
        let slots: Result<Vec<SeriesInterval>, NotLike> = slots.into_iter().map(slot).collect();
        let slots = slots?;
        Ok(Series { interval_ns, len: slots.len(), slots, last: 0, last_ns: 0..0 })
    }
}

impl PartialEq for Series {
    fn eq(&self, other: &Series) -> bool {
        self.interval_ns == other.interval_ns && self.slots() == other.slots()
    }
}

impl Default for Series {
    fn default() -> Series {
        Series::new()
    }
}

impl Series {
    /// An empty series for a window of any length; all its memory is allocated, and touched, here.
    pub fn new() -> Series {
        Series::with_intervals(INTERVAL_FIRST_NS, SLOTS_MAX)
    }

    /// An empty series with the interval length that a window of this length ends with: doubling
    /// takes milliseconds, for which a shard would stall. A length of 0 means unknown.
    pub fn for_window(window_ns: u64) -> Series {
        let interval_ns = interval_ns_of(window_ns);
        let intervals = usize::try_from(window_ns.div_ceil(interval_ns)).expect("at most 512");
        // An unpaced user may run slightly past the window's end.
        let intervals = if intervals == 0 { SLOTS_MAX } else { SLOTS_MAX.min(intervals + 1) };
        Series::with_intervals(interval_ns, intervals)
    }

    fn with_intervals(interval_ns: u64, intervals: usize) -> Series {
        let slots = (0..intervals).map(|_| SeriesInterval::new()).collect();
        Series { interval_ns, slots, last: 0, last_ns: 0..0, len: 0 }
    }

    /// Length of an interval, ns.
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// The intervals in use, in order.
    pub fn slots(&self) -> &[SeriesInterval] {
        &self.slots[..self.len]
    }

    /// A request was due, `at_ns` after the start of the window.
    #[inline]
    pub fn intended(&mut self, at_ns: u64) {
        self.slot(at_ns).counts.intended += 1;
    }

    /// A request that was due at `at_ns` was handed to the kernel.
    #[inline]
    pub fn sent(&mut self, at_ns: u64) {
        self.slot(at_ns).counts.sent += 1;
    }

    /// A request that was due at `at_ns` ended, `latency_ns` after it was due; its response was
    /// handled `late_ns` after it arrived, if that is known.
    #[inline]
    pub fn ended(&mut self, at_ns: u64, latency_ns: u64, outcome: Outcome, late_ns: Option<u64>) {
        let slot = self.slot(at_ns);
        match outcome {
            Outcome::Answered(_) => slot.counts.answered += 1,
            Outcome::CheckFailed { .. } => {
                slot.counts.answered += 1;
                slot.counts.failed_checks += 1;
            }
            Outcome::Unsent(_) => slot.counts.unsent += 1,
            Outcome::TimedOut(_) | Outcome::Failed(_) | Outcome::Abandoned => {
                slot.counts.errors += 1
            }
        }
        if outcome.has_latency() {
            // The run's own distributions count values beyond the range.
            slot.latency.record(latency_ns.min(VALUE_MAX_NS));
        }
        if let Some(late_ns) = late_ns {
            slot.receive_lateness.record(late_ns.min(VALUE_MAX_NS));
        }
    }

    /// A request that was due at `at_ns` was answered with a status that isn't a success.
    #[inline]
    pub fn unexpected(&mut self, at_ns: u64) {
        self.slot(at_ns).counts.unexpected_status += 1;
    }

    /// `count` requests that were due at `at_ns` were never sent; `latency_ns` is their age when
    /// they were given up, if that counts as a latency.
    pub fn unsent(&mut self, at_ns: u64, latency_ns: Option<u64>, count: u64) {
        let slot = self.slot(at_ns);
        slot.counts.intended += count;
        slot.counts.unsent += count;
        if let Some(latency_ns) = latency_ns {
            // The run's own distributions count values beyond the range.
            slot.latency.record_n(latency_ns.min(VALUE_MAX_NS), count);
        }
    }

    /// A request was handed to the kernel at `at_ns`, within the window.
    #[inline]
    pub fn send(&mut self, at_ns: u64) {
        self.happening(at_ns).counts.sends += 1;
    }

    /// A complete response came at `at_ns`, within the window.
    #[inline]
    pub fn answer(&mut self, at_ns: u64) {
        self.happening(at_ns).counts.answers += 1;
    }

    /// The interval of an event. A time on a border belongs to the earlier one, as the window's end
    /// belongs to the window.
    #[inline]
    fn happening(&mut self, at_ns: u64) -> &mut SeriesInterval {
        self.slot(at_ns.saturating_sub(1))
    }

    /// `in_flight` requests were in flight at `at_ns`; an interval keeps its last count.
    pub fn in_flight(&mut self, at_ns: u64, in_flight: u64) {
        self.slot(at_ns).in_flight = in_flight;
    }

    #[inline]
    fn slot(&mut self, at_ns: u64) -> &mut SeriesInterval {
        if !self.last_ns.contains(&at_ns) {
            self.find(at_ns);
        }
        &mut self.slots[self.last]
    }

    /// Finds the interval of another time, and brings it into use.
    fn find(&mut self, at_ns: u64) {
        while self.interval_ns * SLOTS_MAX as u64 <= at_ns {
            self.double();
        }
        self.last = usize::try_from(at_ns / self.interval_ns).expect("below the number of slots");
        let start_ns = at_ns - at_ns % self.interval_ns;
        self.last_ns = start_ns..start_ns + self.interval_ns;
        if self.len <= self.last {
            self.reach(self.last + 1);
        }
    }

    /// Brings intervals into use. Until the next count, the number in flight stays the same.
    fn reach(&mut self, len: usize) {
        let in_flight = self.slots().last().map_or(0, |slot| slot.in_flight);
        self.slots.resize_with(len.max(self.slots.len()), SeriesInterval::new);
        for slot in &mut self.slots[self.len..len] {
            slot.in_flight = in_flight;
        }
        self.len = len;
    }

    /// Doubles the length of the intervals.
    fn double(&mut self) {
        let len = self.len.div_ceil(2);
        for at in 0..len {
            // The last interval in use may have no partner.
            if 2 * at + 1 < self.len {
                let (before, after) = self.slots.split_at_mut(2 * at + 1);
                let (slot, later) = (&mut before[2 * at], &after[0]);
                slot.add(later);
                slot.in_flight = later.in_flight;
            }
            self.slots.swap(at, 2 * at);
        }
        for slot in &mut self.slots[len..self.len] {
            slot.clear();
        }
        self.len = len;
        self.interval_ns *= 2;
        self.last_ns = 0..0;
    }

    /// Adds another shard's or agent's series; exact, in any order.
    pub fn merge(&mut self, other: &Series) {
        while self.interval_ns < other.interval_ns {
            self.double();
        }
        if other.interval_ns < self.interval_ns {
            let mut other = other.clone();
            while other.interval_ns < self.interval_ns {
                other.double();
            }
            return self.merge(&other);
        }
        self.reach(self.len.max(other.len));
        let last = other.slots().last().map_or(0, |slot| slot.in_flight);
        for (at, mine) in self.slots[..self.len].iter_mut().enumerate() {
            let theirs = other.slots().get(at);
            theirs.into_iter().for_each(|theirs| mine.add(theirs));
            mine.in_flight += theirs.map_or(last, |theirs| theirs.in_flight);
        }
    }

    /// The latencies of each interval of a window of this length.
    pub fn pieces(&self, window_ns: u64) -> Pieces<Histogram<u64>> {
        let latencies = self.slots().iter().map(|slot| slot.latency.histogram());
        let [each_s, window_s] =
            [self.interval_ns, window_ns].map(|ns| ns as f64 / SECOND_NS as f64);
        Pieces::new(latencies.collect(), each_s).lasting(window_s)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::outcome::TimeoutKind;

    /// Requests due at these times, sent 70 ms later and answered after another 200 ms, all in
    /// order of time.
    fn filled(times_ns: &[u64]) -> Series {
        let mut series = Series::new();
        let later = |delay_ns: u64| times_ns.iter().map(move |at_ns| (at_ns + delay_ns, delay_ns));
        let mut events: Vec<(u64, u64)> =
            later(0).chain(later(70_000_000)).chain(later(270_000_000)).collect();
        events.sort_unstable();
        for (at_ns, delay_ns) in events {
            match delay_ns {
                0 => {
                    series.intended(at_ns);
                    series.sent(at_ns);
                    series.ended(at_ns, 1_000 + at_ns % 7_000, Outcome::Answered(200), None);
                    if let Some(in_flight) = seen_in_flight(at_ns) {
                        series.in_flight(at_ns, in_flight);
                    }
                }
                70_000_000 => series.send(at_ns),
                _ => series.answer(at_ns),
            }
        }
        series
    }

    /// The number in flight that [`filled`] counts at this time; not every call counts.
    fn seen_in_flight(at_ns: u64) -> Option<u64> {
        (!at_ns.is_multiple_of(3)).then_some(at_ns % 7)
    }

    /// The last count of requests in flight before `end_ns`.
    fn last_in_flight(times_ns: &[u64], end_ns: u64) -> u64 {
        let before = times_ns.iter().filter(|at_ns| **at_ns < end_ns);
        before.rev().find_map(|at_ns| seen_in_flight(*at_ns)).unwrap_or(0)
    }

    #[test]
    fn a_long_run_costs_what_a_short_one_costs() {
        let hour_ns = 3_600_000_000_000;
        let times_ns: Vec<u64> = (0..3_600).map(|second| second * 1_000_000_000).collect();
        let series = filled(&times_ns);
        assert!(series.slots().len() <= SLOTS_MAX);
        assert_eq!(series.slots.len(), SLOTS_MAX, "no slot was added");
        assert!(hour_ns < series.interval_ns() * SLOTS_MAX as u64 * 2);
        assert_eq!(series.slots().iter().map(|slot| slot.counts.intended).sum::<u64>(), 3_600);
        assert_eq!(series.slots().iter().map(|slot| slot.latency.len()).sum::<u64>(), 3_600);
        assert_eq!(series.slots().iter().map(|slot| slot.counts.answers).sum::<u64>(), 3_600);
    }

    #[test]
    fn six_hours_are_exact_in_the_memory_of_the_start() {
        const WINDOW_S: u64 = 6 * 3_600;
        const PER_SECOND: u64 = 20;
        let window_ns = WINDOW_S * SECOND_NS;
        let requests = WINDOW_S * PER_SECOND;
        for mut series in [Series::for_window(window_ns), Series::new()] {
            let memory = series.slots.capacity();
            for number in 0..requests {
                // Each is due in the middle of its share of a second.
                let due_ns = (2 * number + 1) * (SECOND_NS / PER_SECOND / 2);
                series.intended(due_ns);
                series.sent(due_ns);
                series.send(due_ns + 1);
                series.answer(due_ns + 1_000_000);
                let outcome = match number % 100 {
                    0 => Outcome::TimedOut(TimeoutKind::Timeout),
                    _ => Outcome::Answered(200),
                };
                series.ended(due_ns, 1_000_000 + number % 1_000, outcome, Some(1_000));
            }
            assert_eq!(series.slots.capacity(), memory, "it doesn't grow");
            assert_eq!(series.interval_ns(), 64 * SECOND_NS);
            let intervals = series.slots();
            assert_eq!(intervals.len(), 338, "{} s in intervals of 64 s", WINDOW_S);
            let (last, whole) = intervals.split_last().expect("intervals");
            let each = 64 * PER_SECOND;
            for (at, interval) in whole.iter().enumerate() {
                let IntervalCounts { intended, sent, sends, answers, .. } = interval.counts;
                assert_eq!([intended, sent, sends, answers], [each; 4], "interval {at}");
            }
            assert_eq!(last.counts.intended, requests - each * 337);
            let sum = |of: fn(&SeriesInterval) -> u64| intervals.iter().map(of).sum::<u64>();
            assert_eq!(sum(|it| it.counts.answered), requests / 100 * 99);
            assert_eq!(sum(|it| it.counts.errors), requests / 100);
            assert_eq!(sum(|it| it.latency.len()), requests);
            assert_eq!(sum(|it| it.receive_lateness.len()), requests);
            // Three agents' are three times as much.
            let mut merged = series.clone();
            (0..2).for_each(|_| merged.merge(&series));
            assert_eq!(merged.slots()[337].counts.intended, 3 * last.counts.intended);
            assert_eq!(merged.slots().len(), 338);
        }
    }

    #[test]
    fn what_happens_counts_where_it_happens() {
        let mut series = Series::new();
        for _ in 0..3 {
            series.intended(0);
            series.sent(0);
        }
        // A send at the start, one on the border, one past it; answers come in the third interval.
        let length_ns = series.interval_ns();
        [0, length_ns, length_ns + 1].into_iter().for_each(|at_ns| series.send(at_ns));
        [2 * length_ns + 1, 3 * length_ns].into_iter().for_each(|at_ns| series.answer(at_ns));
        let shown =
            |of: fn(&SeriesInterval) -> u64| series.slots().iter().map(of).collect::<Vec<u64>>();
        assert_eq!(shown(|slot| slot.counts.sent), [3, 0, 0]);
        assert_eq!(shown(|slot| slot.counts.sends), [2, 1, 0]);
        assert_eq!(shown(|slot| slot.counts.answers), [0, 0, 2]);
    }

    #[test]
    fn doubling_keeps_the_last_number_in_flight() {
        let mut series = Series::new();
        series.in_flight(0, 3);
        series.in_flight(INTERVAL_FIRST_NS, 5);
        series.double();
        assert_eq!(series.slots()[0].in_flight, 5);
    }

    #[test]
    fn an_odd_last_interval_keeps_its_number_in_flight() {
        let series = |last: u64, in_flight: u64| {
            let mut series = Series::new();
            series.in_flight(last * INTERVAL_FIRST_NS, in_flight);
            series
        };
        // The first series has doubled; the second one does so when they are merged.
        let mut merged = series(512, 3);
        merged.in_flight(510 * INTERVAL_FIRST_NS, 3);
        merged.merge(&series(510, 5));
        assert_eq!(merged.slots()[255].in_flight, 8);
    }

    #[test]
    fn an_interval_without_a_count_keeps_the_number_in_flight_before_it() {
        let mut series = Series::new();
        series.in_flight(0, 3);
        series.intended(2 * INTERVAL_FIRST_NS);
        series.in_flight(3 * INTERVAL_FIRST_NS, 1);
        let in_flight: Vec<u64> = series.slots().iter().map(|slot| slot.in_flight).collect();
        assert_eq!(in_flight, [3, 3, 3, 1]);
    }

    #[test]
    fn a_window_known_beforehand_is_what_doubling_leads_to() {
        for window_ns in [0, 1, 64_000_000_000, 64_000_000_001, 3_600_000_000_000] {
            let mut known = Series::for_window(window_ns);
            let mut doubled = Series::new();
            for series in [&mut known, &mut doubled] {
                series.intended(0);
                series.intended(window_ns.saturating_sub(1));
            }
            assert_eq!(known, doubled, "{window_ns} ns");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn merging_is_recording_all(
            mut left in proptest::collection::vec(0_u64..400_000_000_000, 0..40),
            mut right in proptest::collection::vec(0_u64..100_000_000_000, 0..40),
        ) {
            left.sort_unstable();
            right.sort_unstable();
            let mut merged = filled(&left);
            merged.merge(&filled(&right));
            let both: Vec<u64> = left.iter().chain(&right).copied().collect();
            let mut whole = filled(&both);
            prop_assert_eq!(merged.interval_ns(), whole.interval_ns());
            // Numbers in flight add up over shards, so a single shard that saw them all in turn has
            // fewer.
            let len = whole.len;
            for (at, slot) in whole.slots[..len].iter_mut().enumerate() {
                let end_ns = (at as u64 + 1) * merged.interval_ns();
                slot.in_flight = last_in_flight(&left, end_ns) + last_in_flight(&right, end_ns);
            }
            // Not shown when they differ, because they are long.
            prop_assert!(merged.slots() == whole.slots());
        }
    }
}
