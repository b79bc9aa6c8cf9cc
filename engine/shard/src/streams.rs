//! HTTP/2 on a shard: a connection's start, what happens to its streams, the requests that another
//! stream has to carry, and the frames that leave.
//!
//! A connection counts as connecting until the target's settings have come: they say how many
//! streams it takes, and what is sent before may be refused.
//!
//! A request that the target hasn't processed is sent again: on another connection if the target
//! ends its own (GOAWAY), on any if it refused the stream, which it may once. Such a request keeps
//! its number and all its stamps, so neither its latencies nor its timeout begin anew, and it counts
//! as sent once. In between it counts as in flight, and waits before all arrivals that were due
//! later. In an open model the other connection is opened while the first one ends, even at the
//! cap; a user of a closed model has one connection, and goes on when that has ended.
//!
//! A request that times out ends with its stream, and the connection goes on.

use load::{DueRequest, Load};
use record::outcome::{Cause, Outcome, TimeoutKind};
use record::stamps::{Ending, Stamps};
use tls::RECORD_MAX;
use uring::OUT_BYTES;
use uring::token::Op;

use super::event::{Ended, OnStream};
use super::exchange::Exchange;
use super::http2::Http2;
use super::output::Making;
use super::requeue::Again;
use super::shard::{Sending, Shard};
use super::socket::State;

/// The limit of a target that takes no request.
const NO_STREAM: Option<Option<u32>> = Some(Some(0));

/// A connection.
impl Shard {
    /// True if the connections speak HTTP/2.
    #[inline]
    pub(super) fn has_streams(&self) -> bool {
        self.plan.blocks.is_some()
    }

    fn http2(&mut self, slot: u32) -> &mut Http2 {
        self.connections[slot].protocol.http2().expect("the plan has HTTP/2")
    }

    /// The slot's socket has been connected since `connected_ns`, TLS included: sends what the
    /// connection begins with.
    pub(super) fn greet(&mut self, slot: u32, connected_ns: u64) {
        self.connections[slot].socket.greet(connected_ns);
        if !self.withhold(slot) {
            self.send_next(slot);
        }
        // Over TLS, they may have come with the end of the handshake.
        if ![None, NO_STREAM].contains(&self.http2(slot).limit()) {
            self.connected(slot, connected_ns);
        }
    }

    /// Something happened on the slot's connection; returns false if it has ended. The response, if
    /// it was one, arrived at `arrived_ns`.
    #[inline(never)]
    pub(super) fn on_stream(&mut self, slot: u32, what: OnStream, arrived_ns: Option<u64>) -> bool {
        match what {
            OnStream::Nothing => {}
            OnStream::Settings => {
                let limit = self.http2(slot).limit();
                self.recording.streams_mut().limited(limit.flatten());
                let socket = &self.connections[slot].socket;
                match socket.state {
                    State::Greeting if limit != NO_STREAM => {
                        self.connected(slot, socket.connected_ns);
                    }
                    // Waiting for a higher limit might never end; a new connection is given up in
                    // time.
                    State::Open if limit == NO_STREAM => {
                        self.connections.end_when_empty(slot);
                        self.send_back_stranded(slot);
                    }
                    _ => {}
                }
            }
            OnStream::GoAway => return self.go_away(slot),
            OnStream::Ended { number, ended } => {
                self.stream_ended(slot, number, ended, arrived_ns);
            }
        }
        true
    }

    /// The target takes no more requests on the slot's connection.
    fn go_away(&mut self, slot: u32) -> bool {
        self.recording.counts_mut().goaways += 1;
        let socket = &self.connections[slot].socket;
        if matches!(socket.state, State::Handshaking | State::Greeting | State::Fresh) {
            self.fail(slot, Cause::GoAway);
            return false;
        }
        self.connections.end_when_empty(slot);
        self.send_back_stranded(slot);
        true
    }

