//! Bytes that were read from a connection and not consumed yet.

use crate::request::HEAD_LEN_MAX;

/// The initial size of a connection's buffer, bytes: room for a typical head. It grows to
/// [`HEAD_LEN_MAX`] if needed.
const INPUT_LEN_INITIAL: usize = 2 << 10;

/// The bytes of one connection.
pub(crate) struct Input {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Input {
    /// Nothing read.
    pub(crate) fn new() -> Input {
        Input { buffer: vec![0; INPUT_LEN_INITIAL], begin: 0, end: 0 }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// Removes the first `len` bytes.
    pub(crate) fn consume(&mut self, len: usize) {
        self.begin += len;
        assert!(self.begin <= self.end, "only bytes that were read can be taken");
    }

    /// Removes all bytes.
    fn clear(&mut self) {
        (self.begin, self.end) = (0, 0);
    }

    /// Room to read into, never empty: a line or head that fills [`HEAD_LEN_MAX`] is rejected.
    pub(crate) fn unfilled(&mut self) -> &mut [u8] {
        if self.begin == self.end {
            self.clear();
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            if self.end == self.buffer.len() {
                assert!(self.end < HEAD_LEN_MAX, "a head of this length has been rejected");
                self.buffer.resize(HEAD_LEN_MAX, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// Adds the first `len` bytes of [`Input::unfilled`], which were read.
    pub(crate) fn fill(&mut self, len: usize) {
        self.end += len;
        assert!(self.end <= self.buffer.len(), "a read fits the room");
    }
}
