//! A sweep: one run at each of many rates, then a few more around the knee. A run that doesn't fit
//! into the remaining time isn't made.

use engine::sys::units::{Nanos, Rate};
use serde::{Deserialize, Serialize};

use crate::knee::{Knee, contradicting, knee, rates};
use crate::rates::{between, exactly};
use crate::rule::aim;
use crate::step::{ERRORS_MAX, Step};
use crate::within::{Within, rest, windows};
use crate::{Ask, Change, Series, SeriesProgress};

/// The knee is narrow enough when its ends are this factor apart.
pub const KNEE_WIDTH: f64 = 1.05;
/// The most runs of a rate whose steps contradict others, or decide nothing.
const RUNS_MAX: usize = 3;

/// A sweep in progress.
#[derive(Clone, Debug)]
pub struct Sweep {
    plan: SweepPlan,
    steps: Vec<Step>,
}

/// The parameters of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepPlan {
    /// The rates, in the order in which they are offered.
    pub rates: Vec<Rate>,
    /// The most steps that may be added: rates that contradict others once more, undecided ones
    /// with a window twice as long, then those that narrow the knee down to [`KNEE_WIDTH`].
    pub refine_max: usize,
    /// Length of each window; those of an undecided rate's repeats are longer.
    pub duration: Nanos,
    /// The seed of the first step; each later one has the next.
    pub seed: u64,
    /// The time limit.
    #[serde(flatten)]
    pub time: Within,
}

impl Sweep {
    /// A sweep without a step.
    pub fn new(plan: SweepPlan) -> Sweep {
        Sweep { plan, steps: Vec::new() }
    }

    /// The steps so far, in the order in which they were made.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The knee from the steps so far.
    pub fn knee(&self) -> Knee {
        knee(&self.steps)
    }

    /// True unless it ended before its last rate, or with a knee that is wider than it should be.
    pub fn is_complete(&self) -> bool {
        self.wanted().is_none()
    }

    /// The next rate and its window, even if there is no time for it.
    fn wanted(&self) -> Option<(Rate, Nanos)> {
        let made = self.steps.len();
        let new = |rate: Rate| (rate, self.plan.duration);
        if let Some(rate) = self.plan.rates.get(made) {
            return Some(new(*rate));
        }
        if self.plan.rates.len() + self.plan.refine_max <= made {
            return None;
        }
        self.contradicting()
            .map(new)
            .or_else(|| self.undecided())
            .or_else(|| self.between().map(new))
    }

    /// A rate that contradicts others, the least measured first.
    fn contradicting(&self) -> Option<Rate> {
        let rates = rates(&self.steps);
        let again = contradicting(&rates)
            .filter(|known| !known.contradicts_itself() && known.steps < RUNS_MAX);
        let rate = again.min_by_key(|known| known.steps)?.rate;
        Some(exactly(rate))
    }

    /// A rate that may be an end of the knee, but whose windows were too short to decide, with one
    /// twice as long: the nearest to the highest that kept up.
    fn undecided(&self) -> Option<(Rate, Nanos)> {
        let Knee { from_per_s: from, to_per_s: to, .. } = self.knee();
        let rates = rates(&self.steps);
        let mut open = rates.iter().filter(|known| {
            let answers = self.steps.iter().filter(|step| step.rate_per_s == known.rate);
            known.is_open()
                && known.steps < RUNS_MAX
                && to.is_none_or(|to| known.rate < to)
                && from.is_none_or(|from| from < known.rate)
                && answers.into_iter().all(|step| {
                    // A failed step needs another cure than time.
                    step.silent_from_s.is_none() && step.error_share() <= ERRORS_MAX
                })
        });
        let known = open.next()?;
        let times = 2.0 * (known.longest_s / self.plan.duration.as_secs_f64()).round();
        Some((exactly(known.rate), windows(self.plan.duration, times)))
    }

