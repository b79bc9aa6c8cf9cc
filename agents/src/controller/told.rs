//! What an agent has told of its run over time, in fixed memory for any length of run: all that is
//! known of one that is lost.
//!
//! Like the series of a report, it has a bounded number of intervals, and where a run outlasts them
//! they double and neighbours merge. It is coarser, since it is kept of every agent and needed of
//! few, and because it is made of frames: a request counts where the agent told of it.

use engine::report::{Microseconds, ToldInterval, ToldPart};
use engine::run::{Phase, Tally};
use engine::shard::CoarseHistogram;
use engine::sys::units::SECOND_NS;

/// The most intervals of an agent, at 2 KB each.
const SLOTS_MAX: usize = 128;
/// Length of an interval at first, ns: agents send frames as often.
const INTERVAL_FIRST_NS: u64 = SECOND_NS / 4;

/// What an agent has told of its run over time.
#[derive(Debug)]
pub(super) struct Told {
    interval_ns: u64,
    slots: Vec<Slot>,
}

/// What it told in one interval.
#[derive(Clone, Debug, Default)]
struct Slot {
    intended: u64,
    answered: u64,
    errors: u64,
    /// When it told last.
    in_flight: u64,
    latency: CoarseHistogram,
}

impl Slot {
    /// Adds what was told later.
    fn add(&mut self, later: &Slot) {
        self.intended = self.intended.saturating_add(later.intended);
        self.answered = self.answered.saturating_add(later.answered);
        self.errors = self.errors.saturating_add(later.errors);
        self.in_flight = later.in_flight;
        self.latency.merge(&later.latency);
    }
}

impl Told {
    pub(super) fn new() -> Told {
        Told { interval_ns: INTERVAL_FIRST_NS, slots: Vec::new() }
    }

    /// Adds what the agent did since its last frame. What it does before the load is no part of it.
    pub(super) fn add(&mut self, since: &Tally) {
        if since.phase == Phase::Setup {
            return;
        }
        // The moment between two intervals belongs to the earlier one.
        let until_ns = since.elapsed_ns.saturating_sub(1);
        let at = loop {
            match usize::try_from(until_ns / self.interval_ns) {
                Ok(at) if at < SLOTS_MAX => break at,
                _ => self.double(),
            }
        };
        if self.slots.len() <= at {
            // Until it tells again, what is in flight stays as it was.
            let in_flight = self.slots.last().map_or(0, |slot| slot.in_flight);
            self.slots.resize(at + 1, Slot { in_flight, ..Slot::default() });
        }
        self.slots[at].add(&Slot {
            intended: since.intended,
            answered: since.answered,
            errors: since.errors,
            in_flight: since.in_flight,
            latency: since.latency.clone(),
        });
    }

    /// Makes each interval twice as long.
    fn double(&mut self) {
        let mut slots = std::mem::take(&mut self.slots).into_iter();
        while let Some(mut slot) = slots.next() {
            slots.next().iter().for_each(|later| slot.add(later));
            self.slots.push(slot);
        }
        self.interval_ns *= 2;
    }

    /// As the report of an agent that was lost has it; `None` if it told nothing.
    pub(super) fn part(&self) -> Option<ToldPart> {
        let interval_s = self.interval_ns as f64 / SECOND_NS as f64;
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
        let interval = |(at, slot): (usize, &Slot)| ToldInterval {
            start_s: at as f64 * interval_s,
            intended: slot.intended,
            answered: slot.answered,
            errors: slot.errors,
            in_flight: slot.in_flight,
            p50: us(slot.latency.quantile_ns(0.5)),
            p99: us(slot.latency.quantile_ns(0.99)),
        };
        let intervals: Vec<ToldInterval> = self.slots.iter().enumerate().map(interval).collect();
        (!intervals.is_empty()).then_some(ToldPart {
            unit: Microseconds::Us,
            interval_s,
            intervals,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(phase: Phase, elapsed_ms: u64, answered: u64, latency_ns: u64) -> Tally {
        let mut latency = CoarseHistogram::default();
        (0..answered).for_each(|_| latency.record(latency_ns));
        let elapsed_ns = elapsed_ms * 1_000_000;
        let (intended, in_flight) = (answered + 1, elapsed_ms % 7);
        let counts = Default::default();
        Tally { phase, elapsed_ns, intended, answered, errors: 1, in_flight, counts, latency }
    }

    #[test]
    fn a_long_run_takes_the_memory_of_a_short_one_and_nothing_is_lost() {
        let mut told = Told::new();
        for tick in 1..=5_000 {
            told.add(&frame(Phase::Steady, 250 * tick, 3, 1_000_000));
            assert!(told.slots.len() <= SLOTS_MAX);
        }
        // 1,250 s in 79 intervals of 16 s.
        let part = told.part().expect("intervals");
        assert_eq!((part.interval_s, part.intervals.len()), (16.0, 79));
        let sum = |of: fn(&ToldInterval) -> u64| part.intervals.iter().map(of).sum::<u64>();
        let sums = [sum(|it| it.intended), sum(|it| it.answered), sum(|it| it.errors)];
        assert_eq!(sums, [20_000, 15_000, 5_000]);
        assert_eq!((part.intervals[2].start_s, part.intervals[2].answered), (32.0, 64 * 3));
        let last = part.intervals.last().expect("some");
        assert_eq!(last.in_flight, 1_250_000 % 7, "as it told last");
    }

    #[test]
    fn a_stall_shows_in_its_interval_alone() {
        let mut told = Told::new();
        told.add(&frame(Phase::Setup, 900, 50, 1_000));
        assert_eq!(told.part(), None, "no load yet");
        told.add(&frame(Phase::Warmup, 250, 5, 1_000_000));
        told.add(&frame(Phase::Steady, 1_000, 7, 80_000_000));
        let part = told.part().expect("intervals");
        let answered: Vec<u64> = part.intervals.iter().map(|it| it.answered).collect();
        assert_eq!(answered, [5, 0, 0, 7]);
        let in_flight: Vec<u64> = part.intervals.iter().map(|it| it.in_flight).collect();
        assert_eq!(in_flight, [250 % 7, 250 % 7, 250 % 7, 1_000 % 7]);
        assert_eq!(part.intervals[1].p99, None);
        let p99 = part.intervals[3].p99.expect("values");
        assert!((75_000.0..85_000.0).contains(&p99), "{p99}");
    }

    #[test]
    fn no_moment_is_too_late() {
        let mut told = Told::new();
        for elapsed_ns in [1, u64::MAX, 0] {
            told.add(&Tally { elapsed_ns, ..frame(Phase::Steady, 0, 1, 1) });
        }
        let part = told.part().expect("intervals");
        assert_eq!(part.intervals.iter().map(|it| it.answered).sum::<u64>(), 3);
    }
}
