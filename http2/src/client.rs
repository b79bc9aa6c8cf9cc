//! One connection of a client: requests in, bytes out; bytes in, events out.
//!
//! It keeps no body. Of a request's body it decides only which part may be sent when, so that the
//! caller can send it from where it lies; of a response's body it counts the bytes. So a response
//! of 1 GiB needs no more memory than any other, and memory is bounded by the number of streams and
//! by limits on what a server can send.
//!
//! Requests wait until the server's settings have arrived, since those say how many streams it
//! takes: what is sent before may be refused.

use crate::code::ErrorCode;
use crate::connection::Connection;
use crate::event::Event;
use crate::frame::{END_HEADERS, END_STREAM, HEAD_BYTES, Head, Kind, PAYLOAD_MAX};
use crate::hpack::full::{Field, Full};
use crate::reader::{Piece, Reader, size};
use crate::request::Requests;
use crate::settings::{
    OURS, PeerSettings, RECEIVE_WINDOW, SETTING_BYTES, WINDOW_BEFORE_SETTINGS, write_ours,
};
use crate::stream::Asked;
use crate::violation::Violation;
use crate::window::SendWindow;

/// What a client's connection begins with (RFC 9113, section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The longest payload of the DATA frames that we send, whatever the peer allows, bytes: what one
/// send of a large body carries.
const UPLOAD_MAX: u32 = 256 * 1024;

/// Why no request can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The server's settings haven't arrived.
    Settings,
    /// As many streams are open as the client was made for, or as the server takes.
    Streams,
    /// The server has sent GOAWAY, the identifiers are used up, or the connection has ended: only
    /// another connection takes more.
    Connection,
}

/// The part of a request's body that is to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyPart {
    /// The caller's name for the request.
    pub key: u64,
    /// What has to be sent before it.
    pub head: [u8; HEAD_BYTES],
    /// Where in the body it begins, bytes.
    pub at: u64,
    /// Its length, bytes.
    pub bytes: u32,
    /// True if it is the last.
    pub last: bool,
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    reader: Reader,
    connection: Connection,
    streams_max: usize,
    /// The rule that ended the connection.
    broken: Option<Violation>,
    /// True once the connection has ended without one.
    finished: bool,
    /// What came of a part of a body that was passed on.
    after_data: Option<Event>,
}

impl Client {
    /// A connection with at most so many streams at once, from 1 to 2²⁰.
    pub fn new(streams_max: usize) -> Client {
        assert!((1..=1 << 20).contains(&streams_max), "a number of streams");
        Client {
            reader: Reader::new(),
            connection: Connection::new(streams_max),
            streams_max,
            broken: None,
            finished: false,
            after_data: None,
        }
    }

    /// Allocates now what a frame that arrives in pieces, a header block in several frames and a
    /// few hundred frames to send need, so that only more to send allocates later.
    pub fn reserve(&mut self) {
        self.reader.reserve();
        self.connection.reserve();
    }

    /// Decodes all fields of all responses from now on, which allocates: the connection then finds
    /// forbidden bytes in values too, [`Client::fields`] can be read, and bodies are passed on as
    /// they arrive ([`Event::Data`]). It has to be called before anything is received.
    pub fn decode_fully(&mut self) {
        self.connection.full = Some(Box::default());
    }

    /// The fields of the last header block, after [`Event::Head`], [`Event::Interim`] or
    /// [`Event::Done`]; none unless all are decoded.
    pub fn fields(&self) -> &[Field] {
        self.connection.full.as_deref().map_or(&[], Full::fields)
    }

    /// Starts over on a new connection; buffers keep their memory.
    pub fn reset(&mut self) {
        self.reader.reset();
        self.connection.reset();
        (self.broken, self.finished) = (None, false);
        self.after_data = None;
    }

