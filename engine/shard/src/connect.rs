//! Connections for a shard's requests: opened when requests wait for one, replaced when they end,
//! and retried after a failed connect.
//!
//! With TLS, a connection counts as connecting until its handshake is done and completely sent, so
//! a failed handshake is counted like a refused connection. The connect time ends where the
//! handshake time begins.

use load::{DueRequest, Load};
use record::outcome::{Cause, Outcome};
use record::stamps::{Ending, Stamps};

use super::connection::Connection;
use super::shard::Shard;
use super::socket::{Socket, State};

/// Pause before a closed model reconnects after a failed connect, ns: a refused connect returns at
/// once, so without a pause it would spin.
const RETRY_NS: u64 = 10_000_000;

impl Shard {
    /// Opens a connection for each waiting arrival that has none coming, up to the cap: first to
    /// the endpoint for which one has waited longest.
    pub(super) fn open_for_waiting(&mut self, now_ns: u64) {
        while let Some(endpoint) = self.lacking()
            && now_ns < self.phases.send_end_ns()
            && self.open_connection(endpoint, now_ns)
        {}
    }

    /// Opens a connection for each arrival that waits for this endpoint and has none coming, up to
    /// the cap.
    pub(super) fn open_for(&mut self, endpoint: u16, now_ns: u64) {
        while self.lacks(endpoint)
            && now_ns < self.phases.send_end_ns()
            && self.open_connection(endpoint, now_ns)
        {}
    }

    /// True if more arrivals wait for this endpoint than connections that are coming have room for.
    fn lacks(&self, endpoint: u16) -> bool {
        let Load::Open(load) = &self.load else { return false };
        self.connections.coming_room(endpoint) < load.waiting_for(usize::from(endpoint))
    }

    /// Of the endpoints that lack a connection, the one for which an arrival has waited longest.
    fn lacking(&self) -> Option<u16> {
        let Load::Open(load) = &self.load else { return None };
        if load.waiting_len() == 0 {
            return None;
        }
        let endpoints = (0_u16..).take(self.plan.endpoints.len());
        let lacking = endpoints.filter(|endpoint| self.lacks(*endpoint));
        lacking.min_by_key(|endpoint| load.first_waiting_ns(usize::from(*endpoint)))
    }

    /// Opens a connection to an endpoint, in a free slot or in that of an idle connection to
    /// another endpoint, which is closed; returns false if there was neither.
    pub(super) fn open_connection(&mut self, endpoint: u16, now_ns: u64) -> bool {
        if self.connections.is_full()
            && let Some(slot) = self.connections.to_yield(endpoint)
        {
            self.recording.yielded(self.connections.endpoint(slot));
            self.close(slot);
        }
        if self.connections.is_full() {
            return false;
        }
        let Some(slot) = self.connections.take_any_closed() else { return false };
        self.open_slot(slot, endpoint, now_ns);
        true
    }

    /// With several endpoints and all connections open: whether this one, which has room, takes no
    /// more requests, so that another endpoint gets a connection. The other must have none coming,
    /// and an arrival that has waited longer than any for this one; if the other has connections
    /// already, more than twice as long. So no endpoint is starved, and two that both wait seldom
    /// take connections from each other.
    pub(super) fn yields(&mut self, slot: u32, now_ns: u64) -> bool {
        let Load::Open(load) = &self.load else { return false };
        let own = self.connections.endpoint(slot);
        let Connection { socket, exchanges, .. } = &self.connections[slot];
        if load.waiting_len() == load.waiting_for(usize::from(own))
            || !self.connections.is_full()
            || self.connections.are_yielding()
            // A new connection answers what it was opened for.
            || exchanges.served() == 0
            || socket.state != State::Open
            || socket.sending
        {
            return false;
        }
        let waited_ns = |endpoint: u16| {
            let first_ns = load.first_waiting_ns(usize::from(endpoint));
            first_ns.map_or(0, |first_ns| now_ns.saturating_sub(first_ns))
        };
        let others = (0_u16..).take(self.plan.endpoints.len()).filter(|other| *other != own);
        let others = others.filter(|other| self.connections.coming_room(*other) == 0);
        let Some(other) = others.max_by_key(|other| waited_ns(*other)) else { return false };
        let most = if self.connections.has_none(other) { 1 } else { 2 };
        if waited_ns(other) <= most * waited_ns(own) {
            return false;
        }
        let is_empty = exchanges.open() == 0;
        self.recording.yielded(own);
        if is_empty {
            self.close(slot);
            self.open_connection(other, now_ns);
        } else {
            self.connections.yield_when_empty(slot);
        }
        true
    }