    /// A request's stream has ended.
    fn stream_ended(&mut self, slot: u32, number: u64, ended: Ended, arrived_ns: Option<u64>) {
        match ended {
            Ended::Answered { status, whole } => {
                let response = self.http2(slot).response();
                let stamps = self.connections[slot].exchanges.get(number).stamps;
                let sums = &mut self.recording.streams_mut().sums;
                sums.frames_received += u64::from(response.frames);
                sums.response_block_bytes += response.header_bytes;
                sums.response_field_bytes += response.field_bytes;
                if self.recording.has_parts() {
                    let bytes = response.header_bytes + response.body_bytes;
                    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                    self.recording.bytes_received(&self.phases, &stamps, bytes);
                }
                if !whole && self.recording.is_recorded(&self.phases, &stamps) {
                    self.recording.counts_mut().incomplete_uploads += 1;
                }
                self.answered(slot, number, status, arrived_ns);
            }
            Ended::Failed(cause) => {
                let ending = Ending::at(self.clock.handled_ns());
                self.end(slot, number, ending, Outcome::Failed(cause));
            }
            Ended::Refused => self.send_back(slot, number, true),
            Ended::Unserved { refused } => self.send_back(slot, number, refused),
        }
    }

    /// All that the slot's connection received has been interpreted: it takes the next requests, or
    /// is replaced if it has ended, and sends what the protocol itself has to say.
    #[inline(never)]
    pub(super) fn taken(&mut self, slot: u32) {
        let socket = &self.connections[slot].socket;
        let generation = socket.generation;
        if matches!(socket.state, State::Open | State::Retired) {
            // Frames may have come although it has no request.
            self.connections.leave_idle(slot);
            self.free(slot);
        }
        if self.connections[slot].socket.generation == generation {
            self.send_own(slot);
        }
    }

    /// Sends what the protocol itself has to say. If a request is queued, it leaves before that.
    fn send_own(&mut self, slot: u32) {
        let connection = &self.connections[slot];
        let socket = &connection.socket;
        let can_send =
            matches!(socket.state, State::Greeting | State::Fresh | State::Open | State::Retired)
                && !socket.sending
                && connection.exchanges.queued() == 0;
        if can_send && connection.protocol.wants_write() && !self.withhold(slot) {
            self.connections.leave_idle(slot);
            self.send_next(slot);
            self.connections.offer(slot);
        }
    }

    /// A request of the slot has timed out: its stream ends, and the connection goes on.
    pub(super) fn give_up_stream(&mut self, slot: u32, number: u64) {
        self.http2(slot).cancel(number);
        self.taken(slot);
    }

    /// The request of the slot whose time runs out first, and when that is, ns since the epoch.
    pub(super) fn first_over(&self, slot: u32) -> (u64, Exchange) {
        let exchanges = &self.connections[slot].exchanges;
        if !self.has_streams() {
            let oldest = *exchanges.oldest();
            return (self.over(&oldest.stamps).0, oldest);
        }
        // Requests that were sent again have older stamps, and steps their own timeouts.
        let each = exchanges.sent().map(|exchange| (self.over(&exchange.stamps).0, *exchange));
        each.min_by_key(|(over_ns, _)| *over_ns).expect("a request in flight")
    }

    /// A request of the slot was sent, in a stream of its own.
    pub(super) fn stream_taken(&mut self, slot: u32, stamps: &Stamps) {
        let connection = &self.connections[slot];
        let in_flight = connection.exchanges.in_flight();
        let connected_ns = connection.socket.connected_ns;
        self.recording.streams_mut().begun(in_flight);
        if stamps.waited && self.recording.is_recorded(&self.phases, stamps) {
            let streams = self.recording.streams_mut();
            let wait = match stamps.noticed_ns < connected_ns {
                true => &mut streams.sums.connection_wait,
                false => &mut streams.sums.stream_wait,
            };
            wait.record(stamps.sent_ns - stamps.noticed_ns);
        }
        self.connections.deadlines.check_by(slot, self.look_ns(stamps));
    }
}

