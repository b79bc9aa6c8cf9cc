//! The two rules by which a rate holds: that of a search, by its objectives, and that of a ceiling,
//! by its load, with what a step fails by and what it takes to pass.
//!
//! They differ in what many excused runs of one rate mean. An objective that the generator misses
//! each time isn't met. What others took of a ceiling's time shows nothing, however often, so that
//! rate stays undecided. Above it, that no longer explains the shortfall, and a rate fails without
//! an excuse; if none does, the ceiling isn't judged.
//!
//! The objective of a percentile is judged by the share of requests beyond the bound. The
//! percentile's own interval rests on how often slow requests come together, even if none comes
//! near the bound: at 740 requests per second, a target with a p99 of 8.8 ms and a p99.9 of 10.9 ms
//! was undecided against 20 ms.
//!
//! Errors, unexpected statuses among them, are counted by intervals of the run and judged by their
//! spread, like percentiles: a target that fails for one second in ten gave three runs of 6 s
//! disjoint "95 %" intervals while its errors counted as independent.

use engine::report::slo::Judgement;
use serde::{Deserialize, Serialize};

use crate::blame::{
    Side, is_disturbed, is_invalid_beyond_disturbance, may_hide_a_miss, most_is_lateness, side,
};
use crate::rates::four_figures;
use crate::step::{ERRORS_MAX, Outcome, Step};

/// Share of what is due in the window that a step has to send before its end.
pub const SENT_MIN: f64 = 0.98;
/// How late half of the requests may be noticed, microseconds. From there on the generator takes
/// arrivals in batches.
pub const LATENESS_MAX_US: f64 = 1_000.0;

/// Share of a core from which what others take of it is told, and may excuse a step.
pub(crate) const TAKEN_MIN: f64 = 0.01;

/// By which factor a rate shrinks until it passes.
pub(crate) const SHRINKING: f64 = 2.0;
/// A window by whose load its rate is judged has so many requests, if that makes it at most
/// [`LONGER_MAX`] times as long as asked for.
const REQUESTS_MIN: f64 = 500.0;
/// How many times as long as asked for a window may be for its requests.
const LONGER_MAX: f64 = 4.0;

/// What runs say of their rate, and where a search by that goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// That of a search: whether it meets its objectives.
    Objectives,
    /// That of a ceiling: whether generator and target keep up.
    Load,
}

impl Rule {
    /// What one run says, by its figures.
    pub fn judge(self, step: &Step) -> Outcome {
        match self {
            Rule::Objectives => by_objectives(step),
            Rule::Load => by_load(step),
        }
    }

    /// What as many runs as a rate may take are believed to say together, if each said this and no
    /// other decided anything. That others took the generator's time is never believed.
    pub(crate) fn believed(self, step: &Step, outcome: Outcome) -> Option<Outcome> {
        match (self, outcome) {
            (Rule::Objectives, Outcome::Doubted) => Some(Outcome::Passed),
            // Objectives that are missed in every run aren't met.
            (Rule::Objectives, Outcome::Excused) if !is_disturbed(step) => Some(Outcome::Failed),
            _ => None,
        }
    }

    /// By which factor the rate grows until it fails. By load it begins low, since a target that
    /// was asked for far more than it can do works on that long after.
    pub(crate) fn growth(self) -> f64 {
        match self {
            Rule::Objectives => 2.0,
            Rule::Load => 4.0,
        }
    }

    /// Whether the bracket comes before what decided nothing: by load that matters only once a
    /// higher rate has failed, and then only where it may be an end of the bracket. Objectives may
    /// be missed at any rate.
    pub(crate) fn brackets_first(self) -> bool {
        match self {
            Rule::Objectives => false,
            Rule::Load => true,
        }
    }

    /// Whether a lower rate may decide something where this one had too few samples: for objectives
    /// it has even fewer.
    pub(crate) fn decides_below_few_samples(self) -> bool {
        match self {
            Rule::Objectives => false,
            Rule::Load => true,
        }
    }

