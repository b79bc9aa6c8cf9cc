//! The frames that the connection itself has to send: acknowledgements, resets, window updates.
//!
//! They are gathered until the caller writes, so what many frames of one receive ask for leaves in
//! one piece. What a peer can cause to be sent without reading it is limited.

use crate::code::ErrorCode;
use crate::frame::{ACK, Head, Kind};

/// How many bytes may wait.
pub(crate) const WAITING_MAX: usize = 64 * 1024;

/// The room that a connection begins with: a few acknowledgements, bytes.
const WAITING_MIN: usize = 128;

/// Room for a few hundred frames, bytes.
const WAITING_USUAL: usize = 4 * 1024;

/// The frames that wait.
#[derive(Debug)]
pub(crate) struct Control {
    bytes: Vec<u8>,
}

impl Control {
    /// Nothing waits.
    pub(crate) fn new() -> Control {
        Control { bytes: Vec::with_capacity(WAITING_MIN) }
    }

    /// Allocates room for a few hundred frames.
    pub(crate) fn reserve(&mut self) {
        self.bytes.reserve(WAITING_USUAL);
    }

    /// Nothing waits any more; the buffer keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// True if something waits.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// True if the peer asks for more than it reads.
    #[inline]
    pub(crate) fn is_unread(&self) -> bool {
        WAITING_MAX < self.bytes.len()
    }

    /// The memory that it holds, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Moves what waits to the output.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
        self.bytes.clear();
    }

    /// The peer's settings hold.
    pub(crate) fn settings_ack(&mut self) {
        self.push(Kind::Settings, ACK, 0, &[]);
    }

    /// The answer to a PING, with its payload.
    pub(crate) fn ping_ack(&mut self, payload: &[u8]) {
        self.push(Kind::Ping, ACK, 0, payload);
    }

    /// A stream is given up.
    pub(crate) fn reset_stream(&mut self, stream: u32, code: ErrorCode) {
        self.push(Kind::ResetStream, 0, stream, &code.0.to_be_bytes());
    }

    /// A window is widened; stream 0 is the connection.
    pub(crate) fn window_update(&mut self, stream: u32, bytes: u32) {
        self.push(Kind::WindowUpdate, 0, stream, &bytes.to_be_bytes());
    }

    /// The connection ends. No stream of the peer was taken, as there are none.
    pub(crate) fn go_away(&mut self, code: ErrorCode) {
        let [a, b, c, d] = code.0.to_be_bytes();
        self.push(Kind::GoAway, 0, 0, &[0, 0, 0, 0, a, b, c, d]);
    }

    fn push(&mut self, kind: Kind, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("at most eight bytes");
        self.bytes.extend_from_slice(&Head { length, kind, flags, stream }.bytes());
        self.bytes.extend_from_slice(payload);
    }
}
