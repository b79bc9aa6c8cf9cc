//! The two rules by which a rate holds: a search's, by its objectives, and a ceiling's, by its
//! load, with the reasons for failure and the conditions to pass.
//!
//! They differ in the meaning of many excused runs at one rate. An objective that the generator
//! misses each time isn't met. A ceiling's time taken by others shows nothing, however often, so
//! that rate stays undecided. Above it, that no longer explains the shortfall, and a rate fails
//! without an excuse; if none does, the ceiling isn't judged.
//!
//! The objective of a percentile is judged by the share of requests beyond the bound. The
//! percentile's own interval depends on how slow requests cluster, even if none comes near the
//! bound: at 740 requests per second, a target with a p99 of 8.8 ms and a p99.9 of 10.9 ms was
//! undecided against 20 ms.
//!
//! Errors, including unexpected statuses, are counted by intervals of the run and judged by their
//! spread, like percentiles: a target that fails for one second in ten gave three runs of 6 s
//! disjoint "95 %" intervals while its errors counted as independent. Where the spread is unknown, a
//! rate with errors doesn't pass, and fails only if they go on all the time.

use engine::report::slo::Judgement;
use serde::{Deserialize, Serialize};

use crate::blame::{
    Side, is_disturbed, is_invalid_beyond_disturbance, may_hide_a_miss, most_is_lateness, side,
};
use crate::rates::four_figures;
use crate::step::{ERRORS_MAX, Outcome, Step};

/// Share of the window's due requests that a step must send before its end.
pub const SENT_MIN: f64 = 0.98;
/// The longest delay until half of the requests are noticed, microseconds. Beyond it the generator
/// takes arrivals in batches.
pub const LATENESS_MAX_US: f64 = 1_000.0;

/// The share of a core from which time taken by others is reported, and may excuse a step.
pub(crate) const TAKEN_MIN: f64 = 0.01;

/// The factor by which a rate shrinks until it passes.
pub(crate) const SHRINKING: f64 = 2.0;
/// The requests of a window whose rate is judged by load, if that makes it at most [`LONGER_MAX`]
/// times as long as asked for.
const REQUESTS_MIN: f64 = 500.0;
/// The most that a window may be lengthened for its requests, as a factor.
const LONGER_MAX: f64 = 4.0;

/// The meaning of runs for their rate, and the next rate of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A search's: it meets its objectives.
    Objectives,
    /// A ceiling's: generator and target keep up.
    Load,
}

impl Rule {
    /// The outcome of one run, by its figures.
    pub fn judge(self, step: &Step) -> Outcome {
        match self {
            Rule::Objectives => by_objectives(step),
            Rule::Load => by_load(step),
        }
    }

    /// The accepted outcome of a rate with all its runs, if each had this one and no other decided
    /// anything. It is never accepted that others took the generator's time.
    pub(crate) fn believed(self, step: &Step, outcome: Outcome) -> Option<Outcome> {
        match (self, outcome) {
            (Rule::Objectives, Outcome::Doubted) => Some(Outcome::Passed),
            // Objectives that are missed in every run aren't met.
            (Rule::Objectives, Outcome::Excused) if !is_disturbed(step) => Some(Outcome::Failed),
            _ => None,
        }
    }

    /// The factor by which the rate grows until it fails. By load it begins low, since a target
    /// that was sent far more than it can handle works on its backlog for long after.
    pub(crate) fn growth(self) -> f64 {
        match self {
            Rule::Objectives => 2.0,
            Rule::Load => 4.0,
        }
    }

    /// True if the bracket comes before undecided rates: by load these matter only once a higher
    /// rate has failed, and then only if they may be an end of the bracket. Objectives may be
    /// missed at any rate.
    pub(crate) fn brackets_first(self) -> bool {
        match self {
            Rule::Objectives => false,
            Rule::Load => true,
        }
    }

    /// True if a lower rate may decide something where this one had too few samples: for objectives
    /// it has even fewer.
    pub(crate) fn decides_below_few_samples(self) -> bool {
        match self {
            Rule::Objectives => false,
            Rule::Load => true,
        }
    }

    /// The length of a rate's first window with this many requests, as a factor. With fewer than
    /// [`REQUESTS_MIN`], chance alone makes too many or too few to judge its load.
    pub(crate) fn first_window(self, requests: f64) -> f64 {
        match self {
            Rule::Objectives => 1.0,
            Rule::Load => (REQUESTS_MIN / requests).ceil().clamp(1.0, LONGER_MAX),
        }
    }

    /// The next rate below one that didn't pass in this last run: by its load, the delivered rate,
    /// or further down if it answered nothing in time.
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

    /// The rate to try between two, if the delivered rate of this run, which failed at the upper
    /// one, locates the limit between them.
    pub(crate) fn aim(self, failing: &Step, low: f64, high: f64, tolerance: f64) -> Option<f64> {
        match self {
            Rule::Objectives => None,
            Rule::Load => aim(failing, low, high, tolerance),
        }
    }
}

/// The rule by which a step passes if it met its objectives. A failure that the generator, or
/// others on its machine, caused has an excuse.
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

/// The reasons for a failure.
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
    /// At some time answers stopped.
    Silence,
}

/// A step's reasons for failure; empty if it didn't fail.
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

/// True if half of the requests were noticed later than [`LATENESS_MAX_US`].
pub(crate) fn is_late(step: &Step) -> bool {
    End::figures(step).lateness_p50_us.is_some_and(|us| LATENESS_MAX_US < us)
}

/// True if a step shows that its rate holds, not only that nothing contradicts it: neither the
/// backlog nor the errors can be more than twice their limits.
fn is_shown_to_hold(step: &Step) -> bool {
    let errors = step.errors_interval.is_some_and(|[_, high]| high < 2.0 * ERRORS_MAX);
    errors && step.backlog.fell_behind == Some(false)
}

