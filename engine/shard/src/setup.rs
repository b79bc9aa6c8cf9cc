//! Setup, before the epoch: opens the connections that the load needs, so that the window doesn't
//! measure connects.
//!
//! A closed model opens all its connections. An open one opens those that `--prewarm` asks for;
//! with a warm-up it then offers its load, unrecorded and with a seed of its own, until no
//! connection has been added for a while. That measures the number in flight, rate times latency.
//! Without a warm-up, nothing is sent before the window.
//!
//! It connects up to 512 sockets at a time on each shard, 1,024 on all, or as many every 20 ms if
//! the target is far away: a listener with a full queue drops connects, and the client tries again
//! a second later.

use std::iter;
use std::sync::atomic::Ordering;

use load::curve::Curve;
use load::schedule::{self, Schedule};
use load::share::Share;
use load::{Load, OpenLoad};
use plan::SETTLE_TIMES_MAX;
use record::outcome::Outcome;
use sys::clock;

use super::connection::Connection;
use super::phases::Phases;
use super::plan::{Drive, Endpoint};
use super::shard::{LOOK_NS, Shard};
use super::socket::State;

/// How long requests still in flight after setup may take to be answered, ns.
const SETUP_DRAIN_NS: u64 = 1_000_000_000;
/// The most connects that one shard's setup starts at once.
const BATCH_MAX: usize = 512;
/// The most connects that the setups of all shards start at once: with half as many again that may
/// still be in progress, well below a listener's usual queue of 4,096.
const BATCHES_MAX: usize = 1_024;
/// The longest pause before the next batch, ns.
const BATCH_NS: u64 = 20_000_000;
/// Gives setup load different arrivals from the schedule's.
const SETUP_SEED: u64 = 0x7365_7475_7000_0000;

impl Shard {
    /// Opens connections and, if the plan asks for it, offers load until their number has settled.
    pub(super) fn set_up(&mut self) {
        self.clock.restart(clock::now_ns());
        self.phases.set_up();
        let each = |count: &dyn Fn(&Endpoint) -> usize| -> Vec<u16> {
            let endpoints = (0_u16..).zip(&self.plan.endpoints);
            endpoints.flat_map(|(at, endpoint)| iter::repeat_n(at, count(endpoint))).collect()
        };
        let wanted = match self.load {
            Load::Open(_) => each(&|endpoint| endpoint.prewarm),
            Load::Closed(_) | Load::Paced(_) => each(&|_| self.plan.conns),
        };
        let spare = each(&|endpoint| endpoint.spare);
        self.connect(&wanted);
        if let Drive::Open { curve, arrivals, seed } = &self.plan.drive
            && 0 < self.plan.settle_ns
        {
            // As many connections as the load will need at its peak.
            let (curve, arrivals) = (Curve::constant(curve.peak()), *arrivals);
            let longest_ns =
                self.now_ns() + self.plan.settle_min_ns + SETTLE_TIMES_MAX * self.plan.settle_ns;
            let seed = schedule::mix(seed ^ SETUP_SEED);
            // Their numbers are those of the run's first requests, but nothing random is the same.
            self.sending.seed = seed;
            let share = self.plan.share.clone();
            let schedule = Schedule::new(curve, arrivals, seed, longest_ns, share);
            let mut load = OpenLoad::new(schedule, self.plan.endpoints.len());
            // Its schedule starts with the setup: arrivals that are already overdue are skipped.
            while load.take_unsent(self.now_ns()).is_some() {}
            self.load = Load::Open(load);
            let settled = self.settle(longest_ns);
            let settled = Some(settled).filter(|_| !self.is_stopped());
            self.recording.counts_mut().setup.settled = settled;
            self.load = self.plan.load();
            self.sending.seed = self.plan.seed;
        }
        if !spare.is_empty() {
            let wanted = (self.connections.most() + spare.len()).min(self.plan.conns);
            let missing = wanted.saturating_sub(self.connections.open_count());
            let missing: Vec<u16> = spare.into_iter().cycle().take(missing).collect();
            self.connect(&missing);
        }
        self.phases = Phases::new(&self.plan);
    }

    /// Opens a connection to each of these endpoints and waits until each has been tried. A target
    /// that gets too many connects at once drops some, and the kernel repeats those only a second
    /// later: so they are opened a few at a time, or in timed batches if the target is far away.
    fn connect(&mut self, endpoints: &[u16]) {
        let conns = endpoints.len();
        let began_ns = self.now_ns();
        let mut opened = 0;
        let mut batch_ns = 0;
        let batch_max = batch_max(&self.plan.share);
        while (opened < conns || 0 < self.connections.coming()) && !self.is_stopped() {
            let now_ns = self.now_ns();
            if self.connections.connecting() < batch_max.div_ceil(2)
                || batch_ns + BATCH_NS <= now_ns
            {
                let batch = &endpoints[opened..conns.min(opened + batch_max)];
                for (slot, endpoint) in (opened..).zip(batch) {
                    self.open_in_set_up(slot, *endpoint, now_ns);
                }
                opened += batch.len();
                batch_ns = now_ns;
            }
            if self.connections.fresh() == 0 {
                let wait_ns = if opened < conns { BATCH_NS } else { LOOK_NS };
                self.ring.wait(self.plan.connect_max_ns.min(wait_ns));
            }
            self.reap();
            self.begin_fresh();
            self.expire(self.now_ns());
            // With TLS there is something to receive before the first request.
            self.rearm();
        }
        self.recording.meter().opening_ns += self.now_ns() - began_ns;
    }