    /// How many times as long as asked for the first window of a rate is that has so many requests.
    /// Fewer than [`REQUESTS_MIN`] are by chance too many or too few to tell its load.
    pub(crate) fn first_window(self, requests: f64) -> f64 {
        match self {
            Rule::Objectives => 1.0,
            Rule::Load => (REQUESTS_MIN / requests).ceil().clamp(1.0, LONGER_MAX),
        }
    }

    /// The rate to try below one that didn't pass, of which this is the last run: by its load, what
    /// it delivered, or further down if it answered nothing in time.
    pub(crate) fn below(self, step: &Step, tolerance: f64) -> f64 {
        let rate = step.rate_per_s;
        let is_lower = |delivered: &f64| *delivered * (1.0 + tolerance) < rate;
        match self {
            Rule::Objectives => rate / SHRINKING,
            Rule::Load => match delivered(step).filter(is_lower) {
                Some(delivered) => delivered,
                None if step.answered_due_per_s == 0.0 => rate / SHRINKING.powi(2),
                None => rate / SHRINKING,
            },
        }
    }

    /// The rate to try between two, of which this run failed at the upper, where what it delivered
    /// says what lies between them.
    pub(crate) fn aim(self, failing: &Step, low: f64, high: f64, tolerance: f64) -> Option<f64> {
        match self {
            Rule::Objectives => None,
            Rule::Load => aim(failing, low, high, tolerance),
        }
    }
}

/// The rule that a step passes if it met its objectives. One that failed by the generator's doing,
/// or by that of others on its machine, has an excuse.
pub fn by_objectives(step: &Step) -> Outcome {
    let judgement = step.slo.as_ref().map_or(Judgement::Undecided, |slo| slo.judgement);
    let fails = match judgement {
        Judgement::Undecided => return Outcome::Undecided,
        Judgement::Met if is_invalid_beyond_disturbance(step) => true,
        Judgement::Met if may_hide_a_miss(step) => return Outcome::Doubted,
        Judgement::Met => false,
        Judgement::Missed => true,
    };
    match fails {
        false => Outcome::Passed,
        true if is_disturbed(step) || side(step) == Side::Generator => Outcome::Excused,
        true => Outcome::Failed,
    }
}

/// By what a step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Broke {
    /// Less than [`SENT_MIN`] of what was due was sent.
    Sent,
    /// The backlog grew by more than [`GROWTH_MAX`](crate::backlog::GROWTH_MAX), beyond chance.
    Backlog,
    /// Half of the requests were noticed later than [`LATENESS_MAX_US`].
    Lateness,
    /// More than [`ERRORS_MAX`] of the requests had no good answer, beyond chance.
    Errors,
    /// From some moment on there were no answers.
    Silence,
}

/// What a step failed by; empty if it didn't.
pub(crate) fn broke(step: &Step) -> Vec<Broke> {
    let End { sent, .. } = End::figures(step);
    // One request is no share, however few there are.
    let unsent = (1.0 - sent) * step.requests as f64;
    let rules = [
        (Broke::Sent, (1.0 - SENT_MIN) * step.requests as f64 + 1.0 < unsent),
        (Broke::Backlog, step.backlog.fell_behind == Some(true)),
        (Broke::Lateness, is_late(step)),
        (Broke::Errors, step.errors_interval.is_some_and(|[low, _]| ERRORS_MAX < low)),
        (Broke::Silence, step.silent_from_s.is_some()),
    ];
    rules.into_iter().filter(|(_, breaks)| *breaks).map(|(rule, _)| rule).collect()
}

/// Whether half of the requests were noticed later than [`LATENESS_MAX_US`].
pub(crate) fn is_late(step: &Step) -> bool {
    End::figures(step).lateness_p50_us.is_some_and(|us| LATENESS_MAX_US < us)
}

/// Whether a step shows that its rate holds, not only that nothing speaks against it: neither the
/// backlog nor the errors can be more than twice what they may be.
fn is_shown_to_hold(step: &Step) -> bool {
    let errors = step.errors_interval.is_some_and(|[_, high]| high < 2.0 * ERRORS_MAX);
    errors && step.backlog.fell_behind == Some(false)
}

