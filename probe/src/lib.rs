//! Many runs from one plan: a sweep over rates, the search for the highest rate that holds, the
//! ceiling with its proof; the comparison of runs, and of two targets in alternating slices.
//!
//! The next run is decided here, from the steps so far; a closure of the caller makes it. So a
//! decision is tested, in milliseconds, against servers that exist only as arithmetic (`queues.rs`)
//! and against the formula for M/D/1, without a socket or a clock, and `verify` can decide it
//! again. Nothing is printed here.
//!
//! Start at [`sweep`], [`search`], [`ceiling`], [`compare`] or [`ab`]. A search and a ceiling are
//! one loop with two rules: `search.rs` has brackets, longer windows, contradicting runs and the
//! time left; `rule.rs` the meaning of a run for its rate, and the next rate to try.
//!
//! # Decisions that span several files
//!
//! - **A step not shown to fail hasn't passed.** A step passes, fails or is undecided, and an
//!   undecided one gets a longer window.
//! - **Errors are no backlog.** A target that refuses at once keeps up, and does no work: both are
//!   reported, and neither replaces the other.
//! - **Only lateness is excused,** since others on the machine make the generator late, and only if
//!   they took some of its time. A backlog at a target that requests reached in time is the
//!   target's, however busy the generator's core was.
#![forbid(unsafe_code)]

pub mod ab;
pub mod backlog;
pub mod blame;
pub mod bound;
pub mod ceiling;
pub mod change;
pub mod chart;
pub mod compare;
pub mod csv;
pub mod document;
pub mod figures;
pub mod knee;
pub mod numbers;
pub mod parts;
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
pub mod verify_comparison;
pub mod within;

use std::ops::ControlFlow;

use engine::sys::units::{Nanos, Rate};

use crate::step::Step;

/// A run to make: the differences between the steps of one plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Requests per second.
    pub rate: Rate,
    /// Length of the recorded window.
    pub duration: Nanos,
    /// The seed of the schedule: another one in each step, so that no two have the same arrivals.
    pub seed: u64,
    /// Any other difference from the plan.
    pub change: Change,
    /// How long the target may still work on unanswered requests: a rest before the run.
    pub rest: Nanos,
}

/// A change of a run from its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    #[default]
    None,
    /// Shards on these cores.
    Cores(Vec<usize>),
    /// At most this many connections.
    Conns(usize),
}

/// The progress of a series of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesProgress {
    /// The number of the next step, from 1.
    pub step: usize,
    /// The most steps that there will be, as far as known.
    pub steps_max: usize,
    /// The longest time for all of them, this step included, with everything besides their windows.
    pub left: Nanos,
}

/// Decides which runs to make.
pub trait Series {
    /// The next run; `None` when there is nothing left to find out.
    fn next(&self) -> Option<Ask>;

    /// The progress of the series, before the run that [`Series::next`] asks for.
    fn progress(&self) -> SeriesProgress;

    /// Takes the result of a run.
    fn take(&mut self, step: Step);
}

/// Makes the runs of a series until it is done, or until `run` ends it. The step of an interrupted
/// run isn't taken: its window is shorter than asked for.
///
/// # Errors
/// Those of `run`. Earlier steps are in the series.
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
