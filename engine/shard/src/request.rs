//! One request through a shard, in the order of its life.
//!
//! [`Shard::turn`] is one pass of the loop: reap completions, admit arrivals, expire deadlines,
//! enter the kernel once. Below it, a request falls due, takes a connection or waits for one, is
//! answered or fails, and ends in exactly one outcome. That outcome is decided here, and in `life`
//! for requests left over at the end of the run. `wire` hands requests to the kernel; the recorder
//! turns outcomes into numbers.
//!
//! A full batch of requests costs a system call beyond the turn's own, and so does a newly opened
//! connection; so does drawing the schedule's next block while requests are queued, since they
//! leave first.
//!
//! If a send fails because the peer is gone, its request hasn't failed yet: the peer may have
//! answered before it closed, and that response may still be in the socket, so the receive decides.
//!
//! Arrivals noticed more than 1 ms late come in a burst, and connections must be opened for them.
//! That isn't the target's backlog: below the cap, their wait counts as pacer lateness, not as
//! connection wait.

use std::num::NonZeroU32;

use load::{DueRequest, Load};
use plan::{StampSource, Wait};
use record::outcome::{Cause, Outcome, TimeoutKind, UnsentReason};
use record::stamps::{Ending, StampedBy, Stamps};
use uring::receive_stamps::ReceiveStamps;
use uring::token::{Op, Token};
use uring::{Completion, TOKEN_NONE};

use super::connection::Connection;
use super::event::{Event, Next};
use super::exchange::Exchange;
use super::http1::Memory;
use super::plan::Step;
use super::receive_stamps::is_doubted;
use super::secure::Arrival;
use super::send_stamps;
use super::shard::Shard;
use super::socket::State;

/// The most arrivals that one turn admits: completions wait in the meantime.
const ADMITTED_MAX: usize = 4_096;
/// An arrival noticed later than this counts as late, ns: well above the length of a turn.
const NOTICED_LATE_NS: u64 = 1_000_000;

/// The turn.
impl Shard {
    /// One pass of the loop; returns whether there is another.
    pub(super) fn turn(&mut self, look_ns: u64) -> bool {
        self.recording.meter().turn();
        self.reap();
        let now_ns = self.now_ns();
        self.heed_lease(now_ns);
        if now_ns < self.phases.send_end_ns() {
            self.begin_fresh();
            self.admit(now_ns);
        }
        if self.connections.deadlines.next_ns() <= now_ns {
            if self.next_expired(now_ns).is_some() {
                self.catch_up();
            }
            self.expire(now_ns);
        }
        if self.requeue.is_due {
            self.serve_sent_back();
        }
        if self.recording.uses_sessions() {
            self.close_released();
        }
        self.retry(now_ns);
        self.rearm();
        self.end_if_spent(now_ns);
        if self.is_done(now_ns) {
            return false;
        }
        self.enter(look_ns);
        true
    }

    /// The turn's system call: submits what is queued and waits for the next event.
    fn enter(&mut self, look_ns: u64) {
        self.stamp_queued();
        if 0 < self.connections.fresh() || self.requeue.is_due {
            // New connections get their requests, and requests that couldn't begin get their new
            // connections, in the next turn.
            self.ring.submit();
            let now_ns = self.now_ns();
            return self.recording.meter().worked(now_ns);
        }
        self.refill();
        let now_ns = self.now_ns();
        let due_ns = match &self.load {
            _ if self.phases.send_end_ns() <= now_ns => None,
            // With the queue full, the next arrival is taken when a request ends.
            Load::Open(load) if load.is_full() || self.recording.has_all_sessions() => None,
            Load::Open(load) => load.next_due_ns().filter(|due_ns| *due_ns < self.phases.end_ns()),
            Load::Paced(load) => {
                Some(load.next_due_ns()).filter(|due_ns| *due_ns < self.phases.end_ns())
            }
            Load::Closed(load) => load.next_ns().filter(|next_ns| *next_ns < self.phases.end_ns()),
        }
        .unwrap_or(u64::MAX)
        .min(self.next_step_ns(now_ns));
        let end_ns = if now_ns < self.phases.end_ns() {
            self.phases.end_ns()
        } else {
            self.phases.drain_end_ns()
        };
        let wake_ns = self
            .connections
            .deadlines
            .next_ns()
            .min(self.next_expiry_ns())
            .min(self.connections.next_retry_ns())
            .min(look_ns)
            .min(end_ns);
        let sleep_until_ns = match self.plan.wait {
            Wait::Sleep => wake_ns.min(due_ns),
            Wait::Hybrid => wake_ns.min(due_ns.saturating_sub(self.lead.ns())),
            Wait::Spin => 0,
        };
        if now_ns < sleep_until_ns {
            self.ring.wait(sleep_until_ns - now_ns);
            let woken_ns = self.now_ns();
            self.clock.waited(now_ns, woken_ns);
            self.lead.slept(sleep_until_ns, woken_ns);
            self.recording.meter().slept(now_ns, sleep_until_ns, woken_ns);
            return;
        }
        let wake_ns = wake_ns.min(due_ns);
        // One call both submits and posts completions.
        self.ring.poll_if_queued();
        self.poll(now_ns, wake_ns);
        // An arrival that ends the spin is sent at once: there is nothing to post.
        self.ring.poll_if_flagged();
    }
}

