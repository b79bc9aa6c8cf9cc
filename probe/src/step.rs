//! The results of one run at one rate, as far as decisions over many runs need them.

use engine::record::counts::IntervalCounts;
use engine::record::outcome::Cause;
use engine::report::slo::Slo;
use engine::report::verdict::{Code, Level, Verdict};
use engine::report::{ClientShare, DistributionPart, Microseconds, Report, SeriesPart};
use engine::stats::percentiles::Percentiles;
use engine::stats::pieces::Pieces;
use engine::stats::ratio::{count_interval, share_interval};
use serde::{Deserialize, Serialize};

use crate::backlog::{Backlog, Interval};
use crate::figures::Figures;

/// One run at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The planned rate, requests per second.
    pub rate_per_s: f64,
    /// Length of its window, seconds.
    pub duration_s: f64,
    /// The total time of the run, seconds: with the rest before it, its set-up, its warm-up, and
    /// the wait for the last responses.
    pub took_s: f64,
    /// The seed of its schedule.
    pub seed: u64,
    /// Requests per second of the window: intended.
    pub intended_per_s: f64,
    /// Requests per second that were sent in the window, whenever they were due.
    pub sent_per_s: f64,
    /// Of those due in the window, sent before its end.
    pub sent_due_per_s: f64,
    /// Requests per second that were answered in the window, whenever they were due.
    pub answered_per_s: f64,
    /// Of those due in the window, answered before its end.
    pub answered_due_per_s: f64,
    /// Requests intended in the window.
    pub requests: u64,
    /// The requests without a good answer.
    pub errors: u64,
    /// The 95 % interval of their share, by their spread over the window: without an upper end if
    /// that is unknown. `None` without requests.
    pub errors_interval: Option<[f64; 2]>,
    /// Whether the answers kept up with the arrivals.
    pub backlog: Backlog,
    /// When answers stopped, seconds since the start of the window: none came since, and no request
    /// due since was ever answered. 0 if there were none at all; `None` if they went on, or if
    /// requests failed for lack of something on the generator's machine.
    pub silent_from_s: Option<f64>,
    /// `received − sent`, microseconds.
    pub naive: Latency,
    /// `received − intended`, microseconds.
    pub corrected: Latency,
    /// Intended → noticed by the shard, microseconds: the generator's own lateness.
    pub pacer_lateness: Latency,
    /// The generator's part of the requests at a corrected latency; `None` if unknown.
    pub client_share: Option<ClientShare>,
    /// How far the numbers can be trusted.
    pub verdict: Trust,
    /// The results of the plan's objectives; `None` if it has none.
    pub slo: Option<Slo>,
    /// Processor time of the shards per request sent, without polling, microseconds; `None` if none
    /// was sent.
    pub cpu_us_per_request: Option<f64>,
    /// Busy share of the busiest shard.
    pub busy: f64,
    /// Mean number of requests in flight.
    pub in_flight: f64,
    /// The run's other figures about its bound.
    pub figures: Figures,
    /// The outcome for its rate, by the rule of the series; `None` in a sweep.
    pub outcome: Option<Outcome>,
}

/// The outcome of a run, or of all runs of one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It holds.
    Passed,
    /// Undecided: there were too few samples, or the window was too short.
    Undecided,
    /// It failed, but the rate may not be the cause: undecided as long as another run may decide,
    /// and for a ceiling always.
    Excused,
    /// It holds, but lost time may hide that it doesn't: undecided as long as another run may
    /// decide.
    Doubted,
    /// It doesn't hold.
    Failed,
}

/// The percentiles that a series shows of its steps, by name.
pub const SHOWN: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The unit of the times.
    pub unit: Microseconds,
    /// Values recorded.
    pub count: u64,
    /// The mean.
    pub mean: Option<f64>,
    /// The percentiles with their confidence intervals.
    #[serde(flatten)]
    pub percentiles: Percentiles,
    /// The largest.
    pub max: Option<f64>,
}

impl Latency {
    /// From a distribution of a report.
    pub(crate) fn new(part: &DistributionPart) -> Latency {
        let DistributionPart { count, mean, max, .. } = *part;
        Latency { unit: part.unit, count, mean, percentiles: part.percentiles.clone(), max }
    }
}

