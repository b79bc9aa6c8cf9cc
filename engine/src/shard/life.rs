//! A shard's life: set up, meet the others, turn until the drain is over, report.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::connections::State;
use super::deadlines::{Awaited, Deadlines};
use super::plan::ShardReport;
use super::progress::ShardProgress;
use super::shard::{Shard, YIELD_NS};
use crate::load::schedule::Digest;
use crate::load::{DueRequest, Load};
use crate::record::littles_law::InFlightIntegral;
use crate::record::outcome::Outcome;
use crate::samples::Sampler;
use crate::sys::{clock, seal};

/// From the last shard's readiness to the epoch, ns: time for every shard to see it.
const EPOCH_AHEAD_NS: u64 = 20_000_000;
/// An interrupted run drains this long at most, ns.
const DRAIN_INTERRUPTED_NS: u64 = 2_000_000_000;

impl Shard {
    /// Runs from the set-up to the end of the drain. `None` when the run was called off.
    pub async fn run(mut self) -> Option<ShardReport> {
        self.set_up().await;
        let epoch_ns = self.meet()?;
        self.begin_at(epoch_ns);
        let mut yielded_ns = 0;
        seal::seal();
        while self.turn(yielded_ns + YIELD_NS) {
            let now_ns = self.now_ns();
            if yielded_ns + YIELD_NS <= now_ns {
                seal::unseal();
                self.heed_stop();
                self.show(now_ns);
                self.meter.observe(now_ns);
                glommio::executor().yield_task_queue_now().await;
                seal::seal();
                yielded_ns = now_ns;
            }
        }
        seal::unseal();
        Some(self.finish())
    }

    /// Waits until every shard is ready; the last one sets the epoch. `None` when the run is called
    /// off.
    fn meet(&self) -> Option<u64> {
        if self.signals.ready.fetch_add(1, Ordering::AcqRel) + 1 == self.plan.shards {
            let epoch_ns = clock::now_ns() + EPOCH_AHEAD_NS;
            // A run that was called off stays so.
            let _ = self.signals.epoch_ns.compare_exchange(
                0,
                epoch_ns,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
        loop {
            match self.signals.epoch_ns.load(Ordering::Acquire) {
                // The executor has nothing else to do, and asleep in its own rings it was seen to
                // miss its wake-up.
                0 => std::thread::sleep(Duration::from_micros(200)),
                u64::MAX => return None,
                epoch_ns => return Some(epoch_ns),
            }
        }
    }

    /// Waits for the epoch; what was connected begins.
    fn begin_at(&mut self, epoch_ns: u64) {
        // Connects that are under way were stamped on the clock of the set-up.
        self.epoch_ns = epoch_ns;
        self.grown_ns = 0;
        self.progress = ShardProgress::default();
        self.recorder.in_flight =
            InFlightIntegral::new(self.plan.recorder_config.window_ns, self.plan.end_ns);
        self.deadlines = Deadlines::new(self.plan.conns);
        for slot in 0..self.connections.len() {
            if self.connections[slot].state == State::Connecting {
                self.connections[slot].since_ns = 0;
                self.deadlines.push(slot, self.plan.timeout_ns, Awaited::Connect);
            }
        }
        self.connections.retry_now();
        self.heed_stop();
        while clock::now_ns() < self.epoch_ns {
            std::hint::spin_loop();
        }
        // What came since the set-up came before the first request: it can't be its answer, and
        // what was closed since then carries none.
        self.catch_up();
        self.running = true;
        self.meter.begin_at(self.now_ns());
        if matches!(self.load, Load::Closed) {
            let now_ns = self.now_ns();
            while let Some(slot) = self.connections.take_idle() {
                self.begin(slot, DueRequest { intended_ns: now_ns, noticed_ns: now_ns });
            }
        }
    }

    /// Takes notice of an interruption: nothing more is issued, and the drain is short.
    fn heed_stop(&mut self) {
        let stop_ns = self.signals.stop_ns.load(Ordering::Relaxed);
        if stop_ns != 0 {
            let stop_ns = stop_ns.saturating_sub(self.epoch_ns);
            self.end_ns = self.end_ns.min(stop_ns);
            self.recorder.in_flight.stop_at(stop_ns);
            self.meter.stop_at(stop_ns);
            self.drain_end_ns = self.drain_end_ns.min(stop_ns + DRAIN_INTERRUPTED_NS);
        }
    }

    /// Ends what is left and gives the report.
    fn finish(mut self) -> ShardReport {
        self.catch_up();
        let now_ns = self.now_ns();
        self.stamp_queued();
        let capped = self.connections.is_full();
        while let Some((slot, _)) = self.deadlines.first() {
            if self.connections[slot].state == State::InFlight {
                let ended_ns = now_ns.max(self.connections[slot].stamps.sent_ns);
                self.end(slot, ended_ns, ended_ns, Outcome::Abandoned);
            } else {
                self.deadlines.remove(slot);
                self.never_served(slot, now_ns);
            }
            self.close(slot);
        }
        while let Some(slot) = self.connections.take_fresh() {
            self.never_served(slot, now_ns);
        }
        for slot in 0..self.connections.len() {
            if self.connections[slot].state != State::Closed {
                self.close(slot);
            }
        }
        self.count_users();
        self.count_unsent(now_ns, capped);
        self.ring.submit();
        self.show(now_ns);
        self.meter.observe(now_ns);
        self.signals.ended.fetch_add(1, Ordering::Relaxed);
        let digest = match &self.load {
            Load::Open(load) => load.digest(),
            Load::Closed | Load::Paced(_) => Digest::default(),
        };
        let stats = self.meter.report(self.recorder.counts.sent_in_window, self.ring.overflows());
        let sampled = self.sampler.map(Sampler::finish);
        ShardReport { recorder: self.recorder, digest, stats, sampled }
    }

    /// Counts the users of the window, and those of them who were blocked for half of it or more.
    fn count_users(&mut self) {
        let window_ns = self.end_ns.saturating_sub(self.window_ns);
        for slot in 0..self.connections.len() {
            let connection = &self.connections[slot];
            let is_user = match self.load {
                Load::Open(_) => connection.seen || 0 < connection.blocked_ns,
                Load::Closed | Load::Paced(_) => true,
            };
            if is_user && 0 < window_ns {
                self.recorder.counts.users += 1;
                self.recorder.counts.users_blocked +=
                    u64::from(window_ns <= connection.blocked_ns.saturating_mul(2));
            }
        }
    }
}
