//! A shard's own figures for the window: processor time, turns and the gaps between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One shard's own figures for the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardStats {
    /// The core that it ran on.
    pub core: usize,
    /// The stretch that these numbers cover, seconds: the window, to within the 50 ms between two
    /// looks of a shard.
    pub observed_s: f64,
    /// Share of that stretch in which the shard had work: it ran or waited for its core, less the
    /// time that it polled while nothing was due.
    pub busy: f64,
    /// Processor time in user space, seconds, polling included.
    pub cpu_user_s: f64,
    /// Processor time in the kernel, seconds.
    pub cpu_system_s: f64,
    /// Time spent polling while nothing was due, seconds.
    pub polling_s: f64,
    /// Passes of the shard's loop.
    pub turns: u64,
    /// Requests sent per turn.
    pub requests_per_turn: f64,
    /// The longest stretch in which the shard didn't look at what was due, microseconds.
    pub longest_gap_us: f64,
    /// All such stretches above 10 ms together, seconds: the shard stalled, or had that much to do
    /// in one turn.
    pub stopped_s: f64,
    /// Times that the kernel took the core away while the shard could run.
    pub involuntary_switches: u64,
    /// Time that the shard could run and had no core, seconds.
    pub run_queue_delay_s: f64,
    /// Times that the completion queue overflowed, in the whole run.
    pub cq_overflows: u64,
    /// Times that a receive ended because no buffer was free and the ring had none to add, and was
    /// armed again, in the whole run.
    pub buffers_exhausted: u64,
    /// Bytes that the target sent, in the whole run.
    pub received_bytes: u64,
    /// Bytes sent to the target, in the whole run.
    pub sent_bytes: u64,
    /// Bytes that the target sent, in the stretch that these numbers cover.
    pub window_received_bytes: u64,
    /// Bytes sent to the target, in that stretch.
    pub window_sent_bytes: u64,
    /// Times that the wall clock was set, in the whole run: the kernel's stamps around such a step
    /// can't be converted.
    pub clock_steps: u64,
    /// Of the answered, those whose stamp lay before their sending or after their handling.
    pub stamps_clamped: u64,
    /// When the first request of the load was due, warm-up included, microseconds since the epoch
    /// of the run; `None` if none was sent.
    pub first_due_us: Option<f64>,
    /// When that request was sent.
    pub first_sent_us: Option<f64>,
    /// Time in which the setup opened connections, seconds.
    pub opening_s: f64,
    /// Time in which the connections were closed at the end, seconds.
    pub closing_s: f64,
}
