//! The rule of a ceiling: what a step fails by.

use serde::{Deserialize, Serialize};

use crate::blame::most_is_lateness;
use crate::step::{ERRORS_MAX, Outcome, Step};

/// Share of what is due in the window that a step has to send before its end.
pub const SENT_MIN: f64 = 0.98;
/// By which share of the arrivals the backlog may grow in the window's second half, beyond chance.
pub const GROWTH_MAX: f64 = 0.01;
/// How late half of the requests may be noticed, microseconds. From there on the generator takes
/// arrivals in batches.
pub const LATENESS_MAX_US: f64 = 1_000.0;

/// Share of a core from which what others take of it is told, and may excuse a step.
pub(crate) const TAKEN_MIN: f64 = 0.01;

/// By what a step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Broke {
    /// Less than [`SENT_MIN`] of what was due was sent.
    Sent,
    /// The backlog grew by more than [`GROWTH_MAX`].
    Backlog,
    /// Half of the requests were noticed later than [`LATENESS_MAX_US`].
    Lateness,
    /// More than [`ERRORS_MAX`] of the requests had no good answer.
    Errors,
    /// From some moment on there were no answers.
    Silence,
}

/// What a step failed by; empty if it passed.
pub(crate) fn broke(step: &Step) -> Vec<Broke> {
    let End { sent, growth, errors, .. } = End::figures(step);
    // One request is no share, however few there are.
    let unsent = (1.0 - sent) * step.requests as f64;
    let rules = [
        (Broke::Sent, (1.0 - SENT_MIN) * step.requests as f64 + 1.0 < unsent),
        (Broke::Backlog, GROWTH_MAX < step.backlog.interval.map_or(growth, |[low, _]| low)),
        (Broke::Lateness, is_late(step)),
        (Broke::Errors, ERRORS_MAX < errors),
        (Broke::Silence, step.silent_from_s.is_some()),
    ];
    rules.into_iter().filter(|(_, breaks)| *breaks).map(|(rule, _)| rule).collect()
}

/// Whether half of the requests were noticed later than [`LATENESS_MAX_US`].
pub(crate) fn is_late(step: &Step) -> bool {
    End::figures(step).lateness_p50_us.is_some_and(|us| LATENESS_MAX_US < us)
}

/// The rule of the ceiling: a step passes unless something broke. That requests waited for the
/// generator is no excuse, unless others took more of its time than it fell short by. Nothing
/// excuses errors of requests that were sent, or that there were no answers.
pub fn by_load(step: &Step) -> Outcome {
    let End { sent, growth, errors, .. } = End::figures(step);
    let broke = broke(step);
    // A shard that had no time at all noticed no request.
    let late = is_late(step) || most_is_lateness(step) || step.pacer_lateness.count == 0;
    let short = (1.0 - sent).max(growth).max(TAKEN_MIN);
    let is_the_targets = ERRORS_MAX < errors - (1.0 - sent) || broke.contains(&Broke::Silence);
    let excused = late && short <= step.figures.taken() && !is_the_targets;
    match broke.is_empty() {
        true => Outcome::Passed,
        false if excused => Outcome::Excused,
        false => Outcome::Failed,
    }
}

/// One end of the bracket, and why it is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Requests per second.
    pub rate_per_s: f64,
    /// Share of what was due in the window that was sent before its end.
    pub sent: f64,
    /// By which share of the arrivals the backlog grew in the window's second half.
    pub growth: f64,
    /// How late half of the requests were noticed, microseconds.
    pub lateness_p50_us: Option<f64>,
    /// Share of its requests without a good answer.
    pub errors: f64,
    /// From when on there were no answers, seconds since the start of the window.
    pub silent_from_s: Option<f64>,
    /// What it failed by; empty if it passed.
    pub broke: Vec<Broke>,
}

impl End {
    /// The end that this step is.
    pub(crate) fn new(step: &Step) -> End {
        End { broke: broke(step), ..End::figures(step) }
    }

    fn figures(step: &Step) -> End {
        End {
            rate_per_s: step.rate_per_s,
            sent: if step.intended_per_s == 0.0 {
                1.0
            } else {
                step.sent_per_s / step.intended_per_s
            },
            growth: step.backlog.growth,
            lateness_p50_us: step.pacer_lateness.percentiles.at(0.5).value,
            errors: step.error_share(),
            silent_from_s: step.silent_from_s,
            broke: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::{Queue, asked};
    use crate::step::Latency;

    /// A shard of 10,000 requests per second before a server that costs nothing.
    fn generator() -> Queue {
        Queue { service_ns: 10, shard_ns: 100_000, ..Queue::serial_ms() }
    }

    #[test]
    fn what_others_took_excuses_a_step_that_fell_short_by_less() {
        let mut step = generator().run(&asked("10300", 5));
        assert_eq!(by_load(&step), Outcome::Failed);
        step.figures.steal = Some(0.1);
        assert_eq!(by_load(&step), Outcome::Excused);
        let mut step = generator().run(&asked("20k", 5));
        step.figures.steal = Some(0.1);
        assert_eq!(by_load(&step), Outcome::Failed);
        // Lateness by itself is excused as well, if anybody took anything.
        let mut step = generator().run(&asked("1k", 5));
        (step.sent_per_s, step.backlog.growth) = (step.intended_per_s, 0.0);
        step.pacer_lateness.percentiles.at_mut(0.5).value = Some(1_500.0);
        assert_eq!(by_load(&step), Outcome::Failed);
        step.figures.steal = Some(0.1);
        assert_eq!(by_load(&step), Outcome::Excused);
        // Errors aren't, however late the generator was.
        step.errors = step.requests / 10;
        assert_eq!(by_load(&step), Outcome::Failed);
        // Those that were never sent are, if there was as little time.
        let mut step = generator().run(&asked("1k", 5));
        (step.sent_per_s, step.errors, step.figures.steal) = (0.0, step.requests, Some(0.99));
        step.pacer_lateness = Latency::default();
        assert_eq!(by_load(&step), Outcome::Failed);
        step.figures.steal = Some(1.0);
        assert_eq!(by_load(&step), Outcome::Excused);
        // A step that kept up needs no excuse.
        let mut step = generator().run(&asked("5k", 5));
        step.figures.steal = Some(0.1);
        assert_eq!(by_load(&step), Outcome::Passed);
    }

    #[test]
    fn a_target_without_answers_breaks_a_step_and_has_no_excuse() {
        let mut step = generator().run(&asked("1k", 5));
        step.silent_from_s = Some(4.875);
        step.figures.steal = Some(0.9);
        step.pacer_lateness.percentiles.at_mut(0.5).value = Some(900.0);
        assert_eq!(broke(&step), [Broke::Silence]);
        assert_eq!(by_load(&step), Outcome::Failed);
    }

    #[test]
    fn lateness_alone_breaks_a_step() {
        let mut step = generator().run(&asked("1k", 5));
        assert_eq!(broke(&step), []);
        step.pacer_lateness.percentiles.at_mut(0.5).value = Some(1_500.0);
        assert_eq!(broke(&step), [Broke::Lateness]);
        step.pacer_lateness = Latency::default();
        step.sent_per_s = 0.97 * step.intended_per_s;
        assert_eq!(broke(&step), [Broke::Sent]);
        // One of ten is more than 2 %, and no share.
        step.requests = 10;
        step.sent_per_s = 0.9 * step.intended_per_s;
        assert_eq!(broke(&step), []);
    }
}
