//! Where outcomes become numbers: one shard's counters and distributions, and its own resource use.
//!
//! [`recorder::Recorder`] takes each request of the window exactly once, with its stamps and its
//! outcome, and decides nothing. What counts where:
//!
//! - **Naive latency**, received − sent: every request that was sent and didn't fail.
//! - **Corrected latency**, received − intended: every intended request that neither failed nor was
//!   dropped. A request abandoned in the drain, or never sent, counts with its age.
//! - **Failed and dropped requests have no latency**, because a fast failure would improve the
//!   percentiles. They are counted by cause.
//! - **A request for which no connection could be opened has failed.** It counts as `sent`, so that
//!   the sums close, but neither as `sent_in_window` nor among the sends whose pattern is tested:
//!   it never reached the target.
//! - `waited` counts arrivals that found no idle connection, `capped` those for which none could be
//!   opened.

pub mod added;
pub mod config;
pub mod counts;
pub mod endpoint;
pub mod littles_law;
pub mod outcome;
pub mod part;
pub mod part_series;
pub mod recorder;
pub mod samples;
pub mod scenario;
pub mod series;
pub mod shard_report;
pub mod shard_stats;
pub mod slowest;
pub mod stamps;
pub mod streams;
pub mod times;
pub mod tls;
