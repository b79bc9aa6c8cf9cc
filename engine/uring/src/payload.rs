//! The bytes that rings send: a head and, right after it, a body in memory or in a mapped file,
//! once or in several consecutive copies.
//!
//! The head lies right before the first page of the body, so both have one address range and any
//! part of them is one send: a request of 1 GiB is sent like one of 100 bytes, from the same pages
//! on every connection of every shard. Only the kernel reads a mapped file's pages, so if the file
//! is truncated, a send fails (`body_unreadable`) and no signal is raised. A body that TLS is to
//! encrypt is read into memory instead, since encryption reads it in this process.
#![expect(unsafe_code, reason = "bytes are laid out in pages; every block states why it is sound")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::slice;
use std::sync::Arc;

use rustix::param::page_size;

use super::pages::Pages;

/// The bytes that rings send. Clones share the same bytes.
#[derive(Clone, Debug)]
pub struct Payload {
    pages: Arc<Pages>,
    /// Where the bytes begin in the pages.
    offset: usize,
    /// The length of head and body.
    length: usize,
    /// The number of consecutive copies.
    copies: usize,
    /// True if a part of them is a file, which may be truncated.
    is_mapped: bool,
}

impl Payload {
    /// A head and a body, `copies` times in a row.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn copied(head: &[u8], body: &[u8], copies: usize) -> io::Result<Payload> {
        let length = head.len() + body.len();
        let mut pages = Pages::reserved((copies * length).max(1))?;
        for copy in 0..copies {
            fill(&mut pages, copy * length, head);
            fill(&mut pages, copy * length + head.len(), body);
        }
        Ok(Payload { pages: Arc::new(pages), offset: 0, length, copies, is_mapped: false })
    }

    /// A head, copied, and as its body the first `length` bytes of a file, mapped.
    ///
    /// # Errors
    /// The file can't be mapped.
    pub fn mapped(head: &[u8], file: &File, length: usize) -> io::Result<Payload> {
        // The body begins with a page, and the head ends before it.
        let body_at = head.len().next_multiple_of(page_size());
        let mut pages = Pages::reserved(body_at + length)?;
        let offset = body_at - head.len();
        fill(&mut pages, offset, head);
        pages.replace(body_at, file, length)?;
        let length = head.len() + length;
        Ok(Payload { pages: Arc::new(pages), offset, length, copies: 1, is_mapped: true })
    }

    /// A head and, read into memory, the first `length` bytes of a file as its body.
    ///
    /// # Errors
    /// There is no memory for them, or the file can't be read.
    pub fn loaded(head: &[u8], file: &File, length: usize) -> io::Result<Payload> {
        let whole = head.len() + length;
        let mut pages = Pages::reserved(whole.max(1))?;
        fill(&mut pages, 0, head);
        // SAFETY: the pages were made a few lines above, zeroed and as long as head and body, and
        // nothing else refers to them.
        let bytes = unsafe { slice::from_raw_parts_mut(pages.address(), whole) };
        file.read_exact_at(&mut bytes[head.len()..], 0)?;
        Ok(Payload {
            pages: Arc::new(pages),
            offset: 0,
            length: whole,
            copies: 1,
            is_mapped: false,
        })
    }

    /// A stand-in for bytes that are made as they leave, at most `length` of them: it has no copy
    /// that could be sent.
    ///
    /// # Errors
    /// There are no addresses for it.
    pub fn made(length: usize) -> io::Result<Payload> {
        let pages = Arc::new(Pages::reserved(1)?);
        Ok(Payload { pages, offset: 0, length, copies: 0, is_mapped: false })
    }

    /// The length of head and body, bytes; the greatest if they are made as they leave.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The number of consecutive copies.
    pub(super) fn copies(&self) -> usize {
        self.copies
    }

    /// True if all of it is in memory: see [`Payload::bytes`].
    pub fn is_in_memory(&self) -> bool {
        !self.is_mapped
    }

    /// The length of all copies, bytes.
    pub fn whole_len(&self) -> usize {
        self.copies * self.length
    }

    /// A part of the copies, which must be in memory.
    pub fn bytes(&self, part: Range<usize>) -> &[u8] {
        assert!(!self.is_mapped, "a truncated file would raise a signal");
        let (address, length) = self.part(part);
        // SAFETY: the part lies in the pages, which are anonymous, were filled before this value
        // existed and live as long; nothing writes to them.
        unsafe { slice::from_raw_parts(address, length as usize) }
    }

    /// The address and the length of a part of the copies.
    pub(super) fn part(&self, part: Range<usize>) -> (*const u8, u32) {
        assert!(part.start <= part.end && part.end <= self.whole_len(), "a part of the payload");
        let length = u32::try_from(part.len()).expect("a send is far below 4 GiB");
        // SAFETY: the offset lies in the pages, or is their end.
        (unsafe { self.pages.address().add(self.offset + part.start) }, length)
    }
}

/// Copies bytes into pages, from `offset` on.
fn fill(pages: &mut Pages, offset: usize, bytes: &[u8]) {
    // SAFETY: the callers reserved room for the bytes behind `offset`, and the exclusive reference
    // guarantees that nothing else reads it.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), pages.address().add(offset), bytes.len());
    }
}
