//! HTTP/2 on a connection: each request is a stream, and answered in any order.
//!
//! It does no I/O, reads no clock and records nothing: it interprets bytes, makes the frames that
//! leave, and the shard acts (`streams`). A response is the answer to the request of its stream,
//! so no order can be mistaken.
//!
//! Requests that the shard hands over wait here until their stream begins, in the send that carries
//! them: that is at once, unless the blocks of many don't fit into one send, or the target has
//! lowered its limit meanwhile. Bodies are sent as far as the target's windows allow, in turn.

use std::collections::VecDeque;

use http2::client::{Client, NoRoom};
use http2::event::{Event as Happened, Failure, Response};
use plan::blocks::Blocks;
use record::outcome::Cause;
use sys::seal;
use uring::OUT_BYTES;

use super::content::{Kept, KeptStreams};
use super::event::{Ended, Event, OnStream};
use super::exchange::Exchange;
use super::exchanges::Exchanges;
use super::output::{Making, carried_by};
use super::plan::Step;
use super::socket::Socket;

/// The length of a frame's head, bytes.
const FRAME_HEAD: usize = 9;
/// What precedes the first requests of a connection takes less than this, bytes.
pub const START_MAX: usize = 1_024;
/// The longest header block of a request, bytes: it leaves in one send, behind that.
pub const REQUEST_BLOCK_MAX: usize = OUT_BYTES - 2 * START_MAX;
/// A part of a body isn't cut shorter than this to fill a send, bytes.
const PART_MIN: usize = 1_024;

/// The HTTP/2 state of one connection.
#[derive(Debug)]
pub struct Http2 {
    client: Client,
    /// True once the preface has been made.
    started: bool,
    /// Step and number of the requests whose stream hasn't begun, in order.
    unbegun: VecDeque<(u16, u64)>,
    /// True if something more may leave than the last send carried.
    more: bool,
    /// The requests whose body hasn't left completely, and when they were sent, ns since the epoch.
    uploads: Vec<(u64, u64)>,
    /// The requests that the target has refused once.
    refused: Vec<u64>,
    /// The last response.
    response: Response,
    /// What is kept of the responses; `None` if the plan has no checks.
    kept: Option<KeptStreams>,
}

/// What was made of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its number.
    pub number: u64,
    /// The frame with its head.
    pub bytes: usize,
    /// Its header block, and the names and values in it; 0 for a part of its body.
    pub block: (usize, usize),
    /// How long after its head its body left completely, ns, if it didn't leave with the head.
    pub behind_ns: Option<u64>,
}

impl Http2 {
    /// The state of a new connection, for this many streams at once; `keeps`: responses are kept
    /// for their checks.
    pub fn new(streams: usize, keeps: bool) -> Http2 {
        let mut client = Client::new(streams);
        client.reserve();
        if keeps {
            client.decode_fully();
        }
        Http2 {
            client,
            started: false,
            unbegun: VecDeque::with_capacity(streams),
            more: false,
            uploads: Vec::with_capacity(streams),
            refused: Vec::with_capacity(streams),
            response: Response::default(),
            kept: keeps.then(KeptStreams::default),
        }
    }

    /// Starts over on a new socket.
    pub fn reset(&mut self) {
        self.client.reset();
        self.unbegun.clear();
        self.uploads.clear();
        self.refused.clear();
        (self.started, self.more) = (false, false);
        if let Some(kept) = &mut self.kept {
            kept.reset();
        }
    }

    /// True if one more request can begin, with at most `streams` at once and no more than the
    /// target takes.
    #[inline]
    pub fn has_room(&self, exchanges: &Exchanges, streams: usize) -> bool {
        // Those that have ended here, but not there, have left their place.
        let waiting = exchanges.open().saturating_sub(self.client.open());
        exchanges.open() < streams && waiting < self.client.room()
    }

    /// The most streams that the target takes; `None` until its settings have come, and inside for
    /// any number.
    pub fn limit(&self) -> Option<Option<u32>> {
        self.client.peer_settings().map(|settings| settings.streams_max)
    }

    /// True if the target takes no more requests on this connection: it ends it, or has lowered its
    /// limit to none, which might last forever.
    fn is_ending(&self) -> bool {
        self.client.refusal() == Some(NoRoom::Connection) || self.limit() == Some(Some(0))
    }

    /// The queued requests leave with the next sends.
    pub fn leave(&mut self, exchanges: &Exchanges) {
        let queued = exchanges.waiting().map(|exchange| (exchange.stamps.step, exchange.number));
        self.unbegun.extend(queued);
    }

