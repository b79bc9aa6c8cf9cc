//! A shard's connections: the state of each, and the lists of idle, queued and closed ones.
//!
//! A connection does no I/O, reads no clock and records nothing: it reports what happened to its
//! request, and the shard acts. All lists have fixed memory and constant-time operations.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::os::fd::RawFd;

use http1::response::{Progress, Response, ResponseParser};

use super::slots::SlotStack;
use crate::load::DueRequest;
use crate::record::outcome::Cause;
use crate::record::stamps::Stamps;
use crate::ring::token::{GENERATION_BITS, Op, Token};

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No socket.
    Closed,
    /// Its socket is connecting.
    Connecting,
    /// Connected, without a request.
    Idle,
    /// Its request goes out with the next system call.
    Queued,
    /// Its request awaits its response.
    InFlight,
}

/// What received bytes mean for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The response isn't complete yet.
    More,
    /// The response is complete.
    Response {
        /// The response's status code.
        status: u16,
        /// Whether another request may follow on this connection.
        reusable: bool,
        /// Whether unsolicited bytes followed it.
        trailing: bool,
    },
    /// The request failed, or the connection if it had none.
    Failed(Cause),
    /// The peer closed an idle connection, as it may.
    Closed,
}

/// One connection and its request.
pub struct Connection {
    /// The socket; -1 when closed.
    pub fd: RawFd,
    /// Counts this slot's sockets, to recognise completions of an earlier one.
    pub generation: u32,
    /// Its state.
    pub state: State,
    /// The stamps of its request.
    pub stamps: Stamps,
    /// Whether its request's send has yet to report back.
    pub sending: bool,
    /// Whether the kernel stamps what its socket receives.
    pub stamped: bool,
    /// When its socket began to connect, ns since the epoch.
    pub since_ns: u64,
    /// Requests that its socket has carried.
    pub served: u64,
    /// Whether its socket is new: nothing may arrive on it before its first request.
    pub fresh: bool,
    /// Whether the slot had a socket in the window.
    pub seen: bool,
    /// For how much of the window its user was blocked, on any socket, ns.
    pub blocked_ns: u64,
    parser: ResponseParser,
}

impl Connection {
    /// A closed connection.
    pub fn new(head_request: bool) -> Connection {
        Connection {
            fd: -1,
            generation: 0,
            state: State::Closed,
            stamps: Stamps::default(),
            sending: false,
            stamped: false,
            since_ns: 0,
            served: 0,
            fresh: false,
            seen: false,
            blocked_ns: 0,
            parser: ResponseParser::new(head_request),
        }
    }

    /// A new socket has been connecting since `since_ns`.
    pub fn open(&mut self, fd: RawFd, since_ns: u64) {
        assert_eq!(self.state, State::Closed, "a slot has one socket at a time");
        self.fd = fd;
        self.generation = (self.generation + 1) % (1 << GENERATION_BITS);
        self.state = State::Connecting;
        self.since_ns = since_ns;
        self.served = 0;
        self.parser.reset();
    }

    /// The socket is connected.
    pub fn connected(&mut self) {
        assert_eq!(self.state, State::Connecting, "only a connecting socket can become connected");
        self.state = State::Idle;
        self.fresh = true;
    }

    /// A request takes the connection; `sending`: its send will report back.
    pub fn begin(&mut self, due: DueRequest, sending: bool) {
        assert_eq!(self.state, State::Idle, "one request at a time");
        self.state = State::Queued;
        let DueRequest { intended_ns, noticed_ns, waited } = due;
        self.stamps = Stamps { intended_ns, noticed_ns, sent_ns: 0, waited };
        self.sending = sending;
        self.served += 1;
    }

    /// The request goes out with the next system call.
    pub fn sent(&mut self, sent_ns: u64) {
        assert_eq!(self.state, State::Queued, "only a queued request can be sent");
        self.state = State::InFlight;
        self.stamps.sent_ns = sent_ns;
    }

    /// The socket is gone; returns its descriptor.
    pub fn close(&mut self) -> RawFd {
        assert_ne!(self.state, State::Closed, "a socket is closed once");
        self.state = State::Closed;
        self.fresh = false;
        self.sending = false;
        std::mem::replace(&mut self.fd, -1)
    }

    /// Whether it has a request.
    pub fn is_busy(&self) -> bool {
        matches!(self.state, State::Queued | State::InFlight)
    }

