//! A shard's connections: which are closed, idle, have room or have queued requests.
//!
//! All lists have fixed memory and constant-time operations.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::os::fd::RawFd;

use load::DueRequest;
use record::stamps::Stamps;
use uring::token::{Op, Token};

use super::connection::Connection;
use super::deadlines::Deadlines;
use super::exchange::Exchange;
use super::slots::SlotStacks;
use super::socket::{Socket, State};

/// The parameters of a shard's connections.
pub struct ConnectionsConfig {
    /// The number of connections.
    pub conns: usize,
    /// How many of them may be ending while others are open in their place.
    pub spare: usize,
    /// For each endpoint that they may be to, whether its connections are sessions' own.
    pub own: Vec<bool>,
    /// The most requests in flight on each.
    pub depth: usize,
    /// True if they speak HTTP/2.
    pub http2: bool,
    /// True if responses are kept for their checks.
    pub keeps: bool,
    /// The most requests that each carries in all.
    pub requests_per_connection: u64,
    /// How long each carries requests, on average, ns; `None` for no limit.
    pub lifetime_ns: Option<u64>,
    /// The most sends per system call.
    pub flush: usize,
    /// The same, while the shard is behind its schedule.
    pub flush_behind: usize,
}

/// A shard's connections.
pub struct Connections {
    connections: Vec<Connection>,
    depth: usize,
    http2: bool,
    keeps: bool,
    spare: usize,
    /// Connections that take no more requests, since their peer ends them.
    ending: usize,
    requests_per_connection: u64,
    lifetime_ns: Option<u64>,
    flush: usize,
    flush_behind: usize,
    closed: SlotStacks,
    /// For each endpoint, whether its connections are sessions' own.
    own: Vec<bool>,
    /// By endpoint.
    idle: SlotStacks,
    /// Connections with requests that may have room for more, by endpoint, each listed at most
    /// once.
    partly: Vec<VecDeque<u32>>,
    /// Whether each slot is in one of `partly`.
    is_partly: Vec<bool>,
    /// The slot of each queued request, in order.
    queued: VecDeque<u32>,
    /// The slots that have queued requests.
    sends: VecDeque<u32>,
    fresh: Vec<u32>,
    rearm: Vec<Token>,
    retry: VecDeque<(u32, u64)>,
    connecting: usize,
    /// Connections open, connecting or fresh, by endpoint.
    open: Vec<usize>,
    /// Connections connecting or fresh, by endpoint.
    coming: Vec<usize>,
    /// Connections that take no more requests, to make room for one to another endpoint.
    yielding: usize,
    requests: usize,
    /// When to check each slot's deadline.
    pub deadlines: Deadlines,
    marks: Vec<Marks>,
    /// The most connections open at once.
    most: usize,
    /// When that many were first open, ns since the epoch.
    grown_ns: u64,
    /// The number of sockets created.
    made: usize,
}

/// The flags of a slot, many to a cache line.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// True if its connection was added to the pool in the window and its first request hasn't
    /// ended.
    added: bool,
    /// True if one of its requests was sent in the window and has ended.
    seen: bool,
    /// True if its connection takes no more requests, to make room for one to another endpoint.
    yielding: bool,
    /// True if its connection takes no more requests, since its peer ends it.
    ending: bool,
    /// The endpoint of its last connection.
    endpoint: u16,
    /// True if it is to be reopened after a pause.
    pausing: bool,
}

/// The stack of the slots without a socket.
const CLOSED: u16 = 0;

impl Connections {
    /// Connections that are all closed.
    pub fn new(config: ConnectionsConfig) -> Connections {
        let ConnectionsConfig { conns, depth, flush, .. } = config;
        let endpoints = config.own.len();
        let mut closed = SlotStacks::new(1, conns);
        for slot in (0..u32::try_from(conns).expect("connections are numbered in 32 bits")).rev() {
            closed.push(CLOSED, slot);
        }
        let pipeline = if config.http2 { 1 } else { depth };
        let partly = || VecDeque::with_capacity(if depth == 1 { 0 } else { conns });
        Connections {
            connections: (0..conns).map(|_| Connection::new(pipeline)).collect(),
            depth,
            http2: config.http2,
            keeps: config.keeps,
            spare: config.spare,
            ending: 0,
            requests_per_connection: config.requests_per_connection,
            lifetime_ns: config.lifetime_ns,
            flush,
            flush_behind: config.flush_behind,
            closed,
            own: config.own,
            idle: SlotStacks::new(endpoints, conns),
            partly: (0..endpoints).map(|_| partly()).collect(),
            is_partly: vec![false; conns],
            queued: VecDeque::with_capacity(config.flush_behind * depth),
            sends: VecDeque::with_capacity(config.flush_behind),
            fresh: Vec::with_capacity(conns),
            rearm: Vec::with_capacity(conns),
            // A user of several endpoints may reopen a slot before its pause is over.
            retry: VecDeque::with_capacity(2 * conns),
            connecting: 0,
            open: vec![0; endpoints],
            coming: vec![0; endpoints],
            yielding: 0,
            requests: 0,
            deadlines: Deadlines::new(conns),
            marks: vec![Marks::default(); conns],
            most: 0,
            grown_ns: 0,
            made: 0,
        }
    }

