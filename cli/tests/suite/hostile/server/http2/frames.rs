//! HTTP/2 frames, byte by byte: those that the server writes, and the heads of those that it reads.

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const ACK: u8 = 1;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;

/// The settings that the server sends.
pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;

/// The error codes of RFC 9113, section 7, but REFUSED_STREAM, and one that isn't there.
pub(super) const CODES: [u32; 14] = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 0xff];
pub(super) const INTERNAL_ERROR: u32 = 2;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const CANCEL: u32 = 8;

/// The greatest identifier of a stream, which a client could use.
pub(super) const STREAM_MAX: u32 = 0x7fff_ffff;

/// `:status: 200` in the static table.
pub(super) const OK: u8 = 0x88;

/// The length of a frame's head.
const HEAD_BYTES: usize = 9;

/// One frame.
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// Takes a frame off the front of what was read; `None` if it isn't whole.
    pub(super) fn take(read: &mut Vec<u8>) -> Option<Frame> {
        let &[a, b, c, kind, flags, s, t, u, v] = read.first_chunk::<HEAD_BYTES>()?;
        let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).expect("it fits");
        if read.len() < HEAD_BYTES + length {
            return None;
        }
        let payload = read[HEAD_BYTES..HEAD_BYTES + length].to_vec();
        read.drain(..HEAD_BYTES + length);
        Some(Frame { kind, flags, stream: u32::from_be_bytes([s, t, u, v]) & STREAM_MAX, payload })
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A frame's bytes.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

pub(super) fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let bytes = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &settings.iter().flat_map(bytes).collect::<Vec<u8>>())
}

pub(super) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(super) fn go_away(last_stream: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last_stream.to_be_bytes(), code.to_be_bytes()].concat())
}

pub(super) fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// A header section that fits one frame and doesn't end its stream.
pub(super) fn headers(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, block)
}

/// One that does.
pub(super) fn last_headers(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, block)
}

pub(super) fn data(stream: u32, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, 0, stream, bytes)
}

pub(super) fn last_data(stream: u32, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, END_STREAM, stream, bytes)
}

/// A whole response.
pub(super) fn answer(stream: u32) -> Vec<u8> {
    [headers(stream, &[OK]), last_data(stream, b"ok")].concat()
}

/// A field that no table holds, without Huffman's code. Both parts are shorter than 127 bytes.
pub(super) fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}
