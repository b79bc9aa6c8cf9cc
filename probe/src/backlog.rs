//! Whether answers kept up with arrivals, by the second half of a window.
//!
//! A step passes if the upper end of its growth's interval is below twice the limit, fails if the
//! lower end is above the limit, and is undecided in between. Growth is that of the line through
//! the half, not the difference of its two ends, since a stall that ends a window is no growth. A
//! window in whose first half nothing could be answered yet is undecided.
//!
//! Random arrivals differ from their rate: of 250 due, 16 more or fewer come by chance. That alone
//! may make a target fall behind in a window, or keep up although it couldn't for long; the backlog
//! itself would take 10,000 arrivals to show 2 %. So its growth has two bounds that allow for
//! chance. A target can't answer faster than it serves, however many arrive: it is too slow by at
//! most the offered rate less the answers. And where the answers follow the arrivals' ups and
//! downs, it has spare capacity, so the backlog itself shows its growth; where they don't, and are
//! regular, it is full, so the answers are its capacity. Each bound allows for chance by the
//! differences between batches of the half. So windows of 10 to 20 s find the capacity of a server
//! of 50/s to 2 %. `simulated.rs` and the study in `probe/README.md` show how often this is wrong.

use engine::stats::interval::NORMAL_5_PERCENT;
use serde::{Deserialize, Serialize};

/// The share of the arrivals by which a backlog may grow before the target counts as falling
/// behind. It kept up if growth by twice as much is ruled out.
pub const GROWTH_MAX: f64 = 0.01;
/// [`GROWTH_MAX`] for growth that isn't ruled out.
pub(crate) const KEPT_UP_MAX: f64 = 2.0 * GROWTH_MAX;

/// Two-sided 5 % points of Student's t, from one degree of freedom up to six.
const STUDENT_5_PERCENT: [f64; 6] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447];
/// The most batches to whose means a slope is fitted.
const BATCHES: usize = STUDENT_5_PERCENT.len() + 2;
/// The largest share of the arrivals' variance at which the variance of another count is
/// independent of them: by chance alone it is this small in fewer than one window of a hundred.
const APART: f64 = 0.25;
/// The smallest error of a count: one request at either end.
const EDGES: f64 = 2.0;

/// One interval of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Interval {
    /// Requests due in it, without those that failed: no one waits for these.
    pub(crate) due: f64,
    /// Answers that came in it, of any status.
    pub(crate) answers: u64,
    /// Median corrected latency of the requests due in it, seconds; `None` without any.
    pub(crate) latency_s: Option<f64>,
}

/// Whether the answers kept up with the arrivals in the second half of the window. There, requests
/// in flight at its start are balanced by those at its end, unless a response takes longer than the
/// first half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backlog {
    /// Growth of the backlog in that half, as a share of the arrivals.
    pub growth: f64,
    /// Its 95 % interval; `None` if the window has too few intervals for one.
    pub interval: Option<[f64; 2]>,
    /// True if it grows by more than [`GROWTH_MAX`], beyond chance; `None` if undecided, since it
    /// may grow by twice as much, or since all requests failed.
    pub fell_behind: Option<bool>,
}

/// The decision from the growth's interval.
pub(crate) fn falls_behind([low, high]: [f64; 2]) -> Option<bool> {
    match () {
        () if GROWTH_MAX < low => Some(true),
        () if high < KEPT_UP_MAX => Some(false),
        () => None,
    }
}

impl Backlog {
    /// From a window's intervals, each `interval_s` long with `offered` requests due on average,
    /// without those that failed.
    pub(crate) fn new(intervals: &[Interval], interval_s: f64, offered: f64) -> Backlog {
        let (early, late) = intervals.split_at(intervals.len() / 2);
        let due: f64 = late.iter().map(|interval| interval.due).sum();
        if due <= 0.0 || offered <= 0.0 {
            return Backlog { growth: 0.0, interval: None, fell_behind: None };
        }
        let soonest = early.iter().filter_map(|interval| interval.latency_s).min_by(f64::total_cmp);
        if soonest.is_some_and(|latency_s| early.len() as f64 * interval_s < latency_s) {
            return Backlog::by_latency(intervals, interval_s);
        }
        let added = |from: f64, of: &dyn Fn(&Interval) -> f64| -> Vec<f64> {
            let mut sums = vec![from];
            sums.extend(late.iter().map(of).scan(from, |sum, more| {
                *sum += more;
                Some(*sum)
            }));
            sums
        };
        let grows = |interval: &Interval| interval.due - interval.answers as f64;
        let open = added(early.iter().map(grows).sum(), &grows);
        let arrivals = Slope::of(&added(0.0, &|interval| interval.due));
        let answers = Slope::of(&added(0.0, &|interval| interval.answers as f64));
        let (Some(arrivals), Some(answers), Some(backlog)) = (arrivals, answers, Slope::of(&open))
        else {
            let growth = (open[open.len() - 1] - open[0]) / due;
            return Backlog { growth, interval: None, fell_behind: None };
        };
        let edges = EDGES / (offered * late.len() as f64);
        let [grown, short] = [backlog.per_step / offered, 1.0 - answers.per_step / offered];
        // The target's service varies by no more than either of these.
        let varies = answers.scatter().min(backlog.scatter()) / offered;
        let follows = backlog.scatter() < APART.sqrt() * arrivals.scatter();
        let is_full = answers.scatter() < APART.sqrt() * arrivals.scatter();
        let by_line = backlog.half_width / offered;
        // A line doesn't show these: with long responses, a backlog varies slowly, like a Poisson
        // number; and each random arrival stays in it.
        let ends = open[0].max(0.0) + open[open.len() - 1].max(0.0);
        let by_chance = NORMAL_5_PERCENT * ends.sqrt() / (offered * late.len() as f64);
        let by_arrivals = by_line.hypot(by_chance).max(backlog.scatter() / offered);
        let mut high = short + varies.hypot(edges);
        if follows {
            high = high.min(grown + by_line.hypot(edges));
        }
        let mut low = grown - by_arrivals;
        if is_full {
            low = low.max(short - varies.hypot(edges));
        }
        let low = low.min(high);
        let growth = if is_full { short } else { grown }.clamp(low, high);
        let interval = [low, high];
        Backlog { growth, interval: Some(interval), fell_behind: falls_behind(interval) }
    }

