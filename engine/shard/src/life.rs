//! A shard's life: set up, wait for the other shards, run turns until the drain is over, report.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use load::schedule::Digest;
use load::{DueRequest, Load};
use record::littles_law::InFlightIntegral;
use record::outcome::{Outcome, UnsentReason};
use record::stamps::{Ending, Stamps};
use samples::Sampler;
use sys::control::Signals;
use sys::{clock, seal};

use super::connection::State;
use super::deadlines::Deadlines;
use super::plan::ShardReport;
use super::progress::ShardProgress;
use super::shard::{LOOK_NS, Shard};

/// From the last shard being ready to the epoch, ns: time for every shard to see it. That long
/// before an epoch, shards are awake.
pub const EPOCH_AHEAD_NS: u64 = 20_000_000;
/// The longest drain of an interrupted run, ns.
pub const DRAIN_INTERRUPTED_NS: u64 = 2_000_000_000;

/// The shortest wait for responses that nobody asked for, ns: an acknowledgement that the kernel
/// delays by 40 ms may hold a small one back.
const LINGER_MIN_NS: u64 = 50_000_000;
/// The longest such wait, ns.
const LINGER_MAX_NS: u64 = 200_000_000;

/// The most requests counted one by one after the end, each at its own intended time.
const COUNTED_MAX: u32 = 4_000_000;

/// The clock, from this epoch on.
fn since(epoch_ns: u64) -> impl FnOnce() -> u64 {
    move || clock::now_ns().saturating_sub(epoch_ns)
}

impl Shard {
    /// Runs from setup to the end of the drain; `None` if the run was cancelled.
    pub fn run(mut self) -> Option<ShardReport> {
        self.set_up();
        let epoch_ns = self.meet()?;
        self.begin_at(epoch_ns);
        // Without a warm-up the window has begun: what comes before the first look is in it.
        self.meter.observe(self.now_ns(), since(self.epoch_ns));
        let mut looked_ns = 0;
        seal::seal();
        while self.turn(looked_ns + LOOK_NS) {
            let now_ns = self.now_ns();
            if looked_ns + LOOK_NS <= now_ns {
                seal::unseal();
                self.heed_stop();
                self.show(now_ns);
                self.meter.observe(now_ns, since(self.epoch_ns));
                seal::seal();
                looked_ns = now_ns;
            }
        }
        seal::unseal();
        self.meter.observe(self.now_ns(), since(self.epoch_ns));
        self.meter.over(since(self.epoch_ns));
        self.linger();
        Some(self.finish())
    }

    /// Waits twice as long as nearly every response took, with no request in flight: what arrives
    /// now, nobody asked for. A target that repeats its answers may be one ahead all the time, and
    /// nothing else shows it.
    fn linger(&mut self) {
        let until_ns = self.now_ns() + self.slow_ns().clamp(LINGER_MIN_NS, LINGER_MAX_NS);
        while self.connections.requests() == 0 && self.now_ns() < until_ns {
            self.ring.wait(until_ns.saturating_sub(self.now_ns()));
            self.reap();
        }
    }

