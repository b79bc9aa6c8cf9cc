//! The parts of a shard.

use std::sync::Arc;

use http1::response::KnownHead;
use load::Load;
use load::carried::Carried;
use plan::check::Checks;
use sys::clock;
use sys::control::Signals;
use sys::lead::Lead;
use tls::{ClientSetup, RECORD_MAX, Sessions};
use uring::{OUT_BYTES, Ring, RingConfig};

use super::clock::Clock;
use super::connections::{Connections, ConnectionsConfig};
use super::content::Kept;
use super::phases::Phases;
use super::plan::{ShardPlan, Step};
use super::progress::SharedProgress;
use super::recording::Recording;
use super::requeue::Requeue;
use super::roaming::Users;
use super::send_stamps::SendSample;

/// How often a shard checks for a stop and publishes its progress, ns: too rarely to show in the
/// CPU time per request.
pub(super) const LOOK_NS: u64 = 50_000_000;
/// Requests above this size, bytes, may still be leaving when the response comes, so their sends
/// report back.
pub const SEND_SILENT_MAX: usize = 16_384;
/// The multiple of `flush` sends that one call carries while the shard is behind its schedule.
const BEHIND_FLUSHES: usize = 4;
/// Size of a receive buffer, bytes. A response that takes many costs more per buffer than for its
/// bytes.
const BUFFER_SIZE: usize = 65_536;

/// One pinned core's engine.
pub struct Shard {
    pub(super) plan: ShardPlan,
    pub(super) signals: Arc<Signals>,
    pub(super) clock: Clock,
    /// How long before an arrival it wakes to poll.
    pub(super) lead: Lead,
    pub(super) phases: Phases,
    /// The driver of its load.
    pub(super) load: Load,
    /// The connection pool.
    pub(super) connections: Connections,
    pub(super) recording: Recording,
    pub(super) ring: Ring,
    pub(super) sending: Sending,
    /// The users of a closed model that send to several endpoints.
    pub(super) users: Users,
    /// The TLS sessions of its connections, if any endpoint uses TLS.
    pub(super) sessions: Option<Sessions>,
    /// For each step, the head of its last response on any connection.
    pub(super) known_heads: Vec<KnownHead>,
    /// True if a connection that has room may not be for the next request in line: there are several
    /// endpoints, or connections that are sessions' own.
    pub(super) is_particular: bool,
    /// True if responses are checked.
    pub(super) has_checks: bool,
    /// What is kept of each connection's response; empty without checks, and with HTTP/2.
    pub(super) kept: Vec<Kept>,
    /// Memory to decompress a body into.
    pub(super) decompressed: Vec<u8>,
    /// What each session carries from step to step, by its place; empty if none carries anything.
    pub(super) carried: Vec<Carried>,
    /// HTTP/2: the requests that have to be sent again.
    pub(super) requeue: Requeue,
}

/// Settings and buffers for sends.
pub(super) struct Sending {
    /// The most bytes of requests in flight in one send that needn't report back.
    pub(super) silent_max: usize,
    /// The length of the longest request, bytes.
    pub(super) longest: usize,
    /// What leaves next and isn't in memory: plaintext for a TLS record, or frames of HTTP/2.
    pub(super) gathered: Vec<u8>,
    /// The seed of what differs between requests.
    pub(super) seed: u64,
    /// Room for a request that is made as it leaves.
    pub(super) room: Vec<u8>,
    /// The requests for which the kernel stamps when they left.
    pub(super) sample: SendSample,
}

impl Sending {
    fn new(plan: &ShardPlan) -> Sending {
        let is_secure = plan.is_secure();
        let is_made = |step: &&Step| step.values.is_some();
        let made = plan.steps.iter().filter(is_made).map(|step| step.request.len());
        Sending {
            // Encrypted bytes are made as they leave, and stay in the outbox until they have left.
            silent_max: if is_secure { 0 } else { SEND_SILENT_MAX },
            longest: plan.steps.iter().map(|step| step.request.len()).max().unwrap_or(0),
            gathered: Vec::with_capacity(match (plan.blocks.is_some(), is_secure) {
                // A header block may follow what a connection begins with.
                (true, _) => 2 * OUT_BYTES,
                (false, true) => RECORD_MAX,
                (false, false) => 0,
            }),
            seed: plan.seed,
            room: Vec::with_capacity(made.max().unwrap_or(0)),
            sample: SendSample::new(plan.stamp_sends),
        }
    }
}

