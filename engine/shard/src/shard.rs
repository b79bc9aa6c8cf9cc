//! What a shard is made of.

use std::sync::Arc;

use http1::response::KnownHead;
use load::Load;
use record::recorder::Recorder;
use record::shard_stats::ShardMeter;
use record::times::Latencies;
use samples::{Lane, Sampler};
use sys::clock;
use sys::control::Signals;
use sys::wall_clock::{ClockLook, WallClock};
use tls::{RECORD_MAX, Sessions};
use uring::{Ring, RingConfig};

use super::connections::{Connections, ConnectionsConfig};
use super::deadlines::Deadlines;
use super::plan::ShardPlan;
use super::progress::{ShardProgress, SharedProgress};

/// How often a shard looks whether it is to stop, and shows how far it is, ns: too rarely to show in
/// the CPU time of a request.
pub(super) const LOOK_NS: u64 = 50_000_000;
/// How many times `flush` sends one call carries while the shard is behind its schedule.
const BEHIND_FLUSHES: usize = 4;
/// Size of a receive buffer, bytes. A response that takes many costs more for each than for its
/// bytes.
const BUFFER_SIZE: usize = 65_536;

/// One pinned core's engine.
pub struct Shard {
    pub(super) plan: ShardPlan,
    pub(super) ring: Ring,
    pub(super) connections: Connections,
    /// The TLS of its connections, where the plan has any.
    pub(super) sessions: Option<Sessions>,
    /// By step, the head of the last response to it, on any connection.
    pub(super) known_heads: Vec<KnownHead>,
    pub(super) deadlines: Deadlines,
    pub(super) load: Load,
    pub(super) recorder: Recorder,
    pub(super) meter: ShardMeter,
    pub(super) sampler: Option<Sampler>,
    pub(super) progress: ShardProgress,
    pub(super) shared: Arc<SharedProgress>,
    pub(super) signals: Arc<Signals>,
    /// Time zero of all the shard's times, ns of CLOCK_MONOTONIC.
    pub(super) epoch_ns: u64,
    /// When recording starts: with the window, or never during setup.
    pub(super) window_ns: u64,
    /// When the load ends: as planned, or earlier if interrupted.
    pub(super) end_ns: u64,
    /// When what is still in flight is abandoned.
    pub(super) drain_end_ns: u64,
    /// From when on nothing is sent: at the latest when the drain ends.
    pub(super) send_end_ns: u64,
    /// Whether the epoch has come; before it, there is only setup load.
    pub(super) running: bool,
    /// The wall clock, of which the kernel's stamps are.
    pub(super) wall_clock: WallClock,
    /// When the completions at hand were posted, ns since the epoch: one reading of the clock for
    /// all that a system call brought.
    pub(super) handled_ns: u64,
    /// How many completions that was.
    pub(super) at_hand: usize,
    /// When nothing was at hand, as far as is known: the last such moment, ns since the epoch.
    pub(super) idle_ns: u64,
    /// The most connections open at once.
    pub(super) conns_most: usize,
    /// When that many were reached, ns since the epoch.
    pub(super) grown_ns: u64,
    /// By slot, whether its connection was added to the pool in the window and its first request
    /// hasn't ended.
    pub(super) added: Vec<bool>,
    pub(super) next_source: usize,
    /// The length of the longest request, bytes.
    pub(super) longest: usize,
    /// What of several steps' requests a record of TLS is to hold.
    pub(super) gathered: Vec<u8>,
    /// Requests to send before the next of the sample for which the kernel says when they left.
    pub(super) before_sample: u64,
    /// Twice the naive p99 of the window, ns, once it has been asked for.
    pub(super) slow_ns: Option<u64>,
}

impl Shard {
    /// Builds the shard on the thread that will run it: memory first, then the ring.
    ///
    /// # Errors
    /// Why the kernel refused the ring.
    pub fn new(
        plan: ShardPlan,
        shared: Arc<SharedProgress>,
        signals: Arc<Signals>,
    ) -> std::io::Result<Shard> {
        clock::set_timer_slack();
        let mut ring = Ring::new(RingConfig {
            sockets_max: plan.conns,
            buffer_size: BUFFER_SIZE,
            payloads: plan.steps.iter().map(|step| step.request.clone()).collect(),
            address: Some(plan.address.clone()),
            outbox: plan.tls.is_some() || (1 < plan.steps.len() && 1 < plan.pipeline),
        })?;
        let mut connections = Connections::new(ConnectionsConfig {
            conns: plan.conns,
            pipeline: plan.pipeline,
            requests_per_connection: plan.requests_per_connection,
            flush: plan.flush,
            flush_behind: plan.flush * BEHIND_FLUSHES,
        });
        if plan.stamp_sends.is_some() {
            ring.stamp_sends();
            (0..connections.len())
                .for_each(|slot| connections[slot].reserve_samples(plan.pipeline));
        }
        Ok(Shard {
            ring,
            connections,
            sessions: plan.tls.as_ref().map(|tls| Sessions::new(tls, plan.conns, BUFFER_SIZE)),
            known_heads: plan.steps.iter().map(|_| KnownHead::default()).collect(),
            deadlines: Deadlines::new(plan.conns),
            load: plan.load(),
            recorder: Recorder::new(plan.recorder_config.clone()),
            meter: ShardMeter::new(plan.core, plan.recorder_config.window_ns..plan.end_ns),
            sampler: plan.samples.clone().map(Lane::sampler),
            progress: ShardProgress::default(),
            shared,
            signals,
            epoch_ns: clock::now_ns(),
            window_ns: plan.recorder_config.window_ns,
            end_ns: plan.end_ns,
            drain_end_ns: plan.end_ns + plan.timeout_ns,
            send_end_ns: plan.end_ns + plan.timeout_ns,
            running: false,
            wall_clock: WallClock::new(ClockLook::now()),
            handled_ns: 0,
            at_hand: 0,
            idle_ns: 0,
            conns_most: 0,
            grown_ns: 0,
            added: vec![false; plan.conns],
            next_source: 0,
            longest: plan.steps.iter().map(|step| step.request.len()).max().unwrap_or(0),
            gathered: Vec::with_capacity(if plan.tls.is_some() { RECORD_MAX } else { 0 }),
            before_sample: 0,
            slow_ns: None,
            plan,
        })
    }

