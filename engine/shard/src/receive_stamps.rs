//! Which of the kernel's stamps of what was received say when it was all there.
//!
//! A receive has the stamp of its last byte's segment. Segments that wait for one before them, lost
//! or overtaken, keep the stamps of their own arrival.

use uring::receive_stamps::out_of_order;

use super::shard::Shard;

/// How long before its bytes were read a stamp is old, ns: a shard with time reads them sooner.
const OLD_NS: u64 = 500_000;
/// The most completions at hand of a shard that surely isn't behind. One that is has more, and no
/// time to ask a socket for each of them.
const AT_HAND_MAX: usize = 15;
/// The most that the kernel works, ns, between the event that wakes a shard and its return.
const RETURN_MAX_NS: u64 = 1_000_000;

impl Shard {
    /// The shard has been in the kernel, which posts what is at hand and waits if nothing is.
    pub(super) fn waited(&mut self, from_ns: u64, to_ns: u64) {
        if from_ns + RETURN_MAX_NS < to_ns {
            self.idle_ns = to_ns - RETURN_MAX_NS;
        }
    }

    /// Whether segments may have arrived on the slot's socket after the one that was stamped: it
    /// has received some out of order since it was last asked. It is asked where a stamp is old
    /// although the shard has been idle since, or isn't behind.
    #[inline]
    pub(super) fn is_doubted(&mut self, slot: u32, kernel_ns: Option<u64>) -> bool {
        let Some(kernel_ns) = kernel_ns else { return false };
        let had_time = kernel_ns + OLD_NS < self.idle_ns || self.at_hand <= AT_HAND_MAX;
        let connection = &mut self.connections[slot];
        if kernel_ns + OLD_NS < self.handled_ns && had_time {
            let now = out_of_order(connection.fd);
            if connection.out_of_order < now {
                (connection.out_of_order, connection.out_of_order_ns) = (now, self.handled_ns);
            }
        }
        kernel_ns < connection.out_of_order_ns
    }
}