    /// A rate within the knee: in the middle of the widest gap.
    fn between(&self) -> Option<Rate> {
        let Knee { from_per_s: Some(from), to_per_s: Some(to), .. } = self.knee() else {
            return None;
        };
        if to <= KNEE_WIDTH * from {
            return None;
        }
        let within: Vec<f64> = rates(&self.steps)
            .into_iter()
            .map(|known| known.rate)
            .filter(|rate| from <= *rate && *rate <= to)
            .collect();
        let gaps = within.windows(2).map(|pair| (pair[0], pair[1]));
        let (low, high) =
            gaps.max_by(|one, other| (one.1 / one.0).total_cmp(&(other.1 / other.0)))?;
        let end = self.steps.iter().rfind(|step| step.rate_per_s == high);
        let aimed = end.and_then(|step| aim(step, low, high, KNEE_WIDTH - 1.0));
        let rate = aimed.map_or_else(|| between(low, high), exactly);
        // Two adjacent rates of four digits have no other between them.
        (low < rate.per_second() && rate.per_second() < high).then_some(rate)
    }
}

impl Series for Sweep {
    fn next(&self) -> Option<Ask> {
        let (rate, duration) = self.wanted()?;
        let made: Vec<&Step> = self.steps.iter().collect();
        let seed = self.plan.seed.wrapping_add(made.len() as u64);
        let fits = self.plan.time.fits(&made, rate.per_second(), duration);
        fits.then(|| Ask { rate, duration, seed, change: Change::None, rest: rest(&made) })
    }

    fn progress(&self) -> SeriesProgress {
        let SweepPlan { rates, refine_max, duration, time, .. } = &self.plan;
        let made = self.steps.len();
        let planned = rates.len().saturating_sub(made) as u64;
        let steps_max = rates.len() + refine_max;
        let added = (steps_max.saturating_sub(made) as u64).saturating_sub(planned);
        let all = time.at_most(planned, *duration).0.saturating_add(
            // For an undecided rate, a window may be doubled twice.
            time.at_most(added, Nanos(duration.0.saturating_mul(4))).0,
        );
        let left = Nanos(time.left(&self.steps).0.min(all));
        SeriesProgress { step: made + 1, steps_max, left }
    }

