//! Why a report or its samples can't be recomputed.

use report::HistogramError;
use samples::ReadError;
use thiserror::Error;

/// Why a report or its samples can't be recomputed.
#[derive(Debug, Error)]
pub(super) enum Unsound {
    /// A text that isn't a histogram.
    #[error(transparent)]
    Histogram(#[from] HistogramError),
    /// A histogram of more values than any run has.
    #[error("a histogram of {0} values")]
    Values(u64),
    /// An interval's histogram.
    #[error("{at}.histogram: {problem}")]
    Interval { at: usize, problem: Box<Unsound> },
    /// Intervals of a length, in seconds, that no run has.
    #[error("intervals of {0} s")]
    IntervalLength(f64),
    /// More intervals than any run has.
    #[error("{0} intervals")]
    Intervals(usize),
    /// A file of samples that can't be read.
    #[error(transparent)]
    Samples(#[from] ReadError),
    /// A sample from outside the window, with its intended time in ns.
    #[error("a request of the window was due {0} ns after the epoch")]
    Due(u64),
    /// A sample of a step that the plan doesn't have.
    #[error("a request of step {0}, of {1}")]
    Step(u16, usize),
    /// A sample with a check that its step doesn't have.
    #[error("a request of step {0} failed check {1}, of {2}")]
    Check(u16, u8, usize),
}