/// The ceiling's rule: a step passes if it shows that its rate holds, and fails if something broke.
/// Requests that waited for the generator are no excuse, unless others took more of its time than
/// it fell short by. Nothing excuses errors of requests that were sent, or missing answers.
pub fn by_load(step: &Step) -> Outcome {
    let End { sent, growth, errors, .. } = End::figures(step);
    let broke = broke(step);
    // A shard without any time noticed no request.
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

/// The delivered rate of a step that was offered more; `None` if nothing shows that this is its
/// maximum.
fn delivered(step: &Step) -> Option<f64> {
    let fell_short = broke(step).iter().any(|by| matches!(by, Broke::Sent | Broke::Backlog));
    let rate = step.figures.throughput_per_s;
    (fell_short && step.silent_from_s.is_none() && 0.0 < rate && rate < step.rate_per_s)
        .then_some(rate)
}

/// How far above the delivered rate a step may have been offered for that to be its maximum:
/// beyond, the window's answers are partly to earlier requests.
const DELIVERED_MAX: f64 = 1.7;

/// The rate to try between two, of which this step failed at the upper: just above its delivered
/// rate, where a rate should fail, or there, where it should pass. The less certain the figure, the
/// further off. `None` if it doesn't locate the limit between them.
pub(crate) fn aim(failing: &Step, low: f64, high: f64, tolerance: f64) -> Option<f64> {
    let rate = delivered(failing).filter(|rate| failing.rate_per_s <= DELIVERED_MAX * rate)?;
    let width = failing.backlog.interval.map_or(0.0, |[low, high]| high - low).min(1.0);
    let apart = 1.0 + tolerance.max(width);
    let aims = [rate * apart, rate * (1.0 + tolerance) / apart];
    // Close to an end, that end has already decided.
    let near = 1.0 + tolerance / 2.0;
    let is_between = |rate: &f64| low * near < *rate && *rate * near < high;
    aims.into_iter().map(|rate| four_figures(rate).per_second()).find(is_between)
}

/// One end of the bracket, and its reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Requests per second.
    pub rate_per_s: f64,
    /// Share of the window's due requests that were sent before its end.
    pub sent: f64,
    /// Growth of the backlog in the window's second half, as a share of the arrivals.
    pub growth: f64,
    /// Its 95 % interval.
    pub growth_interval: Option<[f64; 2]>,
    /// Length of the window, seconds.
    pub window_s: f64,
    /// The delay until half of the requests were noticed, microseconds.
    pub lateness_p50_us: Option<f64>,
    /// Share of its requests without a good answer.
    pub errors: f64,
    /// When answers stopped, seconds since the start of the window.
    pub silent_from_s: Option<f64>,
    /// Its reasons for failure; empty if it passed.
    pub broke: Vec<Broke>,
}

impl End {
    /// The end made of this step.
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
    use engine::sys::units::SECOND_NS;

    use super::*;
    use crate::queues::{Queue, asked};
    use crate::step::Latency;

    /// A shard of 10,000 requests per second before a server that costs nothing.
    fn generator() -> Queue {
        Queue { service_ns: 10, shard_ns: 100_000, ..Queue::serial_ms() }
    }

    #[test]
    fn time_taken_by_others_excuses_a_smaller_shortfall() {
        let mut step = generator().run(&asked("10300", 5));
        assert_eq!(by_load(&step), Outcome::Failed);
        step.figures.steal = Some(0.1);
        assert_eq!(by_load(&step), Outcome::Excused);
        let mut step = generator().run(&asked("20k", 5));
        step.figures.steal = Some(0.1);
        assert_eq!(by_load(&step), Outcome::Failed);
        // Lateness by itself is excused as well, if others took any time.
        let mut step = generator().run(&asked("1k", 5));
        (step.sent_due_per_s, step.backlog.growth) = (step.intended_per_s, 0.0);
        step.pacer_lateness.percentiles.at_mut(0.5).value = Some(1_500.0);
        assert_eq!(by_load(&step), Outcome::Failed);
        step.figures.steal = Some(0.1);
        assert_eq!(by_load(&step), Outcome::Excused);
        // Errors aren't, however late the generator was.
        step.errors = step.requests / 10;
        assert_eq!(by_load(&step), Outcome::Failed);
        // Unsent requests are, if as much time was taken.
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
    fn a_burst_of_errors_decides_nothing_in_a_window_too_short_for_its_spread() {
        // From 1 s to 1.1 s after the start of the window: 3 % of it, perhaps of no other. Then one
        // of 1.5 s, too long to show in 20 s how often such bursts come.
        for (seconds, burst_ns) in [(3, SECOND_NS / 10), (20, 3 * SECOND_NS / 2)] {
            let start_ns = 3 * SECOND_NS;
            let bad_burst_ns = Some((start_ns, start_ns + burst_ns));
            let step = Queue { bad_burst_ns, ..generator() }.run(&asked("1k", seconds));
            assert!(ERRORS_MAX < step.error_share(), "{}", step.error_share());
            assert_eq!((broke(&step), by_load(&step)), (vec![], Outcome::Undecided), "{seconds}");
            // Without it the rate holds, and if as many fail all the time, it doesn't.
            assert_eq!(by_load(&generator().run(&asked("1k", seconds))), Outcome::Passed);
            let step = Queue { bad_status: 0.03, ..generator() }.run(&asked("1k", seconds));
            assert_eq!(by_load(&step), Outcome::Failed, "{seconds} {:?}", step.errors_interval);
        }
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
        // One of ten is more than 2 %, but no share.
        step.requests = 10;
        step.sent_due_per_s = 0.9 * step.intended_per_s;
        assert_eq!(broke(&step), []);
    }
}
