//! HTTP/1.1 on a connection: a FIFO queue of requests, each answered by one complete response.
//!
//! It does no I/O, reads no clock and records nothing: it interprets bytes, and the shard acts. A
//! response stamped before its request was sent can't be its answer.
//!
//! The head of the last response is kept for each step, across connections
//! (`http1::response::KnownHead`): with one head for all, two alternating steps would be parsed
//! anew each time, at eleven times the instructions.
//!
//! A missing response is noticed only when its connection ends. Pipelined responses match requests
//! by order alone, so one that the target leaves out gives every later request on its connection
//! the latency of another, and no answer shows it. But from then on there is always one surplus
//! request in flight: the connection is never empty again, and ends by a timeout, in the drain at
//! the latest. So each connection counts the answers since it was last empty, and these are in
//! doubt if it ends by a timeout or with a surplus response.

use http1::response::{KnownHead, Progress, Response, ResponseParser, Violation};
use record::outcome::Cause;

use super::content::Kept;
use super::event::{Event, Next};
use super::exchange::Exchange;
use super::exchanges::Exchanges;
use super::output::Output;
use super::plan::Step;
use super::socket::{Socket, State};

/// How far a kernel stamp may be off, ns: the two clocks are read one after the other.
const CLOCKS_DIFFER_NS: u64 = 10_000;

/// What a shard remembers of responses, across connections.
pub struct Memory<'a> {
    /// For each step, the head of the last response on any connection.
    pub known: &'a mut [KnownHead],
    /// Where the connection's response is kept; `None` if the plan has no checks.
    pub kept: Option<&'a mut Kept>,
}

/// The HTTP/1.1 state of one connection.
#[derive(Debug)]
pub struct Http1 {
    parser: ResponseParser,
}

impl Http1 {
    /// The state of a new connection.
    pub fn new() -> Http1 {
        Http1 { parser: ResponseParser::new() }
    }

    /// Starts over on a new socket.
    pub fn reset(&mut self) {
        self.parser.reset();
    }

    /// True if one more request can begin, with at most `pipeline` in flight.
    #[inline]
    pub fn has_room(&self, exchanges: &Exchanges, pipeline: usize) -> bool {
        exchanges.open() < pipeline
    }

    /// The step of the queued requests, if they all have the same.
    #[inline]
    pub fn rendered(&self, exchanges: &Exchanges, steps: &[Step]) -> Option<u16> {
        if exchanges.open() == 1 || steps.len() == 1 {
            return Some(exchanges.oldest().stamps.step);
        }
        let mut waiting = exchanges.waiting().map(|exchange| exchange.stamps.step);
        let first = waiting.next()?;
        waiting.all(|step| step == first).then_some(first)
    }

    /// The queued requests leave through the output.
    pub fn leave(&mut self, exchanges: &Exchanges, output: &mut Output) {
        for Exchange { number, stamps } in exchanges.waiting() {
            output.push(stamps.step, *number, stamps.session);
        }
    }

