//! Verifies a report: against itself, and against the raw samples of its run.
//!
//! Everything that can be recomputed is: percentiles, intervals and stationarity from its
//! histograms, sums from their parts, the schedule, the test of its times and the step of each
//! request from the plan, the verdict from all of it; and with samples, everything that a shard
//! derives from the stamps of its requests, by the same code. The result is compared with the
//! report value by value, so a number added to the report is checked without being named here.
//! Errors in that code itself show up in the quantiles, which are also computed from the sorted
//! values.
//!
//! A report of several agents is taken apart the way it was merged, and its schedule is computed
//! twice: dealt to the agents, and as one process would offer it.
//!
//! A check is a [`Finding`]; the caller shows them. A document that was tampered with, or never
//! came from a run, yields findings; it never makes the program fail. Before a report is used for
//! something else, [`report_in_brief`] makes the same checks, but doesn't redraw a schedule of over
//! a million arrivals, which would take seconds.
//!
//! [`UNCHECKED`] lists what neither a report nor its samples can show, [`UNCHECKED_ALONE`] what only
//! samples can.

mod agents;
mod compare;
mod distribution;
mod document;
mod endpoints;
mod finding;
mod latencies;
mod merge_proof;
mod paced;
mod part;
mod planned;
mod replay;
mod rescaled;
mod scenarios;
mod slowest;
mod sound;
mod steps;
mod steps_taken;
mod sums;
mod unsound;
mod walks;

pub use compare::compare;
pub use document::{report_alone, report_in_brief};
pub use finding::{Finding, summed_up};
pub use latencies::{Latencies, latencies};
pub use merge_proof::{MergeProof, MergeRow, merge_proof};
pub use planned::missing_log;
pub use replay::with_samples;

/// What samples can't show: it rests on the generator alone, and only sums and agreement with the
/// rest are checked.
pub const UNCHECKED: &str = "label, tags, when the run began, and the samples' file; the \
    environment and the address; the figures of the generator and the machine; connections, users, \
    connect times, bodies that weren't sent whole, and the errors of idle connections; which \
    arrivals waited, and for which requests; the load before the window; how many requests were in \
    flight; agents' names, clocks and findings; and when one was lost, and what it had reported";

/// What isn't checked either without samples: those have the plan's digest and each request's
/// stamps.
pub const UNCHECKED_ALONE: &str = "the plan's target, URLs and all else of it that no figure \
    follows from; the naive latency of a slow request, and how it ended, beyond what its part has; \
    the outcomes of one interval, beyond the sums; what was sent and answered before the end of \
    the window; how the sends were distributed; the latency that the generator added to each \
    request; and by how much an agent's intervals are wider than the ranks of its latencies make \
    them";
