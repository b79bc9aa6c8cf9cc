//! One connection's life: its state, the stamps of its request and the parser of its response.
//!
//! A connection does no I/O, reads no clock and never records: it says what became of its request, and the shard acts.

use std::os::fd::RawFd;

use http1::response::{Progress, Response, ResponseParser};

use crate::record::outcome::Cause;
use crate::record::stamps::Stamps;
use crate::ring::token::GENERATION_BITS;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No socket.
    Closed,
    /// A socket that is being connected.
    Connecting,
    /// Connected, without a request.
    Idle,
    /// Has a request that the next system call will carry.
    Queued,
    /// Has a request whose response is awaited.
    InFlight,
}

/// What received bytes meant for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The response isn't whole yet.
    More,
    /// The response is whole; `reusable` says whether the connection may carry another request.
    Answered {
        /// The response's status code.
        status: u16,
        /// Whether another request may follow on this connection.
        reusable: bool,
    },
    /// The request, or the connection where it had none, failed.
    Failed(Cause),
    /// An idle connection was closed by its peer, as it may be.
    Gone,
}

/// One connection and its request.
pub struct Connection {
    /// The socket; -1 when closed.
    pub fd: RawFd,
    /// Counts the sockets that this slot has had: a completion of an earlier one is told by it.
    pub generation: u32,
    /// Where it stands.
    pub state: State,
    /// The stamps of the request under way.
    pub stamps: Stamps,
    /// Whether the send of the request under way has yet to report back.
    pub sending: bool,
    /// When the socket began to connect, ns since the epoch.
    pub since_ns: u64,
    /// Requests that the socket has carried.
    pub served: u64,
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
            since_ns: 0,
            served: 0,
            parser: ResponseParser::new(head_request),
        }
    }

    /// A new socket is being connected since `since_ns`.
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
    }

    /// A request takes the connection; `sending` says that its send will report back.
    pub fn begin(&mut self, intended_ns: u64, noticed_ns: u64, sending: bool) {
        assert_eq!(self.state, State::Idle, "one request at a time");
        self.state = State::Queued;
        self.stamps = Stamps { intended_ns, noticed_ns, sent_ns: 0 };
        self.sending = sending;
        self.served += 1;
    }

    /// The request goes out with the system call that follows.
    pub fn sent(&mut self, sent_ns: u64) {
        assert_eq!(self.state, State::Queued, "only a queued request can be sent");
        self.state = State::InFlight;
        self.stamps.sent_ns = sent_ns;
    }

    /// The socket is gone; gives its descriptor.
    pub fn close(&mut self) -> RawFd {
        assert_ne!(self.state, State::Closed, "a socket is closed once");
        self.state = State::Closed;
        self.sending = false;
        std::mem::replace(&mut self.fd, -1)
    }

    /// Whether a request is under way.
    pub fn is_busy(&self) -> bool {
        matches!(self.state, State::Queued | State::InFlight)
    }

    /// Bytes came.
    #[inline]
    pub fn heard(&mut self, bytes: &[u8]) -> Heard {
        if self.state != State::InFlight {
            return Heard::Failed(Cause::Unsolicited);
        }
        match self.parser.feed(bytes) {
            Ok(Progress::NeedMore) => Heard::More,
            // Bytes after a response that nobody asked for: it stands, but the connection can't be trusted with another.
            Ok(Progress::Done(response)) => {
                self.answered(response, response.consumed == bytes.len())
            }
            Err(violation) => Heard::Failed(Cause::of_violation(&violation)),
        }
    }

    /// The peer closed its side.
    pub fn heard_end(&mut self) -> Heard {
        if !self.is_busy() {
            return Heard::Gone;
        }
        match self.parser.finish() {
            Ok(response) => self.answered(response, false),
            Err(violation) => Heard::Failed(Cause::of_violation(&violation)),
        }
    }

    fn answered(&mut self, response: Response, clean: bool) -> Heard {
        self.state = State::Idle;
        Heard::Answered { status: response.status, reusable: clean && response.keep_alive }
    }
}
