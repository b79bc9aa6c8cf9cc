//! The provided-buffer ring: receive buffers that the kernel picks from, and the pages behind them.
#![expect(
    unsafe_code,
    reason = "the kernel writes into these pages; every block says why it is sound"
)]

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

/// The most receive buffers that one ring can have, by the kernel's limit.
pub(super) const BUFFERS_MAX: usize = 32_768;

/// Receive buffers that the kernel picks from.
pub(super) struct BufferRing {
    entries: Pages,
    bytes: Pages,
    size: usize,
    mask: u16,
    tail: u16,
}

impl BufferRing {
    /// `count` buffers (a power of two) of `size` bytes, all owned by the kernel.
    ///
    /// # Errors
    /// No memory for them.
    pub(super) fn new(count: usize, size: usize) -> io::Result<BufferRing> {
        assert!(
            count.is_power_of_two() && count <= BUFFERS_MAX,
            "the kernel takes powers of two up to 2^15"
        );
        let mut ring = BufferRing {
            entries: Pages::new(count * size_of::<BufRingEntry>())?,
            bytes: Pages::new(count * size)?,
            size,
            mask: u16::try_from(count - 1).expect("at most 2^15 buffers"),
            tail: 0,
        };
        for buffer in 0..=ring.mask {
            ring.give_back(buffer);
        }
        Ok(ring)
    }

    /// The address of the entries, for registration; the memory lives as long as this value.
    pub(super) fn entries_address(&self) -> u64 {
        self.entries.address() as u64
    }

    /// How many buffers there are.
    pub(super) fn count(&self) -> u16 {
        self.mask + 1
    }

    /// The bytes of a buffer that the kernel has completed.
    pub(super) fn slice(&self, buffer: u16) -> &[u8] {
        assert!(buffer <= self.mask, "the kernel names only buffers that we gave it");
        // SAFETY: the index is in range, the mapping is initialised by the kernel (zero pages), and
        // the kernel doesn't write to a buffer between completing it and getting it back.
        unsafe {
            std::slice::from_raw_parts(
                self.bytes.address().add(usize::from(buffer) * self.size),
                self.size,
            )
        }
    }

    /// Gives a buffer (back) to the kernel.
    pub(super) fn give_back(&mut self, buffer: u16) {
        assert!(buffer <= self.mask, "the kernel names only buffers that we gave it");
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

/// Anonymous zeroed pages.
struct Pages {
    address: NonNull<u8>,
    length: usize,
}

impl Pages {
    fn new(length: usize) -> io::Result<Pages> {
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Pages {
            address: NonNull::new(address.cast()).expect("a mapping is never at zero"),
            length,
        })
    }

    fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and is unmapped once.
        let result = unsafe { libc::munmap(self.address.as_ptr().cast(), self.length) };
        assert_eq!(result, 0, "unmapping what was mapped can't fail");
    }
}
