//! One request through a shard, in the order of its life.
//!
//! [`Shard::turn`] is one pass of the loop: reap completions, admit arrivals, expire deadlines,
//! enter the kernel once. Below it, a request falls due, takes a connection or waits for one, is
//! answered or fails, and ends in exactly one outcome. That outcome is decided here, and in `life`
//! for what the end of the run leaves over. `wire` hands requests to the kernel; the recorder turns
//! outcomes into numbers.

use load::{DueRequest, Load};
use plan::{HYBRID_SPIN_NS, StampSource, Wait};
use record::outcome::{Cause, Outcome, TimeoutKind, UnsentReason};
use record::stamps::{Ending, StampedBy, Stamps};
use uring::token::{Op, Token};
use uring::{Completion, TOKEN_NONE};

use super::connection::{Received, State};
use super::secure::Arrival;
use super::shard::Shard;

/// The most arrivals that one turn admits: meanwhile, completions wait.
const ADMITTED_MAX: usize = 4_096;
/// An arrival noticed later than this counts as late, ns: well above the length of a turn.
const NOTICED_LATE_NS: u64 = 1_000_000;
/// How far a stamp of the kernel's may be off, ns: both clocks are read one after the other.
const CLOCKS_DIFFER_NS: u64 = 10_000;

/// The turn.
impl Shard {
    /// One pass of the loop; returns whether there is another.
    pub(super) fn turn(&mut self, look_ns: u64) -> bool {
        self.meter.turn();
        self.reap();
        let now_ns = self.now_ns();
        self.heed_lease(now_ns);
        if now_ns < self.send_end_ns {
            self.begin_fresh();
            self.admit(now_ns);
        }
        if self.next_expired(now_ns).is_some() {
            self.catch_up();
        }
        self.expire(now_ns);
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
        if 0 < self.connections.fresh() {
            // They get their requests in the next turn.
            self.flush();
            return self.meter.worked(self.now_ns());
        }
        self.stamp_queued();
        self.refill();
        let now_ns = self.now_ns();
        let due_ns = match &self.load {
            _ if self.send_end_ns <= now_ns => None,
            // With the queue full, the next arrival is taken when a request ends.
            Load::Open(load) if load.is_full() => None,
            Load::Open(load) => load.next_due_ns().filter(|due_ns| *due_ns < self.end_ns),
            Load::Paced(load) => Some(load.next_due_ns()).filter(|due_ns| *due_ns < self.end_ns),
            Load::Closed(_) => None,
        }
        .unwrap_or(u64::MAX);
        let end_ns = if now_ns < self.end_ns { self.end_ns } else { self.drain_end_ns };
        let wake_ns = self
            .deadlines
            .next_ns()
            .min(self.next_expiry_ns())
            .min(self.connections.next_retry_ns())
            .min(look_ns)
            .min(end_ns);
        let sleep_until_ns = match self.plan.wait {
            Wait::Sleep => wake_ns.min(due_ns),
            Wait::Hybrid => wake_ns.min(due_ns.saturating_sub(HYBRID_SPIN_NS)),
            Wait::Spin => 0,
        };
        if now_ns < sleep_until_ns {
            self.ring.wait(sleep_until_ns - now_ns);
            let woken_ns = self.now_ns();
            self.waited(now_ns, woken_ns);
            self.meter.slept(now_ns, sleep_until_ns, woken_ns);
            return;
        }
        let wake_ns = wake_ns.min(due_ns);
        // One call both submits and posts completions.
        self.ring.poll_if_queued();
        self.poll(now_ns, wake_ns);
        // An arrival that ends the spin is on its way at once: there is nothing to post.
        self.ring.poll_if_flagged();
    }
}