impl Shard {
    /// Builds the shard on the thread that will run it: memory first, then the ring.
    ///
    /// # Errors
    /// The kernel refused the ring.
    pub fn new(
        mut plan: ShardPlan,
        shared: Arc<SharedProgress>,
        signals: Arc<Signals>,
    ) -> std::io::Result<Shard> {
        clock::set_timer_slack();
        // A regular expression writes to memory of its own with each search.
        for checks in plan.steps.iter_mut().filter_map(|step| step.checks.as_mut()) {
            *checks = Arc::new(Checks::clone(checks));
        }
        let mut ring = Ring::new(RingConfig {
            sockets_max: plan.slots(),
            buffer_size: BUFFER_SIZE,
            payloads: plan.steps.iter().map(|step| step.request.clone()).collect(),
            addresses: plan.endpoints.iter().map(|it| it.address.clone()).collect(),
            outbox: plan.is_secure()
                || plan.blocks.is_some()
                || (1 < plan.steps.len() && 1 < plan.depth)
                || plan.steps.iter().any(|step| step.values.is_some()),
        })?;
        let mut connections = Connections::new(ConnectionsConfig {
            conns: plan.slots(),
            spare: plan.spare_slots(),
            own: plan.endpoints.iter().map(|endpoint| endpoint.own).collect(),
            depth: plan.depth,
            http2: plan.blocks.is_some(),
            keeps: plan.has_checks(),
            requests_per_connection: plan.requests_per_connection,
            lifetime_ns: plan.connection_lifetime_ns,
            flush: plan.flush,
            flush_behind: plan.flush * BEHIND_FLUSHES,
        });
        if plan.stamp_sends.is_some() {
            ring.stamp_sends();
            (0..connections.len())
                .for_each(|slot| connections[slot].socket.reserve_samples(plan.depth));
        }
        let clients = plan.is_secure().then(|| plan.endpoints.iter().map(|it| it.tls.clone()));
        let clients: Option<Vec<Option<ClientSetup>>> = clients.map(Iterator::collect);
        let multiplexed = if plan.blocks.is_some() { plan.slots() } else { 0 };
        Ok(Shard {
            requeue: Requeue::new(multiplexed, plan.depth),
            ring,
            connections,
            sessions: clients.map(|each| Sessions::new(&each, plan.slots(), BUFFER_SIZE)),
            users: Users::new(&plan),
            known_heads: plan.steps.iter().map(|_| KnownHead::default()).collect(),
            kept: (0..if plan.has_checks() && plan.blocks.is_none() { plan.slots() } else { 0 })
                .map(|_| Kept::default())
                .collect(),
            is_particular: 1 < plan.endpoints.len() || plan.endpoints.iter().any(|it| it.own),
            has_checks: plan.has_checks(),
            decompressed: Vec::new(),
            carried: vec![Carried::default(); if plan.carries() { plan.sessions() } else { 0 }],
            clock: Clock::new(),
            lead: Lead::default(),
            phases: Phases::new(&plan),
            load: plan.load(),
            recording: Recording::new(&plan, shared),
            sending: Sending::new(&plan),
            signals,
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
        self.clock.now_ns()
    }

    /// Draws the schedule's next arrivals in advance. Queued requests leave first: nothing that is
    /// due waits for future arrivals.
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
        let in_flight = self.connections.requests();
        self.recording.show(&self.clock, &self.phases, now_ns, in_flight);
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

    /// Waits until a new connection can be taken.
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
    fn shards_of_one_plan_search_with_memory_of_their_own() {
        let checked =
            plan::Plan { expect_body: vec!["regex o+k".to_owned()], ..plan::Plan::default() };
        let checks = Checks::of_request(&checked, Vec::new(), false).expect("a check");
        let checks = Arc::new(checks.expect("some"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut plan = ShardPlan::open_for_test(listener.local_addr().expect("bound").into());
        plan.steps[0].checks = Some(Arc::clone(&checks));
        let shard = || Shard::new(plan.clone(), Arc::default(), Arc::default()).expect("a ring");
        let own = [shard(), shard()].map(|shard| shard.plan.steps[0].checks.clone());
        let [Some(one), Some(other)] = own else { panic!("each shard has its checks") };
        assert!(!Arc::ptr_eq(&one, &other) && !Arc::ptr_eq(&one, &checks));
    }

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