/// Due: a request takes an idle connection, or waits for one.
impl Shard {
    /// Sends the requests that are due, or queues them for a connection.
    pub(super) fn admit(&mut self, mut now_ns: u64) {
        self.expire_waiting(now_ns);
        for _ in 0..ADMITTED_MAX {
            if self.recording.uses_sessions() && self.goes_on(now_ns) {
                now_ns = self.now_ns();
                continue;
            }
            match &mut self.load {
                Load::Closed(load) => {
                    if load.next_ns().is_some_and(|next_ns| next_ns <= now_ns) {
                        self.users_come(now_ns);
                    }
                    return;
                }
                Load::Open(load) => {
                    if self.recording.has_all_sessions() {
                        load.lag(now_ns);
                        return;
                    }
                    let Some(due) = load.take_due(now_ns, self.phases.end_ns()) else { return };
                    let due = self.arrives(due, 0);
                    self.take_or_wait(due, now_ns);
                }
                Load::Paced(load) => {
                    let Some((user, arrival)) = load.take_due(now_ns, self.phases.end_ns()) else {
                        return;
                    };
                    let due = DueRequest::noticed(arrival, now_ns);
                    let due = DueRequest { step: self.plan.mix.step(due.number), ..due };
                    let intended_ns = due.intended_ns;
                    let endpoint = self.plan.endpoint_of(due.step);
                    let is_free = self.recording.sessions_of(user) == 0;
                    let is_first = !load.is_waiting(user) && is_free;
                    let slot = self.slot_of(user, endpoint);
                    // A user's requests are sent in order: this one queues behind those waiting.
                    let given_up_ns = self.given_up_ns((intended_ns, due.step, None));
                    if given_up_ns <= now_ns && is_first {
                        self.noticed_expired(due);
                    } else if is_free
                        && self.takes_at_once(slot, is_first)
                        && !self.connections.is_used(slot)
                    {
                        self.connections.leave_idle(slot);
                        self.recording.intended(&self.phases, (intended_ns, None));
                        let due = self.arrives(due, slot);
                        self.begin(slot, due);
                    } else {
                        let Load::Paced(load) = &mut self.load else { return };
                        load.wait(user, arrival, now_ns);
                        self.recording.intended(&self.phases, (intended_ns, None));
                        self.recording.waited(&self.phases, &due, false);
                        if self.users.roam() {
                            self.serve(user, now_ns);
                        } else if self.connections[slot].socket.state == State::Closed {
                            self.user_reconnects(slot, now_ns);
                        }
                    }
                }
            }
            now_ns = self.now_ns();
        }
    }

    /// A request of an open model that has just been noticed takes a connection, or waits for one.
    #[inline]
    fn take_or_wait(&mut self, due: DueRequest, now_ns: u64) {
        let given_up_ns = self.given_up_ns((due.intended_ns, due.step, due.session));
        let own = due.session.and_then(|place| self.own_with_room(place));
        let Load::Open(load) = &mut self.load else { panic!("users have their own connections") };
        let endpoint = self.plan.endpoint_of(due.step);
        // Those that wait don't wait for the session's own connection.
        let nobody_waits = own.is_some() || load.waiting_for(usize::from(endpoint)) == 0;
        let late_ns = now_ns - due.intended_ns;
        // One that only a backlog delayed has waited as if for a connection.
        let has_waited = 0 < late_ns && due.noticed_ns == due.intended_ns;
        if has_waited && due.session.is_some() {
            self.recording.waited_for_session(&self.phases, &due);
        }
        if nobody_waits
            && (given_up_ns <= now_ns || has_waited && self.plan.queue_max_ns <= late_ns)
        {
            return self.noticed_expired(due);
        }
        self.recording.intended(&self.phases, (due.intended_ns, due.session));
        if let Some(slot) = own {
            return self.begin(slot, due);
        }
        if nobody_waits && let Some(slot) = self.connections.take_room(endpoint) {
            self.begin(slot, due);
            return self.connections.offer(slot);
        }
        load.wait(due, usize::from(endpoint));
        self.open_for(endpoint, now_ns);
        let capped = self.is_capped(endpoint);
        self.recording.waited(&self.phases, &due, capped);
    }

    /// The next step of a session, if one is due; returns whether there was one.
    #[inline(never)]
    fn goes_on(&mut self, now_ns: u64) -> bool {
        let Some(due) = self.recording.sessions().take_due(now_ns) else { return false };
        match self.load {
            Load::Open(_) => self.take_or_wait(due, now_ns),
            Load::Closed(_) | Load::Paced(_) => self.user_goes_on(due, now_ns),
        }
        true
    }

    /// An arrival, or a user's request, with its step; it begins a session if its scenario has
    /// several.
    #[inline(always)]
    pub(super) fn arrives(&mut self, mut due: DueRequest, slot: u32) -> DueRequest {
        due.step = self.plan.mix.step(due.number);
        if self.recording.uses_sessions() {
            due.session = self.recording.sessions().begin(&due, slot);
            self.carries_nothing(due.session);
        }
        due
    }

