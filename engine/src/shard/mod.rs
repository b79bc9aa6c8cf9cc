//! One pinned core's engine: a loop whose every pass is a turn.
//!
//! A turn reaps what the ring completed, sends what is due, ends what has lasted too long, and enters the kernel once.
//! The shard owns all it touches; two types of plain data cross its border, a [`ShardPlan`] in and a [`ShardReport`] out.
//! It is the only place below the pool that reads the clock. This file has the shard's life and its turn; the folder has
//! the steps of a turn: `completions`, `arrivals`, `requests`, `sockets`, and `setup` before the first one.

mod arrivals;
mod completions;
mod connection;
mod deadlines;
pub(crate) mod progress;
mod requests;
mod setup;
mod slots;
mod sockets;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use socket2::SockAddr;

use crate::load::schedule::{Digest, Schedule};
use crate::load::{Load, OpenLoad, PacedLoad};
use crate::plan::{Arrivals, Wait};
use crate::record::outcome::Outcome;
use crate::record::recorder::{Recorder, RecorderConfig};
use crate::record::shard_stats::{ShardMeter, ShardStats};
use crate::ring::{Ring, RingConfig};
use crate::samples::{Lane, Sampled, Sampler};
use crate::shard::connection::State;
use crate::shard::deadlines::Deadlines;
use crate::shard::progress::{ShardProgress, SharedProgress};
use crate::shard::slots::Slots;
use crate::sys::clock;
use crate::sys::control::Signals;
use crate::sys::seal;
use crate::sys::units::Rate;

/// What one shard is to do: plain data, made by the pool from the plan.
#[derive(Clone, Debug)]
pub struct ShardPlan {
    /// Number of this shard among `shards`.
    pub shard: usize,
    /// How many shards share the plan.
    pub shards: usize,
    /// The core that it runs on.
    pub core: usize,
    /// What drives the load.
    pub drive: Drive,
    /// Connections of this shard.
    pub conns: usize,
    /// Connections of all shards.
    pub conns_total: usize,
    /// Connections to open before anything is sent.
    pub prewarm: usize,
    /// Before the warm-up, load is offered until no connection has been added for this long, ns; 0 for no such phase.
    pub settle_ns: u64,
    /// How the window is looked at; it begins at `recorder_config.window_ns`.
    pub recorder_config: RecorderConfig,
    /// End of the recorded window, ns since the epoch.
    pub end_ns: u64,
    /// From sent: when a request is over.
    pub timeout_ns: u64,
    /// From intended: when the user has gone; `u64::MAX` for never.
    pub deadline_ns: u64,
    /// From intended: when an arrival without a connection is dropped; `u64::MAX` for never.
    pub queue_max_ns: u64,
    /// Requests that one connection carries; `u64::MAX` for no limit.
    pub requests_per_connection: u64,
    /// How to wait.
    pub wait: Wait,
    /// Requests that one system call may carry.
    pub flush: usize,
    /// The request's bytes.
    pub request: Vec<u8>,
    /// Whether the request is a HEAD, whose response has no body.
    pub head_request: bool,
    /// The target.
    pub address: SockAddr,
    /// Where to connect from, in turn; empty for the kernel's choice.
    pub sources: Vec<SockAddr>,
    /// Where the raw samples go.
    pub samples: Option<Lane>,
}

/// What drives a shard's load, as plain data.
#[derive(Clone, Copy, Debug)]
pub enum Drive {
    /// Arrivals by a schedule.
    Open {
        /// Requests per second of all shards.
        rate: Rate,
        /// How they are spaced.
        arrivals: Arrivals,
        /// Seed of the schedule.
        seed: u64,
    },
    /// Connections that ask again at once.
    Closed,
    /// Connections that ask once a period.
    Paced {
        /// The period, ns.
        period_ns: u64,
    },
}

/// What one shard did: plain data.
#[derive(Clone, Debug)]
pub struct ShardReport {
    /// Its numbers.
    pub recorder: Recorder,
    /// Digest of the arrivals that it took from the schedule.
    pub digest: Digest,
    /// How it fared itself.
    pub vitals: ShardStats,
    /// What it gave of raw samples.
    pub sampled: Option<Sampled>,
}

/// The executor gets the thread this often, ns: seldom enough not to be seen in the CPU time of a request.
const YIELD_NS: u64 = 50_000_000;
/// With [`Wait::Hybrid`] the last stretch before an arrival is polled, ns: the kernel's wake-up is late by 5 to 30 µs.
const SPIN_NS: u64 = 50_000;
/// An interrupted run drains this long at most, ns.
const DRAIN_INTERRUPTED_NS: u64 = 2_000_000_000;
/// From the last shard's readiness to the epoch, ns: time for every shard to see it.
const EPOCH_AHEAD_NS: u64 = 20_000_000;
/// Size of one receive buffer, bytes: a common response fits into one.
const BUFFER_SIZE: usize = 4_096;

