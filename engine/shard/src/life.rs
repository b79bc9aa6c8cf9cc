//! A shard's life: set up, wait for the other shards, run turns until the drain is over, report.
//!
//! In the drain, queued requests are still sent, and responses awaited for at most the timeout.
//! Requests still in flight after that are abandoned, and requests never sent are unsent. Unsent
//! requests beyond 4 million per shard are counted by rate, along the curve, since counting a
//! schedule beyond any machine's capacity one by one took a minute. The report then states how many
//! were estimated, and has no digest.

use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use load::schedule::Digest;
use load::{DueRequest, Load};
use record::outcome::{Outcome, UnsentReason};
use record::shard_report::ShardReport;
use record::stamps::{Ending, Stamps};
use sys::control::ByShards;
use sys::{clock, seal};

use super::deadlines::Deadlines;
use super::exchange::Exchange;
use super::shard::{LOOK_NS, Shard};
use super::socket::State;

/// Time from the last shard being ready to the epoch, ns, so that every shard sees it. Shards wake
/// up this long before an epoch.
pub const EPOCH_AHEAD_NS: u64 = 20_000_000;
/// The longest drain of an interrupted run, ns.
pub const DRAIN_INTERRUPTED_NS: u64 = 2_000_000_000;

/// The shortest wait for surplus responses, ns: the kernel may hold back a small one until an
/// acknowledgement that it delays by 40 ms.
const LINGER_MIN_NS: u64 = 50_000_000;
/// The longest such wait, ns.
const LINGER_MAX_NS: u64 = 200_000_000;

/// The most requests to count one by one after the end, each at its own intended time.
const COUNTED_MAX: u32 = 4_000_000;
/// The number of equal parts in which the others are counted.
const REST_STRETCHES: u64 = 1_000;

impl Shard {
    /// Runs from setup to the end of the drain; `None` if the run was cancelled.
    pub fn run(mut self) -> Option<ShardReport> {
        self.set_up();
        let epoch_ns = self.meet()?;
        self.begin_at(epoch_ns);
        // Without a warm-up the window has begun: it includes the time before the first look.
        let now_ns = self.now_ns();
        self.recording.meter().observe(now_ns, self.clock.reader());
        let mut looked_ns = 0;
        seal::seal();
        while self.turn(looked_ns + LOOK_NS) {
            let now_ns = self.now_ns();
            if looked_ns + LOOK_NS <= now_ns {
                seal::unseal();
                self.heed_stop();
                self.show(now_ns);
                self.recording.meter().observe(now_ns, self.clock.reader());
                seal::seal();
                looked_ns = now_ns;
            }
        }
        seal::unseal();
        let now_ns = self.now_ns();
        self.recording.meter().observe(now_ns, self.clock.reader());
        self.recording.meter().over(self.clock.reader());
        self.linger();
        Some(self.finish())
    }

    /// Waits, with no request in flight, twice as long as nearly every response took: anything that
    /// arrives now is surplus. A target that repeats its answers may be one ahead all the time, and
    /// nothing else shows it.
    fn linger(&mut self) {
        let until_ns = self.now_ns() + self.recording.slow_ns().clamp(LINGER_MIN_NS, LINGER_MAX_NS);
        while self.connections.requests() == 0 && self.now_ns() < until_ns {
            self.ring.wait(until_ns.saturating_sub(self.now_ns()));
            self.reap();
        }
    }

    /// Waits until every shard is ready and the epoch is set, by the last of them unless the run
    /// does it. `None` if the run is cancelled.
    fn meet(&self) -> Option<u64> {
        self.publish_setup();
        let is_last =
            self.signals.by_shards.ready.fetch_add(1, Ordering::AcqRel) + 1 == self.plan.shards;
        if is_last && !self.signals.held {
            self.signals.begin_at(clock::now_ns() + EPOCH_AHEAD_NS);
        }
        loop {
            match self.signals.epoch_ns.load(Ordering::Acquire) {
                0 => std::thread::sleep(Duration::from_micros(200)),
                u64::MAX => return None,
                epoch_ns => return Some(epoch_ns),
            }
        }
    }

    /// Publishes the setup's results to the run, before the shard reports that it is ready.
    fn publish_setup(&self) {
        let ByShards { settled, unsettled, .. } = &self.signals.by_shards;
        match self.recording.counts().setup.settled {
            Some(true) => settled.store(true, Ordering::Relaxed),
            Some(false) => unsettled.store(true, Ordering::Relaxed),
            None => {}
        }
    }

