//! Servers that read each request and answer it once: with more than an answer, or in an unusual
//! but allowed way.

use std::thread;

use super::connection::Connection;
use super::fault::Fault;
use super::{LAST, OK, THINK, broken, closes};

/// The server's action once a response is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Keep,
    Close,
    FinAndRead,
    Reset,
}

/// The relation of a written response to the request before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its answer, with this status.
    Answer(u16),
    /// Not an answer: it breaks a rule or isn't whole.
    Broken,
}

/// One response to each request.
pub(super) struct Reply {
    pub(super) bytes: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) then: Then,
}

impl Fault {
    /// The response of a server that reads each request and answers it once.
    fn reply(self, request: u64) -> Reply {
        if let Some(reply) = broken::reply(self).or_else(|| closes::reply(self)) {
            return reply;
        }
        let (bytes, status, then) = match self {
            Fault::EveryThird503 if request.is_multiple_of(3) => {
                (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec(), 503, Then::Keep)
            }
            Fault::TwoInOne => ([OK, OK].concat(), 200, Then::Keep),
            Fault::TrailingGarbage => ([OK, b"\0garbage"].concat(), 200, Then::Keep),
            Fault::BodyAfter204 => {
                (b"HTTP/1.1 204 No Content\r\n\r\nno content".to_vec(), 204, Then::Keep)
            }
            Fault::LengthWith304 => (
                b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n".to_vec(),
                304,
                Then::Keep,
            ),
            Fault::CloseDelimited => {
                (b"HTTP/1.1 200 OK\r\n\r\nbody".to_vec(), 200, Then::FinAndRead)
            }
            Fault::ConnectionClose => (LAST.to_vec(), 200, Then::FinAndRead),
            Fault::StopAccepting(_) => (LAST.to_vec(), 200, Then::FinAndRead),
            _ => (OK.to_vec(), 200, Then::Keep),
        };
        Reply { bytes, kind: Kind::Answer(status), then }
    }
}

impl Connection<'_> {
    /// Reads each request and answers it once.
    pub(super) fn answer_each(&mut self) {
        while self.read_request() {
            if let Fault::Restart(number) = self.server.fault
                && self.server.go_down_at(number)
            {
                return self.server.note(|log| log.ignored += 1);
            }
            thread::sleep(THINK);
            let number = self.server.log.lock().expect("no thread panics").requests;
            let reply = self.server.fault.reply(number);
            if !self.answer(&reply.bytes, reply.kind) {
                return;
            }
            match reply.then {
                Then::Keep if reply.kind == Kind::Broken => {
                    // Nothing may follow on such a connection; the client has to close it.
                    while self.ignore() {}
                    return;
                }
                Then::Keep => {}
                Then::Close => return self.server.note(|log| log.closes += 1),
                Then::FinAndRead => return self.fin_and_read(),
                Then::Reset => return self.reset(),
            }
        }
    }
}
