//! One accepted connection: its fault, and the parts of every fault.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

use super::endless::DRIP;
use super::fault::Fault;
use super::http2;
use super::replies::Kind;
use super::{LAST, OK, REFUSED, Shared};

/// One accepted connection.
pub(super) struct Connection<'server> {
    pub(super) stream: TcpStream,
    pub(super) server: &'server Shared,
    /// Bytes that were read and belong to the next request.
    pub(super) buffer: Vec<u8>,
}

impl Connection<'_> {
    /// Serves until either side closes.
    pub(super) fn serve(mut self, number: u64) {
        self.stream.set_nodelay(true).expect("an option");
        // An accepted socket inherits the listener's timeout.
        self.stream.set_read_timeout(None).expect("an option");
        match self.server.fault {
            Fault::Http2(fault) => http2::serve(self, number, fault),
            Fault::NeverRead => self.server.park(),
            Fault::FinOnAccept => self.fin_and_read(),
            Fault::HangFrom(first) if first <= number => while self.ignore() {},
            Fault::CloseIdle => self.close_when_idle(),
            Fault::AnswerOnAccept => {
                if self.answer_on_accept() {
                    while self.ignore() {}
                }
            }
            Fault::AnswerOnAcceptAndAgain => {
                if self.answer_on_accept() {
                    self.answer_each();
                }
            }
            Fault::AnswerBeforeReadAndAgain => {
                while self.has_more()
                    && self.write_extra(OK)
                    && self.read_request()
                    && self.answer(OK, Kind::Answer(200))
                {}
            }
            Fault::RepeatAnswers => self.repeat_answers(),
            Fault::AnswerEarlyAndKeep => {
                if self.answer_early(OK, 200).is_some() {
                    self.server.park();
                }
            }
            Fault::AnswerEarlyAndClose => {
                if let Some(length) = self.answer_early(LAST, 200) {
                    self.fin();
                    // The client has its response while its request is still being sent.
                    thread::sleep(DRIP);
                    self.read_body(length);
                }
            }
            Fault::AnswerEarlyAndRead => {
                while let Some(length) = self.answer_early(OK, 200)
                    && self.read_body(length)
                {}
            }
            Fault::AnswerEarlyAndReset => {
                if self.answer_early(REFUSED, 413).is_some() {
                    self.server.note(|log| log.resets += 1);
                }
            }
            Fault::DripWholeResponse => while self.read_request() && self.drip() {},
            Fault::ResetOnNextRequest => {
                if self.read_request() && self.answer(OK, Kind::Answer(200)) && self.has_more() {
                    self.server.note(|log| log.broken += 1);
                    self.reset();
                }
            }
            Fault::FinOnNextRequest => {
                if self.read_request() && self.answer(OK, Kind::Answer(200)) && self.has_more() {
                    self.fin_and_read();
                }
            }
            fault => match fault.endless() {
                Some((start, piece, pause)) => {
                    if self.read_request() {
                        self.write_endless(start, &piece, pause);
                    }
                }
                None => self.answer_each(),
            },
        }
    }

    /// Reads the head of a request; returns the length of its body, `None` at the end of the
    /// connection.
    pub(super) fn read_head(&mut self) -> Option<usize> {
        let mut searched = 0;
        loop {
            let found = self.buffer[searched..].windows(4).position(|bytes| bytes == b"\r\n\r\n");
            if let Some(end) = found.map(|found| searched + found) {
                let head = String::from_utf8_lossy(&self.buffer[..end]).to_lowercase();
                self.buffer.drain(..end + 4);
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                return Some(length.map_or(0, |length| length.parse().expect("a length")));
            }
            searched = self.buffer.len().saturating_sub(3);
            if !self.read_more() {
                if !self.buffer.is_empty() {
                    self.server.note(|log| log.requests_cut += 1);
                }
                return None;
            }
        }
    }

    /// Reads a request to its end; returns whether there was one.
    pub(super) fn read_request(&mut self) -> bool {
        self.read_head().is_some_and(|length| self.read_body(length))
    }

    /// Reads the body of a request to its end; whether it was whole.
    pub(super) fn read_body(&mut self, length: usize) -> bool {
        while self.buffer.len() < length {
            if !self.read_more() {
                self.server.note(|log| log.requests_cut += 1);
                return false;
            }
        }
        self.buffer.drain(..length);
        self.server.note(|log| log.requests += 1);
        true
    }

    /// Reads a request without answering; returns whether there was one.
    pub(super) fn ignore(&mut self) -> bool {
        let read = self.read_request();
        self.server.note(|log| log.ignored += u64::from(read));
        read
    }

    pub(super) fn read_more(&mut self) -> bool {
        let mut bytes = [0; 64 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(length @ 1..) => {
                self.buffer.extend_from_slice(&bytes[..length]);
                self.server.note(|log| log.bytes_read += length as u64);
                true
            }
            Ok(0) | Err(_) => false,
        }
    }

    /// Waits for the first byte of a request without reading it; returns whether there was one.
    pub(super) fn has_more(&mut self) -> bool {
        !self.buffer.is_empty() || matches!(self.stream.peek(&mut [0]), Ok(1..))
    }

    /// Writes the response to a request; returns whether it could.
    pub(super) fn answer(&mut self, bytes: &[u8], kind: Kind) -> bool {
        let written = self.write(bytes);
        self.server.note(|log| match kind {
            _ if !written => log.unwritten += 1,
            Kind::Answer(status) => *log.answers.entry(status).or_default() += 1,
            Kind::Broken => log.broken += 1,
        });
        written
    }

    /// Writes a response without a request; returns whether it could.
    pub(super) fn write_extra(&mut self, bytes: &[u8]) -> bool {
        let written = self.write(bytes);
        self.server.note(|log| log.extra += u64::from(written));
        written
    }

    /// Writes a response before any request; returns whether it could. Without a core it may come
    /// after the first one.
    fn answer_on_accept(&mut self) -> bool {
        let written = self.write_extra(OK);
        self.stream.set_nonblocking(true).expect("an option");
        let is_early = self.stream.peek(&mut [0]).is_err();
        self.stream.set_nonblocking(false).expect("an option");
        self.server.note(|log| log.unasked += u64::from(written && is_early));
        written
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> bool {
        let written = self.stream.write_all(bytes).is_ok();
        if written {
            self.server.note(|log| log.bytes_written += bytes.len() as u64);
        }
        written
    }

    pub(super) fn fin(&mut self) {
        self.server.note(|log| log.closes += 1);
        // The client may have closed it already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Sends FIN and reads until the client has closed, so that unread bytes cause no reset.
    pub(super) fn fin_and_read(&mut self) {
        self.fin();
        self.stream.set_read_timeout(None).expect("an option");
        while self.ignore() {}
    }

    /// Resets the connection when it is dropped.
    pub(super) fn reset(&mut self) {
        self.server.note(|log| log.resets += 1);
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("an option");
    }
}