    /// Waits for the epoch, then starts the load.
    fn begin_at(&mut self, epoch_ns: u64) {
        self.clock.restart(epoch_ns);
        self.recording.restart(&self.plan);
        self.connections.grow_from(0);
        self.connections.deadlines = Deadlines::new(self.plan.slots());
        for slot in 0..self.connections.len() {
            // Open and coming connections carry stamps of the setup's epoch.
            let socket = &mut self.connections[slot].socket;
            (socket.since_ns, socket.connected_ns, socket.out_of_order_ns) = (0, 0, 0);
            if socket.is_coming() {
                self.connections.deadlines.check_by(slot, self.plan.connect_max_ns);
            }
        }
        self.connections.retry_now();
        let ahead_ns = epoch_ns.saturating_sub(clock::now_ns());
        std::thread::sleep(Duration::from_nanos(ahead_ns.saturating_sub(EPOCH_AHEAD_NS)));
        while clock::now_ns() < epoch_ns {
            std::hint::spin_loop();
        }
        // A run stopped before its epoch offers no load.
        self.heed_stop();
        // Bytes that came since the setup came before the first request, so they can't be its
        // answer; connections closed since then carry none.
        self.catch_up();
        self.phases.run();
        let now_ns = self.now_ns();
        self.recording.meter().begin_at(now_ns);
        self.users_begin(now_ns);
    }

    /// Obeys an interruption: ends the load, and shortens the drain.
    fn heed_stop(&mut self) {
        let stop_ns = self.signals.stop_ns.load(Ordering::Relaxed);
        if stop_ns != 0 {
            let stop_ns = self.clock.of_monotonic_ns(stop_ns);
            self.end_at(stop_ns);
            self.phases.drain_until(stop_ns + DRAIN_INTERRUPTED_NS);
            self.phases.send_until(stop_ns);
        }
    }

    /// Stops sending if the end of the load hasn't been put off; returns true if so. The process
    /// may have been suspended at any earlier point, so `now_ns` must be read just for this.
    #[inline]
    pub(super) fn heed_lease(&mut self, now_ns: u64) -> bool {
        let is_over = self.signals.is_lease_over(self.clock.monotonic_ns(now_ns));
        if is_over {
            self.phases.send_until(now_ns);
        }
        is_over
    }

    /// Withdraws what was to leave with the next system call: the lease has ended since.
    pub(super) fn withdraw_queued(&mut self) {
        let now_ns = self.now_ns();
        while let Some(Exchange { stamps, number }) = self.connections.withdraw() {
            if self.was_sent(number) {
                self.end_sent_back(number, now_ns);
                continue;
            }
            if self.load.is_unpaced() {
                // An unpaced request is intended when it is sent, unless its user had to wait.
                if !stamps.waited {
                    continue;
                }
                self.recording.intended(&self.phases, (stamps.intended_ns, stamps.session));
            }
            let (over_ns, reason) =
                self.left_unsent((stamps.intended_ns, stamps.step, stamps.session), now_ns);
            // Only this process made it wait.
            let Stamps { step, session, .. } = stamps;
            let stamps = Stamps { session, ..Stamps::unsent(stamps.intended_ns, over_ns, step) };
            let (ending, outcome) = (Ending::at(over_ns), Outcome::Unsent(reason));
            self.recording.ended(&self.phases, number, &stamps, ending, outcome);
        }
    }

    /// Ends the window at this time, unless it ends earlier.
    fn end_at(&mut self, end_ns: u64) {
        self.phases.end_at(end_ns);
        self.recording.stop_at(end_ns);
    }

    /// True if unpaced users have another request of the window to send. A request that is queued,
    /// or waits for a connection, becomes one of these, unless it is sent before the window.
    #[inline]
    pub(super) fn has_left(&self) -> bool {
        let Load::Closed(load) = &self.load else { return true };
        // Those that were sent before are among the intended ones.
        let taken = self.connections.queued() + load.waiting_len() - self.requeue.again.len();
        self.recording.counts().intended + (taken as u64) < self.plan.requests
    }

    /// Ends the window with the last of its requests.
    #[inline]
    pub(super) fn end_if_spent(&mut self, now_ns: u64) {
        if self.plan.requests <= self.recording.counts().intended
            && self.connections.requests() == 0
            && self.phases.window_ns() <= now_ns
            && now_ns < self.phases.end_ns()
        {
            self.end_at(now_ns);
        }
    }