/// The rule of the ceiling: a step passes if it shows that its rate holds, and fails if something
/// broke. That requests waited for the generator is no excuse, unless others took more of its time
/// than it fell short by. Nothing excuses errors of requests that were sent, or that there were no
/// answers.
pub fn by_load(step: &Step) -> Outcome {
    let End { sent, growth, errors, .. } = End::figures(step);
    let broke = broke(step);
    // A shard that had no time at all noticed no request.
    let late = is_late(step) || most_is_lateness(step) || step.pacer_lateness.count == 0;
    let short = (1.0 - sent).max(growth).max(TAKEN_MIN);
    let is_the_targets = ERRORS_MAX < errors - (1.0 - sent) || broke.contains(&Broke::Silence);
    let excused = late && short <= step.figures.taken() && !is_the_targets;
    match broke.is_empty() {
        true if is_shown_to_hold(step) => Outcome::Passed,
        true => Outcome::Undecided,
        false if excused => Outcome::Excused,
        false => Outcome::Failed,
    }
}

/// What a step delivered that was offered more than that; `None` if nothing says that it is the
/// most that it can do.
fn delivered(step: &Step) -> Option<f64> {
    let fell_short = broke(step).iter().any(|by| matches!(by, Broke::Sent | Broke::Backlog));
    let rate = step.figures.throughput_per_s;
    (fell_short && step.silent_from_s.is_none() && 0.0 < rate && rate < step.rate_per_s)
        .then_some(rate)
}

/// How far above what it delivered a step may have been offered for that to be all that it can do:
/// beyond, the window's answers are in part those to what was due before it.
const DELIVERED_MAX: f64 = 1.7;

/// The rate to try between two, of which this step failed at the upper: just above what it
/// delivered, where a rate should fail, or there, where it should pass. The less sure the figure,
/// the further off. `None` if it says nothing of what lies between them.
pub(crate) fn aim(failing: &Step, low: f64, high: f64, tolerance: f64) -> Option<f64> {
    let rate = delivered(failing).filter(|rate| failing.rate_per_s <= DELIVERED_MAX * rate)?;
    let width = failing.backlog.interval.map_or(0.0, |[low, high]| high - low).min(1.0);
    let apart = 1.0 + tolerance.max(width);
    let aims = [rate * apart, rate * (1.0 + tolerance) / apart];
    // Close to an end, that end has said it already.
    let near = 1.0 + tolerance / 2.0;
    let is_between = |rate: &f64| low * near < *rate && *rate * near < high;
    aims.into_iter().map(|rate| four_figures(rate).per_second()).find(is_between)
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
    /// Its 95 % interval.
    pub growth_interval: Option<[f64; 2]>,
    /// Length of the window, seconds.
    pub window_s: f64,
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
                step.sent_due_per_s / step.intended_per_s
            },
            growth: step.backlog.growth,
            growth_interval: step.backlog.interval,
            window_s: step.duration_s,
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
        (step.sent_due_per_s, step.backlog.growth) = (step.intended_per_s, 0.0);
        step.pacer_lateness.percentiles.at_mut(0.5).value = Some(1_500.0);
        assert_eq!(by_load(&step), Outcome::Failed);
        step.figures.steal = Some(0.1);
        assert_eq!(by_load(&step), Outcome::Excused);
        // Errors aren't, however late the generator was.
        step.errors = step.requests / 10;
        assert_eq!(by_load(&step), Outcome::Failed);
        // Those that were never sent are, if there was as little time.
        let mut step = generator().run(&asked("1k", 5));
        (step.sent_due_per_s, step.errors, step.figures.steal) = (0.0, step.requests, Some(0.99));
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
        step.sent_due_per_s = 0.97 * step.intended_per_s;
        assert_eq!(broke(&step), [Broke::Sent]);
        // One of ten is more than 2 %, and no share.
        step.requests = 10;
        step.sent_due_per_s = 0.9 * step.intended_per_s;
        assert_eq!(broke(&step), []);
    }
}
