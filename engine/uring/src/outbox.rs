//! Bytes to send that are made as they leave, such as TLS records: room for each socket, which the
//! kernel reads until the send has completed.
#![expect(unsafe_code, reason = "bytes are laid out in pages; every block states why it is sound")]

use std::io::{self, Write};
use std::ops::Range;

use super::pages::Pages;

/// The room of one socket, bytes: the longest TLS record, and anything before it.
pub const OUT_BYTES: usize = 32_768;

/// Room for each of a ring's sockets. It uses memory only where something is written.
pub(super) struct Outbox {
    pages: Pages,
    sockets: usize,
}

/// A writer into the room of one socket.
pub struct Out<'a> {
    outbox: &'a mut Outbox,
    socket: usize,
    written: usize,
}

impl Outbox {
    /// Room for this many sockets.
    ///
    /// # Errors
    /// There are no addresses for it.
    pub(super) fn new(sockets: usize) -> io::Result<Outbox> {
        Ok(Outbox { pages: Pages::reserved((sockets * OUT_BYTES).max(1))?, sockets })
    }

    /// A writer into a socket's room, from its start.
    pub(super) fn out(&mut self, socket: usize) -> Out<'_> {
        assert!(socket < self.sockets, "each socket has its room");
        Out { outbox: self, socket, written: 0 }
    }

    /// The address and the length of a part of a socket's room.
    pub(super) fn part(&self, socket: usize, part: Range<usize>) -> (*const u8, u32) {
        assert!(socket < self.sockets, "each socket has its room");
        assert!(part.start <= part.end && part.end <= OUT_BYTES, "a part of the room");
        let length = u32::try_from(part.len()).expect("a room is far below 4 GiB");
        // SAFETY: the offset lies in the pages, or is their end.
        (unsafe { self.pages.address().add(socket * OUT_BYTES + part.start) }, length)
    }
}

impl Out<'_> {
    /// The number of bytes written.
    pub fn written(&self) -> usize {
        self.written
    }
}

impl Write for Out<'_> {
    /// Writes as much as there is room for.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(OUT_BYTES - self.written);
        let at = self.socket * OUT_BYTES + self.written;
        // SAFETY: the room of this socket lies in the pages, and the length was limited to it. The
        // kernel may be reading it only if the caller sends before the last send has completed: it
        // then sends other bytes, and no reference to them exists.
        unsafe {
            let room = self.outbox.pages.address().add(at);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), room, length);
        }
        self.written += length;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_socket_has_room_of_its_own_and_no_more() {
        let mut outbox = Outbox::new(2).expect("addresses");
        let mut out = outbox.out(1);
        assert_eq!(out.write(b"one").expect("memory"), 3);
        assert_eq!(out.write(&vec![b'x'; OUT_BYTES]).expect("memory"), OUT_BYTES - 3);
        assert_eq!((out.write(b"more").expect("memory"), out.written()), (0, OUT_BYTES));
        assert_eq!(outbox.out(0).write(b"zero").expect("memory"), 4);
        let (first, length) = outbox.part(1, 0..OUT_BYTES);
        assert_eq!(length as usize, OUT_BYTES);
        // SAFETY: the part lies in the pages, which live until the end of the test.
        let bytes = unsafe { std::slice::from_raw_parts(first, OUT_BYTES) };
        assert!(bytes.starts_with(b"onexxx") && bytes.ends_with(b"xxx"));
        assert_eq!(outbox.part(1, 3..5).0, first.wrapping_add(3));
    }
}