    /// True if the load and its drain are over.
    pub(super) fn is_done(&self, now_ns: u64) -> bool {
        if now_ns < self.phases.end_ns() {
            return false;
        }
        let waiting = match &self.load {
            _ if self.phases.send_end_ns() <= now_ns => false,
            // Those that think go on.
            _ if 0 < self.recording.open_sessions() => true,
            Load::Open(load) => {
                0 < load.waiting_len()
                    || load.next_due_ns().is_some_and(|due_ns| due_ns < self.phases.end_ns())
            }
            // A user whose connection is being opened came before the end.
            Load::Closed(load) => 0 < load.waiting_len(),
            Load::Paced(load) => {
                0 < load.waiting_len() || load.next_due_ns() < self.phases.end_ns()
            }
        };
        (!waiting && self.connections.requests() == 0) || self.phases.drain_end_ns() <= now_ns
    }

    /// Ends the remaining requests and returns the report.
    pub(super) fn finish(mut self) -> ShardReport {
        self.catch_up();
        let now_ns = self.now_ns();
        self.stamp_queued();
        let capped = matches!(self.load, Load::Open(_)) && self.connections.is_full();
        for slot in 0..self.connections.len() {
            while self.connections[slot].is_awaiting() {
                let Exchange { number, stamps } = *self.connections[slot].exchanges.oldest();
                let ended_ns = now_ns.max(stamps.sent_ns);
                if stamps.sent_ns + self.recording.slow_ns() < ended_ns {
                    // Nearly all others were answered sooner.
                    self.doubt(slot);
                }
                // One whose timeout passed just before has timed out.
                let (ending_ns, outcome) = match self.over(&stamps) {
                    (over_ns, kind) if over_ns <= now_ns => {
                        (over_ns.max(stamps.sent_ns), Outcome::TimedOut(kind))
                    }
                    _ => (ended_ns, Outcome::Abandoned),
                };
                self.end(slot, number, Ending::at(ending_ns), outcome);
            }
            let socket = &self.connections[slot].socket;
            if socket.is_unserved() && (!self.users.roam() || self.is_awaited(slot)) {
                self.blocked(slot, socket.since_ns, now_ns);
            }
            if self.connections[slot].socket.state != State::Closed {
                self.close(slot);
            }
        }
        self.ring.settle();
        self.recording.meter().closing_ns = self.now_ns().saturating_sub(now_ns);
        self.count_users();
        self.count_unsent(now_ns, capped, COUNTED_MAX);
        self.recording.end_sessions(&self.phases);
        self.show(now_ns);
        let ByShards { end_ns, ended, .. } = &self.signals.by_shards;
        end_ns.fetch_max(self.phases.end_ns(), Ordering::Relaxed);
        ended.fetch_add(1, Ordering::Relaxed);
        let digest = match &self.load {
            Load::Open(load) => load.digest(),
            Load::Closed(_) | Load::Paced(_) => Digest::default(),
        };
        self.recording.report(digest, &self.ring, &self.clock)
    }

    /// The slot's user was blocked between the two times; the part inside the window counts.
    pub(super) fn blocked(&mut self, slot: u32, from_ns: u64, to_ns: u64) {
        let user = &mut self.connections[slot].user;
        // Waiting for several requests at once counts once.
        let from_ns = from_ns.max(self.phases.window_ns()).max(user.blocked_to_ns);
        let to_ns = to_ns.min(self.phases.end_ns());
        if from_ns < to_ns {
            user.blocked_ns += to_ns - from_ns;
            user.blocked_to_ns = to_ns;
        }
    }

