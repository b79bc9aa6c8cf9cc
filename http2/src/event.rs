//! What received bytes mean for the caller.

use crate::code::ErrorCode;
use crate::violation::Violation;

/// One complete final response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code, from 200 up.
    pub status: u16,
    /// The number of frames that it took, interim responses and trailers included.
    pub frames: u32,
    /// The length of its header blocks as transferred, interim responses and trailers included,
    /// bytes.
    pub header_bytes: u64,
    /// The length of their names and values uncompressed, bytes.
    pub field_bytes: u64,
    /// The length of the body as transferred, without frames and padding, bytes.
    pub body_bytes: u64,
}

/// Why a stream ended without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server broke a rule.
    Violation(Violation),
    /// The server reset the stream with this code.
    Reset(ErrorCode),
}

/// A request and its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's name for it.
    pub key: u64,
    /// The stream's identifier.
    pub stream: u32,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// All bytes are consumed, and there is nothing to tell.
    NeedMore,
    /// The peer's settings have arrived, or changed: more requests may begin, or fewer, and bodies
    /// may go on.
    Settings,
    /// An interim (1xx) response with this status; the final one is still to come.
    Interim(Request, u16),
    /// The final response's head is complete. Only with `Client::decode_fully`: its
    /// fields can be read until more is received.
    Head(Request, u16),
    /// A part of a response's body. Only with `Client::decode_fully`.
    Data {
        /// The request.
        request: Request,
        /// Where it begins in the bytes that were handed over, bytes.
        at: usize,
        /// Its length, bytes.
        bytes: usize,
    },
    /// A response is complete.
    Done(Request, Response),
    /// A request has failed.
    Failed(Request, Failure),
    /// The server reset the stream before it processed anything of the request, which may be sent
    /// again (RFC 9113, section 8.7).
    Refused(Request),
    /// The server takes no more streams on this connection. It goes on with those up to
    /// `last_stream`; [`Event::Unserved`] follows for each of the others.
    GoAway {
        /// The last stream that it processes, or may have.
        last_stream: u32,
        /// Why.
        code: ErrorCode,
    },
    /// A request was sent after what GOAWAY names: it wasn't processed, and may be sent again on
    /// another connection.
    Unserved(Request),
    /// Bodies that waited for a window can go on.
    WindowOpened,
    /// The server broke a rule that ends the connection, and all requests on it. Every further
    /// receive returns the same.
    Broken(Violation),
}