    /// A request that has waited, with its step: that of its session, or else by its number.
    pub(super) fn with_step(&self, due: DueRequest) -> DueRequest {
        match due.session {
            Some(_) => due,
            None => DueRequest { step: self.plan.mix.step(due.number), ..due },
        }
    }

    /// When the next step of a session is due, if it may still be sent; `u64::MAX` for never.
    #[inline]
    fn next_step_ns(&mut self, now_ns: u64) -> u64 {
        match self.recording.uses_sessions() && now_ns < self.phases.send_end_ns() {
            true => self.recording.sessions().next_due_ns(),
            false => u64::MAX,
        }
    }

    /// A request whose deadline had passed when it was noticed is never sent.
    fn noticed_expired(&mut self, due: DueRequest) {
        self.recording.intended(&self.phases, (due.intended_ns, due.session));
        let (over_ns, reason) = self.expiry_of(&due);
        self.unsent(due, over_ns, reason);
    }

    /// True if an arrival waits for this endpoint because of the cap: no connection is or can be
    /// opened for it.
    fn is_capped(&self, endpoint: u16) -> bool {
        let waiting = match &self.load {
            Load::Open(load) => load.waiting_for(usize::from(endpoint)),
            Load::Closed(_) | Load::Paced(_) => return false,
        };
        self.connections.is_full() && self.connections.coming_room(endpoint) < waiting
    }

    /// Gives up the arrivals that have waited too long for a connection.
    fn expire_waiting(&mut self, now_ns: u64) {
        while let Load::Open(load) = &self.load
            && let Some((_, endpoint)) = load.longest()
            && let Some(due) = load.first_waiting(endpoint)
        {
            let (over_ns, reason) = self.expiry_of(due);
            if now_ns < over_ns {
                return;
            }
            let Load::Open(load) = &mut self.load else { return };
            let Some(due) = load.pop_waiting(endpoint) else { return };
            self.unsent(due, over_ns, reason);
        }
    }
}

/// Its connection: a free one, if its time hasn't run out.
impl Shard {
    /// A connection has room: it takes the next requests, and is listed again if it has room left.
    pub(super) fn ready(&mut self, slot: u32) {
        if self.is_particular && self.is_served_elsewhere(slot) {
            return;
        }
        while self.connections.has_room(slot) {
            let Some(due) = self.next_for(slot) else { return self.connections.offer(slot) };
            self.connections.leave_idle(slot);
            self.begin(slot, due);
        }
    }

    /// With several endpoints, a connection that has room may be another endpoint's turn, and a
    /// closed model's user may go on to another one; a session's own takes no other requests.
    /// Returns true if so.
    #[cold]
    fn is_served_elsewhere(&mut self, slot: u32) -> bool {
        let now_ns = self.clock.handled_ns();
        if self.connections.is_own(slot) && !self.plan.has_users() {
            self.serve_session(slot);
            return true;
        }
        if self.users.roam() {
            self.serve_user_of(slot, now_ns);
            return true;
        }
        self.yields(slot, now_ns)
    }

    /// The next request for a connection with room, if one is due.
    fn next_for(&mut self, slot: u32) -> Option<DueRequest> {
        let now_ns = self.clock.handled_ns();
        if self.phases.send_end_ns() <= now_ns {
            // At the drain's end it would be abandoned as soon as it was sent, with almost no
            // latency.
            return None;
        }
        loop {
            let due = match &mut self.load {
                Load::Open(load) => {
                    load.pop_waiting(usize::from(self.connections.endpoint(slot)))?
                }
                Load::Paced(load) => {
                    let user = slot as usize;
                    // The next session waits for the end of the user's last one.
                    if !load.is_sent_again(user)
                        && (0 < self.recording.sessions_of(user) || self.connections.is_used(slot))
                    {
                        return None;
                    }
                    let due = load.pop_waiting(user)?;
                    match due.session {
                        Some(_) => due,
                        None => self.arrives(due, slot),
                    }
                }
                Load::Closed(load) => match load.pop_waiting(slot as usize) {
                    Some(due) => due,
                    None => return self.user_comes(slot, now_ns),
                },
            };
            if let Some(due) = self.in_time(due, now_ns) {
                return Some(due);
            }
            // To give one up sends the queued ones.
            if !self.connections.has_room(slot) {
                return None;
            }
        }
    }

    /// A request that has waited for its connection; `None` if its time ran out, so that it is
    /// never sent.
    pub(super) fn in_time(&mut self, due: DueRequest, now_ns: u64) -> Option<DueRequest> {
        let (over_ns, reason) = self.expiry_of(&due);
        if now_ns < over_ns {
            return Some(self.with_lateness(due, now_ns));
        }
        if self.load.is_unpaced() && !self.was_sent(due.number) {
            self.recording.intended(&self.phases, (due.intended_ns, due.session));
        }
        self.unsent(due, over_ns, reason);
        None
    }

    /// True if a paced request can be sent at once on this connection; `is_first`: none of its
    /// user's waits before it.
    fn takes_at_once(&self, slot: u32, is_first: bool) -> bool {
        self.connections.has_room(slot) && (!self.users.roam() || is_first && self.may_begin(slot))
    }