    /// Waits until every shard is ready and the epoch is set, by the last of them if nobody else
    /// does it. `None` if the run is cancelled.
    fn meet(&self) -> Option<u64> {
        self.tell_setup();
        let is_last = self.signals.ready.fetch_add(1, Ordering::AcqRel) + 1 == self.plan.shards;
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

    /// Tells the run what the setup came to; whoever sees that the shard is ready sees it.
    fn tell_setup(&self) {
        let Signals { settled, unsettled, .. } = &*self.signals;
        match self.recorder.counts.setup.settled {
            Some(true) => settled.store(true, Ordering::Relaxed),
            Some(false) => unsettled.store(true, Ordering::Relaxed),
            None => {}
        }
    }

    /// Waits for the epoch, then starts the load.
    fn begin_at(&mut self, epoch_ns: u64) {
        self.epoch_ns = epoch_ns;
        (self.handled_ns, self.idle_ns) = (0, 0);
        self.slow_ns = None;
        self.grown_ns = 0;
        self.progress = ShardProgress::default();
        self.recorder.in_flight =
            InFlightIntegral::new(self.plan.recorder_config.window_ns, self.plan.end_ns);
        self.deadlines = Deadlines::new(self.plan.conns);
        for slot in 0..self.connections.len() {
            // What is connected, or being connected, carries stamps of the setup's epoch.
            let connection = &mut self.connections[slot];
            (connection.since_ns, connection.connected_ns) = (0, 0);
            connection.out_of_order_ns = 0;
            if connection.is_coming() {
                self.deadlines.check_by(slot, self.plan.timeout_ns);
            }
        }
        self.connections.retry_now();
        let ahead_ns = self.epoch_ns.saturating_sub(clock::now_ns());
        std::thread::sleep(Duration::from_nanos(ahead_ns.saturating_sub(EPOCH_AHEAD_NS)));
        while clock::now_ns() < self.epoch_ns {
            std::hint::spin_loop();
        }
        // A run that was stopped before its epoch offers nothing.
        self.heed_stop();
        // What came since the setup came before the first request: it can't be its answer, and
        // what was closed since then carries none.
        self.catch_up();
        self.running = true;
        self.meter.begin_at(self.now_ns());
        if matches!(self.load, Load::Closed(_)) && 0 < self.end_ns {
            let now_ns = self.now_ns();
            while self.has_left()
                && let Some(slot) = self.connections.take_room()
            {
                let due = self.user_comes(slot, now_ns);
                self.begin(slot, due);
                self.connections.offer(slot);
            }
        }
    }

    /// Obeys an interruption: no more load, and a short drain.
    fn heed_stop(&mut self) {
        let stop_ns = self.signals.stop_ns.load(Ordering::Relaxed);
        if stop_ns != 0 {
            let stop_ns = stop_ns.saturating_sub(self.epoch_ns);
            self.end_at(stop_ns);
            self.drain_end_ns = self.drain_end_ns.min(stop_ns + DRAIN_INTERRUPTED_NS);
            self.send_end_ns = self.send_end_ns.min(stop_ns);
        }
    }

    /// Sends nothing more if nobody has put off the end of the load, and returns whether that is so.
    /// A process may have stood still since any earlier moment, so `now_ns` is read for this.
    #[inline]
    pub(super) fn heed_lease(&mut self, now_ns: u64) -> bool {
        let is_over = self.signals.is_lease_over(self.epoch_ns + now_ns);
        if is_over {
            self.send_end_ns = self.send_end_ns.min(now_ns);
        }
        is_over
    }

    /// Takes back what was to leave with the next system call: the lease has ended since.
    pub(super) fn withdraw_queued(&mut self) {
        let now_ns = self.now_ns();
        while let Some(stamps) = self.connections.withdraw() {
            if matches!(self.load, Load::Closed(_)) {
                // An unpaced request is intended when it is sent, unless its user had to wait.
                if !stamps.waited {
                    continue;
                }
                self.intended(stamps.intended_ns);
            }
            let (over_ns, reason) = self.given_up(stamps.intended_ns, now_ns);
            // It waited for this process alone.
            let stamps = Stamps::unsent(stamps.intended_ns, over_ns, stamps.step);
            self.record(&stamps, Ending::at(over_ns), Outcome::Unsent(reason));
        }
    }

    /// Ends the window at this moment, unless it ends before.
    fn end_at(&mut self, end_ns: u64) {
        self.end_ns = self.end_ns.min(end_ns);
        self.recorder.in_flight.stop_at(end_ns);
        self.meter.stop_at(end_ns);
    }

    /// Whether unpaced users have another request to send, of those that the window is to have.
    /// What is queued will be one of these, if it isn't sent before the window.
    #[inline]
    pub(super) fn has_left(&self) -> bool {
        self.recorder.counts.intended + (self.connections.queued() as u64) < self.plan.requests
    }

    /// Ends the window with the last of the requests that it is to have.
    #[inline]
    pub(super) fn end_if_spent(&mut self, now_ns: u64) {
        if self.plan.requests <= self.recorder.counts.intended
            && self.connections.requests() == 0
            && self.window_ns <= now_ns
            && now_ns < self.end_ns
        {
            self.end_at(now_ns);
        }
    }

    /// Whether the load and its drain are over.
    pub(super) fn is_done(&self, now_ns: u64) -> bool {
        if now_ns < self.end_ns {
            return false;
        }
        let waiting = match &self.load {
            _ if self.send_end_ns <= now_ns => false,
            Load::Open(load) => {
                0 < load.waiting_len()
                    || load.next_due_ns().is_some_and(|due_ns| due_ns < self.end_ns)
            }
            // A user whose connection is being opened arrived before the end.
            Load::Closed(_) => 0 < self.connections.coming() && self.has_left(),
            Load::Paced(load) => 0 < load.waiting_len() || load.next_due_ns() < self.end_ns,
        };
        (!waiting && self.connections.requests() == 0) || self.drain_end_ns <= now_ns
    }

    /// Ends what is left and returns the report.
    fn finish(mut self) -> ShardReport {
        self.catch_up();
        let now_ns = self.now_ns();
        self.stamp_queued();
        let capped = matches!(self.load, Load::Open(_)) && self.connections.is_full();
        for slot in 0..self.connections.len() {
            while self.connections[slot].state == State::InFlight {
                let sent_ns = self.connections[slot].oldest.sent_ns;
                let ended_ns = now_ns.max(sent_ns);
                if sent_ns + self.slow_ns() < ended_ns {
                    // Nearly all others were answered sooner.
                    self.doubt(slot);
                }
                self.end(slot, Ending::at(ended_ns), Outcome::Abandoned);
            }
            if self.connections[slot].is_coming() || self.connections[slot].fresh {
                self.never_served(slot, now_ns);
            }
            if self.connections[slot].state != State::Closed {
                self.close(slot);
            }
        }
        self.ring.settle();
        self.meter.closing_ns = self.now_ns().saturating_sub(now_ns);
        self.count_users();
        self.count_unsent(now_ns, capped, COUNTED_MAX);
        self.show(now_ns);
        self.signals.end_ns.fetch_max(self.end_ns, Ordering::Relaxed);
        self.signals.ended.fetch_add(1, Ordering::Relaxed);
        let digest = match &self.load {
            Load::Open(load) => load.digest(),
            Load::Closed(_) | Load::Paced(_) => Digest::default(),
        };
        self.meter.buffers_exhausted = self.ring.buffers_exhausted();
        let stats = self.meter.report(
            &self.recorder.counts,
            self.ring.overflows(),
            self.wall_clock.steps(),
        );
        let sampled = self.sampler.map(Sampler::finish);
        ShardReport { recorder: self.recorder, digest, stats, sampled }
    }

    /// The slot's user was blocked between the two moments; the part inside the window counts.
    pub(super) fn blocked(&mut self, slot: u32, from_ns: u64, to_ns: u64) {
        let connection = &mut self.connections[slot];
        // Waits for several requests at once count once.
        let from_ns = from_ns.max(self.window_ns).max(connection.blocked_to_ns);
        let to_ns = to_ns.min(self.end_ns);
        if from_ns < to_ns {
            connection.blocked_ns += to_ns - from_ns;
            connection.blocked_to_ns = to_ns;
        }
    }

    /// The drain ended before the slot's connection carried anything: its unpaced user was never
    /// served.
    fn never_served(&mut self, slot: u32, now_ns: u64) {
        let since_ns = self.connections[slot].since_ns;
        self.blocked(slot, since_ns, now_ns);
        if matches!(self.load, Load::Closed(_)) && since_ns < self.end_ns && self.has_left() {
            self.intended(since_ns);
            let due = DueRequest { waited: true, ..self.user_comes(slot, since_ns) };
            self.unsent(due, now_ns, UnsentReason::End);
        }
    }

    /// Counts the requests left unsent at the end, up to so many of a schedule one by one;
    /// `capped`: arrivals waited while all connections were busy.
    fn count_unsent(&mut self, now_ns: u64, capped: bool, counted_max: u32) {
        for number in 0_u32.. {
            if number == counted_max && matches!(self.load, Load::Open(_)) {
                return self.count_rest(now_ns, capped);
            }
            let (due, counted) = match &mut self.load {
                Load::Open(load) => match load.pop_waiting() {
                    Some(due) => (Some(due), true),
                    None => (load.take_unsent(self.end_ns), false),
                },
                Load::Paced(load) => match load.pop_any_waiting() {
                    Some(due) => (Some(due), true),
                    None => {
                        let due = load.take_due(self.end_ns, self.end_ns);
                        (due.map(|(_, arrival)| DueRequest::unnoticed(arrival)), false)
                    }
                },
                Load::Closed(_) => (None, false),
            };
            let Some(due) = due else { return };
            let intended_ns = due.intended_ns;
            if !counted {
                self.intended(intended_ns);
                self.count_waited(intended_ns, capped);
            }
            let (over_ns, reason) = self.given_up(intended_ns, now_ns);
            self.unsent(due, over_ns, reason);
        }
    }

    /// When a request stops waiting for a connection, and the reason it then counts under.
    pub(super) fn expiry(&self, intended_ns: u64) -> (u64, UnsentReason) {
        if self.plan.queue_max_ns < self.plan.deadline_ns {
            (intended_ns.saturating_add(self.plan.queue_max_ns), UnsentReason::Dropped)
        } else {
            (intended_ns.saturating_add(self.plan.deadline_ns), UnsentReason::Deadline)
        }
    }

    /// When the next waiting arrival expires; `u64::MAX` for never. Once nothing is sent any more,
    /// those that wait are counted at the end.
    pub(super) fn next_expiry_ns(&self) -> u64 {
        match &self.load {
            _ if self.send_end_ns <= self.handled_ns => u64::MAX,
            Load::Open(load) => {
                load.first_waiting_ns().map_or(u64::MAX, |intended_ns| self.expiry(intended_ns).0)
            }
            Load::Closed(_) | Load::Paced(_) => u64::MAX,
        }
    }

    /// When a request that is left unsent at the end was given up, and why.
    fn given_up(&self, intended_ns: u64, now_ns: u64) -> (u64, UnsentReason) {
        match self.expiry(intended_ns) {
            (over_ns, reason) if over_ns <= now_ns => (over_ns, reason),
            _ => (now_ns, UnsentReason::End),
        }
    }

    /// Counts the rest of a schedule by its rate, if no machine could follow it: one by one would
    /// take minutes.
    fn count_rest(&mut self, now_ns: u64, capped: bool) {
        let Load::Open(load) = &mut self.load else { return };
        let rest = load.take_rest(self.window_ns, self.end_ns);
        let Some((from_ns, count)) = rest.filter(|(_, count)| 0 < *count) else { return };
        let lagging = load.is_lagging();
        self.progress.intended += count;
        for (step, count) in self.plan.mix.shares(count) {
            for (due_ns, count) in evenly(from_ns..self.end_ns, count) {
                let (over_ns, reason) = self.given_up(due_ns, now_ns);
                let noticed_ns = if lagging { due_ns } else { over_ns };
                let stamps = Stamps::unsent(due_ns, noticed_ns, step);
                self.recorder.unsent(&stamps, over_ns, reason, count);
            }
        }
        self.recorder.counts.waited += count;
        self.recorder.counts.capped += if capped { count } else { 0 };
        if let Some(sampler) = &mut self.sampler {
            sampler.lose(count);
        }
    }

    /// Counts the window's users, and those blocked for half of it or more.
    fn count_users(&mut self) {
        let window_ns = self.end_ns.saturating_sub(self.window_ns);
        for slot in 0..self.connections.len() {
            let connection = &self.connections[slot];
            let is_user = match self.load {
                Load::Open(_) => connection.seen || 0 < connection.blocked_ns,
                Load::Closed(_) | Load::Paced(_) => true,
            };
            if is_user && 0 < window_ns {
                self.recorder.counts.users += 1;
                self.recorder.counts.users_blocked +=
                    u64::from(window_ns <= connection.blocked_ns.saturating_mul(2));
            }
        }
    }
}

/// So many requests due evenly within a stretch, as pieces that are each due at their middle: when,
/// and how many.
fn evenly(within_ns: Range<u64>, count: u64) -> impl Iterator<Item = (u64, u64)> {
    /// Pieces of any stretch.
    const PIECES: u64 = 1_000;
    let share = |whole: u64, part: u64, parts: u64| {
        u64::try_from(u128::from(whole) * u128::from(part) / u128::from(parts))
            .expect("a part is at most the whole")
    };
    let length_ns = within_ns.end.saturating_sub(within_ns.start);
    (0..PIECES).map(move |piece| {
        let due_ns = within_ns.start + share(length_ns, 2 * piece + 1, 2 * PIECES);
        (due_ns, share(count, piece + 1, PIECES) - share(count, piece, PIECES))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use load::curve::Curve;
    use plan::Arrivals;
    use record::config::RecorderConfig;
    use record::recorder::Recorder;

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
            deadline_ns: 100 * MS,
            ..ShardPlan::open_for_test(target.into())
        };
        let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        // The last was due at 4 ms: at 103 ms its deadline hasn't passed yet.
        shard.count_unsent(103 * MS, false, COUNTED_MAX);
        let Shard { recorder, .. } = shard;
        assert_eq!(recorder.counts.unsent_reasons.of(UnsentReason::Deadline), 4);
        assert_eq!(recorder.counts.unsent_reasons.of(UnsentReason::End), 1);
        let times = &recorder.times;
        assert_eq!(times.others.corrected().max_ns(), Some(100 * MS));
        // Nobody saw them: all of it is the generator's.
        assert_eq!(times.added.mean_ns(), times.others.corrected().mean_ns());
    }

    #[test]
    fn what_a_request_waits_for_a_connection_is_not_the_generators() {
        let (mut shard, _listener) = Shard::open_for_test();
        let ends = |due: DueRequest, shard: &mut Shard| {
            shard.intended(due.intended_ns);
            shard.unsent(due, due.intended_ns + 9 * MS, UnsentReason::Deadline);
            let times = &shard.recorder.times;
            (times.others.corrected().mean_ns(), times.added.mean_ns())
        };
        let due = due_at(MS);
        let waited = DueRequest { noticed_ns: 2 * MS, waited: true, ..due };
        assert_eq!(ends(waited, &mut shard), (Some(9e6), Some(1e6)));
        let unseen = DueRequest::unnoticed(load::schedule::Arrival { due_ns: 2 * MS, number: 1 });
        assert_eq!(ends(unseen, &mut shard), (Some(9e6), Some(5e6)), "9 ms, the mean of two");
    }

    /// What a shard counts whose 1,000 requests of 1,000 ms are all left unsent at 1,500 ms, the
    /// first `counted_max` of them one by one.
    fn left_over(plan: ShardPlan, counted_max: u32) -> Recorder {
        let config =
            RecorderConfig { scheduled: true, end_ns: 1_000 * MS, ..RecorderConfig::default() };
        let curve = Curve::constant("1000".parse().expect("a rate"));
        let drive = Drive::Open { curve, arrivals: Arrivals::Constant, seed: 1 };
        let plan = ShardPlan { drive, recorder_config: config, end_ns: 1_000 * MS, ..plan };
        let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        shard.count_unsent(1_500 * MS, true, counted_max);
        shard.recorder
    }

    #[test]
    fn a_rest_counted_by_the_rate_is_given_up_when_and_why_each_would_have_been() {
        let target = "127.0.0.1:1".parse::<std::net::SocketAddr>().expect("an address");
        let plan = || ShardPlan::open_for_test(target.into());
        let policies: [fn(ShardPlan) -> ShardPlan; 4] = [
            |plan| plan,
            |plan| ShardPlan { queue_max_ns: 0, ..plan },
            |plan| ShardPlan { deadline_ns: 800 * MS, ..plan },
            |plan| ShardPlan { queue_max_ns: 900 * MS, deadline_ns: 950 * MS, ..plan },
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
            // The one due at the border may lie on the other side of it.
            for reason in [UnsentReason::End, UnsentReason::Deadline, UnsentReason::Dropped] {
                let of = |recorder: &Recorder| recorder.counts.unsent_reasons.of(reason);
                assert!(of(&rest).abs_diff(of(&each)) <= 1, "policy {number}, {reason:?}");
            }
            let dropped = rest.counts.unsent_reasons.of(UnsentReason::Dropped);
            let in_series = rest.series.slots().iter().map(|slot| slot.latency.len()).sum::<u64>();
            let added = (rest.times.added.mean_ns(), each.times.added.mean_ns());
            let (rest, each) = (rest.times.others.corrected(), each.times.others.corrected());
            assert_eq!(added, (rest.mean_ns(), each.mean_ns()), "nobody saw them");
            assert_eq!((rest.count(), in_series), (1_000 - dropped, 1_000 - dropped));
            let off_ns = |one: Option<u64>, other: Option<u64>| {
                one.unwrap_or(0).abs_diff(other.unwrap_or(0))
            };
            assert!(off_ns(rest.max_ns(), each.max_ns()) <= MS, "policy {number}");
            assert!(off_ns(rest.min_ns(), each.min_ns()) <= MS, "policy {number}");
        }
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
