//! The knee of a sweep: where the target stops keeping up with the arrivals.
//!
//! Below its capacity a target answers as much as it is asked for, and latency depends on its
//! queue; above, each second adds to a backlog, and latency depends on the length of the run. That
//! is a change in kind, unlike any threshold on latency: it depends neither on the shape of the
//! curve nor on the length of the window, as long as a response takes less than half of it. So the
//! knee is between the highest rate up to which every step kept up and the lowest from which on
//! every step fell behind. A rate whose steps contradict each other is undecided and neither end.
//! Rates that contradict each other are between these two as well: that is its uncertainty.
//!
//! Rejected: where p99/p50 leaves a band, since the ratio of a healthy target may be anything; the
//! point of greatest curvature (Kneedle, Satopää et al. 2011), which moves with the scale of the
//! axes and with the highest rate of the sweep.

use serde::{Deserialize, Serialize};

use crate::backlog::GROWTH_MAX;
use crate::blame::{self, Side};
use crate::step::{Step, by_rate};

/// How the knee was found, for a document.
pub const METHOD: &str = "backlog_growth: the rate beyond which the backlog grows by more than 1 % \
    of the arrivals in the second half of the window; from the highest rate shown to keep up (the \
    backlog can't have grown by 2 %) below all that fell behind, to the lowest that fell behind \
    above all that kept up";

const _: () = assert!(GROWTH_MAX == 0.01, "the method names it");

/// The knee of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The geometric mean of the two rates below; `None` unless both are known.
    pub rate_per_s: Option<f64>,
    /// The highest rate up to which every step kept up; `None` if the lowest didn't.
    pub from_per_s: Option<f64>,
    /// The lowest rate from which on every step fell behind; `None` if the highest didn't.
    pub to_per_s: Option<f64>,
    /// How it was found: [`METHOD`].
    pub method: String,
    /// Rates that fell behind below one that kept up, that kept up above one that fell behind, or
    /// that did both: some of their steps are wrong, or the target changed.
    pub contradicting_per_s: Vec<f64>,
    /// Rates whose windows were too short to decide.
    pub undecided_per_s: Vec<f64>,
    /// The most that was answered per second in a window beyond it: a second way to the capacity.
    pub answered_beyond_per_s: Option<f64>,
    /// The bound of the steps at `to`; `None` without such a rate, or if it is unknown.
    pub bound: Option<Side>,
}

/// The knee from these steps, in any order; one rate may have several.
pub(crate) fn knee(steps: &[Step]) -> Knee {
    let rates = rates(steps);
    let decided = |rate: &&OfRate| matches!(rate.evidence, Evidence::KeptUp | Evidence::FellBehind);
    let telling = || rates.iter().filter(decided);
    let kept = telling().take_while(|rate| rate.evidence == Evidence::KeptUp).last();
    let behind = telling().rev().take_while(|rate| rate.evidence == Evidence::FellBehind).last();
    let (from, to) = (kept.map(|rate| rate.rate), behind.map(|rate| rate.rate));
    let beyond = steps.iter().filter(|step| to.is_some_and(|to| to <= step.rate_per_s));
    let answered_beyond = beyond.map(|step| step.answered_per_s).max_by(f64::total_cmp);
    let undecided = rates.iter().filter(|rate| rate.evidence == Evidence::Nothing);
    let falling =
        |step: &&Step| to == Some(step.rate_per_s) && step.backlog.fell_behind == Some(true);
    let lightest = steps
        .iter()
        .filter(|step| step.backlog.fell_behind == Some(false))
        .min_by(|one, other| one.rate_per_s.total_cmp(&other.rate_per_s));
    Knee {
        rate_per_s: from.zip(to).map(|(from, to)| (from * to).sqrt()),
        from_per_s: from,
        to_per_s: to,
        method: METHOD.to_owned(),
        contradicting_per_s: contradicting(&rates).map(|rate| rate.rate).collect(),
        undecided_per_s: undecided.map(|rate| rate.rate).collect(),
        answered_beyond_per_s: answered_beyond,
        bound: steps.iter().rfind(falling).and_then(|step| blame::bottleneck(step, lightest)),
    }
}