/// One pinned core's engine.
pub struct Shard {
    plan: ShardPlan,
    ring: Ring,
    slots: Slots,
    deadlines: Deadlines,
    load: Load,
    recorder: Recorder,
    progress: ShardProgress,
    meter: ShardMeter,
    shared: Arc<SharedProgress>,
    signals: Arc<Signals>,
    epoch_ns: u64,
    /// Start of what is recorded: the window's, or never while the set-up lasts.
    window_ns: u64,
    /// End of issuing: the plan's, or earlier when interrupted.
    end_ns: u64,
    drain_end_ns: u64,
    running: bool,
    /// The most connections that were open at once.
    conns_most: usize,
    /// When they became as many, ns since the epoch.
    grown_ns: u64,
    next_source: usize,
    sampler: Option<Sampler>,
}

impl Shard {
    /// Builds the shard on the thread that will run it: memory first, then the ring.
    ///
    /// # Errors
    /// The kernel's refusal of the ring.
    pub fn new(
        plan: ShardPlan,
        shared: Arc<SharedProgress>,
        signals: Arc<Signals>,
    ) -> std::io::Result<Shard> {
        clock::set_timer_slack();
        let ring = Ring::new(RingConfig {
            sockets_max: plan.conns,
            buffer_size: BUFFER_SIZE,
            payload: plan.request.clone(),
            address: Some(plan.address.clone()),
        })?;
        Ok(Shard {
            ring,
            slots: Slots::new(plan.conns, plan.flush, plan.head_request),
            deadlines: Deadlines::new(plan.conns),
            load: plan.load(),
            recorder: Recorder::new(plan.recorder_config.clone()),
            progress: ShardProgress::default(),
            meter: ShardMeter::new(plan.core),
            shared,
            signals,
            epoch_ns: clock::now_ns(),
            window_ns: plan.recorder_config.window_ns,
            end_ns: plan.end_ns,
            drain_end_ns: plan.end_ns + plan.timeout_ns,
            running: false,
            conns_most: 0,
            grown_ns: 0,
            next_source: 0,
            sampler: plan.samples.clone().map(Lane::sampler),
            plan,
        })
    }

    /// What of io_uring is in use.
    pub fn ring_features(&self) -> Vec<String> {
        self.ring.features()
    }

    /// ns since the epoch.
    #[inline]
    fn now_ns(&self) -> u64 {
        clock::now_ns().saturating_sub(self.epoch_ns)
    }

    /// Runs from the set-up to the end of the drain. `None` when the run was called off.
    pub async fn run(mut self) -> Option<ShardReport> {
        self.set_up().await;
        self.begin_at(self.meet()?);
        let mut yielded_ns = 0;
        seal::seal();
        while self.turn(yielded_ns + YIELD_NS) {
            let now_ns = self.now_ns();
            if yielded_ns + YIELD_NS <= now_ns {
                seal::unseal();
                self.heed_stop();
                self.show(now_ns);
                self.meter.observe(now_ns, self.window_ns, self.end_ns);
                glommio::executor().yield_task_queue_now().await;
                seal::seal();
                yielded_ns = now_ns;
            }
        }
        seal::unseal();
        Some(self.finish())
    }

