//! Frames that break a rule, and those that have no end.

use super::fault::{ConnectionRule, Flood, StreamRule};
use super::frames::{
    ACK, CANCEL, CONTINUATION, END_HEADERS, HEADERS, INITIAL_WINDOW_SIZE, OK, PADDED, PING,
    PRIORITY, PUSH_PROMISE, SETTINGS, STREAM_MAX, answer, data, field, frame, go_away, headers,
    last_data, last_headers, reset, settings, window_update,
};

/// `accept-encoding: gzip, deflate` of the static table, which is 60 bytes of a header list.
const LONG_FIELD: u8 = 0x90;
/// `:status: 204` of the static table.
const NO_CONTENT: u8 = 0x89;

impl StreamRule {
    /// A response on this stream.
    pub(super) fn frames(self, stream: u32) -> Vec<u8> {
        let with = |field: &[u8]| [&[OK][..], field].concat();
        let status = |status: &str| headers(stream, &field(":status", status));
        match self {
            StreamRule::BodyTooLong => {
                let head = headers(stream, &with(&field("content-length", "2")));
                [head, last_data(stream, b"too long")].concat()
            }
            StreamRule::BodyTooShort => {
                let head = headers(stream, &with(&field("content-length", "200")));
                [head, last_data(stream, b"too short")].concat()
            }
            StreamRule::BodyEarly => [data(stream, b"early"), answer(stream)].concat(),
            StreamRule::BodyForbidden => {
                [headers(stream, &[NO_CONTENT]), last_data(stream, b"content")].concat()
            }
            StreamRule::HeaderBomb => last_headers(stream, &with(&[LONG_FIELD; 1_200])),
            StreamRule::StatusMissing => last_headers(stream, &field("server", "none")),
            StreamRule::StatusInvalid => last_headers(stream, &field(":status", "20")),
            StreamRule::ConnectionField => {
                last_headers(stream, &with(&field("connection", "close")))
            }
            StreamRule::FieldName => last_headers(stream, &with(&field("Server", "none"))),
            StreamRule::TooManyInterim => [status("103").repeat(17), answer(stream)].concat(),
            StreamRule::Upgrade => status("101"),
            StreamRule::TrailersGoOn => {
                [headers(stream, &[OK]), headers(stream, &field("x", "y"))].concat()
            }
            StreamRule::StreamIncrement => window_update(stream, 0),
            StreamRule::StreamWindow => window_update(stream, STREAM_MAX),
        }
    }
}

impl ConnectionRule {
    /// Frames that break it, while this stream is open.
    pub(super) fn frames(self, stream: u32) -> Vec<u8> {
        match self {
            ConnectionRule::FrameTooLarge => data(stream, &[b'x'; 16 * 1024 + 1]),
            ConnectionRule::FrameLength => frame(PING, 0, 0, &[0; 7]),
            ConnectionRule::FrameStream => frame(SETTINGS, 0, stream, &[]),
            ConnectionRule::Padding => frame(HEADERS, END_HEADERS | PADDED, stream, &[200, OK]),
            ConnectionRule::BlockInterrupted => {
                [frame(HEADERS, 0, stream, &[OK]), frame(PING, 0, 0, &[0; 8])].concat()
            }
            ConnectionRule::StrayContinuation => frame(CONTINUATION, END_HEADERS, stream, &[OK]),
            ConnectionRule::PushPromise => {
                frame(PUSH_PROMISE, END_HEADERS, stream, &[0, 0, 0, 2, OK])
            }
            ConnectionRule::ServerStream => last_headers(2, &[OK]),
            ConnectionRule::IdleStream => last_headers(STREAM_MAX, &[OK]),
            ConnectionRule::SettingsAck => frame(SETTINGS, ACK, 0, &[]),
            ConnectionRule::EnablePush => settings(&[(2, 1)]),
            ConnectionRule::InitialWindow => settings(&[(INITIAL_WINDOW_SIZE, STREAM_MAX + 1)]),
            ConnectionRule::MaxFrameSize => settings(&[(5, 100)]),
            ConnectionRule::ConnectionIncrement => window_update(0, 0),
            ConnectionRule::ConnectionWindow => window_update(0, STREAM_MAX),
            ConnectionRule::GoAwayRaised => {
                [go_away(STREAM_MAX - 2, 0), go_away(STREAM_MAX, 0)].concat()
            }
            ConnectionRule::HpackIndex => last_headers(stream, &[0x80]),
            ConnectionRule::HpackHuffman => {
                last_headers(stream, &[OK, 0, 1, b'x', 0x82, 0x1f, 0xff])
            }
            ConnectionRule::HpackTableSize => last_headers(stream, &[0x3f, 0xe2, 0x1f, OK]),
        }
    }
}

impl Flood {
    /// What it begins with, and one more of its frames.
    pub(super) fn frames(self, stream: u32) -> (Vec<u8>, Vec<u8>) {
        let block = frame(HEADERS, 0, stream, &[OK]);
        match self {
            Flood::Settings => (Vec::new(), settings(&[])),
            Flood::Ping => (Vec::new(), frame(PING, 0, 0, &[0; 8])),
            Flood::EmptyData => (headers(stream, &[OK]), data(stream, &[])),
            Flood::Reset => (Vec::new(), reset(stream, CANCEL)),
            Flood::WindowUpdate => (Vec::new(), window_update(0, 1)),
            Flood::Priority => (Vec::new(), frame(PRIORITY, 0, stream, &[0; 5])),
            Flood::EmptyContinuation => (block, frame(CONTINUATION, 0, stream, &[])),
            Flood::Continuation => (block, frame(CONTINUATION, 0, stream, &[LONG_FIELD; 8 * 1024])),
        }
    }
}