    /// Arrivals noticed late come in a burst, and connections must be opened for all of them at
    /// once. That isn't the target's backlog: below the cap, their wait counts as pacer lateness
    /// too. With TLS it may be the target's, since a handshake involves more than its kernel.
    fn with_lateness(&self, due: DueRequest, now_ns: u64) -> DueRequest {
        let late = NOTICED_LATE_NS < due.noticed_ns - due.intended_ns;
        match self.load {
            Load::Open(_) if late && !self.connections.is_full() && self.sessions.is_none() => {
                DueRequest { noticed_ns: now_ns.max(due.noticed_ns), ..due }
            }
            _ => due,
        }
    }
}

/// On the wire: its completions.
impl Shard {
    /// Handles all posted completions.
    pub(super) fn reap(&mut self) {
        loop {
            let posted = self.ring.posted();
            if posted == 0 {
                return;
            }
            self.clock.stamp_posted(posted);
            self.heed_lease(self.clock.handled_ns());
            for _ in 0..posted {
                let Some(completion) = self.ring.next_completion() else { return };
                self.complete(completion);
            }
        }
    }

    fn complete(&mut self, completion: Completion) {
        if completion.token == TOKEN_NONE {
            return;
        }
        let token = Token::decode(completion.token);
        // A completion of the slot's previous socket only returns its buffer.
        let current = self.connections.is_current(token);
        match token.kind {
            Op::Receive => self.received(token.slot, completion, current),
            Op::Connect if current => self.connect_done(token.slot, completion.result),
            Op::Send if current => self.send_done(token.slot, completion.result),
            Op::Connect | Op::Send => {}
        }
    }

    /// A send has completed, or failed.
    fn send_done(&mut self, slot: u32, result: i32) {
        self.recording.meter().sent_bytes += u64::try_from(result).unwrap_or(0);
        let connection = &mut self.connections[slot];
        let shaking = connection.socket.state == State::Handshaking;
        let greeting = connection.socket.state == State::Greeting;
        match (usize::try_from(result), -result) {
            // The peer is gone. It may have answered before, or sent the reason for ending the
            // handshake: what was received decides.
            (Err(_), errno @ (libc::EPIPE | libc::ECONNRESET))
                if shaking || greeting || connection.is_awaiting() =>
            {
                connection.socket.broken = connection.socket.broken.or(Some(errno));
            }
            (Err(_), errno) => self.fail(slot, Cause::of_send(errno)),
            (Ok(0), _) => self.fail(slot, Cause::WriteFailed),
            (Ok(sent), _) => match self.left(slot, sent) {
                true if shaking => self.handshake_left(slot),
                true => self.ready(slot),
                false => {}
            },
        }
    }

    /// A receive has completed.
    fn received(&mut self, slot: u32, completion: Completion, current: bool) {
        if current {
            let generation = self.connections[slot].socket.generation;
            match (completion.buffer, usize::try_from(completion.result)) {
                (Some(buffer), Ok(length)) if 0 < length => {
                    self.received_bytes(slot, buffer, length);
                }
                (_, Ok(_)) => self.received_close(slot),
                (_, Err(_)) if completion.result == -libc::ENOBUFS => {}
                (_, Err(_)) => self.fail(slot, Cause::of_receive(-completion.result)),
            }
            // After the connection's last response, the slot may already have a new socket.
            if !completion.more && self.connections[slot].socket.is_still(generation) {
                self.connections.ask_rearm(slot);
            }
        }
        if let Some(buffer) = completion.buffer {
            self.ring.give_back(buffer);
        }
    }

    /// Bytes arrived, with their stamp or without.
    fn received_bytes(&mut self, slot: u32, buffer: u16, length: usize) {
        let mut arrival = Arrival { buffer, to: length, ..Arrival::default() };
        if self.receive_stamps(slot) != ReceiveStamps::Off {
            let chunk = self.ring.received_stamped(buffer, length);
            arrival.from = length - chunk.bytes.len();
            arrival.kernel_ns = chunk.wall_ns.and_then(|ns| self.clock.since_epoch_ns(ns));
            let socket = &mut self.connections[slot].socket;
            arrival.doubted = is_doubted(socket, &self.clock, arrival.kernel_ns);
        }
        self.recording.meter().received_bytes += (arrival.to - arrival.from) as u64;
        if arrival.from == arrival.to {
            self.received_close(slot);
        } else if self.is_secure(slot) {
            self.received_encrypted(slot, arrival);
        } else {
            self.parse(slot, arrival);
        }
    }

