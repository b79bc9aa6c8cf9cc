//! One connection: its socket, its protocol, its requests and its output.
//!
//! Each of the four has a file: the socket (its state and its errors), the exchanges (the requests
//! begun on it), the protocol (what bytes mean, and for which request), and the output (what
//! leaves). The parts that a request touches without pipelining fit into two cache lines, which the
//! compiler checks; other data of each slot is in arrays, eight or more slots to a line.

use std::mem::offset_of;
use std::os::fd::RawFd;

use sys::seal;

use super::event::Event;
use super::exchanges::{EXCHANGES_HOT, Exchanges};
use super::http1::Memory;
use super::output::Output;
use super::plan::Step;
use super::protocol::Protocol;
use super::socket::{SOCKET_HOT, Socket};

/// One connection.
///
/// The data that each request needs is contiguous, in as few cache lines as possible: with
/// thousands of connections, each access is a cache miss.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Connection {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its user, across all its sockets.
    pub user: User,
    /// Its requests.
    pub exchanges: Exchanges,
    /// Its socket.
    pub socket: Socket,
    /// Its sends that report back.
    pub output: Output,
}

/// A user who waits for a connection's responses, across all its sockets.
#[derive(Clone, Copy, Debug, Default)]
pub struct User {
    /// How long it was blocked within the window, ns.
    pub blocked_ns: u64,
    /// The end of what has been counted, ns since the epoch.
    pub blocked_to_ns: u64,
}

// The data that a request needs without pipelining fits into two cache lines: the protocol, and the
// hot parts of exchanges and socket. If another protocol makes the enum larger, box what is rarely
// used of its state, so that the first line has what each response needs.
const _: () = {
    let hot = offset_of!(Connection, exchanges) + EXCHANGES_HOT;
    assert!(size_of::<Protocol>() == 64 && offset_of!(Connection, protocol) == 0);
    assert!(hot.is_multiple_of(64) && offset_of!(Connection, socket) + SOCKET_HOT == hot + 64);
};

impl Connection {
    /// A closed connection that speaks HTTP/1.1, for up to `pipeline` requests at once.
    pub fn new(pipeline: usize) -> Connection {
        Connection {
            protocol: Protocol::http1(),
            user: User::default(),
            exchanges: Exchanges::new(pipeline),
            socket: Socket::new(),
            output: Output::with_capacity(pipeline),
        }
    }

    /// It speaks HTTP/2 from now on, with up to so many streams at once; `keeps`: responses are kept
    /// for their checks. Their state is allocated
    /// now: an open model has many connections that it never opens.
    pub fn speak_http2(&mut self, streams: usize, keeps: bool) {
        if self.protocol.http2().is_none() {
            seal::lend(|| {
                self.protocol = Protocol::with_streams(streams, keeps);
                self.exchanges = Exchanges::in_any_order(streams);
            });
        }
    }

    /// A new socket has been connecting since `since_ns`.
    pub fn open(&mut self, fd: RawFd, since_ns: u64) {
        self.socket.open(fd, since_ns);
        self.exchanges.reset();
        self.protocol.reset();
    }

    /// The socket is gone; returns its descriptor.
    pub fn close(&mut self) -> RawFd {
        assert_eq!(self.exchanges.open(), 0, "its requests have ended");
        self.output.clear();
        self.socket.close()
    }

    /// True if its oldest request was sent and hasn't been answered.
    #[inline]
    pub fn is_awaiting(&self) -> bool {
        0 < self.exchanges.in_flight()
    }

    /// True if its oldest request has left completely, as far as was reported.
    #[inline]
    pub fn is_sent(&self) -> bool {
        // While a send is in progress, its requests are the connection's last.
        !self.socket.sending || self.output.requests() < self.exchanges.open()
    }

    /// The step of the queued requests, if they leave as rendered before the run: see
    /// [`Protocol::rendered`].
    #[inline]
    pub fn rendered(&self, steps: &[Step]) -> Option<u16> {
        self.protocol.rendered(&self.exchanges, steps)
    }

    /// The queued requests leave in sends that report back.
    pub fn leave(&mut self, steps: &[Step]) {
        let Connection { protocol, exchanges, socket, output, .. } = self;
        let before = output.bytes(steps);
        protocol.leave(exchanges, output);
        socket.give(output.bytes(steps) - before);
    }

    /// Interprets bytes that arrived at `arrived_ns`: see [`Protocol::receive`].
    #[inline(always)]
    pub fn receive(
        &mut self,
        steps: &[Step],
        memory: Memory<'_>,
        arrived_ns: Option<u64>,
        bytes: &[u8],
    ) -> Event {
        let Connection { protocol, socket, exchanges, .. } = self;
        protocol.receive(socket, exchanges, steps, memory, arrived_ns, bytes)
    }

    /// Interprets the peer's close of its side: see [`Protocol::receive_end`].
    pub fn receive_end(&mut self, known: bool) -> Event {
        self.protocol.receive_end(&self.socket, &self.exchanges, known)
    }
}

#[cfg(test)]
mod tests {
    use load::DueRequest;
    use uring::Payload;

    use super::*;
    use crate::plan::due_at;

    #[test]
    fn a_request_is_sent_when_its_own_part_of_the_send_has_left() {
        let request = Payload::copied(&[b'x'; 100], b"", 1).expect("a page");
        let steps = [Step::for_test(request)];
        let mut connection = Connection::new(3);
        connection.open(7, 0);
        let begin = |connection: &mut Connection, number| {
            connection.exchanges.begin(DueRequest { number, ..due_at(1) });
        };
        // The first one left alone, the others in a send of their own.
        begin(&mut connection, 1);
        connection.exchanges.send().sent_ns = 4;
        (2..=3).for_each(|number| begin(&mut connection, number));
        assert_eq!(connection.rendered(&steps), Some(0));
        connection.leave(&steps);
        connection.socket.sending = true;
        (0..2).for_each(|_| connection.exchanges.send().sent_ns = 5);
        assert!(connection.is_sent());
        connection.exchanges.end(1);
        for (bytes, is_sent) in [(0, false), (99, false), (1, true)] {
            connection.output.left(&steps, bytes, true, |_, _| ());
            assert_eq!(connection.is_sent(), is_sent, "{bytes} bytes more");
        }
        connection.exchanges.end(2);
        assert!(!connection.is_sent(), "the second of the send");
        connection.output.left(&steps, 100, true, |_, _| ());
        assert!(connection.is_sent());
    }
}
