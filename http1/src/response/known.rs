//! The head parsed last: most responses of a target begin with the same bytes.

use super::head::{Framing, Head};

/// The longest head to keep, bytes.
const KEPT_MAX: usize = 1_024;

/// The last complete head, with its meaning. Parsers of different connections may share one: the
/// meaning depends only on the head's bytes and the request's method.
#[derive(Debug)]
pub struct KnownHead {
    bytes: Vec<u8>,
    head: Head,
    head_request: bool,
}

impl Default for KnownHead {
    fn default() -> KnownHead {
        KnownHead {
            bytes: Vec::with_capacity(KEPT_MAX),
            head: Head { status: 0, framing: Framing::Length(0), keep_alive: false },
            head_request: false,
        }
    }
}

impl KnownHead {
    /// The meaning of the head at the front of `bytes`, and its length, if it is the one kept.
    #[inline]
    pub(super) fn begins(&self, bytes: &[u8], head_request: bool) -> Option<(Head, usize)> {
        let length = self.bytes.len();
        let is_known = 0 < length && self.head_request == head_request;
        (is_known && bytes.starts_with(&self.bytes)).then_some((self.head, length))
    }

    /// Keeps a head that has been parsed.
    pub(super) fn keep(&mut self, bytes: &[u8], head: Head, head_request: bool) {
        if bytes.len() <= KEPT_MAX {
            self.bytes.clear();
            self.bytes.extend_from_slice(bytes);
            (self.head, self.head_request) = (head, head_request);
        }
    }
}