    /// Appends what the connection begins with: the preface, our settings, and the connection's
    /// window.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        let length = u32::try_from(OURS.len() * SETTING_BYTES).expect("a few settings");
        out.extend_from_slice(&Head { length, kind: Kind::Settings, flags: 0, stream: 0 }.bytes());
        write_ours(out);
        self.connection.control.window_update(0, RECEIVE_WINDOW - WINDOW_BEFORE_SETTINGS);
        self.connection.control.take(out);
    }

    /// The server's settings; `None` until they have arrived.
    pub fn peer_settings(&self) -> Option<PeerSettings> {
        self.connection.peer_known.then_some(self.connection.peer)
    }

    /// The number of open streams.
    #[inline]
    pub fn open(&self) -> usize {
        self.connection.streams.open()
    }

    /// How many more requests can begin; 0 until the server's settings have arrived.
    #[inline]
    pub fn room(&self) -> usize {
        match self.refusal() {
            None => self.limit() - self.open(),
            Some(_) => 0,
        }
    }

    /// Why no request can begin; `None` if one can.
    #[inline]
    pub fn refusal(&self) -> Option<NoRoom> {
        let ended = self.broken.is_some() || self.finished;
        let Connection { streams, last_stream, peer_known, .. } = &self.connection;
        if ended || last_stream.is_some() || streams.is_used_up() {
            Some(NoRoom::Connection)
        } else if !peer_known {
            Some(NoRoom::Settings)
        } else if self.limit() <= self.open() {
            Some(NoRoom::Streams)
        } else {
            None
        }
    }

    /// True if the connection can be closed: it takes no more requests, and none is open.
    pub fn is_drained(&self) -> bool {
        self.open() == 0 && self.refusal() == Some(NoRoom::Connection)
    }

    /// How many streams may be open.
    #[inline]
    fn limit(&self) -> usize {
        let theirs = self.connection.peer.streams_max.map_or(self.streams_max, size);
        theirs.min(self.streams_max)
    }

    /// Begins a request: appends its HEADERS, and returns its stream.
    ///
    /// `requests` must be the same for all requests of a connection, since the server's table holds
    /// what they share. `values` are those of the fields that vary, in their order; the caller sees
    /// to it that they are valid there. A body is sent by [`Client::next_body_part`].
    ///
    /// # Errors
    /// If none can begin; nothing is appended then.
    #[inline]
    pub fn begin(
        &mut self,
        requests: &Requests,
        request: usize,
        values: &[&[u8]],
        body_bytes: u64,
        key: u64,
        out: &mut Vec<u8>,
    ) -> Result<u32, NoRoom> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        let connection = &mut self.connection;
        let id = connection.streams.next_id().ok_or(NoRoom::Connection)?;
        let asked = Asked { key, is_head: requests.is_head(request), body_bytes };
        connection.streams.begin(id, asked, SendWindow::new(connection.peer.initial_window));

        let start = out.len();
        out.extend_from_slice(&[0; HEAD_BYTES]);
        let mode = connection.encoder.next(requests.table_bytes(), out);
        requests.write(request, mode, values, out);
        let end_stream = if body_bytes == 0 { END_STREAM } else { 0 };
        let length = out.len() - start - HEAD_BYTES;
        match u32::try_from(length).ok().filter(|&length| length <= connection.peer.payload_max) {
            Some(length) => {
                let flags = END_HEADERS | end_stream;
                let head = Head { length, kind: Kind::Headers, flags, stream: id };
                out[start..start + HEAD_BYTES].copy_from_slice(&head.bytes());
            }
            None => split_block(id, end_stream, start, out),
        }
        if 0 < body_bytes {
            connection.queue(id);
        }
        Ok(id)
    }

    /// The part of a body that is to be sent next, at most `bytes_max` long; `None` if nothing may
    /// be sent, because there is no body, or no window. What it returns counts as sent.
    ///
    /// Bodies take turns, a frame each.
    #[inline]
    pub fn next_body_part(&mut self, bytes_max: u32) -> Option<BodyPart> {
        let connection = &mut self.connection;
        let most = bytes_max
            .min(connection.peer.payload_max)
            .min(connection.send_window.room())
            .min(UPLOAD_MAX);
        while let Some(id) = connection.uploads.first() {
            if most == 0 {
                return None;
            }
            connection.uploads.remove_first();
            let Some(stream) = connection.streams.get(id) else { continue };
            stream.queued = false;
            let bytes = most.min(stream.send_window.room());
            let bytes = u32::try_from(stream.body_left).map_or(bytes, |left| bytes.min(left));
            if bytes == 0 {
                // It is queued again when its window opens.
                continue;
            }
            let at = stream.body_sent;
            stream.send_window.send(bytes);
            stream.body_sent += u64::from(bytes);
            stream.body_left -= u64::from(bytes);
            let (key, last) = (stream.key, stream.body_left == 0);
            connection.send_window.send(bytes);
            connection.flood.progress();
            connection.queue(id);
            let flags = if last { END_STREAM } else { 0 };
            let head = Head { length: bytes, kind: Kind::Data, flags, stream: id }.bytes();
            return Some(BodyPart { key, head, at, bytes, last });
        }
        None
    }

    /// Gives up a stream, if it is still open. What comes for it from now on is ignored.
    pub fn cancel(&mut self, stream: u32) {
        self.connection.cancel(stream, ErrorCode::CANCEL);
    }

    /// Gives up the open stream of the request with this name, which is searched for among all;
    /// false if there is none.
    pub fn cancel_request(&mut self, key: u64) -> bool {
        let stream = self.connection.streams.find(0, |stream| stream.key == key);
        let Some(id) = stream.map(|(_, stream)| stream.id) else { return false };
        self.cancel(id);
        true
    }

    /// Consumes bytes of the connection up to the next event; returns how many.
    ///
    /// The caller goes on with the rest until [`Event::NeedMore`], also after the last byte: some
    /// events come without bytes of their own.
    #[inline]
    pub fn receive(&mut self, bytes: &[u8]) -> (usize, Event) {
        if let Some(event) = self.after_data {
            self.after_data = None;
            return (0, event);
        }
        if let Some(violation) = self.broken {
            return (0, Event::Broken(violation));
        }
        if let Some(event) = self.connection.next_swept() {
            return (0, event);
        }
        let mut at = 0;
        loop {
            let outcome = match self.reader.next(&bytes[at..]) {
                Ok((taken, Piece::NeedMore)) => return (at + taken, Event::NeedMore),
                Ok((taken, Piece::Frame(head, payload))) => {
                    at += taken;
                    self.connection.take_frame(head, payload)
                }
                Ok((taken, Piece::Data { head, data_bytes, data_at, first, last, empty })) => {
                    let data_at = at + size(data_at);
                    at += taken;
                    let open = match self.connection.full {
                        Some(_) if 0 < data_bytes => self.connection.request(head.stream),
                        _ => None,
                    };
                    let outcome = self.connection.take_data(head, data_bytes, first, last, empty);
                    match (open, outcome) {
                        (Some(request), Ok(event)) => {
                            self.after_data = match self.connection.control.is_unread() {
                                true => Some(self.fail(Violation::AnswersUnread)),
                                false => event,
                            };
                            let bytes = size(data_bytes);
                            return (at, Event::Data { request, at: data_at, bytes });
                        }
                        (_, outcome) => outcome,
                    }
                }
                Err(violation) => Err(violation),
            };
            match outcome {
                _ if self.connection.control.is_unread() => {
                    return (at, self.fail(Violation::AnswersUnread));
                }
                Ok(None) => {}
                Ok(Some(event)) => return (at, event),
                Err(violation) => return (at, self.fail(violation)),
            }
        }
    }

    /// Takes the end of what the server sends: [`Client::receive`] then reports each open stream
    /// as failed.
    pub fn finish(&mut self) {
        self.finished = true;
        self.connection.finish();
    }

    /// True if frames of the connection itself are to be sent: acknowledgements, resets, window
    /// updates.
    #[inline]
    pub fn wants_write(&self) -> bool {
        self.connection.control.is_waiting()
    }

    /// Appends those frames. After [`Event::Broken`], the last one names the reason.
    #[inline]
    pub fn write(&mut self, out: &mut Vec<u8>) {
        self.connection.control.take(out);
    }

    /// Tells the server that the connection is closed on purpose.
    pub fn close(&mut self) {
        self.connection.control.go_away(ErrorCode::NO_ERROR);
    }

    /// The memory of its buffers, bytes; that of streams and tables doesn't change.
    pub fn memory_bytes(&self) -> usize {
        self.reader.memory_bytes() + self.connection.memory_bytes()
    }

    /// A rule is broken that ends the connection.
    fn fail(&mut self, violation: Violation) -> Event {
        self.connection.control.go_away(violation.error_code());
        self.broken = Some(violation);
        Event::Broken(violation)
    }
}

/// Cuts the block that is at the output's end, behind room for a head, into frames of 16 KiB.
fn split_block(stream: u32, end_stream: u8, start: usize, out: &mut Vec<u8>) {
    let block = start + HEAD_BYTES;
    let (bytes, most) = (out.len() - block, size(PAYLOAD_MAX));
    let last = bytes.div_ceil(most) - 1;
    out.resize(out.len() + last * HEAD_BYTES, 0);
    // From the last on, since each moves back by the heads before it.
    for place in (0..=last).rev() {
        let (from, to) = (place * most, bytes.min((place + 1) * most));
        let at = start + place * HEAD_BYTES + from;
        out.copy_within(block + from..block + to, at + HEAD_BYTES);
        let kind = if place == 0 { Kind::Headers } else { Kind::Continuation };
        let begins = if place == 0 { end_stream } else { 0 };
        let flags = begins | if place == last { END_HEADERS } else { 0 };
        let length = u32::try_from(to - from).expect("at most 16 KiB");
        let head = Head { length, kind, flags, stream };
        out[at..at + HEAD_BYTES].copy_from_slice(&head.bytes());
    }
}