    /// Interprets bytes that arrived at `arrived_ns`, if that is known.
    // Inlined, so that a response doesn't pay for passing arguments on and an event through memory.
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
        let Exchange { stamps, number } = exchanges.oldest();
        if exchanges.in_flight() == 0 {
            // Bytes that arrived before a request was sent can't be its answer.
            let is_early = 0 < exchanges.open() || socket.state == State::Fresh;
            return Event::Broken(if is_early { Cause::EarlyResponse } else { Cause::Unsolicited });
        }
        if arrived_ns.is_some_and(|ns| ns + CLOCKS_DIFFER_NS < stamps.sent_ns) {
            return Event::Broken(Cause::EarlyResponse);
        }
        let step = usize::from(stamps.step);
        let head_request = steps[step].head_request;
        let fed = match memory.kept {
            None => self.parser.feed_with(&mut memory.known[step], head_request, bytes),
            Some(kept) => self.feed_keeping(kept, &steps[step], bytes),
        };
        match fed {
            Ok(Progress::NeedMore) => Event::More,
            Ok(Progress::Done(response)) => {
                let Response { status, consumed, keep_alive, .. } = response;
                let next = if consumed < bytes.len() && exchanges.in_flight() == 1 {
                    Next::Unasked
                } else if keep_alive {
                    Next::Any
                } else {
                    Next::Nothing
                };
                Event::Answered { number: *number, status, consumed, next }
            }
            Err(violation) => {
                Event::Failed { number: *number, cause: Cause::of_violation(&violation) }
            }
        }
    }

    /// Feeds the parser, and keeps the response if it will be checked.
    #[cold]
    fn feed_keeping(
        &mut self,
        kept: &mut Kept,
        step: &Step,
        bytes: &[u8],
    ) -> Result<Progress, Violation> {
        let Some(checks) = &step.checks else {
            return self.parser.feed(step.head_request, bytes);
        };
        if self.parser.is_idle() {
            kept.begin(checks);
        }
        self.parser.feed_keeping(kept, step.head_request, bytes)
    }

    /// Interprets the peer's close of its side; `known`: it is certain that the peer closed it, and
    /// that the connection wasn't cut.
    pub fn receive_end(&mut self, socket: &Socket, exchanges: &Exchanges, known: bool) -> Event {
        if exchanges.open() == 0 {
            return Event::Closed;
        }
        let number = exchanges.oldest().number;
        match (self.parser.finish(), socket.broken) {
            (Ok(_), _) if !known => Event::Failed { number, cause: Cause::CutShort },
            (Ok(Response { status, .. }), _) => {
                Event::Answered { number, status, consumed: 0, next: Next::Nothing }
            }
            (Err(Violation::ClosedBeforeResponse), Some(errno)) => {
                Event::Broken(Cause::of_send(errno))
            }
            (Err(violation), _) => Event::Broken(Cause::of_violation(&violation)),
        }
    }
}

#[cfg(test)]
mod tests {
    use load::DueRequest;
    use uring::Payload;

    use super::*;
    use crate::plan::due_at;

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn bytes_answer_only_a_request_that_was_sent_before_them() {
        let steps = [Step::for_test(Payload::copied(b"GET", b"", 1).expect("a page"))];
        let mut known = [KnownHead::default()];
        let (mut http1, mut exchanges) = (Http1::new(), Exchanges::new(2));
        let early = Event::Broken(Cause::EarlyResponse);
        let unsolicited = Event::Broken(Cause::Unsolicited);
        let mut socket = Socket::new();
        for (state, event) in [(State::Fresh, early), (State::Open, unsolicited)] {
            socket.state = state;
            let memory = Memory { known: &mut known, kept: None };
            let received = http1.receive(&socket, &exchanges, &steps, memory, None, OK);
            assert_eq!(received, event, "nothing has been requested on it yet");
        }
        let mut receive = |exchanges: &Exchanges, arrived_ns, bytes: &[u8]| {
            let memory = Memory { known: &mut known, kept: None };
            http1.receive(&socket, exchanges, &steps, memory, arrived_ns, bytes)
        };
        let begin = |exchanges: &mut Exchanges, number| {
            exchanges.begin(DueRequest { number, ..due_at(1) });
        };
        begin(&mut exchanges, 1);
        assert_eq!(receive(&exchanges, None, OK), early, "its request isn't sent yet");
        exchanges.send().sent_ns = 20_000;
        assert_eq!(receive(&exchanges, Some(9_000), OK), early, "it is older than the request");
        let answer =
            |number, next| Event::Answered { number, status: 200, consumed: OK.len(), next };
        assert_eq!(receive(&exchanges, Some(11_000), OK), answer(1, Next::Any));
        let two = [OK, OK].concat();
        assert_eq!(receive(&exchanges, None, &two), answer(1, Next::Unasked));
        begin(&mut exchanges, 2);
        assert_eq!(receive(&exchanges, None, &two), answer(1, Next::Unasked), "it isn't sent yet");
        exchanges.send().sent_ns = 20_000;
        assert_eq!(receive(&exchanges, None, &two), answer(1, Next::Any));
        exchanges.end(1);
        assert_eq!(receive(&exchanges, None, OK), answer(2, Next::Any));
        exchanges.end(2);
        assert_eq!(receive(&exchanges, None, OK), unsolicited);
    }
}
