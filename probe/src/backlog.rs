//! Whether answers kept up with arrivals: the slope of the backlog over a window.

use serde::{Deserialize, Serialize};

/// By which share of the arrivals a backlog may grow before the target counts as falling behind.
pub const GROWTH_MAX: f64 = 0.02;

/// Two-sided 5 % point of the normal distribution.
const NORMAL_5_PERCENT: f64 = 1.96;
/// Two-sided 5 % points of Student's t, from one degree of freedom up to six.
const STUDENT_5_PERCENT: [f64; 6] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447];
/// A slope is fitted to the means of so many batches at most.
const BATCHES: usize = STUDENT_5_PERCENT.len() + 2;

/// What happened in one interval of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Interval {
    /// Requests that were due in it, without those that failed: nobody waits for these.
    pub(crate) due: f64,
    /// Answers that came in it, of any status.
    pub(crate) answers: u64,
    /// Median corrected latency of the requests due in it, seconds; `None` without any.
    pub(crate) latency_s: Option<f64>,
}

/// Whether the answers kept up with the arrivals, in the second half of the window: there, those in
/// flight at its begin have made room for as many at its end, unless a response takes longer than
/// the first half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backlog {
    /// By which share of its arrivals the backlog grew in that half, by the line through it.
    pub growth: f64,
    /// Its 95 % interval; `None` if the window has too few intervals for one.
    pub interval: Option<[f64; 2]>,
    /// Whether it grew by more than [`GROWTH_MAX`], beyond chance; `None` if the window was too
    /// short to tell, or all requests failed.
    pub fell_behind: Option<bool>,
}

impl Backlog {
    /// Of the intervals of a window, each this long.
    pub(crate) fn new(intervals: &[Interval], interval_s: f64) -> Backlog {
        let (early, late) = intervals.split_at(intervals.len() / 2);
        let due: f64 = late.iter().map(|interval| interval.due).sum();
        if due <= 0.0 {
            return Backlog { growth: 0.0, interval: None, fell_behind: None };
        }
        let soonest = early.iter().filter_map(|interval| interval.latency_s).min_by(f64::total_cmp);
        if soonest.is_some_and(|latency_s| early.len() as f64 * interval_s < latency_s) {
            return Backlog::by_latency(intervals, interval_s);
        }
        let grows = |interval: &Interval| interval.due - interval.answers as f64;
        let mut open = vec![early.iter().map(grows).sum::<f64>()];
        for interval in late {
            open.push(open[open.len() - 1] + grows(interval));
        }
        let to_share = late.len() as f64 / due;
        let Some(slope) = Slope::of(&open) else {
            let growth = (open[open.len() - 1] - open[0]) / due;
            return Backlog { growth, interval: None, fell_behind: None };
        };
        // What a line can't tell: with long responses, a backlog varies slowly, like a Poisson
        // number.
        let ends = open[0].max(0.0) + open[open.len() - 1].max(0.0);
        let by_chance = NORMAL_5_PERCENT * ends.sqrt() / due;
        let growth = slope.per_step * to_share;
        let half_width = (slope.half_width * to_share).hypot(by_chance);
        let interval = [growth - half_width, growth + half_width];
        Backlog { growth, interval: Some(interval), fell_behind: Some(GROWTH_MAX < interval[0]) }
    }

    /// Of a window in whose first half nothing that was due in it was answered. Latency that rises
    /// by s for each second means that 1 of 1 + s arrivals is answered. Without a rise it tells
    /// nothing.
    fn by_latency(intervals: &[Interval], interval_s: f64) -> Backlog {
        let mut latencies: Vec<f64> =
            intervals.iter().filter_map(|interval| interval.latency_s).collect();
        // What comes behind the longest was given up, at the timeout or at the end of the run.
        let longest = latencies.iter().copied().fold(0.0, f64::max);
        let rising = latencies.iter().take_while(|latency_s| **latency_s < longest).count() + 1;
        latencies.truncate(rising);
        let share = |rise: f64| rise / (1.0 + rise.max(0.0));
        let Some(slope) = Slope::of(&latencies) else {
            return Backlog { growth: 0.0, interval: None, fell_behind: None };
        };
        let rise = slope.per_step / interval_s;
        let half_width = slope.half_width / interval_s;
        let interval = [share(rise - half_width), share(rise + half_width)];
        let fell_behind = (GROWTH_MAX < interval[0]).then_some(true);
        Backlog { growth: share(rise), interval: Some(interval), fell_behind }
    }
}

/// The line through values that are one step apart.
struct Slope {
    per_step: f64,
    /// Half of its 95 % interval, by how far the means of batches lie from the line.
    half_width: f64,
}

