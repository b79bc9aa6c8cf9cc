//! A connection's socket: its descriptor, its state, and its errors.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::os::fd::RawFd;

use uring::token::GENERATION_BITS;

/// The state of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no socket.
    Closed,
    /// It is connecting.
    Connecting,
    /// It is connected, but its TLS handshake isn't done.
    Handshaking,
    /// It speaks HTTP/2, and the target's settings haven't come.
    Greeting,
    /// It is new: nothing may arrive on it before its first request.
    Fresh,
    /// It takes requests.
    Open,
    /// It takes no more: it has reached its limit of requests, its peer has ended TLS, or its keys
    /// are spent.
    Retired,
}

/// A connection's socket.
///
/// The data that each request needs comes first: see `Connection`.
#[derive(Debug)]
#[repr(C)]
pub struct Socket {
    /// Its descriptor; -1 when closed.
    pub fd: RawFd,
    /// Counts the slot's sockets, to recognise completions of an earlier one.
    pub generation: u32,
    /// How many bytes it has been given to send, modulo 2³².
    given_bytes: u32,
    /// Its state.
    pub state: State,
    /// True if its last send has yet to report back.
    pub sending: bool,
    /// True if segments are known to have arrived out of order.
    pub reordered: bool,
    /// True if send stamps have been requested for some of the requests in flight.
    asked: bool,
    /// When it began to connect, or its user came again after giving up, ns since the epoch.
    pub since_ns: u64,
    /// When it was connected and the TLS handshake began, ns since the epoch.
    pub connected_ns: u64,
    /// The errno of a send that failed because the peer is gone.
    pub broken: Option<i32>,
    /// How many segments had arrived out of order at the last query.
    pub out_of_order: u32,
    /// When that number was last seen to have grown, ns since the epoch.
    pub out_of_order_ns: u64,
    /// True if a request on it ended without an answer.
    pub unanswered: bool,
    /// The requests with a send stamp requested: their numbers, and the offset of their last byte,
    /// modulo 2³².
    sampled: VecDeque<(u64, u32)>,
}

/// End of the data that every request needs.
pub const SOCKET_HOT: usize = offset_of!(Socket, since_ns);

impl Socket {
    /// A closed socket.
    pub fn new() -> Socket {
        Socket {
            fd: -1,
            generation: 0,
            given_bytes: 0,
            state: State::Closed,
            sending: false,
            reordered: false,
            asked: false,
            since_ns: 0,
            connected_ns: 0,
            broken: None,
            out_of_order: 0,
            out_of_order_ns: 0,
            unanswered: false,
            sampled: VecDeque::new(),
        }
    }

    /// A new socket has been connecting since `since_ns`.
    pub fn open(&mut self, fd: RawFd, since_ns: u64) {
        assert_eq!(self.state, State::Closed, "a slot has one socket at a time");
        let sampled = std::mem::take(&mut self.sampled);
        let generation = (self.generation + 1) % (1 << GENERATION_BITS);
        *self = Socket { fd, generation, state: State::Connecting, since_ns, ..Socket::new() };
        self.sampled = sampled;
        self.sampled.clear();
    }

    /// It has been connected since `connected_ns`, and awaits the target's settings.
    pub fn greet(&mut self, connected_ns: u64) {
        (self.state, self.connected_ns) = (State::Greeting, connected_ns);
    }

    /// It has been connected since `connected_ns`: TLS begins.
    pub fn handshake(&mut self, connected_ns: u64) {
        (self.state, self.connected_ns) = (State::Handshaking, connected_ns);
    }

    /// True if it is still the socket of this generation, and hasn't been closed.
    #[inline]
    pub fn is_still(&self, generation: u32) -> bool {
        self.generation == generation && self.state != State::Closed
    }

    /// True if it is connecting, including TLS and the start of HTTP/2.
    pub fn is_coming(&self) -> bool {
        matches!(self.state, State::Connecting | State::Handshaking | State::Greeting)
    }

    /// True if it is coming, or has come and carries its first request soon.
    pub fn is_unserved(&self) -> bool {
        self.is_coming() || self.state == State::Fresh
    }

    /// It can carry requests.
    pub fn connected(&mut self) {
        assert!(self.is_coming(), "only a connecting socket can become connected");
        self.state = State::Fresh;
    }

    /// It takes no further request. A socket that has never carried one fails by itself.
    pub fn retire(&mut self) {
        if self.state == State::Open {
            self.state = State::Retired;
        }
    }

    /// It is gone; returns its descriptor.
    pub fn close(&mut self) -> RawFd {
        assert_ne!(self.state, State::Closed, "a socket is closed once");
        (self.state, self.sending) = (State::Closed, false);
        std::mem::replace(&mut self.fd, -1)
    }

    /// It has been given this many bytes to send.
    #[inline]
    pub fn give(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes as u64 & u64::from(u32::MAX)).expect("32 bits");
        self.given_bytes = self.given_bytes.wrapping_add(bytes);
    }

    /// Makes room for this many sampled requests.
    pub fn reserve_samples(&mut self, count: usize) {
        self.sampled.reserve(count);
    }

    /// Requests a send stamp for this request, whose bytes were the last to be given.
    pub fn sample(&mut self, number: u64) {
        self.asked = true;
        self.sampled.push_back((number, self.given_bytes.wrapping_sub(1)));
    }

    /// The offset of the last byte of a request that has ended, modulo 2³², if a send stamp was
    /// requested for it.
    #[inline]
    pub fn take_sample(&mut self, number: u64) -> Option<u32> {
        if self.asked { self.find_sample(number) } else { None }
    }

    fn find_sample(&mut self, number: u64) -> Option<u32> {
        let at = self.sampled.iter().position(|(sampled, _)| *sampled == number)?;
        let (_, last) = self.sampled.remove(at)?;
        self.asked = !self.sampled.is_empty();
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_of_sampled_requests_are_found_by_number() {
        let mut socket = Socket::new();
        socket.open(7, 0);
        for number in 1..=4 {
            socket.give(100);
            if number % 2 == 0 {
                socket.sample(number);
            }
        }
        let taken = [1, 4, 2, 2].map(|number| socket.take_sample(number));
        assert_eq!(taken, [None, Some(399), Some(199), None]);
        socket.sample(5);
        socket.close();
        socket.open(8, 0);
        socket.give(1);
        assert_eq!(socket.take_sample(5), None, "it belonged to the last socket");
    }

    #[test]
    fn only_what_takes_requests_can_be_retired() {
        let mut socket = Socket::new();
        socket.open(7, 0);
        socket.retire();
        assert_eq!(socket.state, State::Connecting);
        socket.connected();
        socket.retire();
        assert_eq!(socket.state, State::Fresh);
        socket.state = State::Open;
        socket.retire();
        assert_eq!(socket.state, State::Retired);
    }
}
