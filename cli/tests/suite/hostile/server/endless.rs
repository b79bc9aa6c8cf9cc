//! Responses without an end, and a slow one.

use std::thread;
use std::time::Duration;

use super::connection::Connection;
use super::fault::Fault;
use super::replies::Kind;

/// Time between two pieces of a response that drips.
pub(super) const DRIP: Duration = Duration::from_millis(10);
/// The most pieces of a response without an end: more than any client waits for.
const PIECES_MAX: usize = 100_000;
/// The shortest response, which drips.
const SHORT: &[u8] = b"HTTP/1.1 204 \r\n\r\n";
/// The shortest time of a response by [`Fault::DripWholeResponse`].
pub const DRIPPED: Duration = Duration::from_millis(10 * (SHORT.len() as u64 - 1));

impl Fault {
    /// The start of a response without an end, one more piece of it, and the pause before each.
    pub(super) fn endless(self) -> Option<(&'static [u8], Vec<u8>, Duration)> {
        let pause = Duration::from_millis(1);
        Some(match self {
            Fault::DripHead => (b"HTTP/1.1 200 OK\r\nX: ", b"x".to_vec(), DRIP),
            Fault::EndlessHead => (b"HTTP/1.1 200 OK\r\nX: ", vec![b'x'; 8 * 1024], pause),
            Fault::EndlessChunks => (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"1\r\nx\r\n".to_vec(),
                pause,
            ),
            Fault::EndlessInterim => (b"", b"HTTP/1.1 102 Processing\r\n\r\n".to_vec(), pause),
            _ => return None,
        })
    }
}

impl Connection<'_> {
    /// Writes a response byte by byte; returns whether it could.
    pub(super) fn drip(&mut self) -> bool {
        let (last, others) = SHORT.split_last().expect("a response");
        for byte in others {
            if !self.write(&[*byte]) {
                self.server.note(|log| log.unwritten += 1);
                return false;
            }
            thread::sleep(DRIP);
        }
        self.answer(&[*last], Kind::Answer(204))
    }

    /// Writes a response without an end until the client disconnects.
    pub(super) fn write_endless(&mut self, start: &[u8], piece: &[u8], pause: Duration) {
        self.server.note(|log| log.broken += 1);
        let mut going = self.write(start);
        for _ in 0..PIECES_MAX {
            if !going || self.server.is_stopped() {
                return;
            }
            thread::sleep(pause);
            going = self.write(piece);
        }
    }
}