    /// Bytes arrived.
    #[inline]
    pub fn received(&mut self, bytes: &[u8]) -> Received {
        match self.state {
            State::InFlight => {}
            // It arrived before the request was sent, so it can't be the answer.
            State::Queued => return Received::Failed(Cause::EarlyResponse),
            _ if self.fresh => return Received::Failed(Cause::EarlyResponse),
            _ => return Received::Failed(Cause::Unsolicited),
        }
        match self.parser.feed(bytes) {
            Ok(Progress::NeedMore) => Received::More,
            Ok(Progress::Done(response)) => {
                self.answered(response, response.consumed < bytes.len(), response.keep_alive)
            }
            Err(violation) => Received::Failed(Cause::of_violation(&violation)),
        }
    }

    /// The peer closed its side.
    pub fn received_end(&mut self) -> Received {
        if !self.is_busy() {
            return Received::Closed;
        }
        match self.parser.finish() {
            Ok(response) => self.answered(response, false, false),
            Err(violation) => Received::Failed(Cause::of_violation(&violation)),
        }
    }

    fn answered(&mut self, response: Response, trailing: bool, keep_alive: bool) -> Received {
        self.state = State::Idle;
        // Unsolicited bytes after a response don't invalidate it, but the connection is done.
        let reusable = !trailing && keep_alive;
        Received::Response { status: response.status, reusable, trailing }
    }
}

/// A shard's connections.
pub struct Connections {
    connections: Vec<Connection>,
    closed: SlotStack,
    idle: SlotStack,
    queued: VecDeque<u32>,
    fresh: Vec<u32>,
    rearm: Vec<Token>,
    retry: VecDeque<(u32, u64)>,
    connecting: usize,
    busy: usize,
}

impl Connections {
    /// `count` closed connections; at most `flush` are queued at once.
    pub fn new(count: usize, flush: usize, head_request: bool) -> Connections {
        let mut closed = SlotStack::new(count);
        for slot in (0..u32::try_from(count).expect("connections are numbered in 32 bits")).rev() {
            closed.push(slot);
        }
        Connections {
            connections: (0..count).map(|_| Connection::new(head_request)).collect(),
            closed,
            idle: SlotStack::new(count),
            queued: VecDeque::with_capacity(flush),
            fresh: Vec::with_capacity(count),
            rearm: Vec::with_capacity(count),
            retry: VecDeque::with_capacity(count),
            connecting: 0,
            busy: 0,
        }
    }

    /// How many connections there are, closed ones included.
    pub fn len(&self) -> u32 {
        u32::try_from(self.connections.len()).expect("connections are numbered in 32 bits")
    }

    /// Connections that are open or connecting.
    pub fn open_count(&self) -> usize {
        self.connections.len() - self.closed.len()
    }

    /// Connections that are connecting.
    pub fn connecting(&self) -> usize {
        self.connecting
    }

    /// Connections that haven't been given out yet: connecting, or fresh.
    pub fn coming(&self) -> usize {
        self.connecting + self.fresh.len()
    }