/// Due: a request takes an idle connection, or waits for one.
impl Shard {
    /// Sends the requests that are due, or queues them for a connection.
    pub(super) fn admit(&mut self, mut now_ns: u64) {
        self.expire_waiting(now_ns);
        let deadline_ns = self.plan.deadline_ns;
        for _ in 0..ADMITTED_MAX {
            match &mut self.load {
                Load::Closed(_) => return,
                Load::Open(load) => {
                    let Some(due) = load.take_due(now_ns, self.end_ns) else { return };
                    let intended_ns = due.intended_ns;
                    let nobody_waits = load.waiting_len() == 0;
                    if nobody_waits && deadline_ns <= now_ns - intended_ns {
                        self.noticed_expired(due);
                    } else if nobody_waits && let Some(slot) = self.connections.take_room() {
                        self.intended(intended_ns);
                        self.begin(slot, due);
                        self.connections.offer(slot);
                    } else {
                        load.wait(due);
                        self.intended(intended_ns);
                        self.open_for_waiting(now_ns);
                        self.count_waited(intended_ns, self.is_capped());
                    }
                }
                Load::Paced(load) => {
                    let Some((user, arrival)) = load.take_due(now_ns, self.end_ns) else {
                        return;
                    };
                    let slot = u32::try_from(user).expect("connections are numbered in 32 bits");
                    let due = DueRequest::noticed(arrival, now_ns);
                    let intended_ns = due.intended_ns;
                    // A user's requests are sent in order: this one queues behind those waiting.
                    if deadline_ns <= now_ns - intended_ns && !load.is_waiting(user) {
                        self.noticed_expired(due);
                    } else if self.connections.has_room(slot) {
                        self.connections.leave_idle(slot);
                        self.intended(intended_ns);
                        self.begin(slot, due);
                    } else if !self.plan.skips_overdue {
                        load.wait(user, arrival, now_ns);
                        self.intended(intended_ns);
                        self.count_waited(intended_ns, false);
                    }
                }
            }
            now_ns = self.now_ns();
        }
    }

    /// A request whose deadline had passed by the time it was noticed is never sent.
    fn noticed_expired(&mut self, due: DueRequest) {
        self.intended(due.intended_ns);
        self.unsent(due, due.intended_ns + self.plan.deadline_ns, UnsentReason::Deadline);
    }

    /// A request fell due.
    pub(super) fn intended(&mut self, intended_ns: u64) {
        self.progress.intended += 1;
        if self.window_ns <= intended_ns {
            self.recorder.intended(intended_ns);
        }
    }

    pub(super) fn count_waited(&mut self, intended_ns: u64, at_the_cap: bool) {
        if self.window_ns <= intended_ns {
            self.recorder.counts.waited += 1;
            self.recorder.counts.capped += u64::from(at_the_cap);
        }
    }

    /// Whether an arrival waits because of the cap: no connection is being opened for it or can be.
    fn is_capped(&self) -> bool {
        let waiting = match &self.load {
            Load::Open(load) => load.waiting_len(),
            Load::Closed(_) | Load::Paced(_) => return false,
        };
        self.connections.is_full() && self.connections.coming_room() < waiting
    }

    /// Gives up the arrivals that have waited too long for a connection.
    fn expire_waiting(&mut self, now_ns: u64) {
        while let Load::Open(load) = &mut self.load
            && let Some(intended_ns) = load.first_waiting_ns()
        {
            let (over_ns, reason) = self.expiry(intended_ns);
            if now_ns < over_ns {
                return;
            }
            let Load::Open(load) = &mut self.load else { return };
            let Some(due) = load.pop_waiting() else { return };
            self.unsent(due, over_ns, reason);
        }
    }
}

/// A connection for it: one that is free, while its time isn't over.
impl Shard {
    /// A connection has room: it takes the next requests, and is there for more if any is left.
    pub(super) fn ready(&mut self, slot: u32) {
        while self.connections.has_room(slot)
            && let Some(due) = self.next_for(slot)
        {
            self.connections.leave_idle(slot);
            self.begin(slot, due);
        }
        self.connections.offer(slot);
    }