    /// The window that would decide, as far as this one shows; `None` if this one decided, or shows
    /// nothing.
    pub fn window_needed_s(&self, window_s: f64) -> Option<f64> {
        let [low, high] = self.interval.filter(|_| self.fell_behind.is_none())?;
        // An interval as wide as the gap between both limits decides on one side or both.
        let times = (high - low) / (KEPT_UP_MAX - GROWTH_MAX);
        Some(window_s * times.powi(2).max(2.0))
    }

    /// For a window in whose first half none of its requests was answered. Latency that rises by s
    /// each second means that 1 in 1 + s arrivals is answered. Without a rise it is undecided.
    fn by_latency(intervals: &[Interval], interval_s: f64) -> Backlog {
        let mut latencies: Vec<f64> =
            intervals.iter().filter_map(|interval| interval.latency_s).collect();
        // Beyond the longest, requests were given up, at the timeout or at the end of the run.
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
        let fell_behind = falls_behind(interval).filter(|fell_behind| *fell_behind);
        Backlog { growth: share(rise), interval: Some(interval), fell_behind }
    }
}

/// The line through values that are one step apart.
struct Slope {
    per_step: f64,
    /// Half of its 95 % interval, from the distances of the batches' means from the line.
    half_width: f64,
    /// How much the values rise from each batch's mean to the next, per step.
    rises: Vec<f64>,
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
        let rises = std::iter::zip(x.windows(2), y.windows(2));
        let rises = rises.map(|(x, y)| (y[1] - y[0]) / (x[1] - x[0])).collect();
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
        Some(Slope { per_step, half_width: STUDENT_5_PERCENT[degrees - 1] * deviation, rises })
    }

    /// Half of the slope's 95 % interval, if the increments are independent from step to step. For
    /// such sums, the means of batches rise by two thirds of a batch's variance, and the line
    /// through n of them varies by 6/5 of it over n: together 9/5.
    fn scatter(&self) -> f64 {
        let count = self.rises.len() as f64;
        let mean = self.rises.iter().sum::<f64>() / count;
        let squares: f64 = self.rises.iter().map(|rise| (rise - mean).powi(2)).sum();
        let variance = squares / (count - 1.0);
        STUDENT_5_PERCENT[self.rises.len() - 2] * (9.0 / 5.0 * variance / (count + 1.0)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals per interval, if as many came as planned.
    fn offered(intervals: &[Interval]) -> f64 {
        intervals.iter().map(|one| one.due).sum::<f64>() / intervals.len().max(1) as f64
    }

    /// Intervals of 1 s with these arrivals and answers.
    fn backlog(intervals: impl IntoIterator<Item = (f64, u64)>) -> Backlog {
        let intervals: Vec<Interval> = intervals
            .into_iter()
            .map(|(due, answers)| Interval { due, answers, latency_s: None })
            .collect();
        Backlog::new(&intervals, 1.0, offered(&intervals))
    }

    /// Intervals of 1 s in which nothing was answered, by requests that took this long.
    fn unanswered(latencies_s: impl IntoIterator<Item = f64>) -> Backlog {
        let interval = |s| Interval { due: 100.0, answers: 0, latency_s: Some(s) };
        Backlog::new(&latencies_s.into_iter().map(interval).collect::<Vec<_>>(), 1.0, 100.0)
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
    fn a_growing_backlog_is_seen_despite_an_earlier_one() {
        // Nothing is answered while an earlier backlog is worked off; then 100 of 110.
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
        assert_ne!(stalled.fell_behind, Some(true), "{stalled:?}");
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
    fn a_short_or_empty_window_decides_nothing() {
        assert_eq!(backlog([]).fell_behind, None);
        assert_eq!(backlog([(0.0, 0); 8]).fell_behind, None);
        assert_eq!(backlog([(9.0, 9), (9.0, 0)]).fell_behind, None);
    }
}