    /// Counts the requests left unsent at the end, up to `counted_max` of a schedule one by one;
    /// `capped`: arrivals waited while all connections were busy.
    fn count_unsent(&mut self, now_ns: u64, capped: bool, counted_max: u32) {
        for number in 0_u32.. {
            if number == counted_max && matches!(self.load, Load::Open(_)) {
                return self.count_rest(now_ns, capped);
            }
            let (due, counted) = match &mut self.load {
                Load::Open(load) => match load.pop_longest() {
                    Some(due) => (Some(due), true),
                    None => (load.take_unsent(self.phases.end_ns()), false),
                },
                Load::Paced(load) => match load.pop_any_waiting() {
                    Some(due) => (Some(due), true),
                    None => {
                        let due = load.take_due(self.phases.end_ns(), self.phases.end_ns());
                        (due.map(|(_, arrival)| DueRequest::unnoticed(arrival)), false)
                    }
                },
                Load::Closed(load) => (load.pop_any_waiting(), false),
            };
            let Some(due) = due else { return };
            let counted = counted || self.was_sent(due.number);
            let intended_ns = due.intended_ns;
            let due = self.with_step(due);
            if !counted {
                self.recording.intended(&self.phases, (intended_ns, due.session));
            }
            if !counted && !self.load.is_unpaced() {
                self.recording.waited(&self.phases, &due, capped);
            }
            let request = (intended_ns, due.step, due.session);
            let (over_ns, reason) = self.left_unsent(request, now_ns);
            self.unsent(due, over_ns, reason);
        }
    }

    /// When a request stops waiting for a connection, and the reason that then applies. One that
    /// was sent before times out then.
    pub(super) fn expiry_of(&self, due: &DueRequest) -> (u64, UnsentReason) {
        match self.again_over(due.number) {
            Some((over_ns, _)) => (over_ns, UnsentReason::Deadline),
            None => self.expiry((due.intended_ns, due.step, due.session)),
        }
    }

    fn expiry(&self, request: (u64, u16, Option<NonZeroU32>)) -> (u64, UnsentReason) {
        let given_up_ns = self.given_up_ns(request);
        match request.0.saturating_add(self.plan.queue_max_ns) {
            dropped_ns if dropped_ns < given_up_ns => (dropped_ns, UnsentReason::Dropped),
            _ => (given_up_ns, UnsentReason::Deadline),
        }
    }

    /// When the next waiting arrival expires; `u64::MAX` for never. Once sending has stopped,
    /// waiting arrivals are counted at the end.
    pub(super) fn next_expiry_ns(&self) -> u64 {
        match &self.load {
            _ if self.phases.send_end_ns() <= self.clock.handled_ns() => u64::MAX,
            Load::Open(load) => {
                let first = load.longest().and_then(|(_, endpoint)| load.first_waiting(endpoint));
                first.map_or(u64::MAX, |due| self.expiry_of(due).0)
            }
            Load::Closed(_) | Load::Paced(_) => u64::MAX,
        }
    }

    /// When and why a request left unsent at the end was given up.
    fn left_unsent(
        &self,
        request: (u64, u16, Option<NonZeroU32>),
        now_ns: u64,
    ) -> (u64, UnsentReason) {
        match self.expiry(request) {
            (over_ns, reason) if over_ns <= now_ns => (over_ns, reason),
            _ => (now_ns, UnsentReason::End),
        }
    }

    /// Counts the rest of a schedule by its rate if no machine could follow it: counting one by one
    /// would take minutes.
    fn count_rest(&mut self, now_ns: u64, capped: bool) {
        let Load::Open(load) = &mut self.load else { return };
        let (from_ns, end_ns) = (self.phases.window_ns(), self.phases.end_ns());
        let rest = load.take_rest(from_ns, end_ns, REST_STRETCHES);
        let Some((count, middles)) = rest.filter(|(count, _)| 0 < *count) else { return };
        let lagging = load.is_lagging();
        for (step, count) in self.plan.mix.shares(count) {
            for (due_ns, count) in evenly(&middles, count) {
                let (over_ns, reason) = self.left_unsent((due_ns, step, None), now_ns);
                let noticed_ns = if lagging { due_ns } else { over_ns };
                let stamps = Stamps::unsent(due_ns, noticed_ns, step);
                self.recording.unsent(&stamps, over_ns, reason, (count, capped));
            }
        }
    }