    /// Opens one connection: in the slot of its user, where a failed connect is retried later, or
    /// else in any slot.
    fn open_in_set_up(&mut self, slot: usize, endpoint: u16, now_ns: u64) {
        match self.load {
            Load::Open(_) => {
                self.open_connection(endpoint, now_ns);
            }
            Load::Closed(_) | Load::Paced(_) => {
                let slot = u32::try_from(slot).expect("connections are numbered in 32 bits");
                self.connections.take_closed(slot);
                self.open_slot(slot, endpoint, now_ns);
            }
        }
    }

    /// Offers setup load until no connection has been added for the settling time, at most until
    /// `longest_ns`; returns true if it settled. Without a connection nothing can settle.
    fn settle(&mut self, longest_ns: u64) -> bool {
        let mut settled = false;
        let least_ns = self.now_ns() + self.plan.settle_min_ns;
        self.phases.end_with(longest_ns, SETUP_DRAIN_NS);
        self.connections.grow_from(self.now_ns());
        let mut looked_ns = self.now_ns();
        while self.turn(looked_ns + LOOK_NS) {
            let now_ns = self.now_ns();
            if looked_ns + LOOK_NS <= now_ns {
                // As long as nothing has been due, nothing had to be connected.
                let found = 0 < self.connections.most() || !self.recording.has_begun();
                let still = found
                    && self.connections.grown_ns() + self.plan.settle_ns <= now_ns
                    && least_ns <= now_ns;
                if (still || self.is_stopped()) && now_ns < self.phases.end_ns() {
                    settled = still;
                    self.phases.end_at(now_ns);
                    self.phases.drain_until(now_ns + SETUP_DRAIN_NS);
                    self.forget_waiting();
                }
                self.show(now_ns);
                looked_ns = now_ns;
            }
        }
        // Late responses would reach into the run, so their connections are closed.
        self.forget_waiting();
        self.stamp_queued();
        for slot in 0..self.connections.len() {
            let Connection { socket, exchanges, .. } = &self.connections[slot];
            // So would the sessions that had a connection of their own.
            let is_own = socket.state == State::Open && self.connections.is_own(slot);
            if socket.is_coming() || 0 < exchanges.open() || is_own {
                while 0 < self.connections[slot].exchanges.open() {
                    let number = self.connections[slot].exchanges.oldest().number;
                    self.connections.end(slot, number);
                    self.recording.counts_mut().setup.ended(Outcome::Abandoned);
                }
                self.connections[slot].socket.unanswered = true;
                self.close(slot);
            }
        }
        self.ring.submit();
        settled
    }

    fn forget_waiting(&mut self) {
        if let Load::Open(load) = &mut self.load {
            while load.pop_longest().is_some() {}
        }
        self.forget_sent_back();
    }

    /// True if the run was stopped, or its lease is over.
    fn is_stopped(&self) -> bool {
        self.signals.is_lease_over(clock::now_ns())
            || self.signals.stop_ns.load(Ordering::Relaxed) != 0
    }
}

/// The most connects that the setup of a shard with this share starts at once.
fn batch_max(share: &Share) -> usize {
    share.count(BATCHES_MAX).clamp(1, BATCH_MAX)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Arc;

    use record::config::RecorderConfig;
    use sys::control::Signals;

    use super::*;
    use crate::ShardPlan;
    use crate::progress::SharedProgress;

    #[test]
    fn all_shards_together_stay_well_below_a_listeners_queue() {
        for shards in 1..=1_024 {
            let of_shard = |shard| batch_max(&Share::equal(shard, shards));
            let most = (0..shards).map(of_shard).map(|batch| batch + batch.div_ceil(2)).sum();
            assert!((shards..=2_048).contains(&most), "{shards} shards: {most}");
        }
    }

    #[test]
    fn a_socket_that_fails_once_costs_only_its_user_and_only_one_request() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        // Every second socket can't be bound: 192.0.2.1 is reserved for documentation.
        let sources: [SocketAddr; 2] =
            ["127.0.0.1:0", "192.0.2.1:0"].map(|source| source.parse().expect("an address"));
        let end_ns = 200_000_000;
        // The listener never answers: each user sends one request, which outlives the window.
        let plan = ShardPlan {
            drive: Drive::Closed,
            conns: 6,
            conns_total: 6,
            recorder_config: RecorderConfig { end_ns, ..RecorderConfig::default() },
            end_ns,
            drain_max_ns: 400_000_000,
            sources: sources.map(Into::into).to_vec(),
            ..ShardPlan::open_for_test(address.into())
        };
        let shared = Arc::new(SharedProgress::default());
        let shard = Shard::new(plan, shared, Arc::new(Signals::default())).expect("a ring");
        let counts = shard.run().expect("the run isn't cancelled").recorder.counts;
        // Each of six users got a socket in the end: half of them at once, the others later.
        assert_eq!(counts.connects, 6, "{counts:?}");
        assert!(3 <= counts.connection_errors.total() + counts.failed, "{counts:?}");
    }
}