    /// The io_uring features in use.
    pub fn ring_features(&self) -> Vec<String> {
        self.ring.features()
    }

    /// ns since the epoch.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        clock::now_ns().saturating_sub(self.epoch_ns)
    }

    /// About twice the naive p99 of the window, ns; 0 without a response. To be asked for after the
    /// window.
    pub(super) fn slow_ns(&mut self) -> u64 {
        let times = &self.recorder.times;
        *self.slow_ns.get_or_insert_with(|| {
            let most_ns = |latencies: &Latencies| latencies.naive_about_ns(0.99);
            2 * most_ns(&times.successes).or_else(|| most_ns(&times.others)).unwrap_or(0)
        })
    }

    /// Stamps the completions that are posted.
    #[inline]
    pub(super) fn stamp_handled(&mut self) {
        let look = ClockLook::now();
        self.wall_clock.observe(look);
        self.handled_ns = look.after_ns.saturating_sub(self.epoch_ns).max(self.handled_ns);
    }

    /// A stamp of the wall clock as ns since the epoch; `None` if that clock has just been set.
    #[inline]
    pub(super) fn since_epoch_ns(&self, wall_ns: u64) -> Option<u64> {
        let stamp_ns = self.wall_clock.monotonic_ns(wall_ns, self.epoch_ns + self.handled_ns)?;
        Some(stamp_ns.saturating_sub(self.epoch_ns))
    }

    /// Draws the schedule's next arrivals ahead of their time. What is queued leaves first: nothing
    /// that is due waits for arrivals to come.
    pub(super) fn refill(&mut self) {
        if let Load::Open(load) = &mut self.load
            && let Some(schedule) = load.refillable()
        {
            self.ring.poll_if_queued();
            schedule.refill();
        }
    }

    /// Publishes the shard's progress.
    pub(super) fn show(&mut self, now_ns: u64) {
        let in_flight = self.connections.requests() as u64;
        self.progress.in_flight = in_flight;
        self.progress.counts = self.recorder.counts.so_far();
        self.progress.time = self.meter.time(self.epoch_ns + now_ns);
        self.shared.show(&self.progress);
        if self.window_ns <= now_ns && now_ns < self.end_ns {
            self.recorder.series.in_flight(now_ns - self.window_ns, in_flight);
        }
    }
}

#[cfg(test)]
impl Shard {
    /// A shard of [`ShardPlan::open_for_test`], and its target.
    pub(super) fn open_for_test() -> (Shard, std::net::TcpListener) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let plan = ShardPlan::open_for_test(listener.local_addr().expect("bound").into());
        (Shard::new(plan, Arc::default(), Arc::default()).expect("a ring"), listener)
    }

    /// Waits until a new connection is there to be taken.
    pub(super) fn wait_for_fresh(&mut self) {
        while self.connections.fresh() == 0 {
            self.ring.wait(1_000_000_000);
            self.reap();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use load::curve::Curve;
    use plan::Arrivals;
    use record::config::RecorderConfig;

    use super::*;
    use crate::plan::Drive;

    #[test]
    fn no_arrival_is_left_to_be_drawn_when_a_turn_has_waited() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        // Every second block is empty.
        let curve = Curve::constant("700".parse().expect("a rate"));
        let end_ns = 200_000_000;
        let plan = ShardPlan {
            drive: Drive::Open { curve, arrivals: Arrivals::Poisson, seed: 1 },
            recorder_config: RecorderConfig { end_ns, ..RecorderConfig::default() },
            end_ns,
            ..ShardPlan::open_for_test(address.into())
        };
        let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        let mut turns = 0;
        loop {
            assert!(turns < 100_000, "the load ends");
            turns += 1;
            if !shard.turn(u64::MAX) {
                break;
            }
            // A new connection gets its request before anything else.
            let is_fresh = 0 < shard.connections.fresh();
            let Load::Open(load) = &mut shard.load else { panic!("an open load") };
            assert!(is_fresh || load.refillable().is_none(), "turn {turns}");
        }
        let Load::Open(load) = &shard.load else { panic!("an open load") };
        assert!(80 < load.digest().arrivals(), "{}", load.digest().arrivals());
    }
}