    /// The target sent bytes: a part of a response, or the rest of one and what follows it.
    #[inline(always)]
    pub(super) fn parse(&mut self, slot: u32, arrival: Arrival) {
        let answered = self.recording.counts().answered;
        let mut at = 0;
        loop {
            let bytes = &arrival.plain(&self.ring, &self.sessions)[at..];
            let length = bytes.len();
            let steps = &self.plan.steps;
            let kept = self.kept.get_mut(slot as usize);
            let memory = Memory { known: &mut self.known_heads, kept };
            let event = self.connections[slot].receive(steps, memory, arrival.kernel_ns, bytes);
            if self.recording.has_parts() {
                self.count_received(slot, event, length);
            }
            match event {
                Event::Answered { number, status, consumed, next } => {
                    let is_all = consumed == length;
                    at += consumed;
                    let arrived_ns = arrival.kernel_ns.filter(|_| !arrival.doubted);
                    let whole = self.answered(slot, number, status, arrived_ns);
                    if next == Next::Unasked {
                        self.recording.counts_mut().trailing += 1;
                        self.doubt(slot);
                    }
                    if next != Next::Any || !whole {
                        self.lose(slot);
                    } else if is_all {
                        self.free(slot);
                    } else {
                        continue;
                    }
                }
                Event::More if 0 < at => self.free(slot),
                Event::More => {}
                Event::Failed { number, cause } => self.failed(slot, number, cause),
                Event::Broken(cause) => {
                    self.recording.counts_mut().unsolicited += 1;
                    self.doubt(slot);
                    self.fail(slot, cause);
                }
                Event::Closed => unreachable!("bytes close nothing"),
                Event::OnStream { consumed, what } => {
                    at += consumed;
                    let arrived_ns = arrival.kernel_ns.filter(|_| !arrival.doubted);
                    if self.on_stream(slot, what, arrived_ns) {
                        continue;
                    }
                }
                Event::Taken => self.taken(slot),
                Event::Violated(cause) => self.fail(slot, cause),
            }
            break;
        }
        let answered = self.recording.counts().answered - answered;
        if 1 < answered {
            self.recording.counts_mut().shared_receives += answered;
        }
    }

    /// Counts the bytes of a response, of which this event is the meaning of the next `length`, for
    /// its request's part. Bytes that no request asked for belong to none.
    // One request on one route at one rate shouldn't pay for a longer function.
    #[inline(never)]
    fn count_received(&mut self, slot: u32, event: Event, length: usize) {
        let exchanges = &self.connections[slot].exchanges;
        let (number, bytes) = match event {
            Event::Answered { number, consumed, .. } => (number, consumed),
            Event::Failed { number, .. } => (number, length),
            Event::More => (exchanges.oldest().number, length),
            Event::Broken(_) | Event::Closed => return,
            // A response's bytes are counted when it is complete.
            Event::OnStream { .. } | Event::Taken | Event::Violated(_) => return,
        };
        self.recording.bytes_received(&self.phases, &exchanges.get(number).stamps, bytes);
    }

    /// The connection was closed.
    fn received_close(&mut self, slot: u32) {
        self.count_close(slot);
        // A send has failed with the reset, so what looks like an end here doesn't end a response.
        let reset = self.connections[slot].socket.broken == Some(libc::ECONNRESET);
        self.received_end(slot, !self.is_secure(slot) && !reset);
    }

    /// The peer closed its side; `known`: it is certain that the connection wasn't cut.
    pub(super) fn received_end(&mut self, slot: u32, known: bool) {
        match self.connections[slot].receive_end(known) {
            Event::Answered { number, status, .. } => {
                // The kernel doesn't stamp a close, and the last bytes may have come long before
                // it.
                self.answered(slot, number, status, None);
                self.lose(slot);
            }
            Event::Failed { number, cause } => self.failed(slot, number, cause),
            Event::Broken(cause) => self.fail(slot, cause),
            Event::Closed => self.closed_idle(slot),
            Event::More | Event::OnStream { .. } | Event::Taken | Event::Violated(_) => {
                unreachable!("nothing follows the end")
            }
        }
    }

    /// Re-arms the receives that the kernel ended, now that their buffers have been returned.
    pub(super) fn rearm(&mut self) {
        while let Some(slot) = self.connections.take_rearm() {
            self.arm(slot);
        }
    }
}

/// Its end: exactly one outcome.
impl Shard {
    /// A request of the slot was answered; the kernel stamped the response's arrival `arrived_ns`.
    /// Returns true if the request had been sent completely.
    pub(super) fn answered(
        &mut self,
        slot: u32,
        number: u64,
        status: u16,
        arrived_ns: Option<u64>,
    ) -> bool {
        let connection = &mut self.connections[slot];
        let whole = connection.is_sent();
        let stamps = &connection.exchanges.get(number).stamps;
        let in_window = self.recording.is_recorded(&self.phases, stamps);
        let (sent_ns, step, session) = (stamps.sent_ns, stamps.step, stamps.session);
        if in_window {
            connection.exchanges.answered();
            self.recording.counts_mut().incomplete_uploads += u64::from(!whole);
        }
        let handled_ns = self.clock.handled_ns();
        let ending = match arrived_ns {
            None => Ending::at(handled_ns),
            Some(arrived_ns) => {
                let received_ns = arrived_ns.clamp(sent_ns, handled_ns);
                if received_ns != arrived_ns && in_window {
                    self.recording.counts_mut().stamps_clamped += 1;
                }
                let stamped_by = match self.plan.stamps {
                    StampSource::Kernel => StampedBy::Kernel,
                    StampSource::User => StampedBy::Control,
                };
                Ending { received_ns, handled_ns, stamped_by }
            }
        };
        let outcome = match self.has_checks {
            false => Outcome::Answered(status),
            true => self.checked(slot, (step, number, session), status),
        };
        self.end(slot, number, ending, outcome);
        whole
    }

