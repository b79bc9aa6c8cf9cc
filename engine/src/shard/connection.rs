//! One connection: its socket's state, its requests in order, and its parser.
//!
//! A connection carries up to the plan's `pipeline` of requests at once. It does no I/O, reads no
//! clock and records nothing: it reports what happened to its oldest request, and the shard acts.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::os::fd::RawFd;

use http1::response::{KnownHead, Progress, Response, ResponseParser, Violation};

use crate::load::DueRequest;
use crate::record::outcome::Cause;
use crate::record::stamps::Stamps;
use crate::ring::token::GENERATION_BITS;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No socket.
    Closed,
    /// Its socket is connecting.
    Connecting,
    /// Its socket is connected, and its TLS handshake isn't done.
    Handshaking,
    /// Connected, without a request.
    Idle,
    /// Its oldest request goes out with the next system call.
    Queued,
    /// Its oldest request awaits its response.
    InFlight,
}

/// What received bytes mean for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The response isn't complete yet.
    More,
    /// The oldest request's response is complete.
    Response {
        /// The response's status code.
        status: u16,
        /// How many of the bytes belonged to it.
        consumed: usize,
        /// Whether the peer keeps the connection open.
        keep_alive: bool,
    },
    /// The oldest request failed, or the connection if it had none.
    Failed(Cause),
    /// The peer closed an idle connection, as it may.
    Closed,
}

/// One connection and its requests.
///
/// What each request reads comes first, in as few cache lines as it fits: with thousands of
/// connections, each line is one that was forgotten since the last.
#[repr(C, align(64))]
pub struct Connection {
    /// The stamps of its oldest request.
    pub oldest: Stamps,
    /// The socket; -1 when closed.
    pub fd: RawFd,
    /// Counts this slot's sockets, to recognise completions of an earlier one.
    pub generation: u32,
    /// Requests that its socket has carried.
    pub served: u64,
    /// How many of its requests, the last ones, go out with the next system call.
    queued: u16,
    /// How many requests its last send carried.
    last_send: u16,
    /// How many requests it has.
    requests: u16,
    /// For how many of these the kernel is asked when they left.
    samples: u16,
    /// Its state.
    pub state: State,
    /// Whether its last send has yet to report back.
    pub sending: bool,
    /// Whether the kernel stamps what its socket receives.
    pub stamped: bool,
    /// Whether its socket is new: nothing may arrive on it before its first request.
    pub fresh: bool,
    /// Whether the slot had a socket in the window.
    pub seen: bool,
    /// Whether a request on its socket ended without an answer.
    pub unanswered: bool,
    /// Whether it takes no further request: its peer has ended TLS, or its keys are spent.
    pub retired: bool,
    parser: ResponseParser,
    /// The stamps of the requests behind the oldest, in order.
    behind: VecDeque<Stamps>,
    /// The numbers on its socket of the requests for which the kernel is asked when they left.
    sampled: VecDeque<u64>,
    /// How many bytes of its last send have left, as far as that was reported.
    pub sent_bytes: usize,
    /// When its socket began to connect, or its user came again after giving up, ns since the
    /// epoch.
    pub since_ns: u64,
    /// When its socket was connected and the TLS handshake began, ns since the epoch.
    pub connected_ns: u64,
    /// For how much of the window its user was blocked, on any socket, ns.
    pub blocked_ns: u64,
    /// Up to when that has been counted, ns since the epoch.
    pub blocked_to_ns: u64,
    /// Why it failed, if it did because the peer is gone: errno of its send.
    pub broken: Option<i32>,
    /// How many segments its socket had received out of order when it was last asked.
    pub out_of_order: u32,
    /// When that was last seen to have grown, ns since the epoch.
    pub out_of_order_ns: u64,
}

// What a request needs of a connection that doesn't pipeline lies in two cache lines.
const _: () =
    assert!(offset_of!(Connection, parser) == 64 && offset_of!(Connection, behind) == 128);

