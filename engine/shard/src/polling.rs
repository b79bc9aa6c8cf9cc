//! Polling: spinning while nothing is due, and fetching all completions before requests time out.
//!
//! By default a shard sleeps until shortly before an arrival is due and then polls, since the
//! kernel's wake-up alone is 5 to 30 µs late. How long before, it learns (`sys/lead.rs`).
//!
//! Before a timeout is declared, the kernel is polled: after a stall, a thread finds deadlines
//! passed and completions not yet posted. Completions go first, so a response that came in time
//! isn't a timeout.

use super::shard::Shard;

/// The fewest completions that one poll posts, if that many are ready.
const POSTED_MIN: usize = 16;
/// The longest time to catch up, ns: nothing is sent in the meantime.
const CATCH_UP_NS: u64 = 100_000_000;

impl Shard {
    /// Polls for completions until `wake_ns` at the latest, having worked until `worked_ns`.
    // Profiles tell polling from work by this function, so it keeps a frame of its own.
    #[inline(never)]
    pub(super) fn poll(&mut self, worked_ns: u64, wake_ns: u64) {
        let began_ns = self.now_ns();
        let mut polled_ns = began_ns;
        while !self.ring.has_news() && polled_ns < wake_ns {
            std::hint::spin_loop();
            let now_ns = self.now_ns();
            self.recording.meter().spun_past(polled_ns, now_ns);
            self.lead.spun_past(polled_ns, now_ns);
            polled_ns = now_ns;
        }
        self.recording.meter().spun(worked_ns, began_ns, polled_ns);
        if began_ns < polled_ns {
            self.clock.polled(polled_ns);
        }
    }

    /// Fetches every completion that the kernel has: after a stall, responses that came in time
    /// would otherwise count as timeouts. One poll posts only 20 to 40 of them.
    pub(super) fn catch_up(&mut self) {
        // Requests sent on the way may be answered on the way, so the number of polls is bounded;
        // so is the number of re-arm rounds, since large responses may keep coming.
        let open = self.connections.open_count();
        let (mut polls, mut refills) = (open / POSTED_MIN + 1, 2 * open);
        let until_ns = self.now_ns() + CATCH_UP_NS;
        while 0 < polls && self.now_ns() < until_ns {
            // Without a buffer a receive ends, and its bytes are still in the socket.
            self.rearm();
            self.stamp_queued();
            self.ring.poll();
            self.reap();
            let starved = self.connections.await_rearm();
            if !starved && !self.ring.has_news() {
                return;
            }
            if starved && 0 < refills {
                refills -= 1;
            } else {
                polls -= 1;
            }
        }
    }
}