    /// The number of connections, including closed ones.
    pub fn len(&self) -> u32 {
        u32::try_from(self.connections.len()).expect("connections are numbered in 32 bits")
    }

    /// The number of open or connecting connections.
    pub fn open_count(&self) -> usize {
        self.connections.len() - self.closed.len(CLOSED)
    }

    /// The number of connecting connections.
    pub fn connecting(&self) -> usize {
        self.connecting
    }

    /// The number of connections not in use yet: connecting, or fresh.
    pub fn coming(&self) -> usize {
        self.connecting + self.fresh.len()
    }

    /// How many requests to this endpoint those connections will have room for.
    pub fn coming_room(&self, endpoint: u16) -> usize {
        let endpoint = usize::from(endpoint);
        self.coming[endpoint] * if self.own[endpoint] { 1 } else { self.depth }
    }

    /// The number of requests on all connections, and of those sent back by one.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// The number of requests in flight: handed to the kernel and not answered yet.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.requests - self.queued.len()
    }

    /// The token of an operation on the slot's current socket.
    #[inline]
    pub fn token(&self, kind: Op, slot: u32) -> u64 {
        Token { kind, generation: self[slot].socket.generation, slot }.encode()
    }

    /// True if the token's operation belongs to the slot's current socket.
    #[inline]
    pub fn is_current(&self, token: Token) -> bool {
        let socket = &self[token.slot].socket;
        socket.is_still(token.generation)
    }

    // Sockets.

    /// True if no further connection may be opened. Of those that their peer ends, as many as there
    /// are spare slots don't count.
    pub fn is_full(&self) -> bool {
        self.closed.len(CLOSED) + self.ending.min(self.spare) <= self.spare
    }

    /// The peer ends the slot's connection, which takes no more requests.
    pub fn end_when_empty(&mut self, slot: u32) {
        self[slot].socket.retire();
        if !std::mem::replace(&mut self.marks[slot as usize].ending, true) {
            self.ending += 1;
        }
    }

    /// Takes any slot without a socket; the caller opens it or gives it back.
    pub fn take_any_closed(&mut self) -> Option<u32> {
        self.closed.pop(CLOSED)
    }

    /// Takes this slot, which must have no socket.
    pub fn take_closed(&mut self, slot: u32) {
        assert!(self.closed.remove(slot), "the slot has no socket");
    }

    /// Gives back a slot that couldn't be opened.
    pub fn give_closed(&mut self, slot: u32) {
        self.closed.push(CLOSED, slot);
    }

    /// The endpoint of the slot's last connection.
    #[inline]
    pub fn endpoint(&self, slot: u32) -> u16 {
        self.marks[slot as usize].endpoint
    }

    /// True if the slot's last connection was a session's own.
    #[inline]
    pub fn is_own(&self, slot: u32) -> bool {
        self.own[usize::from(self.endpoint(slot))]
    }

    /// True if the slot's connection, a session's own, is open and has had a request.
    pub fn is_used(&self, slot: u32) -> bool {
        let Connection { socket, exchanges, .. } = &self[slot];
        socket.state == State::Open && 0 < exchanges.served() && self.is_own(slot)
    }

    /// True if no connection to this endpoint is open or coming.
    pub fn has_none(&self, endpoint: u16) -> bool {
        self.open[usize::from(endpoint)] == 0
    }

    /// The connection to close so that this endpoint gets one: of the other endpoint with the most
    /// idle ones, the one idle longest.
    pub fn to_yield(&self, endpoint: u16) -> Option<u32> {
        self.idle.bottom(self.idle.largest_but(endpoint)?)
    }

    /// The slot's connection, which has requests, takes no more of them, to make room for one to
    /// another endpoint.
    pub fn yield_when_empty(&mut self, slot: u32) {
        self[slot].socket.retire();
        self.marks[slot as usize].yielding = true;
        self.yielding += 1;
    }

    /// True if a connection takes no more requests, to make room for one to another endpoint.
    pub fn are_yielding(&self) -> bool {
        0 < self.yielding
    }

    /// The index of the next socket's source, out of `sources`, in turn.
    pub fn take_source(&mut self, sources: usize) -> usize {
        self.made = self.made.wrapping_add(1);
        self.made % sources
    }

    /// A taken slot's socket has been connecting to this endpoint since `since_ns`.
    pub fn open(&mut self, slot: u32, endpoint: u16, fd: RawFd, since_ns: u64) {
        if self.http2 {
            let (depth, keeps) = (self.depth, self.keeps);
            self[slot].speak_http2(depth, keeps);
        }
        self[slot].open(fd, since_ns);
        let before = std::mem::replace(&mut self.marks[slot as usize].endpoint, endpoint);
        if before != endpoint && std::mem::take(&mut self.is_partly[slot as usize]) {
            self.partly[usize::from(before)].retain(|partly| *partly != slot);
        }
        self.connecting += 1;
        self.open[usize::from(endpoint)] += 1;
        self.coming[usize::from(endpoint)] += 1;
    }

    /// The slot's socket is connected; it is fresh until [`Connections::take_fresh`]. Returns true
    /// if more connections are open than ever before.
    pub fn connected(&mut self, slot: u32, now_ns: u64) -> bool {
        self[slot].socket.connected();
        self.connecting -= 1;
        self.fresh.push(slot);
        let connected = self.open_count() - self.connecting - self.ending;
        let is_more = self.most < connected;
        if is_more {
            (self.most, self.grown_ns) = (connected, now_ns);
        }
        is_more
    }

    /// The most connections open at once.
    pub fn most(&self) -> usize {
        self.most
    }

    /// When that many were first open, ns since the epoch.
    pub fn grown_ns(&self) -> u64 {
        self.grown_ns
    }

    /// Restarts that maximum at this time, ns since the epoch.
    pub fn grow_from(&mut self, now_ns: u64) {
        self.grown_ns = now_ns;
    }

    /// Sets whether the slot's connection was added to the pool in the window.
    pub fn mark_added(&mut self, slot: u32, is_added: bool) {
        self.marks[slot as usize].added = is_added;
    }

    /// Returns and clears whether the slot's connection was added in the window: called when a
    /// request has ended.
    #[inline]
    pub fn take_added(&mut self, slot: u32) -> bool {
        std::mem::take(&mut self.marks[slot as usize].added)
    }

    /// A request of the slot, sent in the window or before, has ended.
    #[inline]
    pub fn mark_seen(&mut self, slot: u32, in_window: bool) {
        self.marks[slot as usize].seen |= in_window;
    }

    /// True if a request of the slot was sent in the window.
    pub fn is_seen(&self, slot: u32) -> bool {
        self.marks[slot as usize].seen
    }

    /// The number of new connections not taken yet.
    pub fn fresh(&self) -> usize {
        self.fresh.len()
    }

    /// Takes a new connection, which isn't in any list yet.
    pub fn take_fresh(&mut self) -> Option<u32> {
        let slot = self.fresh.pop()?;
        self[slot].socket.state = State::Open;
        self.has_come(slot);
        Some(slot)
    }

    /// The slot's connection is no longer coming.
    fn has_come(&mut self, slot: u32) {
        let endpoint = self.endpoint(slot);
        self.coming[usize::from(endpoint)] -= 1;
    }

    /// The slot's socket is gone; returns its descriptor.
    pub fn close(&mut self, slot: u32) -> RawFd {
        match self[slot].socket.state {
            State::Connecting | State::Handshaking | State::Greeting => {
                self.connecting -= 1;
                self.has_come(slot);
            }
            State::Fresh => {
                self.fresh.retain(|fresh| *fresh != slot);
                self.has_come(slot);
            }
            State::Open | State::Retired | State::Closed => {}
        }
        let marks = &mut self.marks[slot as usize];
        self.yielding -= usize::from(std::mem::take(&mut marks.yielding));
        self.ending -= usize::from(std::mem::take(&mut marks.ending));
        self.idle.remove(slot);
        let endpoint = self.endpoint(slot);
        self.open[usize::from(endpoint)] -= 1;
        self.closed.push(CLOSED, slot);
        self[slot].close()
    }

    /// The slot is to be reopened at `at_ns`, no earlier than any other.
    pub fn retry_at(&mut self, slot: u32, at_ns: u64) {
        self.retry.push_back((slot, at_ns));
        self.marks[slot as usize].pausing = true;
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
        let (slot, _) = self.retry.pop_front()?;
        self.marks[slot as usize].pausing = false;
        Some(slot)
    }

    /// True if the slot is to be reopened after a pause.
    pub fn is_pausing(&self, slot: u32) -> bool {
        self.marks[slot as usize].pausing
    }

    /// When the next retry is due; `u64::MAX` for never.
    pub fn next_retry_ns(&self) -> u64 {
        self.retry.front().map_or(u64::MAX, |(_, at_ns)| *at_ns)
    }

    /// The slot's receive ended and needs re-arming.
    pub fn ask_rearm(&mut self, slot: u32) {
        let generation = self[slot].socket.generation;
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

    /// True if a slot's receive needs re-arming.
    pub fn await_rearm(&self) -> bool {
        !self.rearm.is_empty()
    }

    // Requests.

    /// True if the connection can take another request now.
    #[inline]
    pub fn has_room(&self, slot: u32) -> bool {
        let Connection { protocol, socket, exchanges, .. } = &self[slot];
        // Two sends at once on one socket could mix their bytes.
        socket.state == State::Open && !socket.sending && protocol.has_room(exchanges, self.depth)
    }

    /// A connection to this endpoint that has room, listed by [`Connections::offer`]. Among idle
    /// ones it is the one that became idle last, so that few connections carry the load and their
    /// memory stays warm. If none is idle, the others take turns.
    #[inline]
    pub fn take_room(&mut self, endpoint: u16) -> Option<u32> {
        self.idle.pop(endpoint).or_else(|| self.take_partly(endpoint))
    }

    fn take_partly(&mut self, endpoint: u16) -> Option<u32> {
        while let Some(slot) = self.partly[usize::from(endpoint)].pop_front() {
            self.is_partly[slot as usize] = false;
            if 0 < self[slot].exchanges.open() && self.has_room(slot) {
                return Some(slot);
            }
        }
        None
    }

    /// Lists the connection for [`Connections::take_room`] if it has room.
    #[inline]
    pub fn offer(&mut self, slot: u32) {
        if !self.has_room(slot) {
            return;
        }
        if self[slot].exchanges.open() == 0 {
            self.idle.push(self.endpoint(slot), slot);
        } else if !std::mem::replace(&mut self.is_partly[slot as usize], true) {
            let endpoint = self.endpoint(slot);
            self.partly[usize::from(endpoint)].push_back(slot);
        }
    }

    /// The connection is no longer idle, if it was.
    #[inline]
    pub fn leave_idle(&mut self, slot: u32) {
        self.idle.remove(slot);
    }

    /// True if a request on this connection would need one send more than a system call may carry
    /// while the shard is on time, or `behind` its schedule.
    #[inline]
    pub fn must_flush(&self, slot: u32, behind: bool) -> bool {
        let most = if behind { self.flush_behind } else { self.flush };
        most <= self.sends.len() && self[slot].exchanges.queued() == 0
    }

    /// Assigns a request of this step to the connection and queues it.
    #[inline]
    pub fn begin(&mut self, slot: u32, due: DueRequest) {
        debug_assert!(self.has_room(slot), "the connection takes another request");
        let most = self.requests_per_connection;
        let Connection { socket, exchanges, .. } = &mut self.connections[slot as usize];
        if exchanges.queued() == 0 {
            self.sends.push_back(slot);
        }
        exchanges.begin(due);
        if most <= u64::from(exchanges.served())
            || self.lifetime_ns.is_some_and(|mean_ns| is_old(mean_ns, slot, socket, due.noticed_ns))
        {
            socket.retire();
        }
        self.requests += 1;
        self.queued.push_back(slot);
    }

    /// The number of queued requests.
    #[inline]
    pub fn queued(&self) -> usize {
        self.queued.len()
    }

    /// The number of sends that will carry them.
    #[inline]
    pub fn sends(&self) -> usize {
        self.sends.len()
    }

    /// Takes a slot whose queued requests leave now, in one send.
    #[inline]
    pub fn take_send(&mut self) -> Option<u32> {
        self.sends.pop_front()
    }

    /// Takes the slot of the request that was queued first.
    #[inline]
    pub fn take_queued(&mut self) -> Option<u32> {
        self.queued.pop_front()
    }

    /// Withdraws the request that was queued first; returns its stamps.
    pub fn withdraw(&mut self) -> Option<Exchange> {
        self.sends.clear();
        let slot = self.queued.pop_front()?;
        self.requests -= 1;
        Some(self[slot].exchanges.withdraw())
    }

    /// A sent request of the slot has to be sent again. It counts as one of the requests on all
    /// connections until then; returns its stamps.
    pub fn send_back(&mut self, slot: u32, number: u64) -> Stamps {
        self[slot].exchanges.end(number)
    }

    /// A request that was sent back is sent again, or given up.
    pub fn sent_again(&mut self) {
        self.requests -= 1;
    }

    /// A sent request of the slot has ended; returns its stamps.
    #[inline]
    pub fn end(&mut self, slot: u32, number: u64) -> Stamps {
        self.requests -= 1;
        self[slot].exchanges.end(number)
    }
}

