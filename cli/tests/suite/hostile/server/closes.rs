//! Unforeseeable closes.

use std::io::ErrorKind;
use std::time::Duration;

use super::OK;
use super::connection::Connection;
use super::fault::Fault;
use super::replies::{Kind, Reply, Then};

/// [`Fault::CloseIdle`] closes after this time.
const IDLE: Duration = Duration::from_millis(10);

/// The response to each request, if an unannounced close follows.
pub(super) fn reply(fault: Fault) -> Option<Reply> {
    let broken = Kind::Broken;
    let (bytes, kind, then) = match fault {
        Fault::KeepAliveLie => (
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n".to_vec(),
            Kind::Answer(200),
            Then::Close,
        ),
        Fault::HalfClose => (OK.to_vec(), Kind::Answer(200), Then::FinAndRead),
        Fault::ResetAfterRequest => (Vec::new(), broken, Then::Reset),
        Fault::ResetInBody => {
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart".to_vec(), broken, Then::Reset)
        }
        Fault::ResetInCloseDelimited => {
            (b"HTTP/1.1 200 OK\r\n\r\npart".to_vec(), broken, Then::Reset)
        }
        Fault::ShortBody => (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart".to_vec(),
            broken,
            Then::FinAndRead,
        ),
        _ => return None,
    };
    Some(Reply { bytes, kind, then })
}

impl Connection<'_> {
    /// Answers as usual, and closes connections that have been idle for a while.
    pub(super) fn close_when_idle(&mut self) {
        self.stream.set_read_timeout(Some(IDLE)).expect("an option");
        loop {
            match self.stream.peek(&mut [0]) {
                Ok(1..) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.fin_and_read(),
                Ok(0) | Err(_) => return,
            }
            if !self.read_request() || !self.answer(OK, Kind::Answer(200)) {
                return;
            }
        }
    }
}
