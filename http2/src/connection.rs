//! What frames mean: the state of a connection but for the bytes of a frame that isn't complete.

use crate::block::Block;
use crate::code::ErrorCode;
use crate::control::Control;
use crate::event::{Event, Failure, Request};
use crate::flood::Flood;
use crate::frame::{
    ACK, END_HEADERS, END_STREAM, Head, Kind, PADDED, PRIORITY, PRIORITY_BYTES, STREAM_MAX,
};
use crate::hpack::encoder::EncoderState;
use crate::hpack::full::Full;
use crate::hpack::section::Section;
use crate::hpack::skeleton::Skeleton;
use crate::reader::size;
use crate::settings::{PeerSettings, WINDOW_BEFORE_SETTINGS};
use crate::stream::{Stream, Taken};
use crate::streams::Streams;
use crate::uploads::Uploads;
use crate::violation::Violation;
use crate::window::{ReceiveWindow, SendWindow};

/// What came of a frame.
type Outcome = Result<Option<Event>, Violation>;

/// Streams that are reported one after the other, from this place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sweep {
    /// Those above the last stream of a GOAWAY.
    Unserved { place: usize, last_stream: u32 },
    /// All, since the connection has ended.
    Ended { place: usize },
}

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) streams: Streams,
    pub(crate) uploads: Uploads,
    pub(crate) control: Control,
    pub(crate) encoder: EncoderState,
    pub(crate) peer: PeerSettings,
    /// True once they have arrived.
    pub(crate) peer_known: bool,
    /// What may be sent on the connection.
    pub(crate) send_window: SendWindow,
    /// The last stream of the last GOAWAY.
    pub(crate) last_stream: Option<u32>,
    /// Decodes all fields as well.
    pub(crate) full: Option<Box<Full>>,
    pub(crate) flood: Flood,
    skeleton: Skeleton,
    block: Block,
    receive_window: ReceiveWindow,
    sweep: Option<Sweep>,
    /// True until our settings are acknowledged.
    ack_awaited: bool,
    /// True if a stream has ended otherwise than by the peer's END_STREAM, so that frames of closed
    /// streams may have been on their way.
    ended_early: bool,
}

impl Connection {
    /// The state of a new connection with at most so many streams.
    pub(crate) fn new(streams_max: usize) -> Connection {
        Connection {
            streams: Streams::new(streams_max),
            uploads: Uploads::new(streams_max),
            control: Control::new(),
            encoder: EncoderState::new(),
            peer: PeerSettings::initial(),
            peer_known: false,
            send_window: SendWindow::new(WINDOW_BEFORE_SETTINGS),
            last_stream: None,
            full: None,
            flood: Flood::default(),
            skeleton: Skeleton::new(),
            block: Block::default(),
            receive_window: ReceiveWindow::default(),
            sweep: None,
            ack_awaited: true,
            ended_early: false,
        }
    }

    /// Allocates room for a header block in several frames, and for frames to send.
    pub(crate) fn reserve(&mut self) {
        self.block.reserve();
        self.control.reserve();
    }

    /// Starts over for a new connection; buffers keep their memory.
    pub(crate) fn reset(&mut self) {
        self.streams.reset();
        self.uploads.clear();
        self.control.clear();
        self.skeleton.reset();
        self.block.end();
        if let Some(full) = &mut self.full {
            full.reset();
        }
        self.encoder = EncoderState::new();
        self.peer = PeerSettings::initial();
        self.peer_known = false;
        self.send_window = SendWindow::new(WINDOW_BEFORE_SETTINGS);
        self.receive_window = ReceiveWindow::default();
        self.flood = Flood::default();
        (self.last_stream, self.sweep) = (None, None);
        (self.ack_awaited, self.ended_early) = (true, false);
    }

