//! The frames of one HTTP/2 connection: which streams wait for a response, in any split of the
//! bytes, and what is sent.
//!
//! There is no socket here. Header blocks are skipped, since every request gets the same response:
//! a HEAD gets a body too. Each frame that can't be skipped is checked only as far as needed to stay
//! in step with the client.

use std::collections::VecDeque;

use super::responses::BODY;

/// The beginning of every HTTP/2 connection (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The most responses that may be pending on a connection, and so the most streams: one more ends
/// it.
const STREAMS_MAX: u32 = 1 << 16;

/// The most bytes that one call of [`Frames::write`] adds.
pub(super) const WRITE_MAX: usize = 16 << 10;

/// The most answers to PING and to SETTINGS that may be pending; one more ends the connection.
const ACKS_MAX: usize = 64;

/// The longest payload: what a client may send unless a server allows more.
const PAYLOAD_MAX: u32 = 16_384;

/// The windows: as large as they may be, so that a body waits for nothing. That of a stream is
/// never updated, so a body has less than 2 GiB.
const WINDOW: u32 = (1 << 31) - 1;
/// The initial window of a connection, and of a stream without a setting.
const WINDOW_INITIAL: u32 = 65_535;
/// The received bytes after which the connection's window is updated.
const WINDOW_UPDATE_AFTER: u32 = 1 << 30;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// A stream's number, or an increment, without the reserved bit before it.
const LOW_31_BITS: u32 = u32::MAX >> 1;
/// The length of a frame's header, bytes.
const HEADER_LEN: usize = 9;

const BODY_LEN: u8 = 27;
const _: () = assert!(BODY.len() == BODY_LEN as usize);

/// The response: HEADERS with `:status: 200`, which has an index of its own, and DATA.
const RESPONSE_LEN: usize = HEADER_LEN + 1 + HEADER_LEN + BODY.len();
const RESPONSE: [u8; RESPONSE_LEN] = {
    let mut bytes = [0; RESPONSE_LEN];
    (bytes[2], bytes[3], bytes[4], bytes[9]) = (1, HEADERS, END_HEADERS, 0x88);
    (bytes[12], bytes[13], bytes[14]) = (BODY_LEN, DATA, END_STREAM);
    let mut at = 0;
    while at < BODY.len() {
        bytes[19 + at] = BODY.as_bytes()[at];
        at += 1;
    }
    bytes
};
/// Where it has the stream's number.
const STREAM_AT: [usize; 2] = [5, 15];

/// The client broke the protocol, or a limit of this server.
struct Broken;

/// A frame whose payload is being read.
#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    /// What remains of the payload, bytes.
    left: usize,
}

/// The frames of one connection, after the preface.
#[derive(Debug)]
pub(super) struct Frames {
    frame: Option<Frame>,
    /// The part seen so far of a header, or of a unit of a payload, that is read as a whole.
    part: [u8; HEADER_LEN],
    part_len: usize,
    /// The stream whose header block goes on in a CONTINUATION, and whether it ends the request.
    headers: Option<(u32, bool)>,
    /// Streams to be answered, in the order of their requests.
    pending: VecDeque<u32>,
    /// Settings to send, once.
    greets: bool,
    settings_acks: usize,
    pings: Vec<[u8; 8]>,
    /// Bytes of bodies since the last update of the connection's window.
    received: u32,
    /// What the client lets us send on the connection, bytes.
    window: u64,
    ended: bool,
}

impl Frames {
    /// A connection whose preface has been received.
    pub(super) fn new() -> Frames {
        Frames {
            frame: None,
            part: [0; HEADER_LEN],
            part_len: 0,
            headers: None,
            pending: VecDeque::new(),
            greets: true,
            settings_acks: 0,
            pings: Vec::new(),
            received: 0,
            window: u64::from(WINDOW_INITIAL),
            ended: false,
        }
    }

    /// Ignores all further bytes; pending responses stay pending.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// True if all further bytes are ignored.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Takes the connection's next bytes; returns how many requests they complete. If they break
    /// the protocol, or a limit of this server, the connection ends without further responses.
    pub(super) fn take(&mut self, bytes: &[u8]) -> u64 {
        let before = self.pending.len();
        if !self.ended && self.take_frames(bytes).is_err() {
            self.pending.truncate(before);
            self.ended = true;
        }
        (self.pending.len() - before) as u64
    }

    fn take_frames(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        while !bytes.is_empty() {
            if let Some(frame) = self.frame {
                self.take_payload(frame, &mut bytes)?;
            } else if self.gather(HEADER_LEN, &mut bytes) {
                self.begin()?;
            }
        }
        Ok(())
    }