    /// The next request for a connection with room, if one is due.
    fn next_for(&mut self, slot: u32) -> Option<DueRequest> {
        let now_ns = self.handled_ns;
        if self.send_end_ns <= now_ns {
            // At the drain's end it would be abandoned as soon as it was sent, with next to no
            // latency.
            return None;
        }
        loop {
            let due = match &mut self.load {
                Load::Open(load) => load.pop_waiting()?,
                Load::Paced(load) => load.pop_waiting(slot as usize)?,
                Load::Closed(_) => {
                    // A user who had to wait for a connection arrived when it asked for it.
                    let connection = &self.connections[slot];
                    let waited = connection.served < self.plan.pipeline as u64;
                    let came_ns = if waited { connection.since_ns } else { now_ns };
                    if !self.running || self.end_ns <= came_ns || !self.has_left() {
                        return None;
                    }
                    let due = DueRequest { waited, ..self.user_comes(slot, came_ns) };
                    if waited && self.plan.deadline_ns <= now_ns.saturating_sub(came_ns) {
                        self.noticed_expired(due);
                        // The user gives up, and comes again.
                        self.connections[slot].since_ns = now_ns;
                        continue;
                    }
                    return Some(due);
                }
            };
            let (over_ns, reason) = self.expiry(due.intended_ns);
            if now_ns < over_ns {
                return Some(self.with_lateness(due, now_ns));
            }
            self.unsent(due, over_ns, reason);
        }
    }

    /// The slot's unpaced user comes at this time: its request.
    #[inline]
    pub(super) fn user_comes(&mut self, slot: u32, came_ns: u64) -> DueRequest {
        let Load::Closed(load) = &mut self.load else { panic!("others come by their schedule") };
        load.take(slot as usize, came_ns)
    }

    /// Arrivals noticed late come in a burst, and connections must be opened for all of them at
    /// once. That isn't the target's backlog: below the cap, their wait counts as pacer lateness
    /// too. It may be the target's with TLS, whose handshake takes more than its kernel.
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
    /// Counts a request as sent, `together` with others of its connection.
    pub(super) fn count_sent(&mut self, stamps: &Stamps, together: bool) {
        if self.running {
            self.meter.sent(stamps.intended_ns, stamps.sent_ns);
        }
        if self.window_ns <= stamps.intended_ns {
            self.recorder.sent(stamps, stamps.sent_ns <= self.end_ns);
            self.recorder.counts.shared_sends += u64::from(together);
        } else {
            self.count_unrecorded(stamps.sent_ns);
        }
    }

