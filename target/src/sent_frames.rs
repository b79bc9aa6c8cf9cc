//! Which streams of an HTTP/2 connection have ended by what was written to the socket.
//!
//! `h2` takes a response long before its last byte leaves, and doesn't say when it does. A response
//! counts as answered only then, so this follows the frames that are written: of each it reads the
//! header alone (RFC 9113, section 4.1).

use std::mem;

/// The length of a frame's header, bytes.
const HEADER_LEN: usize = 9;
/// The types of the frames that can end a stream.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
/// The flag with which they do.
const END_STREAM: u8 = 1;

/// The frames of one connection, from its first on.
#[derive(Debug, Default)]
pub(crate) struct SentFrames {
    header: [u8; HEADER_LEN],
    /// How much of the header has been written.
    header_len: usize,
    /// How much of the payload hasn't.
    payload_left: usize,
    ended: Vec<u32>,
}

impl SentFrames {
    /// Follows the next bytes, which were written.
    pub(crate) fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.header_len < HEADER_LEN {
                let len = bytes.len().min(HEADER_LEN - self.header_len);
                self.header[self.header_len..][..len].copy_from_slice(&bytes[..len]);
                self.header_len += len;
                bytes = &bytes[len..];
                if self.header_len < HEADER_LEN {
                    return;
                }
                let [high, middle, low, ..] = self.header;
                self.payload_left = u32::from_be_bytes([0, high, middle, low]) as usize;
            }
            let len = bytes.len().min(self.payload_left);
            self.payload_left -= len;
            bytes = &bytes[len..];
            if self.payload_left == 0 {
                self.end_frame();
            }
        }
    }

    fn end_frame(&mut self) {
        self.header_len = 0;
        let [_, _, _, kind, flags, id @ ..] = self.header;
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            self.ended.push(u32::from_be_bytes(id) & (u32::MAX >> 1));
        }
    }

    /// The streams that have ended since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<u32> {
        mem::take(&mut self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_with_the_last_byte_of_its_last_frame() {
        let frame = |kind: u8, flags: u8, id: u8, payload: &[u8]| -> Vec<u8> {
            let len = u8::try_from(payload.len()).expect("a short payload");
            [&[0, 0, len, kind, flags, 0x80, 0, 0, id], payload].concat()
        };
        // SETTINGS with ACK, whose flag has the same bit; then one stream by HEADERS, one by DATA,
        // one by empty DATA.
        let frames = [
            (frame(4, 1, 0, b""), None),
            (frame(1, 5, 1, b"head"), Some(1)),
            (frame(1, 4, 3, b"head"), None),
            (frame(0, 0, 3, b"body"), None),
            (frame(0, 1, 3, b"body"), Some(3)),
            (frame(0, 1, 5, b""), Some(5)),
        ];
        let all: Vec<u8> = frames.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        for size in 1..=all.len() {
            let mut sent = SentFrames::default();
            all.chunks(size).for_each(|bytes| sent.follow(bytes));
            assert_eq!(sent.take_ended(), [1, 3, 5], "in pieces of {size}");
        }
        let mut sent = SentFrames::default();
        for (bytes, ended) in frames {
            sent.follow(&bytes[..bytes.len() - 1]);
            assert!(sent.take_ended().is_empty(), "a byte is missing");
            sent.follow(&bytes[bytes.len() - 1..]);
            assert_eq!(sent.take_ended(), Vec::from_iter(ended));
        }
    }
}