    /// Waits until every shard is ready; the last one sets the epoch. `None` when the run is called off.
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
                // The executor has nothing else to do, and asleep in its own rings it was seen to miss its wake-up.
                0 => std::thread::sleep(std::time::Duration::from_micros(200)),
                u64::MAX => return None,
                epoch_ns => return Some(epoch_ns),
            }
        }
    }

    /// One pass: whether there is another.
    fn turn(&mut self, yield_ns: u64) -> bool {
        self.meter.turn();
        self.reap();
        self.admit();
        if self.deadlines.first().is_some_and(|(_, over_ns)| over_ns <= self.now_ns()) {
            self.catch_up();
        }
        let now_ns = self.now_ns();
        self.expire(now_ns);
        self.retry(now_ns);
        self.rearm();
        if self.is_done(now_ns) {
            return false;
        }
        self.enter(yield_ns);
        true
    }

    /// Fetches what the kernel has: a thread that stood still would take its own silence for the target's.
    fn catch_up(&mut self) {
        self.stamp_queued();
        self.ring.poll();
        self.reap();
    }

    fn heed_stop(&mut self) {
        let stop_ns = self.signals.stop_ns.load(Ordering::Relaxed);
        if stop_ns != 0 {
            let stop_ns = stop_ns.saturating_sub(self.epoch_ns);
            self.end_ns = self.end_ns.min(stop_ns);
            self.recorder.in_flight.stop_at(stop_ns);
            self.drain_end_ns = self.drain_end_ns.min(stop_ns + DRAIN_INTERRUPTED_NS);
        }
    }

    fn is_done(&self, now_ns: u64) -> bool {
        if now_ns < self.end_ns {
            return false;
        }
        let waiting = match &self.load {
            Load::Open(load) => {
                0 < load.waiting_len()
                    || load.next_due_ns().is_some_and(|due_ns| due_ns < self.end_ns)
            }
            Load::Closed => false,
            Load::Paced(load) => 0 < load.waiting_len() || load.next_due_ns() < self.end_ns,
        };
        (!waiting && self.slots.busy() == 0) || self.drain_end_ns <= now_ns
    }

    /// The system call of the turn: hands over what is queued and waits for what comes next.
    fn enter(&mut self, yield_ns: u64) {
        self.stamp_queued();
        let now_ns = self.now_ns();
        let due_ns = match &self.load {
            // Where no more can wait, an arrival is taken when a request ends.
            Load::Open(load) if load.is_full() => None,
            Load::Open(load) => load.next_due_ns().filter(|due_ns| *due_ns < self.end_ns),
            Load::Paced(load) => Some(load.next_due_ns()).filter(|due_ns| *due_ns < self.end_ns),
            Load::Closed => None,
        }
        .unwrap_or(u64::MAX);
        let over_ns = self.deadlines.first().map_or(u64::MAX, |(_, over_ns)| over_ns);
        let end_ns = if now_ns < self.end_ns { self.end_ns } else { self.drain_end_ns };
        let wake_ns = over_ns
            .min(self.next_drop_ns())
            .min(self.slots.next_retry_ns())
            .min(yield_ns)
            .min(end_ns);
        let sleep_until_ns = match self.plan.wait {
            Wait::Sleep => wake_ns.min(due_ns),
            Wait::Hybrid => wake_ns.min(due_ns.saturating_sub(SPIN_NS)),
            Wait::Spin => 0,
        };
        if now_ns < sleep_until_ns {
            self.ring.wait(sleep_until_ns - now_ns);
            self.meter.slept(now_ns, sleep_until_ns, self.now_ns());
            return;
        }
        let wake_ns = wake_ns.min(due_ns);
        // One call hands over what is queued and fetches what is due.
        self.ring.poll_if_queued();
        let spin_began_ns = self.now_ns();
        let mut spun_ns = spin_began_ns;
        while !self.ring.has_news() && spun_ns < wake_ns {
            std::hint::spin_loop();
            let now_ns = self.now_ns();
            self.meter.spun_past(spun_ns, now_ns);
            spun_ns = now_ns;
        }
        self.meter.spun(now_ns, spin_began_ns, spun_ns);
        self.ring.poll_if_posted_late();
    }

    fn show(&mut self, now_ns: u64) {
        let in_flight = self.slots.busy() as u64;
        self.progress.in_flight = in_flight;
        self.shared.show(&self.progress);
        if self.window_ns <= now_ns && now_ns < self.end_ns {
            self.recorder.series.in_flight(now_ns - self.window_ns, in_flight);
        }
    }

    /// Ends what is left and gives the report.
    fn finish(mut self) -> ShardReport {
        self.catch_up();
        let now_ns = self.now_ns();
        self.stamp_queued();
        let capped = self.slots.is_full();
        while let Some((slot, _)) = self.deadlines.first() {
            if self.slots[slot].state == State::InFlight {
                let ended_ns = now_ns.max(self.slots[slot].stamps.sent_ns);
                self.end(slot, ended_ns, Outcome::Abandoned);
            } else {
                self.deadlines.remove(slot);
            }
            self.close_slot(slot);
        }
        for slot in 0..self.slots.len() {
            if self.slots[slot].state != State::Closed {
                self.close_slot(slot);
            }
        }
        self.count_unsent(now_ns, capped);
        self.ring.submit();
        self.show(now_ns);
        self.meter.observe(now_ns, self.window_ns, self.end_ns);
        self.signals.ended.fetch_add(1, Ordering::Relaxed);
        let digest = match &self.load {
            Load::Open(load) => load.digest(),
            Load::Closed | Load::Paced(_) => Digest::default(),
        };
        let vitals = self.meter.report(self.recorder.sent_in_window, self.ring.overflows());
        let sampled = self.sampler.map(Sampler::finish);
        ShardReport { recorder: self.recorder, digest, vitals, sampled }
    }
}

impl ShardPlan {
    /// The load from the epoch on.
    fn load(&self) -> Load {
        match self.drive {
            Drive::Open { rate, arrivals, seed } => {
                let schedule =
                    Schedule::new(rate, arrivals, seed, self.end_ns, self.shard, self.shards);
                Load::Open(OpenLoad::new(schedule))
            }
            Drive::Closed => Load::Closed,
            Drive::Paced { period_ns } => Load::Paced(PacedLoad::new(
                period_ns,
                self.conns,
                self.conns_total,
                self.shard,
                self.shards,
            )),
        }
    }
}
