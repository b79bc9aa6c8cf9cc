//! How long a series may take, and whether another run fits.
//!
//! Each step reports how long it took in all, so what fits is decided from the steps alone, as all
//! else is, and `verify` decides it again. A step that the time left has no room for isn't made. A
//! ceiling keeps a part of the time for its trials.

use engine::record::outcome::Cause;
use engine::sys::units::{Nanos, SECOND_NS};
use serde::{Deserialize, Serialize};

use crate::step::Step;

/// How long a series may take in all: with set-ups, warm-ups, the waits for the last responses, and
/// the rests in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Within {
    /// All of it.
    pub within: Nanos,
    /// What a run takes around its window at most, as far as that is known before the first.
    pub around: Nanos,
}

impl Within {
    /// What is left after these runs.
    pub(crate) fn left<'a>(self, made: impl IntoIterator<Item = &'a Step>) -> Nanos {
        let spent_s: f64 = made.into_iter().map(|step| step.took_s).sum();
        Nanos(self.within.0.saturating_sub(nanos(spent_s)))
    }

    /// What so many runs take at most with windows of at most this length, as far as that is known
    /// before the first.
    pub(crate) fn at_most(self, runs: u64, window: Nanos) -> Nanos {
        Nanos(window.0.saturating_add(self.around.0).saturating_mul(runs))
    }

    /// What a run at this rate takes around its window: as much as the last at the next higher
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

    /// Whether another run fits, with such a window. The first does: before it, it isn't known how
    /// long the target takes.
    pub(crate) fn fits(self, made: &[&Step], rate_per_s: f64, window: Nanos) -> bool {
        let around = || self.around(rate_per_s, made.iter().copied());
        let takes = || window.0.saturating_add(around().0).saturating_add(rest(made).0);
        made.is_empty() || takes() <= self.left(made.iter().copied()).0
    }
}

/// The longest rest for what a target hasn't answered, seconds.
const REST_MAX_S: f64 = 20.0;

/// For how long the target may still work on what the last of these runs gave up, if it serves that
/// as well: by the most that it has answered. Otherwise the next run would be about that.
pub(crate) fn rest(made: &[&Step]) -> Nanos {
    let given_up = |step: &&Step| step.figures.failures.get(&Cause::TimedOut.name()).copied();
    let Some(given_up) = made.last().and_then(given_up).filter(|given_up| 0 < *given_up) else {
        return Nanos(0);
    };
    let answered = made.iter().map(|step| step.answered_per_s).fold(f64::MIN_POSITIVE, f64::max);
    Nanos(nanos((given_up as f64 / answered).min(REST_MAX_S)))
}

/// So many windows of this length as one, at least one.
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
