//! The sample of requests for which the kernel says when they left the host.
//!
//! Each shard takes the first request and then every so many; where several leave in one send, the
//! last of them. The stamp waits in the socket's error queue and is read when its request ends: a
//! response can't come before its request has left.

use record::stamps::Stamps;
use uring::send_stamps::{count_bytes, left_at};

use super::shard::Shard;

impl Shard {
    /// The slot's socket is connected: its stamps are to say which bytes they are of.
    pub(super) fn expect_send_stamps(&mut self, slot: u32) {
        let connection = &self.connections[slot];
        if self.plan.stamp_sends.is_some() {
            // A socket that has already been reset refuses, and its requests are of no use.
            let _ = count_bytes(connection.fd, self.receive_stamps(slot));
        }
    }

    /// Whether the slot's send, which is about to leave, carries a request of the sample.
    #[inline]
    pub(super) fn sample(&mut self, slot: u32) -> bool {
        let Some(one_in) = self.plan.stamp_sends else { return false };
        let connection = &mut self.connections[slot];
        let requests = connection.last_send() as u64;
        let is_sampled = self.before_sample < requests;
        if is_sampled {
            self.before_sample += u64::from(one_in.get());
            connection.sample();
        }
        self.before_sample = self.before_sample.saturating_sub(requests);
        is_sampled
    }

    /// The slot's oldest request ended: if it is one of the sample, records when it left the host.
    #[inline]
    pub(super) fn read_send_stamp(&mut self, slot: u32, stamps: &Stamps) {
        let connection = &mut self.connections[slot];
        let Some(last) = connection.take_sample() else { return };
        let left_ns = left_at(connection.fd, last).and_then(|wall_ns| self.since_epoch_ns(wall_ns));
        // Read before the window too, or its stamps would wait ahead of the window's.
        if self.window_ns <= stamps.intended_ns {
            // Both clocks are read one after the other: the stamp may seem to be of just before.
            let path_ns = left_ns.map(|left_ns| left_ns.saturating_sub(stamps.sent_ns));
            self.recorder.left(path_ns);
            if let Some(path_ns) = path_ns {
                self.progress.lateness.send_path.record(path_ns);
            }
        }
    }
}