impl Connection {
    /// A closed connection, for up to `pipeline` requests at once.
    pub fn new(pipeline: usize, head_request: bool) -> Connection {
        Connection {
            oldest: Stamps::default(),
            fd: -1,
            generation: 0,
            served: 0,
            queued: 0,
            last_send: 0,
            requests: 0,
            samples: 0,
            state: State::Closed,
            sending: false,
            stamped: false,
            fresh: false,
            seen: false,
            unanswered: false,
            retired: false,
            parser: ResponseParser::new(head_request),
            behind: VecDeque::with_capacity(pipeline - 1),
            sampled: VecDeque::new(),
            sent_bytes: 0,
            since_ns: 0,
            connected_ns: 0,
            blocked_ns: 0,
            blocked_to_ns: 0,
            broken: None,
            out_of_order: 0,
            out_of_order_ns: 0,
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
        self.unanswered = false;
        self.retired = false;
        self.broken = None;
        (self.out_of_order, self.out_of_order_ns) = (0, 0);
        self.samples = 0;
        self.sampled.clear();
        self.parser.reset();
    }

    /// The socket has been connected since `connected_ns`: TLS begins.
    pub fn handshake(&mut self, connected_ns: u64) {
        (self.state, self.connected_ns) = (State::Handshaking, connected_ns);
    }

    /// Whether it is connecting, TLS included.
    pub fn is_coming(&self) -> bool {
        matches!(self.state, State::Connecting | State::Handshaking)
    }

    /// The connection can carry requests.
    pub fn connected(&mut self) {
        assert!(self.is_coming(), "only a connecting socket can become connected");
        self.state = State::Idle;
        self.fresh = true;
    }

    /// A request takes the connection, behind those that it has.
    #[inline]
    pub fn begin(&mut self, due: DueRequest) {
        let DueRequest { intended_ns, noticed_ns, waited } = due;
        let stamps = Stamps { intended_ns, noticed_ns, sent_ns: 0, waited };
        match self.state {
            State::Idle => {
                self.state = State::Queued;
                self.oldest = stamps;
            }
            State::Queued | State::InFlight => self.behind.push_back(stamps),
            _ => panic!("only a connected socket takes requests"),
        }
        self.requests += 1;
        self.queued += 1;
        self.served += 1;
    }

    /// The first of the queued requests goes out with the next system call: its stamps.
    #[inline]
    pub fn send(&mut self) -> &mut Stamps {
        let ahead = self.requests() - self.queued();
        self.queued = self.queued.checked_sub(1).expect("only a queued request can be sent");
        if ahead == 0 {
            self.state = State::InFlight;
            return &mut self.oldest;
        }
        &mut self.behind[ahead - 1]
    }

    /// The oldest request, which was sent, has ended: its stamps.
    #[inline]
    pub fn end(&mut self) -> Stamps {
        assert_eq!(self.state, State::InFlight, "only a request that was sent can end");
        let ended = self.oldest;
        self.requests -= 1;
        if self.requests == 0 {
            self.state = State::Idle;
            return ended;
        }
        self.oldest = self.behind.pop_front().expect("the stamps of each request");
        if self.requests == self.queued {
            self.state = State::Queued;
        }
        ended
    }

    /// The socket is gone; returns its descriptor.
    pub fn close(&mut self) -> RawFd {
        assert_ne!(self.state, State::Closed, "a socket is closed once");
        assert_eq!(self.requests(), 0, "its requests have ended");
        self.state = State::Closed;
        self.fresh = false;
        self.sending = false;
        std::mem::replace(&mut self.fd, -1)
    }

    /// How many requests it has.
    #[inline]
    pub fn requests(&self) -> usize {
        usize::from(self.requests)
    }

    /// Whether all of its oldest request has left, as far as was reported; each has `length` bytes.
    #[inline]
    pub fn is_sent(&self, length: usize) -> bool {
        // While a send is busy, its requests are the last that the connection has.
        let ahead = self.last_send().saturating_sub(self.requests());
        !self.sending
            || self.last_send() < self.requests()
            || (ahead + 1) * length <= self.sent_bytes
    }

    /// How many of them go out with the next system call.
    #[inline]
    pub fn queued(&self) -> usize {
        usize::from(self.queued)
    }

    /// How many requests its last send carried.
    #[inline]
    pub fn last_send(&self) -> usize {
        usize::from(self.last_send)
    }

    /// All queued requests leave now, in one send.
    #[inline]
    pub fn send_queued(&mut self) {
        self.last_send = self.queued;
    }

    /// Makes room for the numbers of this many sampled requests.
    pub fn reserve_samples(&mut self, count: usize) {
        self.sampled.reserve(count);
    }

    /// The kernel is asked when the last of its requests leaves.
    pub fn sample(&mut self) {
        self.samples += 1;
        self.sampled.push_back(self.served);
    }

    /// The request that has just ended: its number on its socket, if the kernel was asked when it
    /// left.
    #[inline]
    pub fn take_sample(&mut self) -> Option<u64> {
        if self.samples == 0 {
            return None;
        }
        let number = self.served - self.requests() as u64;
        if self.sampled.front() != Some(&number) {
            return None;
        }
        self.samples -= 1;
        self.sampled.pop_front()
    }

    /// Bytes arrived; `known` is the head that the shard has seen last, on any connection.
    #[inline]
    pub fn received(&mut self, known: &mut KnownHead, bytes: &[u8]) -> Received {
        match self.state {
            State::InFlight => {}
            // It arrived before the request was sent, so it can't be the answer.
            State::Queued => return Received::Failed(Cause::EarlyResponse),
            _ if self.fresh => return Received::Failed(Cause::EarlyResponse),
            _ => return Received::Failed(Cause::Unsolicited),
        }
        match self.parser.feed_with(known, bytes) {
            Ok(Progress::NeedMore) => Received::More,
            Ok(Progress::Done(response)) => response_received(response),
            Err(violation) => Received::Failed(Cause::of_violation(&violation)),
        }
    }

    /// The peer closed its side; `known`: that the peer did so, and nobody cut the connection.
    pub fn received_end(&mut self, known: bool) -> Received {
        if self.requests() == 0 {
            return Received::Closed;
        }
        match (self.parser.finish(), self.broken) {
            (Ok(_), _) if !known => Received::Failed(Cause::CutShort),
            (Ok(response), _) => response_received(Response { keep_alive: false, ..response }),
            (Err(Violation::ClosedBeforeResponse), Some(errno)) => {
                Received::Failed(Cause::of_send(errno))
            }
            (Err(violation), _) => Received::Failed(Cause::of_violation(&violation)),
        }
    }
}

fn response_received(response: Response) -> Received {
    let Response { status, consumed, keep_alive, .. } = response;
    Received::Response { status, consumed, keep_alive }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn bytes_answer_only_a_request_that_was_sent_before_them() {
        let known = &mut KnownHead::default();
        let mut connection = Connection::new(1, false);
        connection.open(7, 0);
        connection.connected();
        let early = Received::Failed(Cause::EarlyResponse);
        assert_eq!(connection.received(known, OK), early, "nothing was asked on it yet");
        connection.fresh = false;
        assert_eq!(connection.received(known, OK), Received::Failed(Cause::Unsolicited));
        let due = DueRequest { intended_ns: 1, noticed_ns: 1, waited: false };
        connection.begin(due);
        assert_eq!(connection.received(known, OK), early, "its request isn't sent yet");
        connection.send().sent_ns = 2;
        let answer = Received::Response { status: 200, consumed: OK.len(), keep_alive: true };
        assert_eq!(connection.received(known, &[OK, OK].concat()), answer);
    }

    #[test]
    fn a_request_is_sent_when_its_own_part_of_the_send_has_left() {
        let mut connection = Connection::new(3, false);
        connection.open(7, 0);
        connection.connected();
        for intended_ns in [1, 2, 3] {
            connection.begin(DueRequest { intended_ns, noticed_ns: intended_ns, waited: false });
            connection.send().sent_ns = 4;
        }
        // The first left alone before, the others in a send of their own.
        (connection.last_send, connection.sending) = (2, true);
        assert!(connection.is_sent(100));
        connection.end();
        for (sent_bytes, is_sent) in [(0, false), (99, false), (100, true)] {
            connection.sent_bytes = sent_bytes;
            assert_eq!(connection.is_sent(100), is_sent, "{sent_bytes} bytes");
        }
        connection.end();
        assert!(!connection.is_sent(100), "the second of the send");
        connection.sent_bytes = 200;
        assert!(connection.is_sent(100));
    }

    #[test]
    fn requests_end_in_the_order_in_which_they_were_begun() {
        let mut connection = Connection::new(3, false);
        connection.open(7, 0);
        connection.connected();
        for intended_ns in [1, 2, 3] {
            connection.begin(DueRequest { intended_ns, noticed_ns: intended_ns, waited: false });
            if intended_ns < 3 {
                connection.send().sent_ns = 10 * intended_ns;
            }
        }
        let ended = |connection: &mut Connection| {
            let stamps = connection.end();
            (stamps.intended_ns, stamps.sent_ns)
        };
        assert_eq!((connection.requests(), connection.queued()), (3, 1));
        assert_eq!([ended(&mut connection), ended(&mut connection)], [(1, 10), (2, 20)]);
        assert_eq!((connection.requests(), connection.state), (1, State::Queued));
        connection.send().sent_ns = 30;
        assert_eq!((ended(&mut connection), connection.state), ((3, 30), State::Idle));
    }
}
