//! Polling while nothing is due: the part of a shard's processor time that is no work.

use super::shard::Shard;

impl Shard {
    /// Polls for completions until `wake_ns` at the latest, having worked until `worked_ns`.
    // A profile tells polling from work by this function, so it keeps a frame of its own.
    #[inline(never)]
    pub(super) fn poll(&mut self, worked_ns: u64, wake_ns: u64) {
        let began_ns = self.now_ns();
        let mut polled_ns = began_ns;
        while !self.ring.has_news() && polled_ns < wake_ns {
            std::hint::spin_loop();
            let now_ns = self.now_ns();
            self.meter.spun_past(polled_ns, now_ns);
            polled_ns = now_ns;
        }
        self.meter.spun(worked_ns, began_ns, polled_ns);
    }
}
