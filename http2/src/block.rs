//! A header block in several frames: HEADERS, then its CONTINUATION (RFC 9113, section 4.3).

use crate::violation::Violation;

/// The longest compressed block, bytes.
pub(crate) const BLOCK_MAX: usize = 64 * 1024;

/// The most CONTINUATION frames of a block. Those of 1 KiB each still hold the longest block.
pub(crate) const CONTINUATIONS_MAX: u32 = 64;

/// The block that is being gathered, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// 0 for none.
    stream: u32,
    end_stream: bool,
    /// The number of frames so far.
    frames: u32,
    bytes: Vec<u8>,
}

impl Block {
    /// Allocates room for the longest block.
    pub(crate) fn reserve(&mut self) {
        self.bytes.reserve(BLOCK_MAX);
    }

    /// The stream whose block it is; `None` if none is being gathered.
    #[inline]
    pub(crate) fn stream(&self) -> Option<u32> {
        (self.stream != 0).then_some(self.stream)
    }

    /// True if the block ends its stream.
    pub(crate) fn end_stream(&self) -> bool {
        self.end_stream
    }

    /// The number of frames so far.
    pub(crate) fn frames(&self) -> u32 {
        self.frames
    }

    /// The bytes so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The memory that it holds, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// A block begins with a HEADERS frame.
    pub(crate) fn begin(&mut self, stream: u32, end_stream: bool, fragment: &[u8]) {
        (self.stream, self.end_stream, self.frames) = (stream, end_stream, 1);
        self.bytes.clear();
        self.bytes.extend_from_slice(fragment);
    }

    /// A CONTINUATION frame goes on with it.
    ///
    /// # Errors
    /// If there are too many of them, or too many bytes.
    pub(crate) fn go_on(&mut self, fragment: &[u8]) -> Result<(), Violation> {
        if CONTINUATIONS_MAX < self.frames {
            return Err(Violation::ContinuationFlood);
        }
        if BLOCK_MAX < self.bytes.len() + fragment.len() {
            return Err(Violation::BlockTooLarge);
        }
        self.frames += 1;
        self.bytes.extend_from_slice(fragment);
        Ok(())
    }

    /// The block is over; the buffer keeps its memory.
    pub(crate) fn end(&mut self) {
        self.stream = 0;
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_limits() {
        let mut block = Block::default();
        block.begin(1, false, &[0; 16_384]);
        for _ in 0..3 {
            assert_eq!(block.go_on(&[0; 16_384]), Ok(()));
        }
        assert_eq!(block.go_on(&[]), Ok(()));
        assert_eq!(block.go_on(&[0]), Err(Violation::BlockTooLarge));
        block.begin(3, true, &[]);
        for _ in 0..CONTINUATIONS_MAX {
            assert_eq!(block.go_on(&[]), Ok(()));
        }
        assert_eq!(block.go_on(&[]), Err(Violation::ContinuationFlood));
        block.end();
        assert_eq!(block.stream(), None);
    }
}
