//! What one connection's bytes mean: HTTP/1.1, or HTTP/2 if they begin with its preface.

use super::frames::{Frames, PREFACE};
use super::requests::{LastHead, Requests};

/// The protocol of a connection, with the state of its requests.
#[derive(Debug)]
pub(super) enum Protocol {
    /// Not known yet: only this many bytes of the preface were received.
    Unknown(usize),
    Http1(Requests),
    Http2(Box<Frames>),
}

impl Default for Protocol {
    fn default() -> Protocol {
        Protocol::Unknown(0)
    }
}

impl Protocol {
    /// Takes the connection's next bytes; returns how many requests they complete.
    #[inline]
    pub(super) fn take(&mut self, bytes: &[u8], last_head: &mut LastHead) -> u64 {
        match self {
            Protocol::Http1(requests) => requests.take(bytes, last_head),
            Protocol::Http2(frames) => frames.take(bytes),
            Protocol::Unknown(seen) => {
                let seen = *seen;
                self.begin(seen, bytes, last_head)
            }
        }
    }

    /// Takes bytes that follow as many bytes of the preface.
    fn begin(&mut self, seen: usize, bytes: &[u8], last_head: &mut LastHead) -> u64 {
        let rest = &PREFACE[seen..];
        if let Some(frames) = bytes.strip_prefix(rest) {
            *self = Protocol::Http2(Box::new(Frames::new()));
            return self.take(frames, last_head);
        }
        if rest.starts_with(bytes) {
            *self = Protocol::Unknown(seen + bytes.len());
            return 0;
        }
        *self = Protocol::Http1(Requests::default());
        self.take(&PREFACE[..seen], last_head) + self.take(bytes, last_head)
    }

    /// Ignores all further requests; pending responses stay pending.
    pub(super) fn end(&mut self) {
        match self {
            Protocol::Http1(requests) => requests.end(),
            Protocol::Http2(frames) => frames.end(),
            Protocol::Unknown(_) => {
                *self = Protocol::Http1(Requests::default());
                self.end();
            }
        }
    }

    /// True if all further requests are ignored.
    pub(super) fn is_ended(&self) -> bool {
        match self {
            Protocol::Http1(requests) => requests.is_ended(),
            Protocol::Http2(frames) => frames.is_ended(),
            Protocol::Unknown(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_decide_in_any_split() {
        let post = b"POST / HTTP/1.1\r\n\r\nPRI * HTTP/2.0\r\n\r\n".as_slice();
        let request = [0, 0, 0, 1, 5, 0, 0, 0, 1].as_slice();
        let http2 = [PREFACE, request].concat();
        for (input, is_http2) in [(post, false), (http2.as_slice(), true)] {
            for at in 0..=input.len() {
                let (first, second) = input.split_at(at);
                let (mut protocol, mut last_head) = Default::default();
                let taken = [first, second]
                    .map(|bytes| Protocol::take(&mut protocol, bytes, &mut last_head));
                assert_eq!(taken[0] + taken[1], 1, "{is_http2}, split at {at}");
                assert_eq!(matches!(protocol, Protocol::Http2(_)), is_http2, "split at {at}");
                // After an HTTP/1.1 request, the preface is a malformed one.
                assert_eq!(protocol.is_ended(), !is_http2);
            }
        }
    }

    #[test]
    fn a_connection_that_ends_within_the_preface_ends() {
        let mut protocol = Protocol::default();
        assert_eq!(protocol.take(&PREFACE[..20], &mut LastHead::default()), 0);
        assert!(!protocol.is_ended());
        protocol.end();
        assert!(protocol.is_ended());
    }
}