/// A verdict without its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trust {
    /// The level of the worst reason.
    pub level: Level,
    /// The reasons, the worst first.
    pub codes: Vec<Reason>,
    /// The notes: causes that affected no number, or one that a reason is about.
    #[serde(default)]
    pub notes: Vec<Reason>,
}

impl Trust {
    /// From a report's verdict.
    pub(crate) fn new(verdict: &Verdict) -> Trust {
        let codes = |all: &[engine::report::verdict::Reason]| {
            all.iter().map(|one| Reason { code: one.code, level: one.level }).collect()
        };
        let Verdict { level, reasons, notes } = verdict;
        Trust { level: *level, codes: codes(reasons), notes: codes(notes) }
    }

    /// The codes of the reasons of this level, each once.
    pub fn codes_at(&self, level: Level) -> Vec<Code> {
        let reasons = self.codes.iter().filter(|reason| reason.level == level);
        let mut codes: Vec<Code> = reasons.map(|reason| reason.code).collect();
        codes.dedup();
        codes
    }

    /// Their names.
    pub fn names_at(&self, level: Level) -> Vec<String> {
        self.codes_at(level).iter().map(Code::to_string).collect()
    }

    /// All findings: the reasons, then the notes.
    pub fn found(&self) -> impl Iterator<Item = &Reason> {
        self.codes.iter().chain(&self.notes)
    }
}

/// One reason of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Its code.
    pub code: Code,
    /// Its level.
    pub level: Level,
}

/// The largest share of requests without a good answer at which a rate may count as served.
pub const ERRORS_MAX: f64 = 0.01;

/// This many consecutive requests without an answer are no chance.
const SILENT_MIN: u64 = 10;

/// When answers in a series stopped, seconds since its start.
fn silent_from_s(series: &SeriesPart) -> Option<f64> {
    let SeriesPart { interval_s, intervals, .. } = series;
    let last = intervals.iter().rposition(|one| 0 < one.counts.answers + one.counts.answered);
    let from = last.map_or(0, |at| at + 1);
    let sent: u64 = intervals[from..].iter().map(|one| one.counts.sent).sum();
    let least = if last.is_none() { 1 } else { SILENT_MIN };
    (least <= sent).then_some(from as f64 * interval_s)
}

/// The parts of a window that all have to show errors, for a lower end without an interval.
const QUARTERS: usize = 4;

/// The 95 % interval of the share of these errors, by their spread over the window; `None` without
/// requests.
///
/// Where the spread is unknown, since the window is too short or the errors come in bursts too long
/// for it, they may come as rarely as one window in many: then there is no upper end, and the lower
/// end is that of the quarter with the smallest. A target that fails all the time has one, and a
/// burst has none. Without an error there is no burst, and the spread is known.
pub(crate) fn errors_interval(
    errors: u64,
    requests: u64,
    pieces: &Pieces<(u64, u64)>,
) -> Option<[f64; 2]> {
    if requests == 0 {
        return None;
    }
    let independent = |errors: u64, requests: u64| {
        count_interval(errors, 0.05).map(|end| (end / requests.max(1) as f64).min(1.0))
    };
    let without_spread = || match errors {
        0 => independent(0, requests),
        _ => {
            let all: Vec<(u64, u64)> = pieces.iter().copied().collect();
            let low = |quarter: usize| {
                let edge = |quarter: usize| quarter * all.len() / QUARTERS;
                let part = &all[edge(quarter)..edge(quarter + 1)];
                let sum = |of: fn(&(u64, u64)) -> u64| part.iter().map(of).sum();
                independent(sum(|piece| piece.0), sum(|piece| piece.1))[0]
            };
            [(0..QUARTERS).map(low).fold(1.0, f64::min), 1.0]
        }
    };
    Some(share_interval(errors, requests, pieces).unwrap_or_else(|_| without_spread()))
}

