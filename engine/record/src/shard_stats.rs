//! A shard's own statistics for the window: CPU time, turns and the gaps between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One shard's own statistics for the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardStats {
    /// The core it ran on.
    pub core: usize,
    /// The time that these numbers cover, seconds: the window, to within the 50 ms between two
    /// readings of the meter.
    pub observed_s: f64,
    /// Share of that time in which the shard had work: it ran or waited for its core, minus the
    /// time it polled with nothing due.
    pub busy: f64,
    /// CPU time in user space, seconds, including polling.
    pub cpu_user_s: f64,
    /// CPU time in the kernel, seconds.
    pub cpu_system_s: f64,
    /// Time spent polling with nothing due, seconds.
    pub polling_s: f64,
    /// Passes of the shard's loop.
    pub turns: u64,
    /// Requests sent per turn.
    pub requests_per_turn: f64,
    /// The longest time in which the shard didn't check what was due, microseconds.
    pub longest_gap_us: f64,
    /// The sum of all such times above 10 ms, seconds: the shard stalled, or had that much to do in
    /// one turn.
    pub stopped_s: f64,
    /// Times that the kernel took the core away while the shard was runnable.
    pub involuntary_switches: u64,
    /// Time that the shard was runnable without a core, seconds.
    pub run_queue_delay_s: f64,
    /// Overflows of the completion queue, in the whole run.
    pub cq_overflows: u64,
    /// Receives that ended because no buffer was free and the ring had none to add, and were armed
    /// again, in the whole run.
    pub buffers_exhausted: u64,
    /// Bytes received from the target, in the whole run.
    pub received_bytes: u64,
    /// Bytes sent to the target, in the whole run.
    pub sent_bytes: u64,
    /// Bytes received from the target, in the time that these numbers cover.
    pub window_received_bytes: u64,
    /// Bytes sent to the target, in that time.
    pub window_sent_bytes: u64,
    /// Times that the wall clock was set, in the whole run: kernel stamps around such a step can't
    /// be converted.
    pub clock_steps: u64,
    /// Of the answered, those whose stamp was before the sending or after the handling.
    pub stamps_clamped: u64,
    /// When the first request of the load was due, warm-up included, microseconds since the epoch
    /// of the run; `None` if none was sent.
    pub first_due_us: Option<f64>,
    /// When that request was sent.
    pub first_sent_us: Option<f64>,
    /// Time the setup spent opening connections, seconds.
    pub opening_s: f64,
    /// Time spent closing connections at the end, seconds.
    pub closing_s: f64,
}