    /// True if there is something to send.
    #[inline]
    pub fn wants_write(&self) -> bool {
        let begins = !self.unbegun.is_empty() && 0 < self.client.room();
        self.more || self.client.wants_write() || begins
    }

    /// True if a request can't begin a stream here any more.
    pub fn is_stranded(&self) -> bool {
        self.is_ending() && !self.unbegun.is_empty()
    }

    /// A request that can't begin a stream here any more.
    pub fn take_stranded(&mut self) -> Option<u64> {
        if self.is_ending() { self.unbegun.pop_front().map(|(_, number)| number) } else { None }
    }

    /// Gives up the stream of a request.
    pub fn cancel(&mut self, number: u64) {
        if !self.client.cancel_request(number) {
            self.unbegun.retain(|(_, unbegun)| *unbegun != number);
        }
        self.forget(number);
        if let Some(kept) = &mut self.kept {
            kept.forget(number);
        }
    }

    /// The target has refused a stream for this request before, on any connection.
    pub fn refuse(&mut self, number: u64) {
        self.refused.push(number);
    }

    /// True if the target had refused this request before.
    fn was_refused(&self, number: u64) -> bool {
        self.refused.contains(&number)
    }

    /// The last response.
    pub fn response(&self) -> Response {
        self.response
    }