/// Requests that are sent again.
impl Shard {
    /// The target hasn't processed this request of the slot.
    fn send_back(&mut self, slot: u32, number: u64, refused: bool) {
        let stamps = self.connections.send_back(slot, number);
        if self.users.roam() {
            self.users.ended(slot);
        }
        if self.recording.has_parts() {
            self.recording.connection_freed(&stamps);
        }
        if self.recording.is_recorded(&self.phases, &stamps) {
            self.recording.counts_mut().requeued += 1;
        }
        self.requeue.again.insert(number, Again { stamps, refused });
        let Stamps { intended_ns, noticed_ns, step, session, .. } = stamps;
        let due = DueRequest { intended_ns, number, step, session, noticed_ns, waited: true };
        let user = self.user_of(slot);
        let endpoint = usize::from(self.plan.endpoint_of(step));
        match &mut self.load {
            Load::Open(load) => load.wait_again(due, endpoint),
            Load::Closed(load) => load.wait_again(user, due),
            Load::Paced(load) => load.wait_again(user, due),
        }
        self.requeue.is_due = true;
    }

    /// The requests that were handed to the slot's connection, and can't begin on it any more.
    pub(super) fn send_back_stranded(&mut self, slot: u32) {
        while let Some(http2) = self.connections[slot].protocol.http2()
            && let Some(number) = http2.take_stranded()
        {
            self.send_back(slot, number, false);
        }
    }

    /// The requests that were sent back, or can't begin on their connection, go to others: to
    /// connections with room, or else to new ones. Once a turn, and not where they turn up: a
    /// request may be on its way to one of those others.
    pub(super) fn serve_sent_back(&mut self) {
        while let Some(slot) = self.requeue.stranded.pop() {
            self.send_back_stranded(slot);
            self.taken(slot);
        }
        self.requeue.is_due = false;
        for endpoint in (0_u16..).take(self.plan.endpoints.len()) {
            while let Load::Open(load) = &self.load
                && 0 < load.waiting_for(usize::from(endpoint))
                && self.clock.handled_ns() < self.phases.send_end_ns()
                && let Some(slot) = self.connections.take_room(endpoint)
            {
                self.ready(slot);
            }
        }
        self.open_for_waiting(self.now_ns());
    }

    /// The first queued request of the slot is sent, if it was sent before; returns true if so.
    pub(super) fn is_sent_again(&mut self, slot: u32) -> bool {
        let exchanges = &mut self.connections[slot].exchanges;
        let first = exchanges.waiting().next().expect("a queued request");
        let number = first.number;
        let Some(Again { stamps, refused }) = self.requeue.again.remove(&number) else {
            return false;
        };
        *exchanges.send() = stamps;
        self.connections.sent_again();
        if refused {
            self.http2(slot).refuse(number);
        }
        if self.recording.has_parts() {
            self.recording.connection_taken(&stamps);
        }
        let in_flight = self.connections[slot].exchanges.in_flight();
        self.recording.streams_mut().begun(in_flight);
        self.connections.deadlines.check_by(slot, self.look_ns(&stamps));
        true
    }

    /// When the request with this number, if it was sent back, times out, and how, ns since the
    /// epoch.
    pub(super) fn again_over(&self, number: u64) -> Option<(u64, TimeoutKind)> {
        if self.requeue.again.is_empty() {
            return None;
        }
        let Again { stamps, .. } = self.requeue.again.get(&number)?;
        Some(self.over(stamps))
    }

    /// The request with this number, which was sent back and waits, times out or is abandoned at
    /// this time.
    pub(super) fn end_sent_back(&mut self, number: u64, now_ns: u64) {
        match self.again_over(number) {
            Some((over_ns, kind)) if over_ns <= now_ns => {
                self.fail_sent_back(number, over_ns, Outcome::TimedOut(kind));
            }
            _ => self.fail_sent_back(number, now_ns, Outcome::Abandoned),
        }
    }

