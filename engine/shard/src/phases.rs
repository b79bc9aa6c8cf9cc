//! The phases of a shard's life: when they change, and how that may be moved.

use super::plan::ShardPlan;

/// The times at which a shard's phases change.
pub(super) struct Phases {
    window_ns: u64,
    end_ns: u64,
    drain_end_ns: u64,
    send_end_ns: u64,
    running: bool,
}

impl Phases {
    /// The plan's phases.
    pub(super) fn new(plan: &ShardPlan) -> Phases {
        let drain_end_ns = plan.end_ns + plan.drain_max_ns;
        Phases {
            window_ns: plan.recorder_config.window_ns,
            end_ns: plan.end_ns,
            drain_end_ns,
            send_end_ns: drain_end_ns,
            running: false,
        }
    }

    /// When recording starts, ns since the epoch: with the window, or never during setup.
    #[inline]
    pub(super) fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// When the load ends, ns since the epoch: as planned, or earlier if interrupted.
    #[inline]
    pub(super) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// When requests still in flight are abandoned, ns since the epoch.
    #[inline]
    pub(super) fn drain_end_ns(&self) -> u64 {
        self.drain_end_ns
    }

    /// From when on nothing is sent, ns since the epoch: at the latest when the drain ends.
    #[inline]
    pub(super) fn send_end_ns(&self) -> u64 {
        self.send_end_ns
    }

    /// True once the epoch has come; before it, there is only setup load.
    #[inline]
    pub(super) fn running(&self) -> bool {
        self.running
    }

    /// True if a request due at this time, ns since the epoch, is recorded.
    #[inline]
    pub(super) fn is_recorded(&self, intended_ns: u64) -> bool {
        self.window_ns <= intended_ns
    }

    /// Setup begins: nothing is recorded.
    pub(super) fn set_up(&mut self) {
        self.window_ns = u64::MAX;
    }

    /// The load ends at `end_ns`, and its drain `drain_ns` later.
    pub(super) fn end_with(&mut self, end_ns: u64, drain_ns: u64) {
        self.end_ns = end_ns;
        self.drain_end_ns = end_ns + drain_ns;
        self.send_end_ns = self.drain_end_ns;
    }

    /// The epoch has come.
    pub(super) fn run(&mut self) {
        self.running = true;
    }

    /// Requests in flight at this time are abandoned, unless they are earlier.
    pub(super) fn drain_until(&mut self, drain_end_ns: u64) {
        self.drain_end_ns = self.drain_end_ns.min(drain_end_ns);
    }

    /// Ends the load at this time, unless it ends earlier.
    pub(super) fn end_at(&mut self, end_ns: u64) {
        self.end_ns = self.end_ns.min(end_ns);
    }

    /// Nothing is sent from this time on, or already from an earlier one.
    #[inline]
    pub(super) fn send_until(&mut self, send_end_ns: u64) {
        self.send_end_ns = self.send_end_ns.min(send_end_ns);
    }
}