    /// Opens a connection to an endpoint in a slot taken for it.
    pub(super) fn open_slot(&mut self, slot: u32, endpoint: u16, now_ns: u64) {
        if let Err(cause) = self.open(slot, endpoint, now_ns) {
            self.unconnected(slot, endpoint, now_ns, cause);
        }
    }

    /// A connect has completed.
    pub(super) fn connect_done(&mut self, slot: u32, result: i32) {
        if self.connections[slot].socket.state != State::Connecting {
            return;
        }
        if result < 0 {
            self.give_up(slot, Cause::of_connect(-result));
            return;
        }
        self.sending.sample.expect(&self.connections[slot].socket, self.receive_stamps(slot));
        let endpoint = usize::from(self.connections.endpoint(slot));
        if self.sessions.as_ref().is_some_and(|sessions| sessions.are_with(endpoint)) {
            return self.shake_hands(slot);
        }
        let now_ns = self.now_ns();
        if self.has_streams() {
            self.greet(slot, now_ns);
        } else {
            self.connected(slot, now_ns);
        }
        self.arm(slot);
    }

    /// True if this time is in the window.
    pub(super) fn is_in_window(&self, now_ns: u64) -> bool {
        self.phases.window_ns() <= now_ns && now_ns < self.phases.end_ns()
    }

    /// The slot's connection, whose socket was connected at `socket_ns`, can carry requests.
    pub(super) fn connected(&mut self, slot: u32, socket_ns: u64) {
        let now_ns = self.now_ns();
        let is_more = self.connections.connected(slot, now_ns);
        let in_window = self.is_in_window(now_ns);
        // A session's own is opened by its user.
        let is_kept = self.plan.requests_per_connection != 1 && !self.connections.is_own(slot);
        let is_added = is_more && in_window && is_kept;
        self.connections.mark_added(slot, is_added);
        self.recording.counts_mut().pool_grew += u64::from(is_added);
        let since_ns = self.connections[slot].socket.since_ns;
        let endpoint = self.connections.endpoint(slot);
        self.recording.connected(endpoint, since_ns, socket_ns, in_window);
    }

    /// Counts a request that has ended if it waited for its connection to be added to the pool: it
    /// was the first on it, and had waited for more than half of the time that opening it took.
    #[inline]
    pub(super) fn count_opened(
        &mut self,
        slot: u32,
        stamps: &Stamps,
        ending: Ending,
        outcome: Outcome,
    ) {
        if !self.connections.take_added(slot) {
            return;
        }
        let opening_ns = stamps.sent_ns.saturating_sub(self.connections[slot].socket.since_ns);
        let has_waited = stamps.waited && opening_ns < 2 * (stamps.sent_ns - stamps.noticed_ns);
        if has_waited && self.recording.is_recorded(&self.phases, stamps) && outcome.has_latency() {
            self.recording.opened(ending.ended_ns() - stamps.intended_ns);
        }
    }

    /// Gives requests to new connections. Bytes that arrive before the first request can't answer
    /// it, so the kernel is polled for them first.
    pub(super) fn begin_fresh(&mut self) {
        let fresh = self.connections.fresh();
        if fresh == 0 {
            return;
        }
        self.flush_queued();
        self.ring.poll();
        self.reap();
        for _ in 0..fresh {
            let Some(slot) = self.connections.take_fresh() else { return };
            self.ready(slot);
        }
    }

    /// The slot's connection never carried a request: the request it was opened for fails, unless
    /// the other coming connections have room for it.
    pub(super) fn give_up(&mut self, slot: u32, cause: Cause) {
        let Socket { since_ns, state, .. } = self.connections[slot].socket;
        // A peer that doesn't want TLS may reset as well as close.
        let closed = state == State::Handshaking && cause == Cause::Reset;
        let cause = if closed { Cause::TlsClosed } else { cause };
        let endpoint = self.connections.endpoint(slot);
        self.close(slot);
        self.unconnected(slot, endpoint, since_ns, cause);
        self.open_for_waiting(self.now_ns());
    }