impl Slope {
    /// `None` below three values.
    fn of(values: &[f64]) -> Option<Slope> {
        let count = values.len().min(BATCHES);
        let degrees = count.checked_sub(2).filter(|degrees| 0 < *degrees)?;
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
        let batches = (0..count).map(|at| {
            let (from, to) = (at * values.len() / count, (at + 1) * values.len() / count);
            ((from + to - 1) as f64 / 2.0, mean(&values[from..to]))
        });
        let (x, y): (Vec<f64>, Vec<f64>) = batches.unzip();
        let (x_mean, y_mean) = (mean(&x), mean(&y));
        let dot = |one: &[f64], other: &[f64]| -> f64 {
            std::iter::zip(one, other).map(|(one, other)| one * other).sum()
        };
        let x: Vec<f64> = x.iter().map(|x| x - x_mean).collect();
        let y: Vec<f64> = y.iter().map(|y| y - y_mean).collect();
        let spread = dot(&x, &x);
        let per_step = dot(&x, &y) / spread;
        let residuals = (dot(&y, &y) - per_step * per_step * spread).max(0.0);
        let deviation = (residuals / degrees as f64 / spread).sqrt();
        Some(Slope { per_step, half_width: STUDENT_5_PERCENT[degrees - 1] * deviation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals of 1 s with these arrivals and answers.
    fn backlog(intervals: impl IntoIterator<Item = (f64, u64)>) -> Backlog {
        let intervals: Vec<Interval> = intervals
            .into_iter()
            .map(|(due, answers)| Interval { due, answers, latency_s: None })
            .collect();
        Backlog::new(&intervals, 1.0)
    }

    /// Intervals of 1 s in which nothing was answered, by requests that took this long.
    fn unanswered(latencies_s: impl IntoIterator<Item = f64>) -> Backlog {
        let interval = |s| Interval { due: 100.0, answers: 0, latency_s: Some(s) };
        Backlog::new(&latencies_s.into_iter().map(interval).collect::<Vec<_>>(), 1.0)
    }

    #[test]
    fn a_line_is_fitted_with_its_interval() {
        let line = Slope::of(&[1.0, 3.0, 5.0, 7.0]).expect("four values");
        assert!((line.per_step - 2.0).abs() < 1e-12 && line.half_width < 1e-6);
        // By hand: the line 0.2 + 0.7·x leaves 0.8, −0.9, −0.6 and 0.7; two degrees of freedom.
        let bent = Slope::of(&[1.0, 0.0, 1.0, 3.0]).expect("four values");
        assert!((bent.per_step - 0.7).abs() < 1e-12, "{}", bent.per_step);
        let residuals: f64 = [0.8, -0.9, -0.6, 0.7].iter().map(|x: &f64| x * x).sum();
        let by_hand = 4.303 * (residuals / 2.0 / 5.0).sqrt();
        assert!((bent.half_width - by_hand).abs() < 1e-9, "{} {by_hand}", bent.half_width);
        assert!(Slope::of(&[1.0, 2.0]).is_none());
        // More values than batches lie on the same line.
        let long: Vec<f64> = (0..37).map(|at| 3.0 * f64::from(at)).collect();
        assert!((Slope::of(&long).expect("many values").per_step - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_steady_backlog_is_no_growth_however_long_responses_take() {
        // 100 arrivals an interval, each answered three intervals later.
        let slow = backlog((0..16).map(|at| (100.0, if at < 3 { 0 } else { 100 })));
        assert_eq!((slow.growth, slow.fell_behind), (0.0, Some(false)));
    }

    #[test]
    fn a_backlog_that_grows_is_seen_behind_one_that_was_there_before() {
        // Nothing is answered while a backlog from before is worked off; then 100 of 110.
        let late = backlog((0..40).map(|at| (110.0, if at < 15 { 0 } else { 100 })));
        assert!((late.growth - 10.0 / 110.0).abs() < 1e-9, "{late:?}");
        // 1.96 · √(1,700 + 1,900) of 2,200 arrivals.
        let [low, _] = late.interval.expect("there are enough intervals");
        assert!((low - (late.growth - 0.053_45)).abs() < 1e-4, "{late:?}");
        assert_eq!(late.fell_behind, Some(true));
    }

    #[test]
    fn a_stall_at_the_windows_end_is_no_growth() {
        // The target stops for the last interval, as it may have at any other time.
        let stalled = backlog((0..40).map(|at| (100.0, if at == 39 { 0 } else { 100 })));
        assert_eq!(stalled.fell_behind, Some(false), "{stalled:?}");
    }

    #[test]
    fn responses_longer_than_half_of_the_window_leave_it_open() {
        assert_eq!(unanswered([4.0; 5]).fell_behind, None);
        // A latency that rises by a second a second: half of the arrivals are answered.
        let rising = unanswered((0..8).map(|at| 10.0 + f64::from(at)));
        assert!((rising.growth - 0.5).abs() < 1e-9, "{rising:?}");
        assert_eq!(rising.fell_behind, Some(true));
        // The same, where requests are given up after 14 s.
        let given_up = unanswered((0..9).map(|at| (10.0 + f64::from(at)).min(14.0)));
        assert_eq!((given_up.growth, given_up.fell_behind), (rising.growth, Some(true)));
    }

    #[test]
    fn a_window_that_is_short_or_has_nothing_to_answer_tells_nothing() {
        assert_eq!(backlog([]).fell_behind, None);
        assert_eq!(backlog([(0.0, 0); 8]).fell_behind, None);
        assert_eq!(backlog([(9.0, 9), (9.0, 0)]).fell_behind, None);
    }
}