/// Each rate with its steps, ascending; those of one rate in the order in which they were made.
pub(crate) fn by_rate(steps: &[Step]) -> Vec<(f64, Vec<&Step>)> {
    let mut sorted: Vec<&Step> = steps.iter().collect();
    sorted.sort_by(|one, other| one.rate_per_s.total_cmp(&other.rate_per_s));
    let rates = sorted.chunk_by(|one, other| one.rate_per_s == other.rate_per_s);
    rates.map(|steps| (steps[0].rate_per_s, steps.to_vec())).collect()
}

/// True if steps decided something, and each of those that did has an invalid verdict.
pub fn none_is_valid(steps: &[Step]) -> bool {
    let mut deciding =
        steps.iter().filter(|step| step.outcome != Some(Outcome::Undecided)).peekable();
    deciding.peek().is_some() && deciding.all(|step| step.verdict.level == Level::Invalid)
}

impl Step {
    /// Share of its requests without a good answer.
    pub fn error_share(&self) -> f64 {
        self.errors as f64 / self.requests.max(1) as f64
    }

    /// From the report of an open run, which doesn't have the total time.
    ///
    /// # Panics
    /// If the run had no rate.
    pub fn new(report: &Report) -> Step {
        let (part, plan) = (&report.whole, &report.config.plan);
        let counts = &part.counts;
        let shards = &report.generator.shards;
        let cpu_s: f64 = shards
            .iter()
            .map(|shard| shard.cpu_user_s + shard.cpu_system_s - shard.polling_s)
            .sum();
        let good = counts.good();
        let good_share =
            if counts.answered == 0 { 1.0 } else { good as f64 / counts.answered as f64 };
        let in_error = counts.ended_in_error();
        let failed_share = if in_error == 0 { 0.0 } else { counts.failed as f64 / in_error as f64 };
        let SeriesPart { interval_s, intervals, .. } = &report.series;
        let due = |counts: &IntervalCounts| {
            // Intervals don't record which of the errors were failures.
            counts.intended as f64 - failed_share * counts.errors as f64
        };
        // The last may be shorter than the others.
        let whole = intervals.iter().enumerate().take_while(|(at, _)| {
            (*at + 1) as f64 * interval_s <= report.config.window_s() * (1.0 + 1e-9)
        });
        let backlog: Vec<Interval> = whole
            .map(|(_, interval)| Interval {
                due: due(&interval.counts),
                answers: interval.counts.answers,
                latency_s: interval.p50.map(|us| us / 1e6),
            })
            .collect();
        let rate_per_s = plan.rate.expect("an open run has a rate").per_second();
        let all_due: f64 = intervals.iter().map(|interval| due(&interval.counts)).sum();
        let offered = rate_per_s * interval_s * all_due / counts.intended.max(1) as f64;
        let errors = counts.intended.saturating_sub(good);
        Step {
            rate_per_s,
            duration_s: report.config.window_s(),
            took_s: 0.0,
            seed: plan.seed,
            intended_per_s: part.rate.intended,
            sent_per_s: part.rate.sent,
            sent_due_per_s: part.rate.sent_due,
            answered_per_s: part.rate.answered,
            answered_due_per_s: part.rate.answered_due,
            requests: counts.intended,
            errors,
            errors_interval: errors_interval(
                errors,
                counts.intended,
                &report.series.bad_pieces(report.config.window_s()),
            ),
            backlog: Backlog::new(&backlog, *interval_s, offered),
            silent_from_s: silent_from_s(&report.series)
                .filter(|_| Cause::LOCAL.iter().all(|cause| counts.errors.of(*cause) == 0)),
            naive: Latency::new(&part.naive),
            corrected: Latency::new(&part.corrected),
            pacer_lateness: Latency::new(&part.pacer_lateness),
            client_share: part.client_share.clone(),
            verdict: Trust::new(&report.verdict),
            slo: report.slo.clone(),
            cpu_us_per_request: (0 < counts.sent_in_window)
                .then(|| cpu_s.max(0.0) * 1e6 / counts.sent_in_window as f64),
            busy: shards.iter().map(|shard| shard.busy).fold(0.0, f64::max),
            in_flight: report.littles_law.in_flight_mean,
            figures: Figures::new(report, good_share),
            outcome: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::report::IntervalPart;

    use super::*;
    use crate::queues::{Queue, asked};

    /// When answers stop in these intervals of 125 ms: requests sent, answers to them, and answers
    /// that came.
    fn silent_from(intervals: &[(u64, u64, u64)]) -> Option<f64> {
        let interval = |&(sent, answered, answers): &(u64, u64, u64)| IntervalPart {
            start_s: 0.0,
            counts: IntervalCounts {
                intended: sent,
                sent,
                answered,
                answers,
                ..Default::default()
            },
            in_flight: 0,
            p50: None,
            p99: None,
            max: None,
            histogram: String::new(),
            receive_lateness_p50: None,
            receive_lateness_p99: None,
            receive_lateness_max: None,
        };
        let intervals = intervals.iter().map(interval).collect();
        silent_from_s(&SeriesPart { unit: Microseconds::Us, interval_s: 0.125, intervals })
    }

    #[test]
    fn a_target_is_silent_from_its_last_answer_on() {
        assert_eq!(silent_from(&[(1, 0, 0), (2, 0, 0)]), Some(0.0));
        assert_eq!(silent_from(&[(9, 9, 9), (9, 9, 9), (9, 0, 0), (1, 0, 0)]), Some(0.25));
        // Too few to decide, none sent, a backlog that is worked off, and answers after the window.
        assert_eq!(silent_from(&[(9, 9, 9), (9, 0, 0)]), None);
        assert_eq!(silent_from(&[(0, 0, 0), (0, 0, 0)]), None);
        assert_eq!(silent_from(&[(90, 50, 5), (90, 0, 5)]), None);
        assert_eq!(silent_from(&[(90, 90, 0), (90, 90, 0)]), None);
        assert_eq!(silent_from(&[]), None);
    }

    #[test]
    fn errors_whose_spread_is_unknown_have_a_lower_end_only_if_they_go_on_all_the_time() {
        let interval = |pieces: Vec<(u64, u64)>| {
            let (errors, requests) =
                pieces.iter().fold((0, 0), |sum, piece| (sum.0 + piece.0, sum.1 + piece.1));
            errors_interval(errors, requests, &Pieces::new(pieces, 0.125)).expect("requests")
        };
        // 3 s are too short for a spread; in 20 s, 1.5 s of errors are too long a burst.
        for (pieces, burst) in [(24, 2), (160, 12)] {
            let [of_burst, of_all, of_none] =
                [[20, 0], [20, 20], [0, 0]].map(|[in_burst, others]| {
                    let bad = |at| if (1..=burst).contains(&at) { in_burst } else { others };
                    interval((0..pieces).map(|at| (bad(at), 100)).collect())
                });
            assert_eq!(of_burst, [0.0, 1.0], "{pieces}");
            assert!(0.15 < of_all[0] && of_all[0] < 0.2 && 0.2 < of_all[1], "{of_all:?}");
            assert!(of_none[0] == 0.0 && of_none[1] < 0.002, "{of_none:?}");
        }
        assert_eq!(errors_interval(0, 0, &Pieces::none()), None);
    }

    #[test]
    fn an_answer_is_invalid_if_each_step_that_decided_something_is() {
        use Level::{Invalid, Suspect, Valid};
        let step = Queue::serial_ms().run(&asked("100", 1));
        let (passed, undecided) = (Some(Outcome::Passed), Some(Outcome::Undecided));
        for (steps, expected) in [
            (&[][..], false),
            // A sweep's steps have no outcome by a rule.
            (&[(None, Invalid), (None, Invalid)], true),
            (&[(None, Invalid), (None, Suspect)], false),
            (&[(passed, Invalid), (undecided, Valid)], true),
            (&[(Some(Outcome::Failed), Invalid), (passed, Valid)], false),
            (&[(undecided, Invalid)], false),
        ] {
            let with = |&(outcome, level)| Step {
                outcome,
                verdict: Trust { level, codes: Vec::new(), notes: Vec::new() },
                ..step.clone()
            };
            let made: Vec<Step> = steps.iter().map(with).collect();
            assert_eq!(none_is_valid(&made), expected, "{steps:?}");
        }
    }
}
