//! The knee of a sweep: where the target stops keeping up with the arrivals.
//!
//! Below its capacity a target answers as much as is asked of it, and latency is a matter of its
//! queue; above, each second adds to a backlog, and latency is a matter of how long the run was.
//! That is a change in kind, unlike any threshold on latency: it depends neither on the length of
//! the window nor on the shape of the curve. So the knee lies between the highest rate up to which
//! every step kept up and the lowest from which on every step fell behind. Rates whose steps
//! contradict each other lie between these two as well: that is its uncertainty.
//!
//! Rejected: where p99/p50 leaves a band, since the ratio of a healthy target may be anything; the
//! point of greatest curvature (Kneedle, Satopää et al. 2011), which moves with the scale of the
//! axes and with the highest rate of the sweep.

use serde::{Deserialize, Serialize};

use crate::blame::{self, Side};
use crate::step::{GROWTH_MAX, Step};

/// How the knee was found, for a document.
pub const METHOD: &str = "backlog_growth: the rate beyond which the backlog grows by more than 2 % \
    of the arrivals in the second half of the window; from the highest rate up to which every step \
    kept up, to the lowest from which on every step fell behind";

const _: () = assert!(GROWTH_MAX == 0.02, "the method names it");

/// The knee of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Halfway between the two rates below, as a factor; `None` unless both are known.
    pub rate: Option<f64>,
    /// The highest rate up to which every step kept up; `None` if the lowest fell behind.
    pub from: Option<f64>,
    /// The lowest rate from which on every step fell behind; `None` if the highest kept up.
    pub to: Option<f64>,
    /// How it was found: [`METHOD`].
    pub method: String,
    /// The most that was answered per second beyond it, of the requests of a window: a second way
    /// to the capacity, from below, since answers to the warm-up's backlog don't count.
    pub answered_beyond: Option<f64>,
    /// Which side fell behind, by the last step at `to`.
    pub bound: Option<Side>,
}

/// The knee by these steps, in any order; one rate may have several.
pub fn knee(steps: &[Step]) -> Knee {
    let rates = rates(steps);
    let kept = rates.iter().take_while(|rate| rate.all_kept).last().map(|rate| rate.rate);
    let behind = rates.iter().rev().take_while(|rate| rate.all_fell_behind).last();
    let behind = behind.map(|rate| rate.rate);
    let beyond = steps.iter().filter(|step| behind.is_some_and(|to| to <= step.rate));
    let answered_beyond = beyond.map(|step| step.answered).max_by(f64::total_cmp);
    Knee {
        rate: kept.zip(behind).map(|(from, to)| (from * to).sqrt()),
        from: kept,
        to: behind,
        method: METHOD.to_owned(),
        answered_beyond,
        bound: steps.iter().find(|step| behind == Some(step.rate)).map(blame::side),
    }
}

/// What the steps of one rate say together.
pub(crate) struct OfRate {
    pub(crate) rate: f64,
    all_kept: bool,
    all_fell_behind: bool,
}

/// Each rate with what its steps say, ascending.
pub(crate) fn rates(steps: &[Step]) -> Vec<OfRate> {
    let mut rates: Vec<OfRate> = Vec::new();
    for step in steps {
        let fell = step.backlog.fell_behind;
        match rates.iter_mut().find(|known| known.rate == step.rate) {
            Some(known) => {
                known.all_kept &= !fell;
                known.all_fell_behind &= fell;
            }
            None => {
                rates.push(OfRate { rate: step.rate, all_kept: !fell, all_fell_behind: fell });
            }
        }
    }
    rates.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::{Queue, asked};

    /// Steps at these rates, of which those marked fell behind.
    fn steps(rates: &[(f64, bool)]) -> Vec<Step> {
        let step = Queue::serial_ms().run(&asked("100", 2));
        rates
            .iter()
            .map(|(rate, fell_behind)| {
                let mut step = Step { rate: *rate, answered: rate / 2.0, ..step.clone() };
                step.backlog.fell_behind = *fell_behind;
                step
            })
            .collect()
    }

    #[test]
    fn the_knee_lies_between_keeping_up_and_falling_behind() {
        let found = knee(&steps(&[(400.0, true), (100.0, false), (200.0, false), (800.0, true)]));
        assert_eq!((found.from, found.to), (Some(200.0), Some(400.0)));
        assert!((found.rate.expect("both are known") - 282.84).abs() < 0.01);
        assert_eq!(found.bound, Some(Side::Target));
    }

    #[test]
    fn steps_that_contradict_each_other_widen_it() {
        let found = knee(&steps(&[
            (100.0, false),
            (200.0, true),
            (300.0, false),
            (400.0, true),
            (400.0, false),
            (500.0, true),
        ]));
        assert_eq!((found.from, found.to), (Some(100.0), Some(500.0)));
    }

    #[test]
    fn a_sweep_that_ends_before_the_knee_has_none() {
        let below = knee(&steps(&[(100.0, false), (200.0, false)]));
        assert_eq!((below.rate, below.from, below.to), (None, Some(200.0), None));
        assert_eq!((below.answered_beyond, below.bound), (None, None));
        let above = knee(&steps(&[(100.0, true), (200.0, true)]));
        assert_eq!((above.rate, above.from, above.to), (None, None, Some(100.0)));
        assert_eq!(knee(&[]).rate, None);
    }
}