    fn take(&mut self, step: Step) {
        self.steps.push(step);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::ops::ControlFlow;

    use super::*;
    use crate::blame::Side;
    use crate::make_runs;
    use crate::queues::{AMPLE, Queue};
    use crate::rates::{RateRange, Spacing};

    fn swept(queue: &Queue, range: &str, steps: usize, seconds: u64) -> Sweep {
        swept_for(queue, range, steps, 1_000 * seconds)
    }

    fn swept_for(queue: &Queue, range: &str, steps: usize, milliseconds: u64) -> Sweep {
        refined(queue, range, steps, milliseconds, 4)
    }

    fn refined(
        queue: &Queue,
        range: &str,
        steps: usize,
        milliseconds: u64,
        refine_max: usize,
    ) -> Sweep {
        let range: RateRange = range.parse().expect("a range");
        let mut sweep = Sweep::new(SweepPlan {
            rates: range.spaced(steps, Spacing::Geometric),
            refine_max,
            duration: Nanos(milliseconds * 1_000_000),
            seed: 1,
            time: AMPLE,
        });
        let run = |ask: &Ask, _| Ok::<_, Infallible>(ControlFlow::Continue(queue.run(ask)));
        let ended = make_runs(&mut sweep, run).expect("arithmetic doesn't fail");
        assert_eq!(ended, ControlFlow::Continue(()));
        sweep
    }

    #[test]
    fn the_knee_of_a_serial_server_is_its_capacity() {
        for queue in [Queue::serial_ms(), Queue { exponential: true, ..Queue::serial_ms() }] {
            let sweep = swept(&queue, "200..5k", 8, 10);
            let Knee {
                rate_per_s: rate,
                from_per_s: from,
                to_per_s: to,
                answered_beyond_per_s: answered_beyond,
                bound,
                ..
            } = sweep.knee();
            let rate = rate.expect("the range holds the knee");
            assert!((900.0..=1_100.0).contains(&rate), "{rate} from {from:?} to {to:?}");
            assert!(answered_beyond.is_some_and(|rate| (900.0..=1_100.0).contains(&rate)));
            assert_eq!(bound, Some(Side::Target));
            let to_from = to.expect("known") / from.expect("known");
            assert!(to_from <= 1.2, "{from:?} to {to:?} after {} steps", sweep.steps().len());
        }
    }

    #[test]
    fn a_target_that_stalls_now_and_then_keeps_up() {
        // 200 ms in each second, and each window ends within one.
        let stall = Some((1_000_000_000, 200_000_000));
        let queue = Queue { stall, service_ns: 100_000, ..Queue::serial_ms() };
        for hundredths in [410, 415, 420, 430] {
            let Knee { from_per_s: from, to_per_s: to, contradicting_per_s: contradicting, .. } =
                refined(&queue, "500..1500", 5, 10 * hundredths, 10).knee();
            assert_eq!((from, to), (Some(1_500.0), None), "{hundredths}");
            assert!(contradicting.is_empty(), "{contradicting:?}");
        }
    }

    #[test]
    fn latency_longer_than_half_of_the_window_is_undecided() {
        let queue = Queue { base_ns: 4_000_000_000, service_ns: 10_000, ..Queue::serial_ms() };
        let Knee { from_per_s: from, to_per_s: to, undecided_per_s: undecided, .. } =
            refined(&queue, "10..100", 3, 5_000, 0).knee();
        assert_eq!((from, to, undecided.len()), (None, None, 3));
        let Knee { from_per_s: from, to_per_s: to, .. } = swept(&queue, "10..100", 3, 400).knee();
        assert_eq!((from, to), (Some(100.0), None));
        // A target that is slow because it is full is recognised.
        let Knee { to_per_s: to, .. } =
            swept(&Queue { base_ns: 4_000_000_000, ..Queue::serial_ms() }, "2k..20k", 3, 5).knee();
        assert_eq!(to, Some(2_000.0));
    }

    #[test]
    fn errors_are_no_backlog() {
        for (bad_status, refused) in [(0.4, 0.0), (0.0, 0.4), (0.05, 0.0), (1.0, 0.0)] {
            let queue = Queue { bad_status, refused, service_ns: 100_000, ..Queue::serial_ms() };
            let sweep = swept(&queue, "200..800", 3, 20);
            let Knee { from_per_s: from, to_per_s: to, .. } = sweep.knee();
            assert_eq!((from, to), (Some(800.0), None), "{bad_status} {refused}");
            let step = &sweep.steps()[0];
            let share = step.errors as f64 / step.requests as f64;
            assert!((share - bad_status - refused).abs() < 0.03, "{share}");
        }
    }

    #[test]
    fn a_crash_of_the_target_is_no_knee() {
        // It disappears in the middle of the third step's window.
        let queue = Queue { gone_ns: Some(4_000_000_000), ..Queue::serial_ms() };
        let range: RateRange = "100..400".parse().expect("a range");
        let mut sweep = Sweep::new(SweepPlan {
            rates: range.spaced(3, Spacing::Geometric),
            refine_max: 4,
            duration: Nanos::from_secs(4),
            seed: 1,
            time: AMPLE,
        });
        let ended = make_runs(&mut sweep, |ask, progress| {
            let gone_ns = queue.gone_ns.filter(|_| progress.step == 3);
            let step = Queue { gone_ns, ..queue.clone() }.run(ask);
            if progress.step <= 3 { Ok(ControlFlow::Continue(step)) } else { Err("refused") }
        });
        assert_eq!(ended, Ok(ControlFlow::Continue(())), "nothing is refined");
        let Knee { rate_per_s: rate, to_per_s: to, .. } = sweep.knee();
        assert_eq!((rate, to), (None, None));
        assert!(sweep.steps()[2].requests / 3 < sweep.steps()[2].errors);
    }

    #[test]
    fn a_rate_that_contradicts_others_is_offered_again() {
        let queue = Queue { service_ns: 100_000, ..Queue::serial_ms() };
        for (disturbed, from, contradicting) in
            [(1, Some(400.0), vec![200.0]), (9, Some(100.0), vec![200.0, 400.0])]
        {
            let mut runs_at = 0;
            let mut sweep = Sweep::new(SweepPlan {
                rates: ["100", "200", "400"].map(|rate| rate.parse().expect("a rate")).to_vec(),
                refine_max: 4,
                duration: Nanos::from_secs(4),
                seed: 1,
                time: AMPLE,
            });
            let ended = make_runs(&mut sweep, |ask, _| {
                let mut step = queue.run(ask);
                if ask.rate.per_second() == 200.0 {
                    runs_at += 1;
                    step.backlog.fell_behind = Some(runs_at <= disturbed);
                }
                Ok::<_, Infallible>(ControlFlow::Continue(step))
            });
            assert_eq!(ended, Ok(ControlFlow::Continue(())));
            assert_eq!(
                (sweep.knee().from_per_s, sweep.knee().contradicting_per_s),
                (from, contradicting)
            );
            // Once it has contradicted itself, more runs don't help.
            assert_eq!(runs_at, if disturbed == 1 { 2 } else { RUNS_MAX });
        }
    }

    #[test]
    fn a_target_without_answers_is_the_bound_and_not_its_connections() {
        // From the third second of each window on.
        let silent_ns = Some(5_000_000_000);
        let queue = Queue { silent_ns, conns: 100, ..Queue::serial_ms() };
        let Knee { to_per_s: to, bound, .. } = swept(&queue, "200..800", 3, 10).knee();
        assert_eq!((to, bound), (Some(200.0), Some(Side::Target)));
    }

    #[test]
    fn several_servers_and_a_long_base_latency_only_move_the_knee() {
        let queue = Queue { servers: 4, base_ns: 200_000_000, ..Queue::serial_ms() };
        let rate =
            swept(&queue, "500..20k", 8, 5).knee().rate_per_s.expect("the range holds the knee");
        assert!((3_600.0..=4_400.0).contains(&rate), "{rate}");
    }

    #[test]
    fn a_sweep_below_the_knee_makes_no_more_steps_than_asked_for() {
        let sweep = swept(&Queue::serial_ms(), "50..400", 4, 5);
        assert_eq!((sweep.steps().len(), sweep.knee().rate_per_s), (4, None));
    }

    #[test]
    fn steps_before_a_failed_or_interrupted_run_are_kept() {
        let queue = Queue::serial_ms();
        let plan = SweepPlan {
            rates: ["100", "200", "300"].map(|rate| rate.parse().expect("a rate")).to_vec(),
            refine_max: 0,
            duration: Nanos::from_secs(1),
            seed: 1,
            time: AMPLE,
        };
        let mut sweep = Sweep::new(plan.clone());
        let ended = make_runs(&mut sweep, |ask, progress| match progress.step {
            3 => Err("refused"),
            _ => Ok(ControlFlow::Continue(queue.run(ask))),
        });
        assert_eq!((ended, sweep.steps().len()), (Err("refused"), 2));
        let mut sweep = Sweep::new(plan);
        let ended = make_runs(&mut sweep, |ask, progress| {
            assert_eq!(progress.steps_max, 3);
            Ok::<_, Infallible>(match progress.step {
                2 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(queue.run(ask)),
            })
        });
        assert_eq!((ended, sweep.steps().len()), (Ok(ControlFlow::Break(())), 1));
    }
}
