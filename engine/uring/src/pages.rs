//! Pages of memory that the kernel reads and writes: anonymous, or of a file.
#![expect(unsafe_code, reason = "mappings; every block states why it is sound")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;

use rustix::param::page_size;

/// Pages that are unmapped when they are dropped.
#[derive(Debug)]
pub(super) struct Pages {
    address: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone, like the memory of a box.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives no more than an address.
unsafe impl Sync for Pages {}

impl Pages {
    /// Zeroed pages, allocated from the start.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn populated(length: usize) -> io::Result<Pages> {
        Pages::anonymous(length, libc::MAP_POPULATE)
    }

    /// Zeroed pages that take memory when they are first written.
    ///
    /// # Errors
    /// There are no addresses for them.
    pub(super) fn reserved(length: usize) -> io::Result<Pages> {
        Pages::anonymous(length, libc::MAP_NORESERVE)
    }

    fn anonymous(length: usize, flags: libc::c_int) -> io::Result<Pages> {
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
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

    /// Allocates memory for a range of pages now, so that no later write waits for it.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn populate(&mut self, range: Range<usize>) -> io::Result<()> {
        assert!(range.start <= range.end && range.end <= self.length, "a part of the pages");
        let page = page_size();
        let start = range.start / page * page;
        // SAFETY: the range lies in the mapping, and populating it changes no byte.
        let result = unsafe {
            libc::madvise(
                self.address().add(start).cast(),
                range.end - start,
                libc::MADV_POPULATE_WRITE,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Replaces the pages from `offset` on, a multiple of the page size, with the first `length`
    /// bytes of a file, which are read-only from then on.
    ///
    /// # Errors
    /// The file can't be mapped.
    pub(super) fn replace(&mut self, offset: usize, file: &File, length: usize) -> io::Result<()> {
        assert!(length <= self.length - offset, "the file's bytes fit into the pages");
        // SAFETY: the range lies in the mapping, which this value owns; the exclusive reference
        // guarantees that nothing else reads what is replaced.
        let address = unsafe {
            libc::mmap(
                self.address().add(offset).cast(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Their start address.
    pub(super) fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `anonymous` and is unmapped once.
        let result = unsafe { libc::munmap(self.address.as_ptr().cast(), self.length) };
        assert_eq!(result, 0, "unmapping what was mapped can't fail");
    }
}
