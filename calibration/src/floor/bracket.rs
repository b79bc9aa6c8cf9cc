//! The limit of open runs as a bracket: the next rate to try, and the test whether a run kept up
//! with its plan.

use engine::report::Report;
use serde::{Deserialize, Serialize};

use super::figures::{self, CpuPerRequest};
use crate::others;

/// Share of its plan that a run must send to have kept up.
pub const SENT_MIN: f64 = 0.999;
/// The largest growth of the backlog of due and unanswered requests from the middle of the window
/// to its end, as a share of the plan.
pub const GROWTH_MAX: f64 = 0.001;
/// The first rate, as a share of the closed loop's.
const FIRST: f64 = 0.5;
/// The factor by which the rate rises until a run fails, and falls until one keeps up.
const FACTOR: f64 = 1.3;
/// The bracket's final width, as a factor.
const WIDTH: f64 = 1.06;
/// The most rates to try.
const TRIES_MAX: usize = 10;
/// The most runs at one rate while others may have caused the failures.
const RUNS_MAX: usize = 4;
/// The most runs at one rate that others can't have made fail: the second failure counts.
const FAILED_MAX: usize = 2;

/// One rate that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Requests per second planned.
    pub rate: f64,
    /// Share of the intended requests that were sent within the window.
    pub sent: f64,
    /// Growth of the backlog of due and unanswered requests over the second half of the window, as
    /// a share of the intended.
    pub growth: f64,
    /// Pacer lateness p99, µs.
    pub pacer_p99_us: Option<f64>,
    /// Busy share of the busiest shard, polling not counted.
    pub busy: f64,
    /// CPU time of the shards per answered request; polling left out.
    pub cpu: CpuPerRequest,
    /// Why it failed; `None` if it kept up.
    pub failed: Option<String>,
    /// True if others may have caused the failure: they took as much of the generator's cores as it
    /// fell short by, or so much of the machine that the run proves nothing.
    pub disturbed: bool,
}

impl Tried {
    /// Evaluates a run at this rate.
    pub fn new(rate: f64, report: &Report) -> Tried {
        let counts = &report.whole.counts;
        let share = |part: f64| part / (counts.intended.max(1) as f64);
        let sent = share(counts.sent_in_window as f64);
        let growth = share(backlog_growth(report));
        let failed = match () {
            () if counts.intended == 0 => Some("nothing was due".to_owned()),
            () if sent < SENT_MIN => Some(format!("sent {:.2} %", sent * 100.0)),
            () if GROWTH_MAX < growth => Some(format!("backlog {:+.2} %", growth * 100.0)),
            () => None,
        };
        Tried {
            rate,
            sent,
            growth,
            pacer_p99_us: report.whole.pacer_lateness.quantile_us(0.99),
            busy: figures::busiest(report),
            cpu: CpuPerRequest::new(report),
            failed,
            disturbed: others::moved_the_median(report)
                || is_explained((1.0 - sent).max(growth), others::taken(report)),
        }
    }
}

/// True if others, who took this share of a core, can explain a run that fell short by this share
/// of its plan.
fn is_explained(short: f64, taken: f64) -> bool {
    0.0 < short && short <= taken
}

/// The backlog of due and unanswered requests at the end of the window less that in its middle.
fn backlog_growth(report: &Report) -> f64 {
    let intervals = &report.series.intervals;
    let late = &intervals[intervals.len().div_ceil(2)..];
    let sum = |of: fn(&engine::record::counts::IntervalCounts) -> u64| -> f64 {
        late.iter().map(|interval| of(&interval.counts) as f64).sum()
    };
    sum(|counts| counts.intended) - sum(|counts| counts.answers)
}

/// The highest rate that a run kept up with, below the lowest that none did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bracket {
    /// Requests per second; `None` if no run kept up.
    pub passed: Option<f64>,
    /// Requests per second; `None` if none failed.
    pub failed: Option<f64>,
}

impl Bracket {
    /// The bracket from these runs. A rate that was tried again kept up if any of its runs did:
    /// disturbances only make a run fail.
    pub fn new(tried: &[Tried]) -> Bracket {
        let kept_up = |rate: f64| tried.iter().any(|one| one.rate == rate && one.failed.is_none());
        let failed =
            tried.iter().map(|one| one.rate).filter(|rate| !kept_up(*rate)).min_by(f64::total_cmp);
        let below = |rate: &f64| kept_up(*rate) && failed.is_none_or(|failed| *rate < failed);
        let passed = tried.iter().map(|one| one.rate).filter(below).max_by(f64::total_cmp);
        Bracket { passed, failed }
    }
}

