//! What one run at one rate gave, as far as decisions over many runs need it.

use engine::report::slo::Slo;
use engine::report::verdict::{Code, Level};
use engine::report::{DistributionPart, Report};
use engine::stats::percentiles::Percentiles;
use serde::{Deserialize, Serialize};

use crate::figures::Figures;

/// One run at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The planned rate, requests per second.
    pub rate: f64,
    /// Length of its window, seconds.
    pub duration_s: f64,
    /// The seed of its schedule.
    pub seed: u64,
    /// Requests per second of the window: intended.
    pub intended: f64,
    /// Requests per second of the window: sent before its end.
    pub sent: f64,
    /// Requests per second of the window: answered before its end.
    pub answered: f64,
    /// Requests intended in the window.
    pub requests: u64,
    /// Of these, those without a good answer.
    pub errors: u64,
    /// Whether the answers kept up with the arrivals.
    pub backlog: Backlog,
    /// `received − sent`, microseconds.
    pub naive: Latency,
    /// `received − intended`, microseconds.
    pub corrected: Latency,
    /// Intended → noticed by the shard, microseconds: the generator's own lateness.
    pub pacer_lateness: Latency,
    /// How far the numbers can be trusted.
    pub verdict: Trust,
    /// What became of the plan's objectives; `None` if it has none.
    pub slo: Option<Slo>,
    /// Processor time of the shards for each request sent, polling left out, microseconds; `None`
    /// if none was sent.
    pub cpu_us_per_request: Option<f64>,
    /// Busy share of the busiest shard.
    pub busy: f64,
    /// Mean number of requests in flight.
    pub in_flight: f64,
    /// What else the run tells of its bound.
    pub figures: Figures,
    /// What the run said of its rate, by the rule of the series; `None` of a sweep's.
    pub outcome: Option<Outcome>,
}

/// What a run, or all runs of one rate, say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It holds.
    Passed,
    /// Nothing: there were too few samples.
    Undecided,
    /// Nothing as long as another run may say more: it failed, and the rate may be innocent.
    Excused,
    /// Nothing as long as another run may say more: it holds, but lost time may hide that it
    /// doesn't.
    Doubted,
    /// It doesn't hold.
    Failed,
}

/// A distribution of times, microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
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
    /// Of a distribution of a report.
    fn new(part: &DistributionPart) -> Latency {
        let DistributionPart { count, mean, max, .. } = *part;
        Latency { count, mean, percentiles: part.percentiles.clone(), max }
    }
}

/// A verdict without its words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trust {
    /// The level of the worst reason.
    pub level: Level,
    /// The reasons, the worst first.
    pub codes: Vec<Reason>,
}

/// One reason of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// What it is about.
    pub code: Code,
    /// How bad it is.
    pub level: Level,
}

/// Whether the answers kept up with the arrivals, in the second half of the window: there, those in
/// flight at its begin have made room for as many at its end, however long a response takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backlog {
    /// By which share of its arrivals the backlog grew in that half.
    pub growth: f64,
    /// Its 95 % interval, if the backlog at either end varies like a Poisson number.
    pub interval: [f64; 2],
    /// Whether it grew by more than [`GROWTH_MAX`], beyond chance.
    pub fell_behind: bool,
}

/// By which share of the arrivals a backlog may grow before the target counts as falling behind.
pub const GROWTH_MAX: f64 = 0.02;

/// Two-sided 5 % point of the normal distribution.
const NORMAL_5_PERCENT: f64 = 1.96;

impl Backlog {
    /// Of a window whose intervals had so many arrivals and answers, of which this share was good.
    pub fn new(intervals: &[(u64, u64)], good_share: f64) -> Backlog {
        let half = intervals.len() / 2;
        let open = |part: &[(u64, u64)]| {
            let sum = |of: fn(&(u64, u64)) -> u64| part.iter().map(of).sum::<u64>() as f64;
            sum(|interval| interval.0) - good_share * sum(|interval| interval.1)
        };
        let arrivals: u64 = intervals[half..].iter().map(|interval| interval.0).sum();
        let (at_half, at_end) = (open(&intervals[..half]), open(intervals));
        let arrivals = arrivals.max(1) as f64;
        let growth = (at_end - at_half) / arrivals;
        let deviation = (at_half.max(0.0) + at_end.max(0.0)).sqrt() / arrivals;
        let half_width = NORMAL_5_PERCENT * deviation;
        let interval = [growth - half_width, growth + half_width];
        Backlog { growth, interval, fell_behind: GROWTH_MAX < interval[0] }
    }
}

impl Step {
    /// Of the report of an open run.
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
        let good = counts.answered.saturating_sub(counts.unexpected_status);
        let good_share =
            if counts.answered == 0 { 1.0 } else { good as f64 / counts.answered as f64 };
        let reasons = report.verdict.reasons.iter();
        let intervals: Vec<(u64, u64)> = report
            .series
            .intervals
            .iter()
            .map(|interval| (interval.counts.intended, interval.counts.answers))
            .collect();
        Step {
            rate: plan.rate.expect("an open run has a rate").per_second(),
            duration_s: report.config.window_s(),
            seed: plan.seed,
            intended: part.rate.intended,
            sent: part.rate.sent,
            answered: part.rate.answered,
            requests: counts.intended,
            errors: counts.intended.saturating_sub(good),
            backlog: Backlog::new(&intervals, good_share),
            naive: Latency::new(&part.naive),
            corrected: Latency::new(&part.corrected),
            pacer_lateness: Latency::new(&part.pacer_lateness),
            verdict: Trust {
                level: report.verdict.level,
                codes: reasons
                    .map(|reason| Reason { code: reason.code, level: reason.level })
                    .collect(),
            },
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
    use super::*;

    #[test]
    fn a_steady_backlog_is_no_growth_however_long_responses_take() {
        // 100 arrivals an interval, each answered three intervals later.
        let slow: Vec<(u64, u64)> = (0..16).map(|at| (100, if at < 3 { 0 } else { 100 })).collect();
        let backlog = Backlog::new(&slow, 1.0);
        assert_eq!((backlog.growth, backlog.fell_behind), (0.0, false));
    }

    #[test]
    fn a_backlog_that_grows_is_seen_behind_one_that_was_there_before() {
        // Nothing is answered while a backlog from before is worked off; then 100 of 110.
        let late: Vec<(u64, u64)> =
            (0..40).map(|at| (110, if at < 15 { 0 } else { 100 })).collect();
        let backlog = Backlog::new(&late, 1.0);
        assert!((backlog.growth - 10.0 / 110.0).abs() < 1e-9, "{backlog:?}");
        // 1.96 · √(1,700 + 1,900) of 2,200 arrivals.
        assert!((backlog.interval[0] - (backlog.growth - 0.053_45)).abs() < 1e-4, "{backlog:?}");
        assert!(backlog.fell_behind);
    }

    #[test]
    fn answers_that_are_no_good_do_not_keep_up() {
        let shedding = [(100, 100); 16];
        assert!(!Backlog::new(&shedding, 0.99).fell_behind);
        assert!(Backlog::new(&shedding, 0.5).fell_behind);
    }

    #[test]
    fn a_window_without_arrivals_has_no_backlog() {
        assert!(!Backlog::new(&[], 1.0).fell_behind);
        assert!(!Backlog::new(&[(0, 0)], 1.0).fell_behind);
    }
}
