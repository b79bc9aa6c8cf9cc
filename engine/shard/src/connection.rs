//! One connection: its socket's state, its requests in order, and its parser.
//!
//! A connection carries up to the plan's `pipeline` of requests at once. It does no I/O, reads no
//! clock and records nothing: it reports what happened to its oldest request, and the shard acts.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::os::fd::RawFd;

use http1::response::{KnownHead, Progress, Response, ResponseParser, Violation};
use load::DueRequest;
use record::outcome::Cause;
use record::stamps::Stamps;
use uring::token::GENERATION_BITS;

use super::leaving::Leaving;
use super::plan::Step;

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
    /// Whether it has had several requests at once since it last had none.
    crowded: bool,
    parser: ResponseParser,
    /// The stamps of the requests behind the oldest, in order.
    behind: VecDeque<Stamps>,
    /// The requests for which the kernel is asked when they left: their numbers on its socket, and
    /// which byte is their last, modulo 2³².
    sampled: VecDeque<(u64, u32)>,
    /// How many answers of the window came with other requests in flight, since it last had none. A
    /// response that the target left out, or sent twice, shifts all these to a neighbour's request.
    shiftable: u64,
    /// How many bytes its socket has been given to send, modulo 2³².
    given_bytes: u32,
    /// The step of the first of its queued requests.
    queued_step: u16,
    /// Whether another of them has another step.
    is_mixed: bool,
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
    /// What of its last send has yet to report back.
    pub leaving: Leaving,
}

// What a request needs of a connection that doesn't pipeline lies in two cache lines.
const _: () =
    assert!(offset_of!(Connection, parser) == 64 && offset_of!(Connection, behind) == 128);