    /// The request with this number, which was sent back and waits, ends with this outcome.
    pub(super) fn fail_sent_back(&mut self, number: u64, at_ns: u64, outcome: Outcome) {
        let Again { stamps, .. } = self.requeue.again.remove(&number).expect("it was sent back");
        let now_ns = self.now_ns();
        self.recording.in_flight(now_ns, self.connections.in_flight());
        self.connections.sent_again();
        let received_ns = at_ns.max(stamps.sent_ns);
        self.recording.stayed(stamps.sent_ns, received_ns, now_ns);
        self.clock.handled_no_earlier(now_ns);
        let ending = Ending { handled_ns: now_ns.max(received_ns), ..Ending::at(received_ns) };
        self.recording.ended(&self.phases, number, &stamps, ending, outcome);
    }

    /// True if this request was sent before, and waits.
    pub(super) fn was_sent(&self, number: u64) -> bool {
        !self.requeue.again.is_empty() && self.requeue.again.contains_key(&number)
    }

    /// Forgets the requests of the setup that were sent back.
    pub(super) fn forget_sent_back(&mut self) {
        for _ in 0..self.requeue.again.len() {
            self.connections.sent_again();
            self.recording.counts_mut().setup.ended(Outcome::Abandoned);
        }
        self.requeue.again.clear();
    }
}