    /// Takes what there is of the current frame's payload.
    #[inline]
    fn take_payload(&mut self, frame: Frame, bytes: &mut &[u8]) -> Result<(), Broken> {
        let taken = match unit_len(frame.kind) {
            None => {
                let taken = frame.left.min(bytes.len());
                *bytes = &bytes[taken..];
                taken
            }
            Some(len) if self.gather(len, bytes) => {
                self.take_unit(frame)?;
                len
            }
            Some(_) => return Ok(()),
        };
        self.frame = Some(Frame { left: frame.left - taken, ..frame });
        self.end_if_whole()
    }

    /// Moves bytes into the part until it has `len` of them; returns whether it has.
    #[inline]
    fn gather(&mut self, len: usize, bytes: &mut &[u8]) -> bool {
        let taken = (len - self.part_len).min(bytes.len());
        self.part[self.part_len..][..taken].copy_from_slice(&bytes[..taken]);
        *bytes = &bytes[taken..];
        self.part_len += taken;
        let is_whole = self.part_len == len;
        if is_whole {
            self.part_len = 0;
        }
        is_whole
    }

    /// Begins the frame whose header is the part.
    #[inline]
    fn begin(&mut self) -> Result<(), Broken> {
        let [high, middle, low, kind, flags, stream @ ..] = self.part;
        let length = u32::from_be_bytes([0, high, middle, low]);
        let stream = u32::from_be_bytes(stream) & LOW_31_BITS;
        if PAYLOAD_MAX < length || self.headers.is_some() != (kind == CONTINUATION) {
            return Err(Broken);
        }
        let left = length as usize;
        let is_valid = match kind {
            // Only clients send these, and their streams are odd.
            DATA | HEADERS | CONTINUATION => stream % 2 == 1,
            SETTINGS => stream == 0 && left.is_multiple_of(6) && (flags & ACK == 0 || left == 0),
            PING => stream == 0 && left == 8,
            WINDOW_UPDATE => left == 4,
            PUSH_PROMISE => false,
            _ => true,
        };
        if !is_valid {
            return Err(Broken);
        }
        match kind {
            HEADERS => self.headers = Some((stream, flags & END_STREAM != 0)),
            // More than the window that it was given.
            DATA if WINDOW - self.received < length => return Err(Broken),
            DATA => self.received += length,
            _ => {}
        }
        self.frame = Some(Frame { kind, flags, stream, left });
        self.end_if_whole()
    }