/// The joint result of one rate's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    KeptUp,
    FellBehind,
    /// Some kept up, and some fell behind.
    Both,
    /// No window was long enough.
    Nothing,
}

/// A rate with its steps.
pub(crate) struct OfRate {
    pub(crate) rate: f64,
    /// The number of its steps.
    pub(crate) steps: usize,
    /// Their longest window, seconds.
    pub(crate) longest_s: f64,
    evidence: Evidence,
}

impl OfRate {
    /// True if no window of its steps was long enough.
    pub(crate) fn is_open(&self) -> bool {
        self.evidence == Evidence::Nothing
    }

    /// True if its own steps contradict each other.
    pub(crate) fn contradicts_itself(&self) -> bool {
        self.evidence == Evidence::Both
    }
}

/// Each rate with the result of its steps, ascending.
pub(crate) fn rates(steps: &[Step]) -> Vec<OfRate> {
    let of_rate = |(rate, steps): (f64, Vec<&Step>)| {
        let that = |fell_behind| steps.iter().any(|one| one.backlog.fell_behind == fell_behind);
        let evidence = match (that(Some(false)), that(Some(true))) {
            (false, false) => Evidence::Nothing,
            (true, false) => Evidence::KeptUp,
            (false, true) => Evidence::FellBehind,
            (true, true) => Evidence::Both,
        };
        let longest_s = steps.iter().map(|step| step.duration_s).fold(0.0, f64::max);
        OfRate { rate, steps: steps.len(), longest_s, evidence }
    };
    by_rate(steps).into_iter().map(of_rate).collect()
}