    /// The slot's connection has answered and can be reused, unless it has reached its limit of
    /// requests.
    pub(super) fn free(&mut self, slot: u32) {
        let Connection { socket, exchanges, .. } = &self.connections[slot];
        if socket.state == State::Retired && exchanges.open() == 0 {
            self.replace(slot);
        } else {
            self.ready(slot);
        }
    }

    /// A request of the slot failed, and its connection with it, which is replaced.
    fn failed(&mut self, slot: u32, number: u64, cause: Cause) {
        self.end(slot, number, Ending::at(self.clock.handled_ns()), Outcome::Failed(cause));
        self.lose(slot);
    }

    /// The slot's connection failed, with its requests, if any; it is replaced.
    pub(super) fn fail(&mut self, slot: u32, cause: Cause) {
        let Connection { socket, exchanges, .. } = &self.connections[slot];
        if matches!(socket.state, State::Fresh | State::Handshaking | State::Greeting) {
            return self.give_up(slot, cause);
        }
        if 0 < exchanges.open() && exchanges.in_flight() == 0 {
            self.flush_before_failing();
        }
        self.send_back_stranded(slot);
        let exchanges = &self.connections[slot].exchanges;
        if exchanges.open() == 0 {
            self.recording.counts_mut().connection_errors.add(cause);
            return self.replace(slot);
        }
        self.failed(slot, exchanges.oldest().number, cause);
    }

    /// The slot's connection had a missing or surplus response: since when is unknown.
    pub(super) fn doubt(&mut self, slot: u32) {
        if self.has_streams() {
            // Responses name their requests.
            return;
        }
        let shiftable = self.connections[slot].exchanges.take_shiftable();
        self.recording.counts_mut().doubtful += shiftable;
    }

    /// The slot's connection won't answer any more: requests sent behind its last outcome fail, and
    /// it is replaced.
    fn lose(&mut self, slot: u32) {
        if 0 < self.connections[slot].exchanges.queued() {
            self.flush_before_failing();
        }
        self.send_back_stranded(slot);
        while 0 < self.connections[slot].exchanges.open() {
            let number = self.connections[slot].exchanges.oldest().number;
            let ending = Ending::at(self.clock.handled_ns());
            self.end(slot, number, ending, Outcome::Failed(Cause::BehindFailed));
        }
        self.replace(slot);
    }

    /// Sends what is queued on a lost connection, and on all others. A request must fail later than
    /// it was sent: one that fails at that very time counts as unconnected.
    fn flush_before_failing(&mut self) {
        self.flush_queued();
        self.clock.stamp_handled();
    }

    /// Times out requests and connects whose deadline has passed.
    pub(super) fn expire(&mut self, now_ns: u64) {
        while let Some((slot, over_ns)) = self.next_expired(now_ns) {
            if self.connections[slot].socket.is_coming() {
                self.connect_timed_out(slot);
                continue;
            }
            let (_, Exchange { number, stamps }) = self.first_over(slot);
            let (_, kind) = self.over(&stamps);
            let received_ns = over_ns.max(stamps.sent_ns);
            let ending = Ending { handled_ns: self.now_ns(), ..Ending::at(received_ns) };
            self.doubt(slot);
            self.end(slot, number, ending, Outcome::TimedOut(kind));
            if self.has_streams() {
                self.give_up_stream(slot, number);
            } else {
                self.lose(slot);
            }
        }
    }

    /// When a sent request times out, ns since the epoch, and by which limit.
    pub(super) fn over(&self, stamps: &Stamps) -> (u64, TimeoutKind) {
        let timeout_ns = self.plan.steps[usize::from(stamps.step)].timeout_ns;
        let timed_out_ns = stamps.sent_ns + timeout_ns;
        let deadline_ns = self.given_up_ns((stamps.intended_ns, stamps.step, stamps.session));
        match deadline_ns < timed_out_ns {
            true => (deadline_ns, TimeoutKind::Deadline),
            false => (timed_out_ns, TimeoutKind::Timeout),
        }
    }

    /// When to look whether a sent request has timed out, ns since the epoch: by the shortest
    /// timeout of all steps, so that a request doesn't pay for looking up its own. The look finds
    /// out when it is really over.
    #[inline]
    pub(super) fn look_ns(&self, stamps: &Stamps) -> u64 {
        let timed_out_ns = stamps.sent_ns + self.plan.timeout_min_ns;
        let deadline_ns = match stamps.session {
            None => stamps.intended_ns.saturating_add(self.plan.deadline_min_ns),
            Some(_) => self.given_up_ns((stamps.intended_ns, stamps.step, stamps.session)),
        };
        timed_out_ns.min(deadline_ns)
    }