/// True if the slot's socket has lived for its share of the mean lifetime: a half to one and a half
/// of it. Consecutive slots and sockets get shares that are spread evenly, by the golden ratio.
#[cold]
fn is_old(mean_ns: u64, slot: u32, socket: &Socket, now_ns: u64) -> bool {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let share = u64::from(slot.wrapping_add(socket.generation)).wrapping_mul(GOLDEN);
    let spread_ns = (u128::from(mean_ns) * u128::from(share)) >> 64;
    let life_ns = mean_ns / 2 + u64::try_from(spread_ns).expect("less than the mean");
    life_ns <= now_ns.saturating_sub(socket.since_ns)
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
    use crate::plan::due_at;

    #[test]
    fn connections_end_evenly_around_their_mean_lifetime() {
        let ends_ms = |slot| {
            let mut socket = Socket::new();
            socket.open(7, 5_000_000_000);
            let is_old =
                |ms: &u64| is_old(1_000_000_000, slot, &socket, 5_000_000_000 + ms * 1_000_000);
            (0..2_000).find(is_old).expect("each ends")
        };
        let mut all: Vec<u64> = (0..100).map(ends_ms).collect();
        all.sort_unstable();
        assert!((500..515).contains(&all[0]) && (1_485..=1_500).contains(&all[99]), "{all:?}");
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] < 20), "{all:?}");
    }

    #[test]
    fn a_connection_that_its_peer_ends_makes_room_for_another() {
        let mut connections = Connections::new(ConnectionsConfig {
            conns: 3,
            spare: 1,
            own: vec![false],
            depth: 2,
            http2: true,
            keeps: false,
            requests_per_connection: u64::MAX,
            lifetime_ns: None,
            flush: 2,
            flush_behind: 2,
        });
        let open = |connections: &mut Connections| {
            let slot = connections.take_any_closed().expect("one is closed");
            connections.open(slot, 0, 7, 0);
            connections.connected(slot, 0);
            connections.take_fresh().expect("it is connected")
        };
        let first = open(&mut connections);
        assert!(!connections.is_full());
        let second = open(&mut connections);
        assert!(connections.is_full(), "two may be open");
        connections.end_when_empty(first);
        assert!(!connections.is_full());
        open(&mut connections);
        connections.end_when_empty(second);
        assert!(connections.is_full() && connections.most() == 2, "no more than one is spare");
        connections.close(first);
        assert!(!connections.is_full());
    }

    #[test]
    fn connections_without_an_idle_one_take_turns_until_they_are_full() {
        let mut connections = Connections::new(ConnectionsConfig {
            conns: 2,
            spare: 0,
            own: vec![false],
            depth: 3,
            http2: false,
            keeps: false,
            requests_per_connection: 4,
            lifetime_ns: None,
            flush: 2,
            flush_behind: 2,
        });
        for fd in [7, 8] {
            let slot = connections.take_any_closed().expect("two are closed");
            connections.open(slot, 0, fd, 0);
            connections.connected(slot, 0);
            connections.take_fresh();
            connections.offer(slot);
        }
        let due = due_at(1);
        let mut taken = Vec::new();
        while let Some(slot) = connections.take_room(0) {
            connections.begin(slot, due);
            connections.offer(slot);
            taken.push(slot);
        }
        assert_eq!(taken, [1, 0, 1, 0, 1, 0]);
        assert_eq!((connections.requests(), connections.in_flight()), (6, 0));
        while let Some(slot) = connections.take_queued() {
            connections[slot].exchanges.send().sent_ns = 2;
        }
        // The fourth is the last that slot 0 may carry.
        for _ in 0..2 {
            connections.end(0, due.number);
            connections.offer(0);
        }
        assert_eq!(connections.take_room(0), Some(0));
        connections.begin(0, due);
        connections.offer(0);
        assert_eq!((connections[0].socket.state, connections.take_room(0)), (State::Retired, None));
    }
}