    /// What was kept of the last response.
    pub fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref().and_then(KeptStreams::last)
    }

    /// A response, or a part of one, is kept for its checks.
    #[inline(never)]
    fn keep(&mut self, happened: &Happened, exchanges: &Exchanges, steps: &[Step], bytes: &[u8]) {
        let Some(kept) = &mut self.kept else { return };
        let checks = |number| {
            let step = exchanges.get(number).stamps.step;
            steps[usize::from(step)].checks.as_deref()
        };
        match happened {
            Happened::Head(request, _) => {
                if let Some(checks) = checks(request.key) {
                    kept.head(request.key, checks, self.client.fields());
                }
            }
            Happened::Data { request, at, bytes: length } => {
                kept.body(request.key, &bytes[*at..at + length]);
            }
            Happened::Done(request, _) => {
                if !kept.done(request.key)
                    && let Some(checks) = checks(request.key)
                {
                    // It has no body.
                    kept.head(request.key, checks, self.client.fields());
                    kept.done(request.key);
                }
            }
            Happened::Failed(request, _)
            | Happened::Refused(request)
            | Happened::Unserved(request) => kept.forget(request.key),
            _ => {}
        }
    }

    /// A request has ended; returns true if its body hadn't left completely.
    fn forget(&mut self, number: u64) -> bool {
        if !self.refused.is_empty() {
            self.refused.retain(|refused| *refused != number);
        }
        let upload = self.uploads.iter().position(|(upload, _)| *upload == number);
        upload.map(|at| self.uploads.swap_remove(at)).is_some()
    }

    /// Makes the frames that leave next, at most `most` bytes of them unless a single header block
    /// is longer, and calls `made` for each request that leaves or goes on with them.
    pub fn make(
        &mut self,
        blocks: &Blocks,
        of: Making<'_>,
        (exchanges, now_ns, most): (&Exchanges, u64, usize),
        out: &mut Vec<u8>,
        mut made: impl FnMut(&Exchange, Made),
    ) {
        let Making { steps, seed, carried, room } = of;
        let carried = |number| carried_by(carried, exchanges.get(number).stamps.session);
        if !self.started {
            self.client.start(out);
            self.started = true;
        }
        self.client.write(out);
        self.more = false;
        while let Some(&(step, number)) = self.unbegun.front() {
            let at = usize::from(step);
            let Step { request, values, .. } = &steps[at];
            let own = values.as_ref().map(|values| {
                values.render(seed, number, carried(number), room);
                blocks.values(at, room)
            });
            let (each, body_bytes) = match &own {
                Some(own) => (own.each(), own.body.len()),
                None => (&[][..], request.len()),
            };
            let values_bytes = each.iter().map(|value| value.len()).sum();
            let longest = FRAME_HEAD + blocks.requests.block_bytes_max(at, values_bytes);
            if most < out.len() + longest && START_MAX < out.len() {
                self.more = true;
                break;
            }
            let from = out.len();
            let begun =
                self.client.begin(&blocks.requests, at, each, body_bytes as u64, number, out);
            if begun.is_err() {
                break;
            }
            self.unbegun.pop_front();
            if 0 < body_bytes {
                self.uploads.push((number, now_ns));
            }
            let bytes = out.len() - from;
            let block = (bytes - FRAME_HEAD, blocks.requests.field_bytes(at) + values_bytes);
            made(exchanges.get(number), Made { number, bytes, block, behind_ns: None });
        }
        while !self.uploads.is_empty() {
            let left = most.saturating_sub(out.len() + FRAME_HEAD);
            if left < PART_MIN {
                self.more = true;
                break;
            }
            let left = u32::try_from(left).expect("a send is far below 4 GiB");
            let Some(part) = self.client.next_body_part(left) else { break };
            let number = part.key;
            let exchange = exchanges.get(number);
            let at = usize::from(exchange.stamps.step);
            let Step { request, values, .. } = &steps[at];
            let from = usize::try_from(part.at).expect("a body in memory");
            let range = from..from + part.bytes as usize;
            out.extend_from_slice(&part.head);
            match values {
                None => out.extend_from_slice(request.bytes(range)),
                Some(values) => {
                    values.render(seed, number, carried(number), room);
                    out.extend_from_slice(&blocks.values(at, room).body[range]);
                }
            }
            let upload = self.uploads.iter().position(|(upload, _)| *upload == number);
            let upload = upload.filter(|_| part.last).map(|at| self.uploads.swap_remove(at));
            let behind_ns = upload.map(|(_, sent_ns)| now_ns - sent_ns).filter(|ns| 0 < *ns);
            let bytes = FRAME_HEAD + part.bytes as usize;
            made(exchange, Made { number, bytes, block: (0, 0), behind_ns });
        }
    }

    /// Interprets bytes.
    #[inline]
    pub fn receive(&mut self, exchanges: &Exchanges, steps: &[Step], bytes: &[u8]) -> Event {
        let (consumed, happened) = match &mut self.kept {
            None => self.client.receive(bytes),
            Some(kept) => {
                kept.free_complete();
                // All fields are decoded, which allocates.
                seal::lend(|| {
                    let (consumed, happened) = self.client.receive(bytes);
                    self.keep(&happened, exchanges, steps, bytes);
                    (consumed, happened)
                })
            }
        };
        let what = match happened {
            Happened::NeedMore => return Event::Taken,
            Happened::Broken(violation) => return Event::Violated(Cause::of_violation2(violation)),
            Happened::Done(request, response) => {
                self.response = response;
                let whole = !self.forget(request.key);
                let status = response.status;
                OnStream::Ended { number: request.key, ended: Ended::Answered { status, whole } }
            }
            Happened::Failed(request, failure) => {
                self.forget(request.key);
                OnStream::Ended { number: request.key, ended: Ended::Failed(cause_of(failure)) }
            }
            Happened::Refused(request) => {
                let before = self.was_refused(request.key);
                self.forget(request.key);
                let ended = match before {
                    true => Ended::Failed(Cause::RefusedStream),
                    false => Ended::Refused,
                };
                OnStream::Ended { number: request.key, ended }
            }
            Happened::Unserved(request) => {
                let refused = self.was_refused(request.key);
                self.forget(request.key);
                OnStream::Ended { number: request.key, ended: Ended::Unserved { refused } }
            }
            Happened::GoAway { .. } => OnStream::GoAway,
            Happened::Settings => {
                self.more = true;
                OnStream::Settings
            }
            Happened::WindowOpened => {
                self.more = true;
                OnStream::Nothing
            }
            Happened::Interim(..) | Happened::Head(..) | Happened::Data { .. } => OnStream::Nothing,
        };
        Event::OnStream { consumed, what }
    }

    /// Interprets the peer's close of its side: all requests fail, and this is the first's cause.
    pub fn receive_end(&mut self, socket: &Socket, exchanges: &Exchanges) -> Event {
        if exchanges.open() == 0 {
            return Event::Closed;
        }
        self.client.finish();
        match (self.client.receive(&[]), socket.broken) {
            ((_, Happened::Failed(request, failure)), None) => {
                Event::Failed { number: request.key, cause: cause_of(failure) }
            }
            (_, Some(errno)) => Event::Broken(Cause::of_send(errno)),
            _ => Event::Broken(Cause::ClosedBeforeResponse),
        }
    }
}

fn cause_of(failure: Failure) -> Cause {
    match failure {
        Failure::Violation(violation) => Cause::of_violation2(violation),
        Failure::Reset(code) => Cause::of_reset(code),
    }
}