    /// The slot's connect or TLS handshake has timed out.
    pub(super) fn connect_timed_out(&mut self, slot: u32) {
        let cause = match self.connections[slot].socket.state {
            State::Handshaking => Cause::TlsTimedOut,
            State::Greeting => Cause::SettingsTimedOut,
            _ => Cause::ConnectTimedOut,
        };
        self.give_up(slot, cause);
    }

    /// The peer has closed a connection without requests.
    pub(super) fn closed_idle(&mut self, slot: u32) {
        match self.connections[slot].socket.state {
            State::Handshaking => self.give_up(slot, Cause::TlsClosed),
            State::Greeting | State::Fresh => self.give_up(slot, Cause::ClosedBeforeResponse),
            _ => self.replace(slot),
        }
    }

    /// The requests for which slot `slot` has been connecting to this endpoint since `since_ns`
    /// fail; a closed model retries after a pause.
    fn unconnected(&mut self, slot: u32, endpoint: u16, since_ns: u64, cause: Cause) {
        self.recording.not_connected(endpoint, cause);
        // Requests are recorded in order of intended time, and the queued ones come first.
        self.flush_queued();
        let now_ns = self.now_ns();
        let mut failed = 0;
        while failed < self.plan.depth
            && let Some(due) = self.next_unconnected(slot, endpoint, failed)
        {
            if self.was_sent(due.number) {
                self.fail_sent_back(due.number, now_ns, Outcome::Failed(cause));
                failed += 1;
                continue;
            }
            let DueRequest { intended_ns, noticed_ns, waited, step, session, .. } = due;
            if self.load.is_unpaced() {
                self.recording.intended(&self.phases, (intended_ns, session));
            }
            let sent_ns = now_ns;
            let stamps = Stamps { intended_ns, noticed_ns, sent_ns, waited, step, session };
            self.recording.unconnected(&self.phases, &stamps);
            let (ending, outcome) = (Ending::at(now_ns), Outcome::Failed(cause));
            self.recording.ended(&self.phases, due.number, &stamps, ending, outcome);
            failed += 1;
            if self.users.roam() {
                self.users.pause(slot);
            }
        }
        if failed == 0 {
            self.recording.counts_mut().connection_errors.add(cause);
        }
        let again_ns = match self.load {
            Load::Open(_) => now_ns,
            Load::Closed(_) | Load::Paced(_) => {
                self.connections.retry_at(slot, now_ns + RETRY_NS);
                now_ns + RETRY_NS
            }
        };
        // A user who goes to several endpoints may not have waited for this one.
        if 0 < failed || !self.users.roam() {
            self.blocked(slot, since_ns, again_ns);
        }
    }

    /// The next request that fails with the slot's connection, after `failed` others.
    fn next_unconnected(&mut self, slot: u32, endpoint: u16, failed: usize) -> Option<DueRequest> {
        let of = usize::from(endpoint);
        let is_next = match &self.load {
            Load::Open(load) => self.connections.coming_room(endpoint) < load.waiting_for(of),
            Load::Paced(_) if 0 < failed => false,
            // The user comes again after the pause.
            Load::Closed(_) | Load::Paced(_) => self.is_awaited(slot),
        };
        if !is_next {
            return None;
        }
        if let Load::Open(load) = &mut self.load {
            return load.pop_waiting(of);
        }
        let user = self.user_of(slot);
        self.pop_waiting_of(user)
    }

    /// Reconnects the slots whose pause is over.
    pub(super) fn retry(&mut self, now_ns: u64) {
        while let Some(slot) = self.connections.take_retry(now_ns) {
            self.reopen(slot, now_ns);
        }
    }