impl Connection {
    /// A closed connection, for up to `pipeline` requests at once.
    pub fn new(pipeline: usize) -> Connection {
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
            crowded: false,
            parser: ResponseParser::new(),
            behind: VecDeque::with_capacity(pipeline - 1),
            sampled: VecDeque::new(),
            shiftable: 0,
            given_bytes: 0,
            queued_step: 0,
            is_mixed: false,
            since_ns: 0,
            connected_ns: 0,
            blocked_ns: 0,
            blocked_to_ns: 0,
            broken: None,
            out_of_order: 0,
            out_of_order_ns: 0,
            leaving: Leaving::with_capacity(pipeline),
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
        self.given_bytes = 0;
        (self.crowded, self.shiftable) = (false, 0);
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

    /// A request of this step takes the connection, behind those that it has.
    #[inline]
    pub fn begin(&mut self, due: DueRequest, step: u16) {
        let DueRequest { intended_ns, noticed_ns, waited, .. } = due;
        let stamps = Stamps { intended_ns, noticed_ns, sent_ns: 0, waited, step };
        if self.queued == 0 {
            (self.queued_step, self.is_mixed) = (step, false);
        } else {
            self.is_mixed |= step != self.queued_step;
        }
        match self.state {
            State::Idle => {
                self.state = State::Queued;
                self.oldest = stamps;
                if self.crowded {
                    // As many responses came as there were requests, and no other since.
                    (self.crowded, self.shiftable) = (false, 0);
                }
            }
            State::Queued | State::InFlight => {
                self.crowded = true;
                self.behind.push_back(stamps);
            }
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

    /// The first of the queued requests isn't sent after all: its stamps.
    pub fn withdraw(&mut self) -> Stamps {
        let ahead = self.requests() - self.queued();
        self.send();
        self.served -= 1;
        if ahead == 0 {
            return self.end();
        }
        self.requests -= 1;
        self.behind.remove(ahead - 1).expect("the stamps of each request")
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
        self.leaving.clear();
        std::mem::replace(&mut self.fd, -1)
    }

    /// How many requests it has.
    #[inline]
    pub fn requests(&self) -> usize {
        usize::from(self.requests)
    }

    /// The oldest request is answered, one of the window's.
    #[inline]
    pub fn answered(&mut self) {
        // Alone, it can't have been taken for another.
        if 1 < self.requests {
            self.shiftable += 1;
        }
    }

    /// The answers that may be another request's, if its responses have turned out not to match its
    /// requests.
    pub fn take_shiftable(&mut self) -> u64 {
        std::mem::take(&mut self.shiftable)
    }

    /// Whether all of its oldest request has left, as far as was reported.
    #[inline]
    pub fn is_sent(&self) -> bool {
        // While a send is busy, its requests are the last that the connection has.
        !self.sending || self.leaving.len() < self.requests()
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

    /// All queued requests leave now, in one send: how many, and their step, if it is one.
    #[inline]
    pub fn send_queued(&mut self) -> (usize, Option<u16>) {
        self.last_send = self.queued;
        (self.last_send(), (!self.is_mixed).then_some(self.queued_step))
    }

    /// Its socket has been given so many bytes to send.
    #[inline]
    pub fn give(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes as u64 & u64::from(u32::MAX)).expect("32 bits");
        self.given_bytes = self.given_bytes.wrapping_add(bytes);
    }

    /// The queued requests leave in a send that reports back.
    pub fn leave(&mut self, steps: &[Step]) {
        self.sending = true;
        let ahead = self.requests() - self.queued();
        let stamps = std::iter::once(&self.oldest).chain(&self.behind);
        let mut bytes = 0;
        for step in stamps.skip(ahead).map(|stamps| stamps.step) {
            self.leaving.push(step);
            bytes += steps[usize::from(step)].request.len();
        }
        self.give(bytes);
    }

    /// Makes room for the numbers of this many sampled requests.
    pub fn reserve_samples(&mut self, count: usize) {
        self.sampled.reserve(count);
    }

    /// The kernel is asked when the last of its requests leaves.
    pub fn sample(&mut self) {
        self.samples += 1;
        self.sampled.push_back((self.served, self.given_bytes.wrapping_sub(1)));
    }

    /// The request that has just ended: which byte of its socket was its last, modulo 2³², if the
    /// kernel was asked when it left.
    #[inline]
    pub fn take_sample(&mut self) -> Option<u32> {
        if self.samples == 0 {
            return None;
        }
        let number = self.served - self.requests() as u64;
        let (_, last) = self.sampled.front().copied().filter(|(sampled, _)| *sampled == number)?;
        self.samples -= 1;
        self.sampled.pop_front();
        Some(last)
    }

    /// Bytes arrived; `known` is the head of the last response to its step, on any connection, and
    /// `head_request` whether that asks by HEAD.
    #[inline]
    pub fn received(
        &mut self,
        known: &mut KnownHead,
        head_request: bool,
        bytes: &[u8],
    ) -> Received {
        match self.state {
            State::InFlight => {}
            // It arrived before the request was sent, so it can't be the answer.
            State::Queued => return Received::Failed(Cause::EarlyResponse),
            _ if self.fresh => return Received::Failed(Cause::EarlyResponse),
            _ => return Received::Failed(Cause::Unsolicited),
        }
        match self.parser.feed_with(known, head_request, bytes) {
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
    use uring::Payload;

    use super::*;
    use crate::plan::due_at;

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn bytes_answer_only_a_request_that_was_sent_before_them() {
        let known = &mut KnownHead::default();
        let mut connection = Connection::new(1);
        connection.open(7, 0);
        connection.connected();
        let early = Received::Failed(Cause::EarlyResponse);
        assert_eq!(connection.received(known, false, OK), early, "nothing was asked on it yet");
        connection.fresh = false;
        assert_eq!(connection.received(known, false, OK), Received::Failed(Cause::Unsolicited));
        let due = due_at(1);
        connection.begin(due, 0);
        assert_eq!(connection.received(known, false, OK), early, "its request isn't sent yet");
        connection.send().sent_ns = 2;
        let answer = Received::Response { status: 200, consumed: OK.len(), keep_alive: true };
        assert_eq!(connection.received(known, false, &[OK, OK].concat()), answer);
    }

    #[test]
    fn a_request_is_sent_when_its_own_part_of_the_send_has_left() {
        let request = Payload::copied(&[b'x'; 100], b"", 1).expect("a page");
        let steps = [Step::for_test(request)];
        let mut connection = Connection::new(3);
        connection.open(7, 0);
        connection.connected();
        // The first leaves alone before, the others in a send of their own.
        for (queued, of_send) in [(1, false), (2, false), (3, true)] {
            connection.begin(due_at(queued), 0);
            if queued == 1 {
                connection.send().sent_ns = 4;
            } else if of_send {
                connection.leave(&steps);
                (0..2).for_each(|_| connection.send().sent_ns = 5);
            }
        }
        assert!(connection.is_sent());
        connection.end();
        for (bytes, is_sent) in [(0, false), (99, false), (1, true)] {
            connection.leaving.left(&steps, bytes);
            assert_eq!(connection.is_sent(), is_sent, "{bytes} bytes more");
        }
        connection.end();
        assert!(!connection.is_sent(), "the second of the send");
        connection.leaving.left(&steps, 100);
        assert!(connection.is_sent());
    }

    #[test]
    fn requests_end_in_the_order_in_which_they_were_begun() {
        let mut connection = Connection::new(3);
        connection.open(7, 0);
        connection.connected();
        for intended_ns in [1, 2, 3] {
            connection.begin(due_at(intended_ns), 0);
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

    #[test]
    fn queued_requests_are_taken_back_in_order_behind_those_that_were_sent() {
        let mut connection = Connection::new(4);
        connection.open(7, 0);
        connection.connected();
        let begin = |connection: &mut Connection, intended_ns| {
            connection.begin(due_at(intended_ns), 0);
        };
        begin(&mut connection, 1);
        connection.send();
        (2..=4).for_each(|intended_ns| begin(&mut connection, intended_ns));
        let taken = [(); 3].map(|()| connection.withdraw().intended_ns);
        assert_eq!((taken, connection.requests(), connection.served), ([2, 3, 4], 1, 1));
        assert_eq!((connection.state, connection.end().intended_ns), (State::InFlight, 1));
        (5..=6).for_each(|intended_ns| begin(&mut connection, intended_ns));
        let taken = [(); 2].map(|()| connection.withdraw().intended_ns);
        assert_eq!((taken, connection.state, connection.served), ([5, 6], State::Idle, 1));
    }
}
