//! A sweep: one run at each of many rates, then a few more around the knee.

use engine::sys::units::{Nanos, Rate};
use serde::{Deserialize, Serialize};

use crate::knee::{Knee, knee, rates};
use crate::rates::between;
use crate::step::Step;
use crate::{Ask, Change, Outlook, Series};

/// The knee is narrow enough when its ends are this factor apart.
pub const KNEE_WIDTH: f64 = 1.05;

/// A sweep under way.
#[derive(Clone, Debug)]
pub struct Sweep {
    plan: SweepPlan,
    steps: Vec<Step>,
}

/// What a sweep does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepPlan {
    /// The rates, in the order in which they are offered.
    pub rates: Vec<Rate>,
    /// The most steps that may be added to narrow the knee down to [`KNEE_WIDTH`].
    pub refine_max: usize,
    /// Length of each window.
    pub duration: Nanos,
    /// The seed of the first step; each of the others has the next.
    pub seed: u64,
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

    /// The knee by the steps so far.
    pub fn knee(&self) -> Knee {
        knee(&self.steps)
    }

    /// A rate between those that the knee lies between: in the middle of the widest gap.
    fn refined(&self) -> Option<Rate> {
        let Knee { from: Some(from), to: Some(to), .. } = self.knee() else { return None };
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
        let rate = between(low, high);
        // Rates of four figures have no other between them.
        (low < rate.per_second() && rate.per_second() < high).then_some(rate)
    }
}

impl Series for Sweep {
    fn next(&self) -> Option<Ask> {
        let made = self.steps.len();
        let rate = match self.plan.rates.get(made) {
            Some(rate) => *rate,
            None if made < self.plan.rates.len() + self.plan.refine_max => self.refined()?,
            None => return None,
        };
        let seed = self.plan.seed.wrapping_add(made as u64);
        Some(Ask { rate, duration: self.plan.duration, seed, change: Change::None })
    }

    fn outlook(&self) -> Outlook {
        let steps_max = self.plan.rates.len() + self.plan.refine_max;
        let left = steps_max.saturating_sub(self.steps.len()) as u64;
        let windows_left = Some(Nanos(self.plan.duration.0.saturating_mul(left)));
        Outlook { step: self.steps.len() + 1, steps_max, windows_left }
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
    use crate::queues::Queue;
    use crate::rates::{RateRange, Spacing};

    fn swept(queue: &Queue, range: &str, steps: usize, seconds: u64) -> Sweep {
        let range: RateRange = range.parse().expect("a range");
        let mut sweep = Sweep::new(SweepPlan {
            rates: range.spaced(steps, Spacing::Geometric),
            refine_max: 4,
            duration: Nanos::from_secs(seconds),
            seed: 1,
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
            let Knee { rate, from, to, answered_beyond, bound, .. } = sweep.knee();
            let rate = rate.expect("the range holds the knee");
            assert!((900.0..=1_100.0).contains(&rate), "{rate} from {from:?} to {to:?}");
            assert!(answered_beyond.is_some_and(|rate| (900.0..=1_100.0).contains(&rate)));
            assert_eq!(bound, Some(Side::Target));
            let to_from = to.expect("known") / from.expect("known");
            assert!(to_from <= 1.2, "{from:?} to {to:?} after {} steps", sweep.steps().len());
        }
    }

    #[test]
    fn several_servers_and_a_long_base_latency_only_move_the_knee() {
        let queue = Queue { servers: 4, base_ns: 200_000_000, ..Queue::serial_ms() };
        let rate = swept(&queue, "500..20k", 8, 5).knee().rate.expect("the range holds the knee");
        assert!((3_600.0..=4_400.0).contains(&rate), "{rate}");
    }

    #[test]
    fn a_sweep_below_the_knee_makes_no_more_steps_than_asked_for() {
        let sweep = swept(&Queue::serial_ms(), "50..400", 4, 5);
        assert_eq!((sweep.steps().len(), sweep.knee().rate), (4, None));
    }

    #[test]
    fn what_was_made_before_a_run_fails_or_is_broken_off_is_kept() {
        let queue = Queue::serial_ms();
        let plan = SweepPlan {
            rates: ["100", "200", "300"].map(|rate| rate.parse().expect("a rate")).to_vec(),
            refine_max: 0,
            duration: Nanos::from_secs(1),
            seed: 1,
        };
        let mut sweep = Sweep::new(plan.clone());
        let ended = make_runs(&mut sweep, |ask, outlook| match outlook.step {
            3 => Err("refused"),
            _ => Ok(ControlFlow::Continue(queue.run(ask))),
        });
        assert_eq!((ended, sweep.steps().len()), (Err("refused"), 2));
        let mut sweep = Sweep::new(plan);
        let ended = make_runs(&mut sweep, |ask, outlook| {
            let windows_left = Some(Nanos::from_secs(4 - outlook.step as u64));
            assert_eq!((outlook.steps_max, outlook.windows_left), (3, windows_left));
            Ok::<_, Infallible>(match outlook.step {
                2 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(queue.run(ask)),
            })
        });
        assert_eq!((ended, sweep.steps().len()), (Ok(ControlFlow::Break(())), 1));
    }
}
