//! What the server does about requests that it has read.

use std::thread;
use std::time::Duration;

use super::super::endless::DRIP;
use super::STREAMS_MAX;
use super::fault::Http2;
use super::frames::{
    CANCEL, CODES, INTERNAL_ERROR, MAX_CONCURRENT_STREAMS, OK, REFUSED_STREAM, STREAM_MAX, answer,
    data, go_away, headers, reset,
};
use super::session::{Request, Session};

/// The request of a connection at which its limit of streams changes.
const CHANGED_AT: usize = 5;
/// How long [`Http2::StreamsPaused`] takes no streams.
const PAUSE: Duration = Duration::from_millis(50);
/// The most frames of a flood, more than any client takes, and how many are written at once.
const FLOOD_MAX: usize = 100_000;
const FLOOD_PIECE: usize = 50;
/// One piece of a body without an end, how often it comes, and the most of them.
const PIECE: [u8; 16 * 1024] = [b'x'; 16 * 1024];
const PIECE_PAUSE: Duration = Duration::from_millis(5);
const PIECES_MAX: usize = 10_000;

impl Session<'_> {
    /// Responds to what has been read; returns whether the connection goes on.
    pub(super) fn respond(&mut self) -> bool {
        let batch = std::mem::take(&mut self.whole);
        let first = batch[0].stream;
        let before = self.served;
        self.served += batch.len();
        let is_change = before < CHANGED_AT && CHANGED_AT <= self.served;
        let every = |divisor: u64| -> (Vec<Request>, Vec<Request>) {
            batch.iter().copied().partition(|request| request.number.is_multiple_of(divisor))
        };
        match self.fault {
            Http2::GoAwayAfter(most) if most <= self.served => {
                let (served, refused) = batch.split_at(most - before);
                self.connection.write(&go_away(last_of(served), 0));
                self.answer(served);
                return self.refuse_all(refused);
            }
            Http2::GoAwayUnserved => {
                self.connection.write(&go_away(0, 0));
                return self.refuse_all(&batch);
            }
            Http2::GoAwayAndClose(most) if most <= self.served => {
                let (lost, refused) = batch.split_at(most - before);
                self.connection.write(&go_away(last_of(lost), INTERNAL_ERROR));
                self.connection.fin();
                self.note_broken(lost.len());
                return self.refuse_all(refused);
            }
            Http2::GoAwayTwice => {
                self.connection.write(&go_away(STREAM_MAX, 0));
                self.answer(&batch);
                thread::sleep(DRIP);
                self.connection.write(&go_away(last_of(&batch), 0));
                return self.refuse_all(&[]);
            }
            Http2::RefuseEvery(divisor) => {
                let (refused, served) = every(divisor);
                for request in &refused {
                    self.connection.write(&reset(request.stream, REFUSED_STREAM));
                }
                self.connection.server.note(|log| log.refused += refused.len() as u64);
                self.answer(&served);
            }
            Http2::ResetByEachCode => {
                for request in &batch {
                    let place = request.number % (CODES.len() as u64);
                    let code = CODES[usize::try_from(place).expect("a few codes")];
                    self.break_off(&reset(request.stream, code));
                }
            }
            Http2::ResetInBody => {
                for request in &batch {
                    let end = reset(request.stream, CANCEL);
                    self.break_off(&[part(request), end].concat());
                }
            }
            Http2::ResetAfterAnswer => {
                self.answer(&batch);
                for request in &batch {
                    self.connection.write(&reset(request.stream, 0));
                }
            }
            Http2::StallEveryThird => {
                let (stalled, served) = every(3);
                for request in &stalled {
                    self.break_off(&part(request));
                    self.unended.push(request.stream);
                }
                self.answer(&served);
            }
            Http2::BreaksStream(rule) => {
                for request in &batch {
                    self.break_off(&rule.frames(request.stream));
                }
            }
            Http2::StreamsLowered if is_change => {
                self.set(1, &[(MAX_CONCURRENT_STREAMS, 1)]);
                self.answer(&batch);
            }
            Http2::StreamsPaused if is_change => {
                self.set(0, &[(MAX_CONCURRENT_STREAMS, 0)]);
                self.answer(&batch);
                thread::sleep(PAUSE);
                self.set(STREAMS_MAX, &[(MAX_CONCURRENT_STREAMS, STREAMS_MAX)]);
            }
            Http2::CloseInBody => {
                for request in &batch {
                    self.break_off(&part(request));
                }
                self.connection.fin();
                return self.break_all();
            }
            Http2::ResetConnectionInBody => {
                for request in &batch {
                    self.break_off(&part(request));
                }
                self.connection.reset();
                return false;
            }
            Http2::CloseOnRequest => {
                self.note_broken(batch.len());
                self.connection.fin();
                return self.break_all();
            }
            Http2::EndTwice => {
                let (answered, others) = batch.split_at(1);
                self.answer(answered);
                self.note_broken(others.len());
                self.connection.write(&answer(first));
                return self.break_all();
            }
            Http2::BreaksConnection(rule) => {
                self.note_broken(batch.len());
                self.connection.write(&rule.frames(first));
                return self.break_all();
            }
            Http2::Floods(flood) => {
                self.note_broken(batch.len());
                let (start, one) = flood.frames(first);
                let piece = one.repeat(FLOOD_PIECE);
                let pieces = std::iter::once(&start)
                    .chain(std::iter::repeat_n(&piece, FLOOD_MAX / FLOOD_PIECE));
                for piece in pieces {
                    if !self.connection.write(piece) {
                        break;
                    }
                }
                return self.break_all();
            }
            _ => self.answer(&batch),
        }
        true
    }

    /// Answers each request by a body without an end, until the client gives it up.
    pub(super) fn send_endless_bodies(&mut self) {
        self.connection.stream.set_read_timeout(Some(PIECE_PAUSE)).expect("an option");
        for _ in 0..PIECES_MAX {
            if !self.poll() {
                return;
            }
            for request in std::mem::take(&mut self.whole) {
                self.break_off(&headers(request.stream, &[OK]));
                self.unended.push(request.stream);
            }
            for stream in &self.unended {
                self.connection.write(&data(*stream, &PIECE));
            }
        }
    }

    /// Answers requests, the last one first, in one piece.
    fn answer(&mut self, requests: &[Request]) {
        if requests.is_empty() {
            return;
        }
        let backwards = requests.iter().rev();
        let bytes: Vec<u8> = backwards.flat_map(|request| answer(request.stream)).collect();
        let written = self.connection.write(&bytes);
        self.connection.server.note(|log| {
            let count =
                if written { log.answers.entry(200).or_default() } else { &mut log.unwritten };
            *count += requests.len() as u64;
        });
    }

    /// Sends a response that is none.
    fn break_off(&mut self, bytes: &[u8]) {
        self.connection.write(bytes);
        self.note_broken(1);
    }

    fn note_broken(&mut self, requests: usize) {
        self.connection.server.note(|log| log.broken += requests as u64);
    }

    /// Serves no request from here on, as GOAWAY announces.
    fn refuse_all(&mut self, requests: &[Request]) -> bool {
        self.connection.server.note(|log| log.refused += requests.len() as u64);
        self.drain(|log| &mut log.refused);
        false
    }

    /// No request of the connection has an answer from here on.
    fn break_all(&mut self) -> bool {
        self.drain(|log| &mut log.broken);
        false
    }
}

/// The last stream of some requests; 0 if there are none.
fn last_of(requests: &[Request]) -> u32 {
    requests.iter().map(|request| request.stream).max().unwrap_or_default()
}

/// The first part of a response.
fn part(request: &Request) -> Vec<u8> {
    [headers(request.stream, &[OK]), data(request.stream, b"part")].concat()
}
