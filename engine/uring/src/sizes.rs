//! The sizes of a ring's queues and of its receive buffers.

use crate::buffers::BUFFERS_MAX;

/// The number of submissions that fit before the ring must enter the kernel.
const SUBMISSIONS_MAX: u32 = 1_024;

/// The sizes of a ring's queues, and its number of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Operations that fit before the ring must enter the kernel.
    pub submissions: u32,
    /// Completions that fit before the queue overflows.
    pub completions: u32,
    /// The most receive buffers.
    pub buffers: usize,
}

impl RingSizes {
    /// A few connections with large bodies may need many buffers each.
    const BUFFERS_MIN: usize = 1_024;
    /// The kernel's largest completion queue.
    const COMPLETIONS_MAX: u32 = 65_536;

    /// Enough for this many sockets with operations in flight.
    pub fn new(sockets_max: usize) -> RingSizes {
        let sockets = u32::try_from(sockets_max).unwrap_or(u32::MAX);
        let completions = sockets.saturating_mul(4).max(4 * SUBMISSIONS_MAX);
        RingSizes {
            submissions: SUBMISSIONS_MAX,
            completions: completions.min(Self::COMPLETIONS_MAX).next_power_of_two(),
            buffers: sockets_max.min(BUFFERS_MAX).next_power_of_two().max(Self::BUFFERS_MIN),
        }
    }
}
