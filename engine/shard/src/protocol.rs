//! What a connection speaks: what each protocol has to answer, and which there are.
//!
//! A protocol is a file with a type that has these methods, a variant, and an arm in each method.
//! The enum has one variant so far, which costs nothing, neither a tag nor a branch. It isn't a
//! trait, so no call is dynamic and nothing of it is public.

use http1::response::KnownHead;

use super::event::Event;
use super::exchanges::Exchanges;
use super::http1::Http1;
use super::output::Output;
use super::plan::Step;
use super::socket::Socket;

/// The protocol of one connection.
#[derive(Debug)]
pub enum Protocol {
    /// HTTP/1.1, pipelined or not.
    Http1(Http1),
}

impl Protocol {
    /// What a new connection speaks.
    pub fn new() -> Protocol {
        Protocol::Http1(Http1::new())
    }

    /// It begins anew, on a new socket.
    pub fn reset(&mut self) {
        match self {
            Protocol::Http1(http1) => http1.reset(),
        }
    }

    /// Whether one more request may begin, of at most `pipeline` at once.
    #[inline]
    pub fn has_room(&self, exchanges: &Exchanges, pipeline: usize) -> bool {
        match self {
            Protocol::Http1(http1) => http1.has_room(exchanges, pipeline),
        }
    }

    /// The step of the queued requests, if all are one request as it was rendered before the run;
    /// `None` if what they are is made as it leaves.
    #[inline]
    pub fn rendered(&self, exchanges: &Exchanges, steps: &[Step]) -> Option<u16> {
        match self {
            Protocol::Http1(http1) => http1.rendered(exchanges, steps),
        }
    }

    /// The queued requests leave through the output.
    pub fn leave(&mut self, exchanges: &Exchanges, output: &mut Output) {
        match self {
            Protocol::Http1(http1) => http1.leave(exchanges, output),
        }
    }

    /// What bytes mean that arrived at `arrived_ns`, if that is known; by step, `known` has the
    /// head of the last response on any connection.
    #[inline(always)]
    pub fn receive(
        &mut self,
        socket: &Socket,
        exchanges: &Exchanges,
        steps: &[Step],
        known: &mut [KnownHead],
        arrived_ns: Option<u64>,
        bytes: &[u8],
    ) -> Event {
        match self {
            Protocol::Http1(http1) => {
                http1.receive(socket, exchanges, steps, known, arrived_ns, bytes)
            }
        }
    }

    /// What it means that the peer closed its side; `known`: that the peer did so, and the
    /// connection wasn't cut by another.
    pub fn receive_end(&mut self, socket: &Socket, exchanges: &Exchanges, known: bool) -> Event {
        match self {
            Protocol::Http1(http1) => http1.receive_end(socket, exchanges, known),
        }
    }
}