    /// Handles all posted completions.
    pub(super) fn reap(&mut self) {
        loop {
            let posted = self.ring.posted();
            if posted == 0 {
                return;
            }
            self.at_hand = posted;
            self.stamp_handled();
            self.heed_lease(self.handled_ns);
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
        self.meter.sent_bytes += u64::try_from(result).unwrap_or(0);
        let Some(result) = self.sent_encrypted(slot, result) else { return };
        let connection = &mut self.connections[slot];
        match (usize::try_from(result), -result) {
            // The peer is gone. It may have answered before, so what was received decides.
            (Err(_), errno @ (libc::EPIPE | libc::ECONNRESET))
                if connection.state == State::InFlight =>
            {
                connection.broken = connection.broken.or(Some(errno));
            }
            (Err(_), errno) => self.fail(slot, Cause::of_send(errno)),
            (Ok(0), _) => self.fail(slot, Cause::WriteFailed),
            (Ok(sent), _) => {
                connection.leaving.left(&self.plan.steps, sent);
                connection.sending = !connection.leaving.is_empty();
                if connection.sending {
                    // If a send fell short, the next one says why.
                    self.send_leaving(slot);
                } else if 0 < connection.requests() {
                    self.ready(slot);
                }
            }
        }
    }

    /// A receive has completed.
    fn received(&mut self, slot: u32, completion: Completion, current: bool) {
        if current {
            let generation = self.connections[slot].generation;
            match (completion.buffer, usize::try_from(completion.result)) {
                (Some(buffer), Ok(length)) if 0 < length => {
                    self.received_bytes(slot, buffer, length);
                }
                (_, Ok(_)) => self.received_close(slot),
                (_, Err(_)) if completion.result == -libc::ENOBUFS => {}
                (_, Err(_)) => self.fail(slot, Cause::of_receive(-completion.result)),
            }
            // After the connection's last response, the slot may already have a new socket.
            let connection = &self.connections[slot];
            let goes_on = connection.generation == generation && connection.state != State::Closed;
            if !completion.more && goes_on {
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
        if self.connections[slot].stamped {
            let chunk = self.ring.received_stamped(buffer, length);
            arrival.from = length - chunk.bytes.len();
            arrival.kernel_ns = chunk.wall_ns.and_then(|wall_ns| self.since_epoch_ns(wall_ns));
            arrival.doubted = self.is_doubted(slot, arrival.kernel_ns);
        }
        self.meter.received_bytes += (arrival.to - arrival.from) as u64;
        if arrival.from == arrival.to {
            self.received_close(slot);
        } else if self.sessions.is_some() {
            self.received_encrypted(slot, arrival);
        } else {
            self.parse(slot, arrival);
        }
    }

    /// The target said something: a part of a response, or the rest of one and what follows it.
    #[inline(always)]
    pub(super) fn parse(&mut self, slot: u32, arrival: Arrival) {
        let answered = self.recorder.counts.answered;
        let mut at = 0;
        loop {
            let sent_ns = self.connections[slot].oldest.sent_ns;
            let early = arrival.kernel_ns.is_some_and(|ns| ns + CLOCKS_DIFFER_NS < sent_ns);
            let bytes = &arrival.plain(&self.ring, &self.sessions)[at..];
            let received = if early && self.connections[slot].state == State::InFlight {
                // It can't answer a request that was sent after it.
                Received::Failed(Cause::EarlyResponse)
            } else {
                let connection = &mut self.connections[slot];
                let step = usize::from(connection.oldest.step);
                let head_request = self.plan.steps[step].head_request;
                connection.received(&mut self.known_heads[step], head_request, bytes)
            };
            let left = match received {
                Received::Response { consumed, .. } => bytes.len() - consumed,
                Received::More | Received::Failed(_) | Received::Closed => 0,
            };
            match received {
                Received::Response { status, consumed, keep_alive } => {
                    at += consumed;
                    let arrived_ns = arrival.kernel_ns.filter(|_| !arrival.doubted);
                    let whole = self.answered(slot, status, arrived_ns);
                    let trailing = 0 < left && self.connections[slot].state != State::InFlight;
                    self.recorder.counts.trailing += u64::from(trailing);
                    if trailing {
                        self.doubt(slot);
                    }
                    if trailing || !keep_alive || !whole {
                        self.lose(slot);
                    } else if 0 < left {
                        continue;
                    } else {
                        self.free(slot);
                    }
                }
                Received::More if 0 < at => self.free(slot),
                Received::More => {}
                Received::Failed(cause) => {
                    if matches!(cause, Cause::Unsolicited | Cause::EarlyResponse) {
                        self.recorder.counts.unsolicited += 1;
                        self.doubt(slot);
                    }
                    self.fail(slot, cause);
                }
                Received::Closed => unreachable!("bytes close nothing"),
            }
            break;
        }
        let answered = self.recorder.counts.answered - answered;
        if 1 < answered {
            self.recorder.counts.shared_receives += answered;
        }
    }

    /// The connection was closed.
    fn received_close(&mut self, slot: u32) {
        self.count_close(slot);
        // A send has met the reset, so what looks like an end here ends no response.
        let reset = self.connections[slot].broken == Some(libc::ECONNRESET);
        self.received_end(slot, self.sessions.is_none() && !reset);
    }

    /// The peer closed its side; `known`: that it did, and nobody cut the connection.
    pub(super) fn received_end(&mut self, slot: u32, known: bool) {
        match self.connections[slot].received_end(known) {
            Received::Response { status, .. } => {
                // The kernel stamps no close, and the last bytes may have come long before it.
                self.answered(slot, status, None);
                self.lose(slot);
            }
            Received::Failed(cause) => self.fail(slot, cause),
            Received::Closed => self.closed_idle(slot),
            Received::More => unreachable!("nothing follows the end"),
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
    /// The slot's oldest request was answered; the kernel stamped the response's arrival
    /// `arrived_ns`. Returns whether the request had been sent completely.
    fn answered(&mut self, slot: u32, status: u16, arrived_ns: Option<u64>) -> bool {
        let connection = &mut self.connections[slot];
        let whole = connection.is_sent();
        let in_window = self.window_ns <= connection.oldest.intended_ns;
        if in_window {
            connection.answered();
            self.recorder.counts.incomplete_uploads += u64::from(!whole);
        }
        let handled_ns = self.handled_ns;
        let ending = match arrived_ns {
            None => Ending::at(handled_ns),
            Some(arrived_ns) => {
                let received_ns = arrived_ns.clamp(connection.oldest.sent_ns, handled_ns);
                if received_ns != arrived_ns && in_window {
                    self.recorder.counts.stamps_clamped += 1;
                }
                let stamped_by = match self.plan.stamps {
                    StampSource::Kernel => StampedBy::Kernel,
                    StampSource::User => StampedBy::Control,
                };
                Ending { received_ns, handled_ns, stamped_by }
            }
        };
        self.end(slot, ending, Outcome::Answered(status));
        whole
    }

    /// The slot's connection has answered and is reusable, unless it has carried all that it may.
    fn free(&mut self, slot: u32) {
        if self.connections.is_used_up(slot) && self.connections[slot].requests() == 0 {
            self.replace(slot);
        } else {
            self.ready(slot);
        }
    }

    /// The slot's connection failed, and with it its requests, if any; another connection replaces
    /// it.
    pub(super) fn fail(&mut self, slot: u32, cause: Cause) {
        let connection = &self.connections[slot];
        if connection.fresh || connection.state == State::Handshaking {
            return self.give_up(slot, cause);
        }
        if connection.state == State::Queued {
            self.flush_before_failing();
        }
        if self.connections[slot].requests() == 0 {
            self.recorder.counts.connection_errors.add(cause);
            return self.replace(slot);
        }
        self.end(slot, Ending::at(self.handled_ns), Outcome::Failed(cause));
        self.lose(slot);
    }

    /// The slot's connection had a response too few or too many: nobody knows since when.
    pub(super) fn doubt(&mut self, slot: u32) {
        self.recorder.counts.doubtful += self.connections[slot].take_shiftable();
    }

    /// The slot's connection answers nothing more: what was sent behind its last outcome fails, and
    /// another connection replaces it.
    fn lose(&mut self, slot: u32) {
        if 0 < self.connections[slot].queued() {
            self.flush_before_failing();
        }
        while 0 < self.connections[slot].requests() {
            self.end(slot, Ending::at(self.handled_ns), Outcome::Failed(Cause::BehindFailed));
        }
        self.replace(slot);
    }

    /// Sends what is queued on a connection that is lost, and on all others. A request that was
    /// sent fails later than that: one that fails as it is sent counts as without a connection.
    fn flush_before_failing(&mut self) {
        self.flush_queued();
        self.stamp_handled();
    }

    /// Times out requests and connects whose deadline has passed.
    pub(super) fn expire(&mut self, now_ns: u64) {
        while let Some((slot, over_ns)) = self.next_expired(now_ns) {
            let connection = &self.connections[slot];
            if connection.is_coming() {
                self.connect_timed_out(slot);
                continue;
            }
            let sent_ns = connection.oldest.sent_ns;
            let kind = if over_ns < sent_ns + self.plan.timeout_ns {
                TimeoutKind::Deadline
            } else {
                TimeoutKind::Timeout
            };
            let received_ns = over_ns.max(sent_ns);
            let ending = Ending { handled_ns: self.now_ns(), ..Ending::at(received_ns) };
            self.doubt(slot);
            self.end(slot, ending, Outcome::TimedOut(kind));
            self.lose(slot);
        }
    }

    /// When a request that was sent has taken too long, ns since the epoch.
    #[inline]
    pub(super) fn over_ns(&self, stamps: &Stamps) -> u64 {
        let timed_out_ns = stamps.sent_ns + self.plan.timeout_ns;
        timed_out_ns.min(stamps.intended_ns.saturating_add(self.plan.deadline_ns))
    }

    /// A slot that has waited too long, and since when, ns since the epoch.
    #[inline]
    fn next_expired(&mut self, now_ns: u64) -> Option<(u32, u64)> {
        while let Some(slot) = self.deadlines.take_due(now_ns) {
            let connection = &self.connections[slot];
            let over_ns = match connection.state {
                State::InFlight => self.over_ns(&connection.oldest),
                _ if connection.is_coming() => connection.since_ns + self.plan.timeout_ns,
                // Its next request sets a check.
                _ => continue,
            };
            self.deadlines.check_by(slot, over_ns);
            if over_ns <= now_ns {
                return Some((slot, over_ns));
            }
        }
        None
    }

    /// The slot's oldest request ended, after it was sent.
    pub(super) fn end(&mut self, slot: u32, ending: Ending, outcome: Outcome) {
        let Ending { received_ns, handled_ns: now_ns, .. } = ending;
        let in_flight = self.connections.in_flight();
        let stamps = self.connections.end(slot);
        self.read_send_stamp(slot, &stamps);
        self.connections[slot].unanswered |= !matches!(outcome, Outcome::Answered(_));
        // For Little's law, a stay ends when the live count drops, however late a timeout was
        // noticed.
        self.recorder.in_flight.pass(now_ns, in_flight);
        self.handled_ns = self.handled_ns.max(now_ns);
        self.recorder.in_flight.stay(stamps.sent_ns, received_ns, now_ns);
        // A request sent before the window has no latency in it, and an answer after the window
        // that took far longer than those in it is none for it: such waits count as blocked.
        // Whoever works off the warm-up's backlog in the window is served.
        let counts = matches!(outcome, Outcome::Answered(_))
            && self.window_ns <= stamps.sent_ns
            && (received_ns <= self.end_ns || received_ns - stamps.sent_ns <= self.slow_ns());
        if counts {
            // Those behind it wait for an answer from now on.
            self.connections[slot].blocked_to_ns = now_ns;
        } else {
            self.blocked(slot, stamps.sent_ns, now_ns);
        }
        self.record(&stamps, ending, outcome);
        self.count_opened(slot, &stamps, ending, outcome);
    }

    /// A request ends unsent.
    pub(super) fn unsent(&mut self, due: DueRequest, over_ns: u64, reason: UnsentReason) {
        // Requests are recorded in order of intended time, and the queued ones come first.
        self.flush_queued();
        let over_ns = over_ns.max(due.intended_ns);
        let step = self.plan.mix.step(due.number);
        let stamps = Stamps::unsent(due.intended_ns, due.noticed_ns.min(over_ns), step);
        self.record(&stamps, Ending::at(over_ns), Outcome::Unsent(reason));
    }

    /// Hands a request's one outcome to the recorder.
    pub(super) fn record(&mut self, stamps: &Stamps, ending: Ending, outcome: Outcome) {
        let due_in_window = self.window_ns <= stamps.intended_ns;
        self.progress.ended(stamps, ending, outcome, due_in_window);
        if due_in_window {
            self.recorder.ended(stamps, ending, ending.ended_ns() <= self.end_ns, outcome);
            if let Some(sampler) = &mut self.sampler {
                sampler.push(stamps, ending, outcome);
            }
        } else {
            self.unrecorded_ended(ending, outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use super::*;
    use crate::ShardPlan;
    use crate::plan::due_at;

    #[test]
    fn a_user_who_waited_for_a_connection_until_the_deadline_sends_nothing_late() {
        const DEADLINE_NS: u64 = 10_000_000;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let target = listener.local_addr().expect("bound");
        let plan = ShardPlan {
            drive: crate::Drive::Closed,
            deadline_ns: DEADLINE_NS,
            ..ShardPlan::open_for_test(target.into())
        };
        let mut shard = Shard::new(plan, Arc::default(), Arc::default()).expect("a ring");
        shard.reopen(0, 0);
        shard.wait_for_fresh();
        shard.connections.take_fresh().expect("it is connected");
        shard.running = true;
        shard.epoch_ns -= 2 * DEADLINE_NS;
        shard.stamp_handled();
        let due = shard.next_for(0).expect("the user comes again");
        assert!(2 * DEADLINE_NS <= due.intended_ns, "{due:?}");
        assert_eq!(shard.recorder.counts.unsent_reasons.of(UnsentReason::Deadline), 1);
        assert_eq!(shard.recorder.times.others.corrected().max_ns(), Some(DEADLINE_NS));
    }

    #[test]
    fn a_stamp_that_cannot_be_right_is_taken_for_one_that_can_and_counted() {
        for (off_ns, clamped) in [(-5_000_i64, 1), (5_000, 0), (50_000_000, 1)] {
            let (mut shard, _peer) = with_a_queued_request();
            shard.flush();
            shard.handled_ns = shard.now_ns() + 1_000_000;
            let sent_ns = shard.connections[0].oldest.sent_ns;
            let arrived_ns = sent_ns.saturating_add_signed(off_ns);
            assert!(shard.answered(0, 200, Some(arrived_ns)));
            let counts = &shard.recorder.counts;
            assert_eq!((counts.answered, counts.stamps_clamped), (1, clamped), "{off_ns} ns");
        }
    }

    /// A shard with a request queued in slot 0, and the target's end of its connection.
    fn with_a_queued_request() -> (Shard, TcpStream) {
        let (mut shard, listener) = Shard::open_for_test();
        let now_ns = shard.now_ns();
        assert!(shard.open_connection(now_ns));
        shard.wait_for_fresh();
        let (peer, _) = listener.accept().expect("it connects");
        peer.set_nonblocking(true).expect("a socket");
        let slot = shard.connections.take_fresh().expect("it is connected");
        shard.intended(now_ns);
        shard.begin(slot, due_at(now_ns));
        assert_eq!(shard.connections[slot].state, State::Queued);
        (shard, peer)
    }

    #[test]
    fn whatever_stamps_a_request_as_sent_also_submits_it() {
        let paths: [fn(&mut Shard, u64); 3] = [
            |shard, now_ns| {
                shard.unsent(due_at(now_ns), now_ns, UnsentReason::Dropped);
            },
            |shard, now_ns| {
                assert!(shard.open_connection(now_ns));
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
    fn what_is_queued_when_the_lease_ends_is_taken_back() {
        let (mut shard, peer) = with_a_queued_request();
        // The process stood still after it had judged the lease.
        let lease_ns = shard.epoch_ns + shard.now_ns();
        shard.signals.lease_ns.store(lease_ns, std::sync::atomic::Ordering::Relaxed);
        shard.flush();
        shard.fail(0, Cause::Reset);
        assert!(peer.peek(&mut [0; 64]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
        let counts = &shard.recorder.counts;
        assert_eq!((counts.intended, counts.sent, counts.failed), (1, 0, 0));
        assert_eq!(counts.unsent_reasons.of(UnsentReason::End), 1);
        assert_eq!((shard.connections.requests(), shard.connections.queued()), (0, 0));
    }
}