    /// The memory of its buffers, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.block.memory_bytes() + self.control.memory_bytes()
    }

    /// The next of the streams that are reported one after the other.
    #[inline]
    pub(crate) fn next_swept(&mut self) -> Option<Event> {
        let sweep = self.sweep?;
        let found = match sweep {
            Sweep::Unserved { place, last_stream } => {
                self.streams.find(place, |stream| last_stream < stream.id)
            }
            Sweep::Ended { place } => self.streams.find(place, |_| true),
        };
        let Some((place, stream)) = found else {
            self.sweep = None;
            return None;
        };
        let begun = stream.has_begun() || self.block.stream() == Some(stream.id);
        let request = Request { key: stream.key, stream: stream.id };
        self.streams.remove(request.stream);
        let place = place + 1;
        Some(match sweep {
            Sweep::Unserved { last_stream, .. } => {
                self.sweep = Some(Sweep::Unserved { place, last_stream });
                Event::Unserved(request)
            }
            Sweep::Ended { .. } => {
                self.sweep = Some(Sweep::Ended { place });
                let violation =
                    if begun { Violation::CutShort } else { Violation::ClosedBeforeResponse };
                Event::Failed(request, Failure::Violation(violation))
            }
        })
    }

    /// The peer has closed the connection: all streams fail.
    pub(crate) fn finish(&mut self) {
        self.sweep = Some(Sweep::Ended { place: 0 });
    }

    /// A whole frame, but not DATA.
    ///
    /// # Errors
    /// If it breaks a rule that ends the connection.
    #[inline]
    pub(crate) fn take_frame(&mut self, head: Head, payload: &[u8]) -> Outcome {
        if self.block.stream().is_some() && head.kind != Kind::Continuation {
            return Err(Violation::BlockInterrupted);
        }
        match head.kind {
            Kind::Headers => self.take_headers(head, payload),
            Kind::Continuation => self.take_continuation(head, payload),
            Kind::Settings => self.take_settings(head, payload),
            Kind::WindowUpdate => self.take_window_update(head, payload),
            Kind::ResetStream => self.take_reset(head, payload),
            Kind::Ping => self.take_ping(head, payload),
            Kind::GoAway => self.take_go_away(payload),
            Kind::PushPromise => Err(Violation::PushPromise),
            Kind::Priority | Kind::Unknown => self.take_idle(Violation::FrameFlood),
            Kind::Data => unreachable!("the reader passes DATA on in parts"),
        }
    }

    /// A part of a DATA frame.
    ///
    /// # Errors
    /// If it breaks a rule that ends the connection.
    #[inline]
    pub(crate) fn take_data(
        &mut self,
        head: Head,
        data_bytes: u32,
        first: bool,
        last: bool,
        empty: bool,
    ) -> Outcome {
        if first {
            self.begin_data(head)?;
        }
        let ends = head.has(END_STREAM);
        let empty = last && empty && !ends;
        if empty {
            self.take_idle(Violation::EmptyDataFlood)?;
        } else if last {
            self.flood.progress();
        }
        let Some(stream) = self.streams.get(head.stream) else {
            return match first {
                true => self.take_closed().map(|()| None),
                false => Ok(None),
            };
        };
        if first {
            stream.count_frame();
            let renewed = stream.receive_window.receive(head.length);
            if !ends && let Some(bytes) = renewed {
                self.control.window_update(head.stream, bytes);
            }
        }
        let mut taken = stream.take_data(data_bytes).map(|()| Taken::Part);
        if last && ends && taken.is_ok() {
            taken = stream.end();
        }
        match taken {
            Ok(Taken::End) => Ok(Some(self.done(head.stream))),
            Ok(_) => Ok(None),
            Err(violation) => Ok(Some(self.fail(head.stream, violation))),
        }
    }

    /// The rules that a DATA frame can break before its first byte.
    #[inline]
    fn begin_data(&mut self, head: Head) -> Result<(), Violation> {
        if self.block.stream().is_some() {
            return Err(Violation::BlockInterrupted);
        }
        self.check_stream(head.stream)?;
        // Also for a stream that has ended: the bytes have used the connection's window.
        if let Some(bytes) = self.receive_window.receive(head.length) {
            self.control.window_update(0, bytes);
        }
        Ok(())
    }

    /// The request of an open stream.
    pub(crate) fn request(&mut self, stream: u32) -> Option<Request> {
        self.streams.get(stream).map(|open| Request { key: open.key, stream })
    }

    /// A HEADERS frame.
    #[inline]
    fn take_headers(&mut self, head: Head, payload: &[u8]) -> Outcome {
        self.check_stream(head.stream)?;
        let fragment = strip(head, payload)?;
        let ends = head.has(END_STREAM);
        if head.has(END_HEADERS) {
            return self.take_block(head.stream, ends, fragment, 1);
        }
        self.block.begin(head.stream, ends, fragment);
        Ok(None)
    }

    /// A CONTINUATION frame.
    fn take_continuation(&mut self, head: Head, payload: &[u8]) -> Outcome {
        match self.block.stream() {
            None => return Err(Violation::StrayContinuation),
            Some(stream) if stream != head.stream => return Err(Violation::BlockInterrupted),
            Some(_) => {}
        }
        self.block.go_on(payload)?;
        if !head.has(END_HEADERS) {
            return Ok(None);
        }
        let mut block = std::mem::take(&mut self.block);
        let (ends, frames) = (block.end_stream(), block.frames());
        let outcome = self.take_block(head.stream, ends, block.bytes(), frames);
        block.end();
        self.block = block;
        outcome
    }

    /// A whole header block.
    #[inline]
    fn take_block(&mut self, id: u32, ends: bool, block: &[u8], frames: u32) -> Outcome {
        let section = self.decode(block)?;
        let Some(stream) = self.streams.get(id) else {
            self.take_closed()?;
            return self.take_idle(Violation::FrameFlood);
        };
        let request = Request { key: stream.key, stream: id };
        let block_bytes = u32::try_from(block.len()).expect("blocks are limited");
        match stream.take_section(&section, block_bytes, frames, ends) {
            Ok(Taken::Interim(status)) => Ok(Some(Event::Interim(request, status))),
            Ok(Taken::End) => Ok(Some(self.done(id))),
            Ok(Taken::Part) => {
                let status = stream.response().status;
                Ok(self.full.is_some().then_some(Event::Head(request, status)))
            }
            Err(violation) => Ok(Some(self.fail(id, violation))),
        }
    }

    /// Decodes a block, on some connections in full as well.
    #[inline]
    fn decode(&mut self, block: &[u8]) -> Result<Section, Violation> {
        let section = self.skeleton.decode(block);
        let Some(full) = &mut self.full else { return section };
        assert_eq!(full.decode(block), section, "both decoders agree");
        let mut section = section?;
        section.broken = section.broken.or(full.check_values().err());
        Ok(section)
    }

    /// A SETTINGS frame.
    fn take_settings(&mut self, head: Head, payload: &[u8]) -> Outcome {
        if head.has(ACK) {
            let awaited = std::mem::take(&mut self.ack_awaited);
            return if awaited { Ok(None) } else { Err(Violation::SettingsAck) };
        }
        let before = i64::from(self.peer.initial_window);
        if let Some(bytes) = self.peer.apply(payload)? {
            self.encoder.limit(bytes);
        }
        self.control.settings_ack();
        if self.peer_known {
            self.take_idle(Violation::SettingsFlood)?;
        }
        self.peer_known = true;
        let change = i64::from(self.peer.initial_window) - before;
        if change != 0 {
            if !self.streams.all().all(|stream| stream.send_window.change(change)) {
                return Err(Violation::InitialWindow);
            }
            self.queue_all();
        }
        Ok(Some(Event::Settings))
    }

    /// A WINDOW_UPDATE frame.
    fn take_window_update(&mut self, head: Head, payload: &[u8]) -> Outcome {
        self.take_idle(Violation::FrameFlood)?;
        let increment = number(payload) & STREAM_MAX;
        if head.stream == 0 {
            if increment == 0 {
                return Err(Violation::ConnectionIncrement);
            }
            let was_closed = self.send_window.room() == 0;
            if !self.send_window.change(i64::from(increment)) {
                return Err(Violation::ConnectionWindow);
            }
            let goes_on = was_closed && !self.uploads.is_empty();
            return Ok(goes_on.then_some(Event::WindowOpened));
        }
        self.check_stream(head.stream)?;
        let Some(stream) = self.streams.get(head.stream) else { return Ok(None) };
        if increment == 0 {
            return Ok(Some(self.fail(head.stream, Violation::StreamIncrement)));
        }
        if !stream.send_window.change(i64::from(increment)) {
            return Ok(Some(self.fail(head.stream, Violation::StreamWindow)));
        }
        let goes_on = self.queue(head.stream) && 0 < self.send_window.room();
        Ok(goes_on.then_some(Event::WindowOpened))
    }

    /// A RST_STREAM frame.
    fn take_reset(&mut self, head: Head, payload: &[u8]) -> Outcome {
        self.check_stream(head.stream)?;
        let Some(stream) = self.streams.get(head.stream) else {
            return self.take_idle(Violation::ResetFlood);
        };
        let request = Request { key: stream.key, stream: head.stream };
        self.streams.remove(head.stream);
        self.ended_early = true;
        Ok(Some(match ErrorCode(number(payload)) {
            ErrorCode::REFUSED_STREAM => Event::Refused(request),
            code => Event::Failed(request, Failure::Reset(code)),
        }))
    }

    /// A PING frame.
    fn take_ping(&mut self, head: Head, payload: &[u8]) -> Outcome {
        if !head.has(ACK) {
            self.control.ping_ack(payload);
        }
        self.take_idle(Violation::PingFlood)
    }

    /// A GOAWAY frame. It may be the first of two: one that only announces the end has the greatest
    /// identifier as its last (RFC 9113, section 6.8).
    fn take_go_away(&mut self, payload: &[u8]) -> Outcome {
        self.take_idle(Violation::FrameFlood)?;
        let last_stream = number(payload) & STREAM_MAX;
        if self.last_stream.is_some_and(|before| before < last_stream) {
            return Err(Violation::GoAwayRaised);
        }
        self.last_stream = Some(last_stream);
        self.sweep = Some(Sweep::Unserved { place: 0, last_stream });
        Ok(Some(Event::GoAway { last_stream, code: ErrorCode(number(&payload[4..])) }))
    }

    /// A frame that brings nothing.
    fn take_idle(&mut self, flood: Violation) -> Outcome {
        if self.flood.idle_frame() { Ok(None) } else { Err(flood) }
    }

    /// HEADERS or DATA for a stream that has ended. They may have been on their way when we gave it
    /// up, or when the peer did.
    fn take_closed(&self) -> Result<(), Violation> {
        if self.ended_early { Ok(()) } else { Err(Violation::ClosedStream) }
    }

    /// Checks that a frame's stream is one that we have begun.
    #[inline]
    fn check_stream(&self, id: u32) -> Result<(), Violation> {
        if id.is_multiple_of(2) {
            return Err(Violation::ServerStream);
        }
        if self.streams.is_idle(id) { Err(Violation::IdleStream) } else { Ok(()) }
    }

    /// A response is complete.
    #[inline]
    fn done(&mut self, id: u32) -> Event {
        let stream = self.open(id);
        let (request, response) = (Request { key: stream.key, stream: id }, stream.response());
        if 0 < stream.body_left {
            // The server has answered without waiting for the rest, which is no longer needed.
            self.control.reset_stream(id, ErrorCode::CANCEL);
        }
        self.flood.progress();
        self.streams.remove(id);
        Event::Done(request, response)
    }

    /// A stream breaks a rule.
    fn fail(&mut self, id: u32, violation: Violation) -> Event {
        let request = Request { key: self.open(id).key, stream: id };
        self.cancel(id, violation.error_code());
        Event::Failed(request, Failure::Violation(violation))
    }

    /// Gives up a stream, if it is open.
    pub(crate) fn cancel(&mut self, id: u32, code: ErrorCode) {
        if self.streams.get(id).is_some() {
            self.control.reset_stream(id, code);
            self.streams.remove(id);
            self.ended_early = true;
        }
    }

    fn open(&mut self, id: u32) -> &mut Stream {
        self.streams.get(id).expect("an open stream")
    }

    /// Queues a stream that has something to send and a window; true if it has.
    pub(crate) fn queue(&mut self, id: u32) -> bool {
        let stream = self.open(id);
        let can_send = 0 < stream.body_left && 0 < stream.send_window.room();
        if can_send && !stream.queued {
            stream.queued = true;
            let streams = &mut self.streams;
            self.uploads.push(id, |&id| streams.get(id).is_some());
        }
        can_send
    }

    /// Queues all of those.
    fn queue_all(&mut self) {
        let mut place = 0;
        while let Some((found, stream)) =
            self.streams.find(place, |stream| 0 < stream.body_left && !stream.queued)
        {
            place = found + 1;
            let id = stream.id;
            self.queue(id);
        }
    }
}

/// The block fragment of a HEADERS frame, without padding and priority.
#[inline]
fn strip(head: Head, payload: &[u8]) -> Result<&[u8], Violation> {
    let mut fragment = payload;
    let mut padding = 0;
    if head.has(PADDED) {
        (padding, fragment) = (usize::from(payload[0]), &payload[1..]);
    }
    if head.has(PRIORITY) {
        fragment = &fragment[size(PRIORITY_BYTES)..];
    }
    let length = fragment.len().checked_sub(padding).ok_or(Violation::Padding)?;
    Ok(&fragment[..length])
}

/// The number in the first four bytes.
fn number(payload: &[u8]) -> u32 {
    u32::from_be_bytes(*payload.first_chunk().expect("the head's length was checked"))
}
