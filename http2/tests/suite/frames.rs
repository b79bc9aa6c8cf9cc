//! Frames of a server, written for tests without the code under test.

/// Types of frames.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Flags.
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const WITH_PRIORITY: u8 = 0x20;

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// SETTINGS with (identifier, value).
pub(crate) fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let bytes = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, settings.iter().flat_map(bytes).collect::<Vec<u8>>())
}

/// HEADERS with a whole block of fields as text.
pub(crate) fn headers(flags: u8, stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, block(fields))
}

/// A block of fields as text, none of which enters the table.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| {
        let length = u8::try_from(text.len()).expect("short");
        assert!(length < 0x7f, "one byte holds the length");
        [&[length], text.as_bytes()].concat()
    };
    let field = |(name, value): &(&str, &str)| [vec![0], text(name), text(value)].concat();
    fields.iter().flat_map(field).collect()
}

/// DATA.
pub(crate) fn data(flags: u8, stream: u32, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    frame(DATA, flags, stream, bytes)
}

/// RST_STREAM.
pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, code.to_be_bytes())
}

/// WINDOW_UPDATE.
pub(crate) fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, bytes.to_be_bytes())
}

/// GOAWAY without debug data.
pub(crate) fn go_away(last_stream: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, [last_stream.to_be_bytes(), code.to_be_bytes()].concat())
}

/// A response without a body.
pub(crate) fn ok(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, [0x88])
}

/// What the client sent as frames: type, flags, stream and payload, without the preface.
pub(crate) fn parse(sent: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut rest = sent.strip_prefix(http2::client::PREFACE).expect("the preface");
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_be_bytes([0, rest[0], rest[1], rest[2]]) as usize;
        let stream = u32::from_be_bytes(rest[5..9].try_into().expect("four bytes"));
        frames.push((rest[3], rest[4], stream, rest[9..9 + length].to_vec()));
        rest = &rest[9 + length..];
    }
    frames
}

/// Those of one type.
pub(crate) fn sent(bytes: &[u8], kind: u8) -> Vec<(u8, u32, Vec<u8>)> {
    let frames = parse(bytes).into_iter().filter(|frame| frame.0 == kind);
    frames.map(|(_, flags, stream, payload)| (flags, stream, payload)).collect()
}