/// The next rate to try, given the closed loop's responses per second; `None` when the bracket is
/// narrow, or enough rates were tried.
pub(super) fn next(closed: f64, tried: &[Tried]) -> Option<f64> {
    let rates = tried.iter().fold(Vec::new(), |mut rates: Vec<f64>, one| {
        if rates.last() != Some(&one.rate) {
            rates.push(one.rate);
        }
        rates
    });
    if TRIES_MAX <= rates.len() {
        return None;
    }
    if let Some(last) = tried.last()
        && last.failed.is_some()
    {
        let of_rate = || tried.iter().filter(|one| one.rate == last.rate);
        let believed = of_rate().filter(|one| !one.disturbed).count();
        if believed < FAILED_MAX && of_rate().count() < RUNS_MAX {
            return Some(last.rate);
        }
    }
    let rate = match Bracket::new(tried) {
        Bracket { passed: None, failed: None } => closed * FIRST,
        Bracket { passed: Some(passed), failed: None } => passed * FACTOR,
        Bracket { passed: None, failed: Some(failed) } => failed / FACTOR,
        Bracket { passed: Some(passed), failed: Some(failed) } if passed * WIDTH < failed => {
            (passed * failed).sqrt()
        }
        Bracket { .. } => return None,
    };
    Some(rate.round().max(1.0))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An open loop that nothing disturbed.
    pub(in crate::floor) fn tried(rate: f64, keeps_up: bool) -> Tried {
        Tried {
            rate,
            sent: 1.0,
            growth: 0.0,
            pacer_p99_us: None,
            busy: 0.5,
            cpu: CpuPerRequest::default(),
            failed: (!keeps_up).then(|| "sent 90.00 %".to_owned()),
            disturbed: false,
        }
    }

    /// The bracket of a generator with this capacity, and the number of runs that it took.
    fn found(closed: f64, capacity: f64) -> (Bracket, usize) {
        let mut all = Vec::new();
        while let Some(rate) = next(closed, &all) {
            all.push(tried(rate, rate <= capacity));
        }
        (Bracket::new(&all), all.len())
    }

    #[test]
    fn the_bracket_closes_around_the_capacity_wherever_it_lies() {
        for capacity in [30_000.0, 70_000.0, 100_000.0, 180_000.0] {
            let (bracket, runs) = found(100_000.0, capacity);
            let (passed, failed) = (bracket.passed.expect("one"), bracket.failed.expect("one"));
            assert!(passed <= capacity && capacity < failed, "{capacity} {bracket:?}");
            assert!(failed <= passed * WIDTH + 1.0, "{capacity} {bracket:?}");
            assert!(runs <= 2 * TRIES_MAX, "{runs}");
        }
    }

    #[test]
    fn the_search_ends_where_no_rate_fails_or_none_keeps_up() {
        let (bracket, runs) = found(1_000.0, f64::INFINITY);
        assert_eq!((bracket.failed, runs), (None, TRIES_MAX));
        let (bracket, runs) = found(1_000.0, 0.0);
        assert_eq!(bracket.passed, None);
        assert!(runs <= 2 * TRIES_MAX, "{runs}");
    }

    #[test]
    fn the_second_failure_at_a_rate_counts() {
        let once = [tried(500.0, false)];
        assert_eq!(next(1_000.0, &once), Some(500.0));
        let kept_up = [tried(500.0, false), tried(500.0, true)];
        assert_eq!(Bracket::new(&kept_up), Bracket { passed: Some(500.0), failed: None });
        let twice = [tried(500.0, false), tried(500.0, false)];
        assert_eq!(Bracket::new(&twice), Bracket { passed: None, failed: Some(500.0) });
        assert!(next(1_000.0, &twice).expect("a rate") < 500.0);
    }

    #[test]
    fn a_failure_that_others_explain_is_repeated_up_to_a_limit() {
        // In a window of 1 s the kernel reports stolen time in steps of 1 %.
        assert!(is_explained(0.007_6, 0.01) && is_explained(0.001_2, 0.003));
        assert!(
            !is_explained(0.02, 0.01) && !is_explained(0.007_6, 0.0) && !is_explained(0.0, 0.5)
        );
        let disturbed = || Tried { disturbed: true, ..tried(500.0, false) };
        let mut all = vec![disturbed(), tried(500.0, false), disturbed()];
        assert_eq!(next(1_000.0, &all), Some(500.0));
        all.push(tried(500.0, false));
        assert!(next(1_000.0, &all).expect("a rate") < 500.0, "it failed twice by itself");
        let all: Vec<Tried> = (0..RUNS_MAX).map(|_| disturbed()).collect();
        assert_eq!(next(1_000.0, &all[1..]), Some(500.0));
        assert!(next(1_000.0, &all).expect("a rate") < 500.0);
    }

    #[test]
    fn a_rate_above_a_failure_does_not_end_the_bracket() {
        let all = [tried(500.0, true), tried(600.0, false), tried(700.0, true)];
        assert_eq!(Bracket::new(&all), Bracket { passed: Some(500.0), failed: Some(600.0) });
    }
}