    /// Counts the window's users, and those blocked for half of their time in it or more.
    fn count_users(&mut self) {
        let window_ns = self.phases.window_ns()..self.phases.end_ns();
        let slots = self.connections.len();
        // A user of several endpoints waits for one of its connections at a time.
        let step = if self.users.roam() { self.plan.conns } else { slots as usize };
        // A closed loop over HTTP/2 has a user on each stream; a connection serves or blocks all.
        let is_open = matches!(self.load, Load::Open(_));
        let of_slot = if self.has_streams() && !is_open { self.plan.depth as u64 } else { 1 };
        for slot in (0..slots).take(step) {
            let of_user = (slot..slots).step_by(step);
            let blocked_ns: u64 = of_user.map(|slot| self.connections[slot].user.blocked_ns).sum();
            let user = slot as usize;
            let present_ns = match &self.load {
                Load::Open(_) if !self.connections.is_seen(slot) && blocked_ns == 0 => 0,
                Load::Open(_) => window_ns.end.saturating_sub(window_ns.start),
                Load::Closed(load) => load.present_ns(user, &window_ns),
                Load::Paced(load) => load.present_ns(user, &window_ns),
            };
            if 0 < present_ns {
                let counts = self.recording.counts_mut();
                let is_blocked = present_ns <= blocked_ns.saturating_mul(2);
                counts.users += of_slot;
                counts.users_blocked += if is_blocked { of_slot } else { 0 };
            }
        }
    }
}