    /// When the user of a request (its intended time, step and session) gives it up, ns since the
    /// epoch; `u64::MAX` for never.
    #[inline]
    pub(super) fn given_up_ns(
        &self,
        (intended_ns, step, session): (u64, u16, Option<NonZeroU32>),
    ) -> u64 {
        if self.plan.deadline_min_ns == u64::MAX {
            return u64::MAX;
        }
        let Step { deadline_ns, session_deadline_ns, .. } = self.plan.steps[usize::from(step)];
        let own_ns = intended_ns.saturating_add(deadline_ns);
        match session {
            // It hasn't begun, or is this request alone.
            None => own_ns.min(intended_ns.saturating_add(session_deadline_ns)),
            Some(place) => own_ns.min(self.recording.session_over_ns(place, session_deadline_ns)),
        }
    }

    /// A slot that has waited too long, and since when, ns since the epoch.
    fn next_expired(&mut self, now_ns: u64) -> Option<(u32, u64)> {
        while let Some(slot) = self.connections.deadlines.take_due(now_ns) {
            let Connection { socket, exchanges, .. } = &self.connections[slot];
            let over_ns = if 0 < exchanges.in_flight() {
                self.first_over(slot).0
            } else if socket.is_coming() {
                socket.since_ns + self.plan.connect_max_ns
            } else {
                // Its next request sets a check.
                continue;
            };
            self.connections.deadlines.check_by(slot, over_ns);
            if over_ns <= now_ns {
                return Some((slot, over_ns));
            }
        }
        None
    }

    /// A sent request of the slot ended.
    pub(super) fn end(&mut self, slot: u32, number: u64, ending: Ending, outcome: Outcome) {
        let Ending { received_ns, handled_ns: now_ns, .. } = ending;
        let in_flight = self.connections.in_flight();
        let stamps = self.connections.end(slot, number);
        if self.users.roam() {
            self.users.ended(slot);
        }
        let connection = &mut self.connections[slot];
        if let Some(left_ns) = send_stamps::read(&mut connection.socket, &self.clock, number) {
            self.recording.left(&self.phases, &stamps, left_ns);
        }
        // For Little's law, a stay ends when the live count drops, however late a timeout was
        // noticed.
        self.recording.in_flight(now_ns, in_flight);
        self.recording.stayed(stamps.sent_ns, received_ns, now_ns);
        if self.recording.has_parts() {
            self.recording.connection_freed(&stamps);
        }
        self.clock.handled_no_earlier(now_ns);
        // A request sent before the window has no latency in it, and an answer after the window
        // that took far longer than those in it doesn't count as one: such waits count as blocked.
        // A user who works off the warm-up's backlog in the window is served.
        let is_answered = outcome.status().is_some();
        let is_recent = self.phases.window_ns() <= stamps.sent_ns;
        self.connections.mark_seen(slot, is_recent);
        let counts = is_answered
            && is_recent
            && (received_ns <= self.phases.end_ns()
                || received_ns - stamps.sent_ns <= self.recording.slow_ns());
        let Connection { socket, exchanges, user, .. } = &mut self.connections[slot];
        if !is_answered {
            socket.unanswered = true;
        }
        if !counts {
            self.blocked(slot, stamps.sent_ns, now_ns);
        } else if 0 < exchanges.open() {
            // Those behind it wait for an answer from now on.
            user.blocked_to_ns = now_ns;
        }
        self.recording.ended(&self.phases, number, &stamps, ending, outcome);
        self.count_opened(slot, &stamps, ending, outcome);
    }