/// Sending.
impl Shard {
    /// Makes the frames that leave next on this slot, if its TLS handshake is done, and sends them.
    pub(super) fn send_frames(&mut self, slot: u32) {
        let now_ns = self.now_ns();
        let token = self.connections.token(Op::Send, slot);
        let connection = &mut self.connections[slot];
        let mut sessions = self.sessions.as_mut().filter(|all| all.has(slot));
        let secure = sessions.is_some();
        let Sending { gathered: frames, seed, room, .. } = &mut self.sending;
        frames.clear();
        let is_busy = sessions.as_mut().is_some_and(|sessions| sessions.wants_write(slot));
        let is_up = connection.socket.state != State::Handshaking && !is_busy;
        let most = if secure { RECORD_MAX } else { OUT_BYTES };
        let (recording, phases) = (&mut self.recording, &self.phases);
        if let Some(http2) = connection.protocol.http2().filter(|_| is_up)
            && let Some(blocks) = &self.plan.blocks
        {
            let (steps, carried) = (&self.plan.steps, &self.carried);
            let of = Making { steps, seed: *seed, carried, room };
            let now = (&connection.exchanges, now_ns, most);
            http2.make(blocks, of, now, frames, |exchange, made| {
                let is_recorded = recording.is_recorded(phases, &exchange.stamps);
                let sums = &mut recording.streams_mut().sums;
                let (block_bytes, field_bytes) = made.block;
                sums.frames_sent += 1;
                sums.request_block_bytes += block_bytes as u64;
                sums.request_field_bytes += field_bytes as u64;
                if let Some(behind_ns) = made.behind_ns
                    && is_recorded
                {
                    sums.window_wait.record(behind_ns);
                }
                if recording.has_parts() {
                    recording.bytes_sent(phases, &exchange.stamps, made.bytes);
                }
            });
            if http2.is_stranded() && !self.requeue.stranded.contains(&slot) {
                self.requeue.stranded.push(slot);
                self.requeue.is_due = true;
            }
        }
        let mut out = self.ring.out(slot);
        let made = match sessions {
            None => {
                std::io::Write::write_all(&mut out, frames).expect("there is room for it");
                frames.len()
            }
            Some(sessions) => {
                let goes_on = frames.is_empty() || sessions.encrypt(slot, frames);
                if !goes_on || sessions.is_spent(slot) {
                    connection.socket.retire();
                }
                sessions.write(slot, &mut out)
            }
        };
        connection.output.make(made, 0);
        connection.socket.sending = 0 < made;
        if 0 < made {
            self.ring.send_out(token, connection.socket.fd, slot, 0..made);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use plan::Plan;
    use plan::blocks::{Blocks, Head};
    use uring::Payload;

    use super::*;
    use crate::ShardPlan;
    use crate::plan::{Step, due_at};

    /// SETTINGS without a value.
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    /// SETTINGS with a limit of no streams.
    const NO_STREAMS: [u8; 15] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0];

    #[test]
    fn requeued_counts_what_is_above_the_last_stream_and_what_has_not_left() {
        let (mut shard, slot, mut peer) = connected();
        (0..3).for_each(|number| begin(&mut shard, slot, number));
        shard.flush();
        // One more is on its way to the kernel when the target ends the connection.
        begin(&mut shard, slot, 3);
        let after = |shard: &mut Shard, goaways| {
            wait_for_goaways(shard, goaways);
            let begun = shard.connections[slot].exchanges.open();
            shard.flush();
            let still = shard.connections[slot].exchanges.open();
            assert_eq!(still, begun, "another connection may be about to take a request");
            shard.serve_sent_back();
            let counts = shard.recording.counts();
            (counts.sent, counts.requeued, shard.connections[slot].exchanges.open())
        };
        peer.write_all(&goaway(1)).expect("sent");
        assert_eq!(after(&mut shard, 1), (4, 3, 1), "the first one is served");
        peer.write_all(&goaway(1)).expect("sent");
        assert_eq!(after(&mut shard, 2), (4, 3, 1), "the second GOAWAY leaves out no more");
    }

    #[test]
    fn a_request_that_has_not_left_as_the_limit_falls_to_none_goes_elsewhere() {
        let (mut shard, slot, mut peer) = connected();
        begin(&mut shard, slot, 0);
        shard.flush();
        // The next is queued as the limit comes.
        begin(&mut shard, slot, 1);
        peer.write_all(&NO_STREAMS).expect("sent");
        while shard.http2(slot).limit() != NO_STREAM {
            shard.ring.wait(1_000_000_000);
            shard.reap();
        }
        shard.flush();
        shard.serve_sent_back();
        let counts = shard.recording.counts();
        assert_eq!((counts.sent, counts.requeued), (2, 1));
        assert_eq!(shard.connections[slot].exchanges.open(), 1, "the first one is served");
    }

    #[test]
    fn a_connection_that_fails_after_its_goaway_is_replaced_once() {
        let (mut shard, slot, mut peer) = connected();
        begin(&mut shard, slot, 0);
        peer.write_all(&goaway(0)).expect("sent");
        wait_for_goaways(&mut shard, 1);
        shard.fail(slot, Cause::Reset);
        let counts = shard.recording.counts();
        assert_eq!((counts.sent, counts.requeued, counts.failed), (1, 1, 0));
    }

    /// A shard with one connection, its slot, and the peer of it.
    fn connected() -> (Shard, u32, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let bytes = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let of = Head { plan: &Plan::default(), secure: false, bytes, template: None };
        let plan = ShardPlan {
            depth: 9,
            blocks: Some(Arc::new(Blocks::new(&[of]).expect("a request"))),
            steps: vec![Step::for_test(Payload::copied(b"", b"", 1).expect("a page"))],
            ..ShardPlan::open_for_test(listener.local_addr().expect("bound").into())
        };
        let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        shard.phases.run();
        assert!(shard.open_connection(0, shard.now_ns()));
        shard.ring.submit();
        let (mut peer, _) = listener.accept().expect("it connects");
        peer.write_all(&SETTINGS).expect("sent");
        shard.wait_for_fresh();
        let slot = shard.connections.take_fresh().expect("it is connected");
        (shard, slot, peer)
    }

    /// A request that is due now joins the slot's connection, once the last send has completed.
    fn begin(shard: &mut Shard, slot: u32, number: u64) {
        while shard.connections[slot].socket.sending {
            shard.ring.wait(1_000_000_000);
            shard.reap();
        }
        let now_ns = shard.now_ns();
        shard.recording.intended(&shard.phases, (now_ns, None));
        shard.begin(slot, DueRequest { number, ..due_at(now_ns) });
    }

    fn wait_for_goaways(shard: &mut Shard, goaways: u64) {
        while shard.recording.counts().goaways < goaways {
            shard.ring.wait(1_000_000_000);
            shard.reap();
        }
    }

    /// GOAWAY with this last stream.
    fn goaway(last_stream: u8) -> [u8; 17] {
        [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, last_stream, 0, 0, 0, 0]
    }
}
