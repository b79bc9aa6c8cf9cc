//! Many runs from one plan: a sweep over rates, the search for the highest rate that holds, the
//! ceiling with its proof; the comparison of runs, and of two targets measured in turn.
//!
//! What to run next is decided here, from the steps so far; a closure of the caller makes the run.
//! So a decision is tested, in milliseconds, against servers that exist as arithmetic only
//! (`queues.rs`) and against the formula for M/D/1, without a socket or a clock, and `verify` can
//! decide it again. Nothing is printed here.
//!
//! Start at [`sweep`], [`search`], [`ceiling`], [`compare`] or [`ab`]. A search and a ceiling are
//! one loop with two rules: `search.rs` has brackets, longer windows, contradicting runs and the
//! time left; `rule.rs` what a run means for its rate, and where that sends the next one.
//!
//! # Decisions that several files follow
//!
//! - **What isn't shown to fail hasn't passed.** A step passes, fails or is undecided, and an
//!   undecided one gets a longer window.
//! - **Errors are no backlog.** A target that refuses at once keeps up, and does no work: both are
//!   reported, and neither stands in for the other.
//! - **Only lateness is excused,** since others on the machine make the generator late, and only
//!   where they took some of its time. A backlog at a target that requests reached in time is the
//!   target's, however busy the generator's core was.
#![forbid(unsafe_code)]

pub mod ab;
pub mod backlog;
pub mod blame;
pub mod bound;
pub mod ceiling;
pub mod chart;
pub mod compare;
pub mod csv;
pub mod document;
pub mod figures;
pub mod knee;
pub mod numbers;
pub mod plot;
pub mod proof;
#[cfg(test)]
mod queues;
pub mod rates;
pub mod rule;
pub mod search;
#[cfg(test)]
mod simulated;
pub mod step;
pub mod sweep;
pub mod verify;
pub mod within;

use std::ops::ControlFlow;

use engine::sys::units::{Nanos, Rate};

use crate::step::Step;

/// A run to be made: what differs between the steps of one plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Requests per second.
    pub rate: Rate,
    /// Length of the recorded window.
    pub duration: Nanos,
    /// The seed of the schedule: another one in each step, so that no two have the same arrivals.
    pub seed: u64,
    /// What else differs from the plan.
    pub change: Change,
    /// For how long the target may still work on what it hasn't answered: a rest before the run.
    pub rest: Nanos,
}

/// What a run has that its plan hasn't.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    #[default]
    None,
    /// Shards on these cores.
    Cores(Vec<usize>),
    /// So many connections at most.
    Conns(usize),
}

/// How far a series of runs is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesProgress {
    /// The number of the step to come, from 1.
    pub step: usize,
    /// The steps that there will be at most, as far as is known.
    pub steps_max: usize,
    /// How long all of them take at most, this step included, with everything beside their
    /// windows.
    pub left: Nanos,
}

/// Decides which runs to make.
pub trait Series {
    /// The next run; `None` when there is nothing left to find out.
    fn next(&self) -> Option<Ask>;

    /// How far the series is, before the run that [`Series::next`] asks for.
    fn progress(&self) -> SeriesProgress;

    /// Takes what the run gave.
    fn take(&mut self, step: Step);
}

/// Makes the runs of a series until it is done, or until `run` breaks it off. The step of a run
/// that was interrupted isn't taken: its window is another than the one asked for.
///
/// # Errors
/// Those of `run`. What was taken before is in the series.
pub fn make_runs<E>(
    series: &mut impl Series,
    mut run: impl FnMut(&Ask, SeriesProgress) -> Result<ControlFlow<(), Step>, E>,
) -> Result<ControlFlow<()>, E> {
    while let Some(ask) = series.next() {
        match run(&ask, series.progress())? {
            ControlFlow::Continue(step) => series.take(step),
            ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
        }
    }
    Ok(ControlFlow::Continue(()))
}
