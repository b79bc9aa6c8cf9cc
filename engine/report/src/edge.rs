//! How many requests of a run may be missing at the end of its window through nobody's fault.

use super::report::{Part, Report};

impl Report {
    /// How many requests may be between due and sent when the window ends, through nobody's fault:
    /// one for each shard, or as many as wait for their own connection to open. Those are λ·m on
    /// average, connects per second times the mean time that one takes (Little's law), and up to
    /// four standard deviations more by chance.
    pub fn at_the_edge(&self) -> f64 {
        at_the_edge(&self.whole, self.config.window_s(), self.generator.shards.len())
    }
}

/// The same of so many shards that measured this in a window of this length.
pub(super) fn at_the_edge(part: &Part, window_s: f64, shards: usize) -> f64 {
    let connect_s = part.opening_us() / 1e6;
    let connects = part.counts.connects_in_window as f64;
    let per_second = if window_s == 0.0 { 0.0 } else { connects / window_s };
    let opening = per_second * connect_s;
    (opening + 4.0 * opening.sqrt()).max(shards as f64)
}