    /// Connections with a request.
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// Requests in flight: handed to the kernel and not answered yet.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.busy - self.queued.len()
    }

    /// The token of an operation on the slot's current socket.
    #[inline]
    pub fn token(&self, kind: Op, slot: u32) -> u64 {
        Token { kind, generation: self[slot].generation, slot }.encode()
    }

    /// Whether the token's operation belongs to the slot's current socket.
    #[inline]
    pub fn is_current(&self, token: Token) -> bool {
        let connection = &self[token.slot];
        connection.generation == token.generation && connection.state != State::Closed
    }

    // Sockets.

    /// Whether every slot has a socket.
    pub fn is_full(&self) -> bool {
        self.closed.is_empty()
    }

    /// Takes any slot without a socket; the caller opens it or gives it back.
    pub fn take_any_closed(&mut self) -> Option<u32> {
        self.closed.pop()
    }

    /// Takes this slot, which must have no socket.
    pub fn take_closed(&mut self, slot: u32) {
        assert!(self.closed.remove(slot), "the slot has no socket");
    }

    /// Gives back a slot that couldn't be opened.
    pub fn give_closed(&mut self, slot: u32) {
        self.closed.push(slot);
    }

    /// A taken slot's socket has been connecting since `since_ns`.
    pub fn open(&mut self, slot: u32, fd: RawFd, since_ns: u64) {
        self[slot].open(fd, since_ns);
        self.connecting += 1;
    }

    /// The slot's socket is connected; it is fresh until [`Connections::take_fresh`].
    pub fn connected(&mut self, slot: u32) {
        self[slot].connected();
        self.connecting -= 1;
        self.fresh.push(slot);
    }

    /// How many new connections haven't been taken yet.
    pub fn fresh(&self) -> usize {
        self.fresh.len()
    }

    /// Takes a new connection, which isn't in any list yet.
    pub fn take_fresh(&mut self) -> Option<u32> {
        let slot = self.fresh.pop()?;
        self[slot].fresh = false;
        Some(slot)
    }

    /// The slot's socket is gone; returns its descriptor.
    pub fn close(&mut self, slot: u32) -> RawFd {
        match self[slot].state {
            State::Connecting => self.connecting -= 1,
            State::Queued | State::InFlight => self.busy -= 1,
            State::Idle | State::Closed => {}
        }
        self.idle.remove(slot);
        if self[slot].fresh {
            self.fresh.retain(|fresh| *fresh != slot);
        }
        self.closed.push(slot);
        self[slot].close()
    }

    /// The slot is to be reopened at `at_ns`, no earlier than any other.
    pub fn retry_at(&mut self, slot: u32, at_ns: u64) {
        self.retry.push_back((slot, at_ns));
    }

    /// Makes all pending retries due now, since the clock has a new epoch.
    pub fn retry_now(&mut self) {
        self.retry.iter_mut().for_each(|(_, at_ns)| *at_ns = 0);
    }

    /// Takes a slot whose retry is due.
    pub fn take_retry(&mut self, now_ns: u64) -> Option<u32> {
        if now_ns < self.next_retry_ns() {
            return None;
        }
        self.retry.pop_front().map(|(slot, _)| slot)
    }

    /// When the next retry is due; `u64::MAX` for never.
    pub fn next_retry_ns(&self) -> u64 {
        self.retry.front().map_or(u64::MAX, |(_, at_ns)| *at_ns)
    }

    /// The slot's receive ended and needs re-arming.
    pub fn ask_rearm(&mut self, slot: u32) {
        let generation = self[slot].generation;
        self.rearm.push(Token { kind: Op::Receive, generation, slot });
    }

    /// Takes a slot whose receive needs re-arming.
    pub fn take_rearm(&mut self) -> Option<u32> {
        while let Some(token) = self.rearm.pop() {
            if self.is_current(token) {
                return Some(token.slot);
            }
        }
        None
    }

    // Requests.

    /// Takes the connection that became idle last, so that few connections carry the load and their
    /// memory stays warm.
    #[inline]
    pub fn take_idle(&mut self) -> Option<u32> {
        self.idle.pop()
    }

    /// The connection becomes idle.
    #[inline]
    pub fn enter_idle(&mut self, slot: u32) {
        self.idle.push(slot);
    }

    /// The connection is no longer idle, if it was.
    #[inline]
    pub fn leave_idle(&mut self, slot: u32) {
        self.idle.remove(slot);
    }

    /// A request takes the connection and is queued; returns how many are. With `tell`, its send
    /// reports back.
    #[inline]
    pub fn begin(&mut self, slot: u32, due: DueRequest, tell: bool) -> usize {
        self[slot].begin(due, tell);
        self.busy += 1;
        self.queued.push_back(slot);
        self.queued.len()
    }

    /// How many requests are queued.
    pub fn queued(&self) -> usize {
        self.queued.len()
    }

    /// Takes the slot whose request was queued first.
    #[inline]
    pub fn take_queued(&mut self) -> Option<u32> {
        self.queued.pop_front()
    }

    /// The slot's request was answered.
    #[inline]
    pub fn answered(&mut self, slot: u32) {
        assert_eq!(self[slot].state, State::Idle, "an answered request leaves its connection idle");
        self.busy -= 1;
    }
}

impl Index<u32> for Connections {
    type Output = Connection;

    #[inline]
    fn index(&self, slot: u32) -> &Connection {
        &self.connections[slot as usize]
    }
}

impl IndexMut<u32> for Connections {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Connection {
        &mut self.connections[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn bytes_answer_only_a_request_that_was_sent_before_them() {
        let mut connection = Connection::new(false);
        connection.open(7, 0);
        connection.connected();
        let early = Received::Failed(Cause::EarlyResponse);
        assert_eq!(connection.received(OK), early, "nothing was asked on it yet");
        connection.fresh = false;
        assert_eq!(connection.received(OK), Received::Failed(Cause::Unsolicited));
        let due = DueRequest { intended_ns: 1, noticed_ns: 1, waited: false };
        connection.begin(due, false);
        assert_eq!(connection.received(OK), early, "its request isn't sent yet");
        connection.sent(2);
        let answer = Received::Response { status: 200, reusable: true, trailing: false };
        assert_eq!(connection.received(OK), answer);
        connection.begin(due, false);
        connection.sent(4);
        let two = Received::Response { status: 200, reusable: false, trailing: true };
        assert_eq!(connection.received(&[OK, OK].concat()), two);
    }
}
