//! A connection's protocol: the methods that each one has, and the list of protocols.
//!
//! A protocol is a file with a type that has these methods, a variant, and an arm in each method;
//! `Connection` takes the plan's choice. It isn't a trait, so no call is dynamic and nothing of it is
//! public. `connection` checks that the enum fits into a cache line, so HTTP/2's state is boxed.

use super::event::Event;
use super::exchanges::Exchanges;
use super::http1::{Http1, Memory};
use super::http2::Http2;
use super::output::Output;
use super::plan::Step;
use super::socket::Socket;

/// The protocol of one connection.
#[derive(Debug)]
pub enum Protocol {
    /// HTTP/1.1, pipelined or not.
    Http1(Http1),
    /// HTTP/2.
    Http2(Box<Http2>),
}

impl Protocol {
    /// HTTP/1.1 on a new connection.
    pub fn http1() -> Protocol {
        Protocol::Http1(Http1::new())
    }

    /// HTTP/2 on a new connection, with this many streams at most; `keeps`: responses are kept for
    /// their checks.
    pub fn with_streams(streams: usize, keeps: bool) -> Protocol {
        Protocol::Http2(Box::new(Http2::new(streams, keeps)))
    }

    /// The state of HTTP/2.
    pub fn http2(&mut self) -> Option<&mut Http2> {
        match self {
            Protocol::Http1(_) => None,
            Protocol::Http2(http2) => Some(http2),
        }
    }

    /// True if there is something to send besides requests as rendered.
    pub fn wants_write(&self) -> bool {
        match self {
            Protocol::Http1(_) => false,
            Protocol::Http2(http2) => http2.wants_write(),
        }
    }

    /// Starts over on a new socket.
    pub fn reset(&mut self) {
        match self {
            Protocol::Http1(http1) => http1.reset(),
            Protocol::Http2(http2) => http2.reset(),
        }
    }

    /// True if one more request can begin, with at most `depth` in flight.
    #[inline]
    pub fn has_room(&self, exchanges: &Exchanges, depth: usize) -> bool {
        match self {
            Protocol::Http1(http1) => http1.has_room(exchanges, depth),
            Protocol::Http2(http2) => http2.has_room(exchanges, depth),
        }
    }

    /// The step of the queued requests, if they all are the same request as rendered before the
    /// run; `None` if they are made as they leave.
    #[inline]
    pub fn rendered(&self, exchanges: &Exchanges, steps: &[Step]) -> Option<u16> {
        match self {
            Protocol::Http1(http1) => http1.rendered(exchanges, steps),
            Protocol::Http2(_) => None,
        }
    }

    /// The queued requests leave through the output.
    pub fn leave(&mut self, exchanges: &Exchanges, output: &mut Output) {
        match self {
            Protocol::Http1(http1) => http1.leave(exchanges, output),
            Protocol::Http2(http2) => http2.leave(exchanges),
        }
    }

    /// Interprets bytes that arrived at `arrived_ns`, if that is known.
    #[inline(always)]
    pub fn receive(
        &mut self,
        socket: &Socket,
        exchanges: &Exchanges,
        steps: &[Step],
        memory: Memory<'_>,
        arrived_ns: Option<u64>,
        bytes: &[u8],
    ) -> Event {
        match self {
            Protocol::Http1(http1) => {
                http1.receive(socket, exchanges, steps, memory, arrived_ns, bytes)
            }
            Protocol::Http2(http2) => http2.receive(exchanges, steps, bytes),
        }
    }

    /// Interprets the peer's close of its side; `known`: it is certain that the peer closed it, and
    /// that the connection wasn't cut.
    pub fn receive_end(&mut self, socket: &Socket, exchanges: &Exchanges, known: bool) -> Event {
        match self {
            Protocol::Http1(http1) => http1.receive_end(socket, exchanges, known),
            Protocol::Http2(http2) => http2.receive_end(socket, exchanges),
        }
    }
}