/// The rates that contradict others, or themselves, ascending.
pub(crate) fn contradicting(rates: &[OfRate]) -> impl Iterator<Item = &OfRate> {
    rates.iter().enumerate().filter_map(|(at, rate)| {
        let says = |what| move |other: &OfRate| other.evidence == what;
        let contradicts = match rate.evidence {
            Evidence::KeptUp => rates[..at].iter().any(says(Evidence::FellBehind)),
            Evidence::FellBehind => rates[at + 1..].iter().any(says(Evidence::KeptUp)),
            Evidence::Both => true,
            Evidence::Nothing => false,
        };
        contradicts.then_some(rate)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::{Queue, asked};

    /// Steps at these rates; the marked ones fell behind.
    fn steps(rates: &[(f64, bool)]) -> Vec<Step> {
        let step = Queue::serial_ms().run(&asked("100", 2));
        rates
            .iter()
            .map(|(rate, fell_behind)| {
                let mut step =
                    Step { rate_per_s: *rate, answered_per_s: rate / 2.0, ..step.clone() };
                step.backlog.fell_behind = Some(*fell_behind);
                step
            })
            .collect()
    }

    #[test]
    fn the_knee_lies_between_keeping_up_and_falling_behind() {
        let found = knee(&steps(&[(400.0, true), (100.0, false), (200.0, false), (800.0, true)]));
        assert_eq!((found.from_per_s, found.to_per_s), (Some(200.0), Some(400.0)));
        assert!((found.rate_per_s.expect("both are known") - 282.84).abs() < 0.01);
        assert_eq!(found.bound, Some(Side::Target));
    }

    #[test]
    fn what_was_answered_beyond_it_is_all_that_the_target_can_whenever_it_was_due() {
        let step = Queue::serial_ms().run(&asked("3k", 5));
        assert!((990.0..=1_001.0).contains(&step.answered_per_s), "{}", step.answered_per_s);
        assert!(step.answered_due_per_s < step.answered_per_s, "{}", step.answered_due_per_s);
        let answered = Some(step.answered_per_s);
        let of_no_capacity = Step { rate_per_s: 100.0, ..step.clone() };
        let mut steps = [of_no_capacity, step];
        steps[0].backlog.fell_behind = Some(false);
        assert_eq!(knee(&steps).answered_beyond_per_s, answered);
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
        assert_eq!((found.from_per_s, found.to_per_s), (Some(100.0), Some(500.0)));
        assert_eq!(found.contradicting_per_s, [200.0, 300.0, 400.0]);
    }

    #[test]
    fn a_rate_whose_steps_contradict_each_other_is_no_end() {
        let found = knee(&steps(&[
            (100.0, false),
            (200.0, true),
            (200.0, false),
            (200.0, false),
            (400.0, false),
            (800.0, true),
        ]));
        assert_eq!((found.from_per_s, found.to_per_s), (Some(400.0), Some(800.0)));
        assert_eq!(found.contradicting_per_s, [200.0]);
        // Nor as the highest or the lowest of all, whatever most of its steps show.
        let found = knee(&steps(&[(100.0, false), (200.0, false), (200.0, false), (200.0, true)]));
        assert_eq!((found.from_per_s, found.to_per_s), (Some(100.0), None));
        let found = knee(&steps(&[(100.0, true), (100.0, true), (100.0, false), (200.0, true)]));
        assert_eq!((found.from_per_s, found.to_per_s), (None, Some(200.0)));
    }

    #[test]
    fn a_step_that_fell_behind_below_one_that_kept_up_is_no_end_of_the_range() {
        let found = knee(&steps(&[(100.0, false), (200.0, true), (400.0, false)]));
        assert_eq!((found.from_per_s, found.to_per_s, found.rate_per_s), (Some(100.0), None, None));
        assert_eq!(found.contradicting_per_s, [200.0, 400.0]);
    }

    #[test]
    fn an_undecided_step_is_no_end() {
        let mut steps = steps(&[(100.0, false), (200.0, false), (400.0, true), (800.0, true)]);
        steps[1].backlog.fell_behind = None;
        steps[3].backlog.fell_behind = None;
        let found = knee(&steps);
        assert_eq!((found.from_per_s, found.to_per_s), (Some(100.0), Some(400.0)));
        assert_eq!(
            (found.undecided_per_s, found.contradicting_per_s),
            (vec![200.0, 800.0], Vec::new())
        );
    }

    #[test]
    fn connections_that_ran_out_are_no_knee_of_the_target() {
        // 50 connections and 100 ms: 500 per second, whatever the target's capacity.
        let queue =
            Queue { base_ns: 100_000_000, conns: 50, service_ns: 1_000, ..Queue::serial_ms() };
        let steps = ["100", "300", "700", "1400"].map(|rate| queue.run(&asked(rate, 8)));
        let found = knee(&steps);
        assert_eq!((found.from_per_s, found.to_per_s), (Some(300.0), Some(700.0)));
        assert_eq!(found.bound, Some(Side::Connections));
        // All connections are busy, too, if the target is slow: then it takes longer.
        let serial = Queue { conns: 50, ..Queue::serial_ms() };
        let steps = ["100", "300", "1400", "2800"].map(|rate| serial.run(&asked(rate, 8)));
        assert_eq!(knee(&steps).bound, Some(Side::Target));
        // Without a step that had connections left, the bound is unknown.
        assert_eq!(knee(&steps[2..]).bound, None);
    }

    #[test]
    fn a_sweep_that_ends_before_the_knee_has_none() {
        let below = knee(&steps(&[(100.0, false), (200.0, false)]));
        assert_eq!((below.rate_per_s, below.from_per_s, below.to_per_s), (None, Some(200.0), None));
        assert_eq!((below.answered_beyond_per_s, below.bound), (None, None));
        let above = knee(&steps(&[(100.0, true), (200.0, true)]));
        assert_eq!((above.rate_per_s, above.from_per_s, above.to_per_s), (None, None, Some(100.0)));
        assert_eq!(knee(&[]).rate_per_s, None);
    }
}