    /// The slot's connection can't be reused: closes it, and opens another if one is needed.
    pub(super) fn replace(&mut self, slot: u32) {
        let unused = self.connections[slot].exchanges.served() == 0;
        self.close(slot);
        let now_ns = self.now_ns();
        match self.load {
            Load::Open(_) => self.open_for_waiting(now_ns),
            // Opened again when one of the user's requests needs it.
            Load::Closed(_) | Load::Paced(_) if self.users.roam() && !self.is_awaited(slot) => {
                self.serve_user_of(slot, now_ns);
            }
            // Without a pause, a target that closes unused connections would keep us reconnecting.
            Load::Closed(_) | Load::Paced(_) if unused => {
                self.connections.retry_at(slot, now_ns + RETRY_NS);
            }
            Load::Closed(_) | Load::Paced(_) => self.reopen(slot, now_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;

    use super::*;
    use crate::plan::due_at;
    use crate::{Drive, ShardPlan};

    #[test]
    fn a_failed_connect_fails_a_request_only_if_no_other_connect_is_left_for_it() {
        let (mut shard, _listener) = Shard::open_for_test();
        let now_ns = shard.now_ns();
        assert!(shard.open_connection(0, now_ns) && shard.open_connection(0, now_ns));
        let Load::Open(load) = &mut shard.load else { unreachable!("the plan is open") };
        load.wait(due_at(now_ns), 0);
        shard.recording.intended(&shard.phases, (now_ns, None));
        let refused = Cause::ConnectRefused;
        shard.give_up(0, refused);
        assert_eq!(shard.recording.recorder().counts.failed, 0, "the other connect is for it");
        assert_eq!(shard.recording.recorder().counts.connection_errors.of(refused), 1);
        shard.give_up(1, refused);
        assert_eq!(shard.recording.recorder().counts.failed, 1, "no connect is left for it");
        assert_eq!(shard.recording.recorder().counts.errors.of(refused), 1);
    }

    #[test]
    fn a_failed_connect_fails_as_many_requests_as_the_connection_had_room_for() {
        let target = "127.0.0.1:1".parse::<std::net::SocketAddr>().expect("an address");
        let plan = ShardPlan { depth: 3, ..ShardPlan::open_for_test(target.into()) };
        let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        let now_ns = shard.now_ns();
        let Load::Open(load) = &mut shard.load else { unreachable!("the plan is open") };
        (0..5).for_each(|_| {
            load.wait(due_at(now_ns), 0);
        });
        (0..5).for_each(|_| shard.recording.intended(&shard.phases, (now_ns, None)));
        shard.open_for_waiting(now_ns);
        assert_eq!(shard.connections.coming(), 2, "each has room for three");
        // The other has room for three of the five.
        let refused = Cause::ConnectRefused;
        shard.give_up(0, refused);
        assert_eq!(shard.recording.recorder().counts.errors.of(refused), 2);
    }

    #[test]
    fn a_request_whose_new_connection_closes_at_once_fails() {
        let (mut shard, listener) = Shard::open_for_test();
        let now_ns = shard.now_ns();
        let Load::Open(load) = &mut shard.load else { unreachable!("the plan is open") };
        load.wait(DueRequest { waited: true, ..due_at(now_ns) }, 0);
        shard.recording.intended(&shard.phases, (now_ns, None));
        shard.open_for_waiting(now_ns);
        shard.wait_for_fresh();
        drop(listener.accept().expect("it connects"));
        // The peer's close arrives before its first request.
        while 0 < shard.connections.fresh() {
            shard.ring.wait(1_000_000_000);
            shard.reap();
        }
        let failed = shard.recording.recorder().counts.errors.of(Cause::ClosedBeforeResponse);
        assert_eq!((failed, shard.connections.coming()), (1, 0));
    }

    #[test]
    fn a_paced_request_noticed_after_the_end_gets_its_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let target = listener.local_addr().expect("bound");
        let end_ns = 200_000_000;
        let plan = ShardPlan {
            drive: Drive::Paced { period_ns: 100_000_000 },
            end_ns,
            ..ShardPlan::open_for_test(target.into())
        };
        let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        for slot in 0..2 {
            shard.reopen(slot, 0);
        }
        while 0 < shard.connections.coming() {
            if shard.connections.fresh() == 0 {
                shard.ring.wait(1_000_000_000);
            }
            shard.reap();
            shard.begin_fresh();
        }
        // All but the last of four requests have been answered. The last is user 1's, due at 150
        // ms; before the shard notices it, at 250 ms, that user's connection closes.
        let Load::Paced(load) = &mut shard.load else { unreachable!("the plan is paced") };
        for _ in 0..3 {
            load.take_due(end_ns, end_ns).expect("due");
        }
        shard.clock.pass(250_000_000);
        shard.connections[1].exchanges.begin(due_at(0));
        shard.connections[1].exchanges.send();
        shard.connections[1].exchanges.end(0);
        shard.connections.leave_idle(1);
        shard.replace(1);
        shard.admit(shard.now_ns());
        let Load::Paced(load) = &shard.load else { unreachable!("the plan is paced") };
        assert_eq!((load.waiting_len(), shard.connections.coming()), (1, 1));
    }
}
