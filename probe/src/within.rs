//! The time limit of a series, and whether another run fits.
//!
//! Each step reports its total time, so the decision rests on the steps alone, like all others, and
//! `verify` repeats it. A step that doesn't fit into the remaining time isn't made. One whose last
//! responses are slower than those of the steps before may still exceed it: a step that ended when
//! the time is up would be one of another length. A ceiling reserves a part of the time for its
//! trials.

use engine::record::outcome::Cause;
use engine::sys::units::{Nanos, SECOND_NS};
use serde::{Deserialize, Serialize};

use crate::step::Step;

/// The total time of a series: with set-ups, warm-ups, the waits for the last responses, and the
/// rests in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Within {
    /// All of it.
    pub within: Nanos,
    /// The most time that a run takes besides its window, as far as known before the first.
    pub around: Nanos,
}

impl Within {
    /// The time left after these runs.
    pub(crate) fn left<'a>(self, made: impl IntoIterator<Item = &'a Step>) -> Nanos {
        let spent_s: f64 = made.into_iter().map(|step| step.took_s).sum();
        Nanos(self.within.0.saturating_sub(nanos(spent_s)))
    }

    /// The most time for this many runs with windows of at most this length, as far as known before
    /// the first.
    pub(crate) fn at_most(self, runs: u64, window: Nanos) -> Nanos {
        Nanos(window.0.saturating_add(self.around.0).saturating_mul(runs))
    }

    /// The time of a run at this rate besides its window: as much as the last at the next higher
    /// rate, where more is waited for, or at the highest so far.
    pub(crate) fn around<'a>(
        self,
        rate_per_s: f64,
        made: impl IntoIterator<Item = &'a Step>,
    ) -> Nanos {
        let mut nearest: Option<&Step> = None;
        for step in made {
            let is_nearer = nearest.is_none_or(|nearest| match step.rate_per_s {
                rate if nearest.rate_per_s < rate_per_s => nearest.rate_per_s <= rate,
                rate => rate_per_s <= rate && rate <= nearest.rate_per_s,
            });
            nearest = if is_nearer { Some(step) } else { nearest };
        }
        nearest.map_or(self.around, |step| Nanos(nanos(step.took_s - step.duration_s)))
    }

    /// True if another run with such a window fits. The first always does: before it, the target's
    /// own time is unknown.
    pub(crate) fn fits(self, made: &[&Step], rate_per_s: f64, window: Nanos) -> bool {
        let around = || self.around(rate_per_s, made.iter().copied());
        let takes = || window.0.saturating_add(around().0).saturating_add(rest(made).0);
        made.is_empty() || takes() <= self.left(made.iter().copied()).0
    }
}

/// The longest rest for a target's unanswered requests, seconds.
const REST_MAX_S: f64 = 20.0;

/// How long the target may still work on requests that the last of these runs gave up, if it serves
/// them at all: by its highest answer rate, or as long as that run took if no run had an answer.
/// Otherwise the next run would measure that.
pub(crate) fn rest(made: &[&Step]) -> Nanos {
    let given_up = |step: &&Step| step.figures.failures.get(&Cause::TimedOut.name()).copied();
    let Some((last, given_up)) = made.last().and_then(|last| Some((last, given_up(last)?))) else {
        return Nanos(0);
    };
    let answered = made.iter().map(|step| step.answered_per_s).fold(0.0, f64::max);
    let served_s = if answered == 0.0 { last.took_s } else { given_up as f64 / answered };
    Nanos(nanos(served_s.min(REST_MAX_S)))
}

/// This many windows of this length in one, at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few")]
pub(crate) fn windows(window: Nanos, times: f64) -> Nanos {
    Nanos(window.0.saturating_mul(times.round().max(1.0) as u64))
}

/// A length in seconds as nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative")]
fn nanos(seconds: f64) -> u64 {
    (seconds.max(0.0) * SECOND_NS as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::{Queue, asked};

    #[test]
    fn the_rest_is_what_the_target_needs_for_the_requests_given_up() {
        let step = Queue::serial_ms().run(&asked("100", 2));
        let run = |answered_per_s, given_up: Option<u64>| {
            let mut run = Step { answered_per_s, took_s: 4.0, ..step.clone() };
            run.figures.failures =
                given_up.map(|n| (Cause::TimedOut.name(), n)).into_iter().collect();
            run
        };
        let all_answered = run(100.0, None);
        for (last, rest_s) in [
            (run(50.0, None), 0),
            (run(50.0, Some(300)), 3),
            (run(0.0, Some(300)), 3),
            (run(50.0, Some(9_000)), 20),
        ] {
            assert_eq!(rest(&[&all_answered, &last]), Nanos::from_secs(rest_s));
        }
        assert_eq!(rest(&[&run(0.0, Some(300))]), Nanos::from_secs(4), "no run had an answer");
        assert_eq!(rest(&[]), Nanos(0));
    }

    #[test]
    fn a_run_fits_if_it_leaves_time_for_what_it_takes_around_its_window() {
        let within = Within { within: Nanos::from_secs(60), around: Nanos::from_secs(20) };
        let step = Queue::serial_ms().run(&asked("100", 2));
        let made =
            |rate_per_s, took_s| Step { rate_per_s, duration_s: 10.0, took_s, ..step.clone() };
        let (light, heavy) = (made(100.0, 13.0), made(1_000.0, 25.0));
        assert!(within.fits(&[], 50.0, Nanos::from_secs(100)), "the first does");
        let made = [&light, &heavy];
        assert_eq!(within.left(made), Nanos::from_secs(22));
        // 3 s around the window up to 100/s, and 15 s above.
        for (rate, window_s, fits) in
            [(50.0, 19, true), (50.0, 20, false), (100.0, 19, true), (500.0, 7, true)]
        {
            assert_eq!(within.fits(&made, rate, Nanos::from_secs(window_s)), fits, "{rate}");
        }
        for rate in [500.0, 5_000.0] {
            assert!(!within.fits(&made, rate, Nanos::from_secs(8)), "{rate}");
        }
    }
}
