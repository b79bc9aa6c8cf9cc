//! How many requests of a run may be missing at the end of its window through nobody's fault.

use super::report::Report;

impl Report {
    /// How many requests may be between due and sent when the window ends, through nobody's fault:
    /// one for each shard, or as many as wait for their own connection to open. Those are λ·m on
    /// average, connects per second times the mean time that one takes (Little's law), and up to
    /// four standard deviations more by chance.
    pub fn at_the_edge(&self) -> f64 {
        let connect_s = self.whole.connect_time.mean.unwrap_or(0.0) / 1e6;
        let window_s = self.config.window_s();
        let per_second = if window_s == 0.0 {
            0.0
        } else {
            self.whole.counts.connects_in_window as f64 / window_s
        };
        let opening = per_second * connect_s;
        (opening + 4.0 * opening.sqrt()).max(self.generator.shards.len() as f64)
    }
}