    /// Takes the unit of a payload that is the part.
    fn take_unit(&mut self, frame: Frame) -> Result<(), Broken> {
        let [a, b, c, d, e, f, g, h, _] = self.part;
        match frame.kind {
            PING if frame.flags & ACK == 0 => {
                self.pings.push([a, b, c, d, e, f, g, h]);
                if ACKS_MAX < self.pings.len() { Err(Broken) } else { Ok(()) }
            }
            // A stream's window below a body would have to be counted for each stream.
            SETTINGS if u16::from_be_bytes([a, b]) == INITIAL_WINDOW_SIZE => {
                let window = u32::from_be_bytes([c, d, e, f]);
                if window < u32::from(BODY_LEN) { Err(Broken) } else { Ok(()) }
            }
            WINDOW_UPDATE if frame.stream == 0 => {
                self.window += u64::from(u32::from_be_bytes([a, b, c, d]) & LOW_31_BITS);
                if u64::from(WINDOW) < self.window { Err(Broken) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Ends the current frame if all of it was read.
    #[inline]
    fn end_if_whole(&mut self) -> Result<(), Broken> {
        let Some(frame) = self.frame.take_if(|frame| frame.left == 0) else { return Ok(()) };
        match (frame.kind, self.headers) {
            (HEADERS | CONTINUATION, Some((stream, ends))) if frame.flags & END_HEADERS != 0 => {
                self.headers = None;
                if stream != frame.stream {
                    return Err(Broken);
                }
                if ends { self.answer(stream) } else { Ok(()) }
            }
            (DATA, _) if frame.flags & END_STREAM != 0 => self.answer(frame.stream),
            (SETTINGS, _) if frame.flags & ACK == 0 => {
                self.settings_acks += 1;
                if ACKS_MAX < self.settings_acks { Err(Broken) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    fn answer(&mut self, stream: u32) -> Result<(), Broken> {
        if STREAMS_MAX as usize <= self.pending.len() {
            return Err(Broken);
        }
        self.pending.push_back(stream);
        Ok(())
    }

    /// Adds what is to be sent next, at most [`WRITE_MAX`] bytes.
    pub(super) fn write(&mut self, out: &mut Vec<u8>) {
        let limit = out.len() + WRITE_MAX;
        if std::mem::take(&mut self.greets) {
            push_frame(
                out,
                SETTINGS,
                0,
                &[
                    setting(MAX_CONCURRENT_STREAMS, STREAMS_MAX),
                    setting(INITIAL_WINDOW_SIZE, WINDOW),
                ]
                .concat(),
            );
            push_frame(out, WINDOW_UPDATE, 0, &(WINDOW - WINDOW_INITIAL).to_be_bytes());
        }
        for _ in 0..std::mem::take(&mut self.settings_acks) {
            push_frame(out, SETTINGS, ACK, &[]);
        }
        for ping in self.pings.drain(..) {
            push_frame(out, PING, ACK, &ping);
        }
        if WINDOW_UPDATE_AFTER <= self.received {
            push_frame(out, WINDOW_UPDATE, 0, &self.received.to_be_bytes());
            self.received = 0;
        }
        let room = (limit - out.len()) / RESPONSE_LEN;
        let allowed = self.window / u64::from(BODY_LEN);
        let count = room.min(self.pending.len()).min(allowed.try_into().unwrap_or(room));
        self.window -= count as u64 * u64::from(BODY_LEN);
        for stream in self.pending.drain(..count) {
            let mut response = RESPONSE;
            for at in STREAM_AT {
                response[at..at + 4].copy_from_slice(&stream.to_be_bytes());
            }
            out.extend_from_slice(&response);
        }
    }
}

/// The length of the units in which the payload of such a frame is read; `None` if it is skipped.
fn unit_len(kind: u8) -> Option<usize> {
    match kind {
        SETTINGS => Some(6),
        PING => Some(8),
        WINDOW_UPDATE => Some(4),
        _ => None,
    }
}

fn setting(name: u16, value: u32) -> [u8; 6] {
    let ([a, b], [c, d, e, f]) = (name.to_be_bytes(), value.to_be_bytes());
    [a, b, c, d, e, f]
}

/// Adds a short frame of the connection.
fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, payload: &[u8]) {
    let length = u8::try_from(payload.len()).expect("a short payload");
    out.extend_from_slice(&[0, 0, length, kind, flags, 0, 0, 0, 0]);
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with a stream below 256.
    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(payload.len()).expect("a payload").to_be_bytes();
        [&[0, length[0], length[1], kind, flags, 0, 0, 0, stream], payload].concat()
    }

    /// What a client sends first.
    fn hello() -> Vec<u8> {
        let settings = [setting(MAX_CONCURRENT_STREAMS, 0), setting(INITIAL_WINDOW_SIZE, 27)];
        frame(SETTINGS, 0, 0, &settings.concat())
    }

    fn get(stream: u8) -> Vec<u8> {
        frame(HEADERS, END_STREAM | END_HEADERS, stream, &[0x82, 0x84, 0x86])
    }

    /// What is sent after these pieces, without the greeting, and how many requests they complete.
    fn ask(frames: &mut Frames, pieces: &[&[u8]]) -> (Vec<u8>, u64) {
        let mut greeting = Vec::new();
        frames.write(&mut greeting);
        let completed = pieces.iter().map(|piece| frames.take(piece)).sum();
        let mut out = Vec::new();
        frames.write(&mut out);
        (out, completed)
    }

    fn response(stream: u8) -> Vec<u8> {
        let head = frame(HEADERS, END_HEADERS, stream, &[0x88]);
        [head, frame(DATA, END_STREAM, stream, BODY.as_bytes())].concat()
    }

    #[test]
    fn frames_are_answered_in_any_split() {
        let input = [
            hello(),
            get(1),
            // Padding, a priority, and a part that follows; what it means is not looked at.
            frame(HEADERS, END_STREAM | 0x28, 3, &[1, 0, 0, 0, 0, 9, 0x82, 0]),
            frame(CONTINUATION, 0, 3, b""),
            frame(CONTINUATION, END_HEADERS, 3, b"more"),
            frame(SETTINGS, ACK, 0, b""),
            frame(PING, 0, 0, b"12345678"),
            frame(PING, ACK, 0, b"ignored!"),
            frame(HEADERS, END_HEADERS, 5, &[0x83]),
            frame(WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]),
            frame(WINDOW_UPDATE, 0, 5, &[0, 0, 1, 0]),
            frame(DATA, 0, 5, b"body"),
            get(7),
            // PRIORITY, RST_STREAM, and a kind that doesn't exist.
            frame(2, 0, 7, b"12345"),
            frame(3, 0, 7, b"1234"),
            frame(0xff, 0xff, 9, b"?"),
            frame(DATA, END_STREAM, 5, b""),
        ]
        .concat();
        let expected = [
            frame(SETTINGS, ACK, 0, b""),
            frame(PING, ACK, 0, b"12345678"),
            response(1),
            response(3),
            response(7),
            response(5),
        ]
        .concat();
        for at in 0..=input.len() {
            let (first, second) = input.split_at(at);
            let mut frames = Frames::new();
            assert_eq!(ask(&mut frames, &[first, second]), (expected.clone(), 4), "split at {at}");
            assert!(!frames.is_ended());
        }
        let single: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(ask(&mut Frames::new(), &single), (expected, 4), "byte by byte");
    }

    #[test]
    fn settings_come_first_and_once() {
        let mut frames = Frames::new();
        let mut out = Vec::new();
        frames.write(&mut out);
        assert_eq!(&out[..6], [0, 0, 12, SETTINGS, 0, 0]);
        assert_eq!(out.len(), HEADER_LEN + 12 + HEADER_LEN + 4);
        out.clear();
        frames.write(&mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn responses_wait_for_the_clients_window() {
        let requests: u64 = 3_000;
        let mut frames = Frames::new();
        let asked = get(1).repeat(3_000);
        assert_eq!(frames.take(&asked), requests);
        let mut sent = 0;
        let mut drain = |frames: &mut Frames| loop {
            let mut out = Vec::new();
            frames.write(&mut out);
            assert!(out.len() <= WRITE_MAX);
            let responses =
                out.windows(BODY.len()).filter(|part| *part == BODY.as_bytes()).count() as u64;
            if responses == 0 {
                return sent;
            }
            sent += responses;
        };
        assert_eq!(drain(&mut frames), 65_535 / 27);
        // Room for two, less one byte, with what was left over.
        let update: u32 = 2 * 27 - 1 - 65_535 % 27;
        frames.take(&frame(WINDOW_UPDATE, 0, 0, &update.to_be_bytes()));
        assert_eq!(drain(&mut frames), 65_535 / 27 + 1);
        frames.take(&frame(WINDOW_UPDATE, 0, 0, &[0, 1, 0, 0]));
        assert_eq!(drain(&mut frames), requests);
    }

    #[test]
    fn the_connections_window_is_updated() {
        let mut frames = Frames::new();
        ask(&mut frames, &[]);
        let data = frame(DATA, 0, 1, &[0; PAYLOAD_MAX as usize]);
        for _ in 0..WINDOW_UPDATE_AFTER / PAYLOAD_MAX - 1 {
            frames.take(&data);
        }
        assert!(ask(&mut frames, &[]).0.is_empty());
        let update = frame(WINDOW_UPDATE, 0, 0, &WINDOW_UPDATE_AFTER.to_be_bytes());
        assert_eq!(ask(&mut frames, &[&data]).0, update);
        assert!(ask(&mut frames, &[]).0.is_empty());
    }

    #[test]
    fn what_breaks_the_protocol_or_a_limit_ends_the_connection() {
        let ping = frame(PING, 0, 0, b"12345678");
        for (what, input) in [
            ("an even stream", get(2)),
            ("no stream", get(0)),
            ("data of no stream", frame(DATA, 0, 0, b"x")),
            ("a long frame", vec![0, 0x40, 1, DATA, 0, 0, 0, 0, 1]),
            ("settings of a stream", frame(SETTINGS, 0, 1, b"")),
            ("half a setting", frame(SETTINGS, 0, 0, b"123")),
            ("an acknowledgement with settings", frame(SETTINGS, ACK, 0, b"123456")),
            ("a short ping", frame(PING, 0, 0, b"1234")),
            ("a push", frame(PUSH_PROMISE, 0, 1, b"12345")),
            ("a small window", frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW_SIZE, 26))),
            ("a window too large", frame(WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes())),
            ("a block that goes on elsewhere", {
                [frame(HEADERS, 1, 1, b""), frame(CONTINUATION, 4, 3, b"")].concat()
            }),
            ("another frame within a block", [frame(HEADERS, 1, 1, b""), get(3)].concat()),
            ("a continuation of nothing", frame(CONTINUATION, 4, 1, b"")),
            ("too many pings", ping.repeat(ACKS_MAX + 1)),
            ("too many settings", hello().repeat(ACKS_MAX + 1)),
            ("too many streams", get(1).repeat(STREAMS_MAX as usize + 1)),
        ] {
            let mut frames = Frames::new();
            assert_eq!(frames.take(&[input.clone(), get(9)].concat()), 0, "{what}");
            assert!(frames.is_ended(), "{what}");
            assert_eq!(frames.take(&get(9)), 0, "{what}: the rest is ignored");
        }
        let mut frames = Frames::new();
        assert_eq!(frames.take(&get(1).repeat(STREAMS_MAX as usize)), u64::from(STREAMS_MAX));
        assert_eq!(frames.take(&ping.repeat(ACKS_MAX)), 0);
        assert!(!frames.is_ended());
    }
}
