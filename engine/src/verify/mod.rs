//! Checks a report against itself, and against the raw samples of its run.
//!
//! Nothing is taken from the report that can be computed again: percentiles, intervals and stationarity from its
//! histograms, sums from their parts, the schedule and the proof of what was intended from the plan, the verdict from all of it;
//! and with samples whatever a shard makes of the stamps of its requests, by the very code that a shard uses. A check is
//! a [`Finding`]; the caller shows them. What the checks read of a report is all they demand of it: a document that was
//! tampered with, or is of no run at all, has findings and never ends the program.
//!
//! [`UNCHECKED`] names what neither a report nor its samples can show. Without samples these are not checked either: how
//! many requests ended how in one interval, beyond the sums; which requests were sent, or answered, before the end of the
//! window; and of the sends their distribution.

mod compare;
mod distribution;
mod document;
mod finding;
mod parts;
mod planned;
mod replay;
mod sound;
mod units;

pub use document::report_alone;
pub use finding::Finding;
pub use replay::with_samples;

/// What no sample tells, and so is as the generator said it: only its sums, and its agreement with the rest, are checked.
pub const UNCHECKED: &str = "the environment and the address; what the generator and the machine said of themselves; \
    connections, connect times and the errors of idle connections; which arrivals waited; the load before the window; and \
    how many requests were in flight";
