//! The provided-buffer ring: receive buffers that the kernel picks from, the longest unused first.
//!
//! A small number of buffers stays in the CPU cache, so the kernel begins with 64 and gets one more
//! whenever it found none for a short response. While responses are long it gets none: copying into
//! a buffer that has left the cache costs more than re-arming a receive.
#![expect(
    unsafe_code,
    reason = "the kernel writes into these pages; every block states why it is sound"
)]

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::pages::Pages;

/// The most receive buffers of one ring: the kernel's limit.
pub(super) const BUFFERS_MAX: usize = 32_768;
/// How many of them the kernel has at first: since Linux 6.14, a system call posts only 20 to 40
/// completions that take a buffer.
const GIVEN_FIRST: usize = 64;
/// A receive is long if it fills at least 1/4 of its buffer.
const LONG_PART: usize = 4;

/// Receive buffers that the kernel picks from.
pub(super) struct BufferRing {
    entries: Pages,
    bytes: Pages,
    size: usize,
    mask: u16,
    tail: u16,
    /// How many of the buffers the kernel has been given.
    given: u16,
    /// The bytes of the last receive; negative if it failed.
    last_received: i32,
}

impl BufferRing {
    /// Up to `count` buffers (a power of two) of `size` bytes; the kernel gets a few at first.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn new(count: usize, size: usize) -> io::Result<BufferRing> {
        assert!(
            count.is_power_of_two() && count <= BUFFERS_MAX,
            "the kernel takes powers of two up to 2^15"
        );
        let mut ring = BufferRing {
            entries: Pages::populated(count * size_of::<BufRingEntry>())?,
            bytes: Pages::reserved(count * size)?,
            size,
            mask: u16::try_from(count - 1).expect("at most 2^15 buffers"),
            tail: 0,
            given: 0,
            last_received: 0,
        };
        for _ in 0..count.min(GIVEN_FIRST) {
            ring.give_another()?;
        }
        Ok(ring)
    }

    /// Records the result of a receive: bytes, or the kernel's error.
    #[inline]
    pub(super) fn received(&mut self, result: i32) {
        self.last_received = result;
    }

    /// Gives the kernel another buffer, since a receive found none, unless receives are long;
    /// returns true if there are enough now.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn add_if_short(&mut self) -> io::Result<bool> {
        if usize::try_from(self.last_received).is_ok_and(|last| self.size / LONG_PART <= last) {
            return Ok(true);
        }
        self.give_another()
    }

    /// Gives the kernel a buffer that it hasn't had yet; returns false if there was none.
    ///
    /// # Errors
    /// There is no memory for it.
    fn give_another(&mut self) -> io::Result<bool> {
        if self.mask < self.given {
            return Ok(false);
        }
        let start = usize::from(self.given) * self.size;
        self.bytes.populate(start..start + self.size)?;
        self.given += 1;
        self.give_back(self.given - 1);
        Ok(true)
    }

    /// The address of the entries, for registration; the memory lives as long as this value.
    pub(super) fn entries_address(&self) -> u64 {
        self.entries.address() as u64
    }

    /// The number of buffers.
    pub(super) fn count(&self) -> u16 {
        self.mask + 1
    }

    /// The bytes of a buffer that the kernel has completed.
    pub(super) fn slice(&self, buffer: u16) -> &[u8] {
        assert!(buffer < self.given, "the kernel names only buffers that we gave it");
        // SAFETY: the index is in range, the mapping is initialised by the kernel (zero pages), and
        // the kernel doesn't write to a buffer between completing it and getting it back.
        unsafe {
            std::slice::from_raw_parts(
                self.bytes.address().add(usize::from(buffer) * self.size),
                self.size,
            )
        }
    }

    /// Gives a buffer, new or used, to the kernel.
    pub(super) fn give_back(&mut self, buffer: u16) {
        assert!(buffer < self.given, "the kernel names only buffers that we gave it");
        let base = self.entries.address().cast::<BufRingEntry>();
        // SAFETY: the slot index is masked into the mapping, which is page-aligned zero memory of
        // `count` entries; the kernel reads a slot only after the tail, stored last with release
        // order, has passed it. The tail field shares the first entry's reserved bytes, which the
        // setters leave alone.
        unsafe {
            let entry = &mut *base.add(usize::from(self.tail & self.mask));
            entry.set_addr(self.bytes.address().add(usize::from(buffer) * self.size) as u64);
            entry.set_len(u32::try_from(self.size).expect("a buffer is far below 4 GiB"));
            entry.set_bid(buffer);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(base).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_responses_get_more_buffers_and_long_ones_do_not() {
        let mut ring = BufferRing::new(128, 4_096).expect("memory");
        assert_eq!(usize::from(ring.given), GIVEN_FIRST);
        for (length, given) in [(4_096, 64), (1_024, 64), (1_023, 65), (100, 66), (2_000, 66)] {
            ring.received(length);
            assert!(ring.add_if_short().expect("memory"), "after {length} bytes");
            assert_eq!(ring.given, given, "after {length} bytes");
        }
        ring.received(100);
        let added = (0..100).filter(|_| ring.add_if_short().expect("memory")).count();
        assert_eq!((added, ring.given), (62, 128));
    }
}