/// Divides `count` requests equally among these due times; returns each time with its number of
/// requests.
fn evenly(due_ns: &[u64], count: u64) -> impl Iterator<Item = (u64, u64)> {
    let parts = due_ns.len() as u64;
    let up_to = move |part: u64| {
        u64::try_from(u128::from(count) * u128::from(part) / u128::from(parts))
            .expect("a part is at most the whole")
    };
    let each = due_ns.iter().zip(0..);
    each.map(move |(due_ns, part)| (*due_ns, up_to(part + 1) - up_to(part)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use load::curve::{Curve, Segment};
    use plan::Arrivals;
    use record::config::RecorderConfig;
    use record::recorder::Recorder;
    use units::Nanos;

    use super::*;
    use crate::plan::due_at;
    use crate::{Drive, ShardPlan};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_request_that_never_got_its_connection_expired_at_its_deadline_not_at_the_end() {
        let target = "127.0.0.1:1".parse::<std::net::SocketAddr>().expect("an address");
        let plan = ShardPlan {
            drive: Drive::Paced { period_ns: MS },
            conns: 1,
            conns_total: 1,
            end_ns: 5 * MS,
            ..ShardPlan::open_for_test(target.into())
        };
        let plan = plan.with_deadline(100 * MS);
        let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        // The last was due at 4 ms: at 103 ms its deadline hasn't passed yet.
        shard.count_unsent(103 * MS, false, COUNTED_MAX);
        let recorder = shard.recording.recorder();
        assert_eq!(recorder.counts.unsent_reasons.of(UnsentReason::Deadline), 4);
        assert_eq!(recorder.counts.unsent_reasons.of(UnsentReason::End), 1);
        let times = &recorder.times;
        assert_eq!(times.others.corrected().max_ns(), Some(100 * MS));
        // They were never noticed: all of it is the generator's.
        assert_eq!(times.added.mean_ns(), times.others.corrected().mean_ns());
    }

    #[test]
    fn the_wait_for_a_connection_is_not_the_generators() {
        let (mut shard, _listener) = Shard::open_for_test();
        let ends = |due: DueRequest, shard: &mut Shard| {
            shard.recording.intended(&shard.phases, (due.intended_ns, None));
            shard.unsent(due, due.intended_ns + 9 * MS, UnsentReason::Deadline);
            let times = &shard.recording.recorder().times;
            (times.others.corrected().mean_ns(), times.added.mean_ns())
        };
        let due = due_at(MS);
        let waited = DueRequest { noticed_ns: 2 * MS, waited: true, ..due };
        assert_eq!(ends(waited, &mut shard), (Some(9e6), Some(1e6)));
        let unseen = DueRequest::unnoticed(load::schedule::Arrival { due_ns: 2 * MS, number: 1 });
        assert_eq!(ends(unseen, &mut shard), (Some(9e6), Some(5e6)), "9 ms, the mean of two");
    }

    /// The recording of a shard whose 1,000 requests of 1,000 ms are all left unsent at 1,500 ms,
    /// the first `counted_max` of them counted one by one.
    fn left_over(plan: ShardPlan, counted_max: u32) -> Recorder {
        let config =
            RecorderConfig { scheduled: true, end_ns: 1_000 * MS, ..RecorderConfig::default() };
        let curve = Curve::constant("1000".parse().expect("a rate"));
        let drive = Drive::Open { curve, arrivals: Arrivals::Constant, seed: 1 };
        let plan = ShardPlan { drive, recorder_config: config, end_ns: 1_000 * MS, ..plan };
        let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        shard.count_unsent(1_500 * MS, true, counted_max);
        shard.recording.recorder().clone()
    }

    #[test]
    fn a_rest_counted_by_the_rate_is_given_up_as_if_counted_one_by_one() {
        let target = "127.0.0.1:1".parse::<std::net::SocketAddr>().expect("an address");
        let plan = || ShardPlan::open_for_test(target.into());
        let policies: [fn(ShardPlan) -> ShardPlan; 4] = [
            |plan| plan,
            |plan| ShardPlan { queue_max_ns: 0, ..plan },
            |plan| plan.with_deadline(800 * MS),
            |plan| ShardPlan { queue_max_ns: 900 * MS, ..plan.with_deadline(950 * MS) },
        ];
        for (number, policy) in policies.into_iter().enumerate() {
            let each = left_over(policy(plan()), COUNTED_MAX);
            let rest = left_over(policy(plan()), 100);
            let counted = |recorder: &Recorder| {
                let counts = &recorder.counts;
                (counts.intended, counts.unsent, counts.waited, counts.capped)
            };
            assert_eq!(counted(&each), (1_000, 1_000, 1_000, 1_000));
            assert_eq!(counted(&rest), counted(&each), "policy {number}");
            // The one due at the border may fall on the other side of it.
            for reason in [UnsentReason::End, UnsentReason::Deadline, UnsentReason::Dropped] {
                let of = |recorder: &Recorder| recorder.counts.unsent_reasons.of(reason);
                assert!(of(&rest).abs_diff(of(&each)) <= 1, "policy {number}, {reason:?}");
            }
            let dropped = rest.counts.unsent_reasons.of(UnsentReason::Dropped);
            let in_series = rest.series.slots().iter().map(|slot| slot.latency.len()).sum::<u64>();
            let added = (rest.times.added.mean_ns(), each.times.added.mean_ns());
            let (rest, each) = (rest.times.others.corrected(), each.times.others.corrected());
            assert_eq!(added, (rest.mean_ns(), each.mean_ns()), "they were never noticed");
            assert_eq!((rest.count(), in_series), (1_000 - dropped, 1_000 - dropped));
            let off_ns = |one: Option<u64>, other: Option<u64>| {
                one.unwrap_or(0).abs_diff(other.unwrap_or(0))
            };
            assert!(off_ns(rest.max_ns(), each.max_ns()) <= MS, "policy {number}");
            assert!(off_ns(rest.min_ns(), each.min_ns()) <= MS, "policy {number}");
        }
    }

    #[test]
    fn a_rest_counted_by_the_rate_is_in_the_stages_that_it_was_due_in() {
        let rate = |text: &str| text.parse().expect("a rate");
        let segment = |text| Segment { from: rate(text), to: rate(text), length: Nanos(500 * MS) };
        let config = RecorderConfig {
            end_ns: 1_000 * MS,
            stage_starts_ns: vec![500 * MS],
            ..RecorderConfig::default()
        };
        let curve = Curve::new(&["500", "1500"].map(segment));
        let target = "127.0.0.1:1".parse::<std::net::SocketAddr>().expect("an address");
        let plan = ShardPlan {
            drive: Drive::Open { curve, arrivals: Arrivals::Constant, seed: 1 },
            recorder_config: config,
            end_ns: 1_000 * MS,
            ..ShardPlan::open_for_test(target.into())
        };
        let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        shard.count_unsent(1_500 * MS, true, 100);
        let of_stages = shard.recording.recorder().parts.iter().map(|part| part.counts.unsent);
        let of_stages: Vec<u64> = of_stages.collect();
        assert_eq!(of_stages.iter().sum::<u64>(), 1_000);
        assert!(of_stages[0].abs_diff(250) <= 2, "{of_stages:?}");
    }

    #[test]
    fn no_arrival_of_a_paced_loop_waits_at_the_cap() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let target = listener.local_addr().expect("bound");
        let plan = ShardPlan {
            drive: Drive::Paced { period_ns: MS },
            conns: 1,
            conns_total: 1,
            end_ns: 5 * MS,
            ..ShardPlan::open_for_test(target.into())
        };
        let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        shard.reopen(0, 0);
        assert!(shard.connections.is_full());
        let counts = shard.finish().recorder.counts;
        assert_eq!((counts.waited, counts.capped), (5, 0));
    }
}