    /// A request ends unsent.
    pub(super) fn unsent(&mut self, due: DueRequest, over_ns: u64, reason: UnsentReason) {
        // Requests are recorded in order of intended time, and the queued ones come first.
        self.flush_queued();
        if self.was_sent(due.number) {
            let now_ns = self.now_ns();
            return self.end_sent_back(due.number, now_ns);
        }
        let over_ns = over_ns.max(due.intended_ns);
        let DueRequest { intended_ns, noticed_ns, step, session, .. } = due;
        let stamps = Stamps::unsent(intended_ns, noticed_ns.min(over_ns), step);
        let stamps = Stamps { session, ..stamps };
        let (ending, outcome) = (Ending::at(over_ns), Outcome::Unsent(reason));
        self.recording.ended(&self.phases, due.number, &stamps, ending, outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use uring::Payload;

    use super::*;
    use crate::ShardPlan;
    use crate::plan::{Step, due_at};

    #[test]
    fn a_user_who_waited_for_a_connection_until_the_deadline_sends_nothing_late() {
        const DEADLINE_NS: u64 = 10_000_000;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let target = listener.local_addr().expect("bound");
        let plan = ShardPlan {
            drive: crate::Drive::Closed,
            ..ShardPlan::open_for_test(target.into()).with_deadline(DEADLINE_NS)
        };
        let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        shard.phases.run();
        shard.reopen(0, 0);
        shard.wait_for_fresh();
        shard.connections.take_fresh().expect("it is connected");
        shard.clock.pass(2 * DEADLINE_NS);
        shard.clock.stamp_handled();
        let due = shard.next_for(0).expect("the user comes again");
        assert!(2 * DEADLINE_NS <= due.intended_ns, "{due:?}");
        assert_eq!(shard.recording.recorder().counts.unsent_reasons.of(UnsentReason::Deadline), 1);
        assert_eq!(shard.recording.recorder().times.others.corrected().max_ns(), Some(DEADLINE_NS));
    }

    #[test]
    fn an_impossible_stamp_is_moved_to_a_possible_time_and_counted() {
        for (off_ns, clamped) in [(-5_000_i64, 1), (5_000, 0), (50_000_000, 1)] {
            let (mut shard, _peer) = with_a_queued_request();
            shard.flush();
            shard.clock.handled_no_earlier(shard.now_ns() + 1_000_000);
            let Exchange { number, stamps } = *shard.connections[0].exchanges.oldest();
            let arrived_ns = stamps.sent_ns.saturating_add_signed(off_ns);
            assert!(shard.answered(0, number, 200, Some(arrived_ns)));
            let counts = &shard.recording.recorder().counts;
            assert_eq!((counts.answered, counts.stamps_clamped), (1, clamped), "{off_ns} ns");
        }
    }

    /// A shard with a request queued in slot 0, and the target's end of its connection.
    fn with_a_queued_request() -> (Shard, TcpStream) {
        let (shard, listener) = Shard::open_for_test();
        queue_a_request(shard, &listener)
    }

    fn queue_a_request(mut shard: Shard, listener: &TcpListener) -> (Shard, TcpStream) {
        let now_ns = shard.now_ns();
        assert!(shard.open_connection(0, now_ns));
        shard.wait_for_fresh();
        let (peer, _) = listener.accept().expect("it connects");
        peer.set_nonblocking(true).expect("a socket");
        let slot = shard.connections.take_fresh().expect("it is connected");
        shard.recording.intended(&shard.phases, (now_ns, None));
        shard.begin(slot, due_at(now_ns));
        assert_eq!(shard.connections[slot].exchanges.queued(), 1);
        (shard, peer)
    }

    #[test]
    fn every_request_stamped_as_sent_is_also_submitted() {
        let paths: [fn(&mut Shard, u64); 3] = [
            |shard, now_ns| {
                shard.unsent(due_at(now_ns), now_ns, UnsentReason::Dropped);
            },
            |shard, now_ns| {
                assert!(shard.open_connection(0, now_ns));
                shard.give_up(1, Cause::ConnectRefused);
            },
            |shard, _| shard.fail(0, Cause::Reset),
        ];
        for (number, path) in paths.into_iter().enumerate() {
            let (mut shard, peer) = with_a_queued_request();
            let now_ns = shard.now_ns();
            path(&mut shard, now_ns);
            assert_eq!(shard.connections.queued(), 0, "path {number}");
            let length = shard.plan.steps[0].request.len();
            assert_eq!(peer.peek(&mut [0; 64]).expect("the request"), length, "path {number}");
        }
    }

    #[test]
    fn queued_requests_are_withdrawn_when_the_lease_ends() {
        let (mut shard, peer) = with_a_queued_request();
        // The process was suspended after it had checked the lease.
        let lease_ns = shard.clock.monotonic_ns(shard.now_ns());
        shard.signals.lease_ns.store(lease_ns, std::sync::atomic::Ordering::Relaxed);
        shard.flush();
        shard.fail(0, Cause::Reset);
        assert!(peer.peek(&mut [0; 64]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
        let counts = &shard.recording.recorder().counts;
        assert_eq!((counts.intended, counts.sent, counts.failed), (1, 0, 0));
        assert_eq!(counts.unsent_reasons.of(UnsentReason::End), 1);
        assert_eq!((shard.connections.requests(), shard.connections.queued()), (0, 0));
    }

    #[test]
    fn the_rest_of_an_upload_stays_here_when_the_lease_ends() {
        // More than the kernel buffers for a connection.
        const BODY: usize = 32 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let head = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY}\r\n\r\n");
        let request = Payload::copied(head.as_bytes(), &vec![b'x'; BODY], 1).expect("pages");
        let plan = ShardPlan {
            steps: vec![Step::for_test(request)],
            ..ShardPlan::open_for_test(listener.local_addr().expect("bound").into())
        };
        let shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        let (mut shard, mut peer) = queue_a_request(shard, &listener);
        let lease = |shard: &Shard, lease_ns: u64| {
            shard.signals.lease_ns.store(lease_ns, std::sync::atomic::Ordering::Relaxed);
        };
        // The number of bytes that reach the peer while the shard goes on with its completions.
        let arrives = |shard: &mut Shard, peer: &mut TcpStream, rounds: usize| -> usize {
            let mut bytes = vec![0; 1 << 20];
            let mut arrived = 0;
            for _ in 0..rounds {
                shard.ring.wait(10_000_000);
                shard.reap();
                while let Ok(read @ 1..) = peer.read(&mut bytes) {
                    arrived += read;
                }
            }
            arrived
        };
        lease(&shard, u64::MAX);
        shard.flush();
        let before = arrives(&mut shard, &mut peer, 8);
        assert!(256 << 10 < before && before < BODY / 2, "{before} bytes");
        lease(&shard, shard.clock.monotonic_ns(shard.now_ns()));
        // Some are in the kernel's buffer, and one send.
        let after = arrives(&mut shard, &mut peer, 80);
        assert!(after <= 1 << 20, "{after} bytes");
        let report = shard.finish();
        let counts = &report.recorder.counts;
        assert_eq!((counts.sent, counts.abandoned, counts.answered), (1, 1, 0));
    }
}
