//! How many requests the end of a window may leave unsent without any fault.

use super::report::{Part, Report};

impl Report {
    /// How many requests may be between due and sent when the window ends without any fault: one
    /// per shard, or as many as are waiting for their own connection to open. The latter are λ·m on
    /// average, connects per second times the mean connect time (Little's law), plus up to four
    /// standard deviations by chance.
    pub fn at_the_edge(&self) -> f64 {
        at_the_edge(&self.whole, self.config.window_s(), self.generator.shards.len())
    }
}

/// The same for this many shards with these measurements in a window of this length.
pub(super) fn at_the_edge(part: &Part, window_s: f64, shards: usize) -> f64 {
    let connect_s = part.opening_us() / 1e6;
    let connects = part.counts.connects_in_window as f64;
    let per_second = if window_s == 0.0 { 0.0 } else { connects / window_s };
    let opening = per_second * connect_s;
    (opening + 4.0 * opening.sqrt()).max(shards as f64)
}
