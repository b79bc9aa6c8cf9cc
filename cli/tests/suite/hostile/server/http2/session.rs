//! The state of one connection: what the client has sent.

use std::io::ErrorKind;
use std::thread;

use super::super::THINK;
use super::super::connection::Connection;
use super::super::endless::DRIP;
use super::super::log::Log;
use super::STREAMS_MAX;
use super::fault::Http2;
use super::frames::{
    ACK, DATA, END_STREAM, Frame, HEADERS, INITIAL_WINDOW_SIZE, PING, RST_STREAM, SETTINGS, answer,
    frame, reset, settings, window_update,
};

/// What a client's connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The window of a stream without settings (RFC 9113, section 6.9.2).
const WINDOW: u32 = 65_535;

/// A request that was read to its end.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) stream: u32,
    /// Its number among all requests of the server, from 1.
    pub(super) number: u64,
}

/// One connection.
pub(super) struct Session<'server> {
    pub(super) connection: Connection<'server>,
    pub(super) fault: Http2,
    /// Requests that ended and await their response.
    pub(super) whole: Vec<Request>,
    /// How many requests had their response, of whatever kind.
    pub(super) served: usize,
    /// Streams whose response has begun and goes on.
    pub(super) unended: Vec<u32>,
    /// Streams whose request hasn't ended.
    uploading: Vec<u32>,
    /// The limits of streams that were set, and how many of them the client has acknowledged.
    limits: Vec<u32>,
    acked: usize,
}

impl Session<'_> {
    pub(super) fn new(connection: Connection<'_>, fault: Http2) -> Session<'_> {
        Session {
            connection,
            fault,
            whole: Vec::new(),
            served: 0,
            unended: Vec::new(),
            uploading: Vec::new(),
            limits: Vec::new(),
            acked: 0,
        }
    }

    /// Reads what a connection begins with; false if it ends before.
    pub(super) fn read_preface(&mut self) -> bool {
        while self.connection.buffer.len() < PREFACE.len() {
            if !self.connection.read_more() {
                return false;
            }
        }
        let begun: Vec<u8> = self.connection.buffer.drain(..PREFACE.len()).collect();
        assert_eq!(begun, PREFACE, "what every connection begins with");
        true
    }

    /// Sends settings, with this limit of streams among them or still in force.
    pub(super) fn set(&mut self, streams_max: u32, all: &[(u16, u32)]) {
        self.limits.push(streams_max);
        self.connection.write(&settings(all));
    }

    /// Reads what comes next; false at the end of the connection.
    pub(super) fn read(&mut self) -> bool {
        if !self.connection.read_more() {
            let cut = self.uploading.len() as u64;
            self.connection.server.note(|log| log.requests_cut += cut);
            return false;
        }
        while let Some(frame) = Frame::take(&mut self.connection.buffer) {
            self.take(&frame);
        }
        true
    }

    /// The same, but returns if nothing comes within the socket's timeout.
    pub(super) fn poll(&mut self) -> bool {
        match self.connection.stream.peek(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => true,
            _ => self.read(),
        }
    }

    /// Reads until the client has closed the connection: each request counts as this.
    pub(super) fn drain(&mut self, count: fn(&mut Log) -> &mut u64) {
        loop {
            let requests = std::mem::take(&mut self.whole).len() as u64;
            self.connection.server.note(|log| *count(log) += requests);
            if !self.read() {
                return;
            }
        }
    }

    fn take(&mut self, read: &Frame) {
        match read.kind {
            HEADERS => {
                self.check_limit();
                self.uploading.push(read.stream);
                match self.fault {
                    Http2::AnswerEarly if !read.has(END_STREAM) => self.answer_early(read.stream),
                    Http2::WindowLate if self.limits.len() == 1 => {
                        thread::sleep(DRIP);
                        self.set(STREAMS_MAX, &[(INITIAL_WINDOW_SIZE, WINDOW)]);
                    }
                    _ => {}
                }
                self.end_request(read);
            }
            DATA => {
                if matches!(self.fault, Http2::WindowSmall | Http2::WindowLate) {
                    self.widen(read);
                }
                self.end_request(read);
            }
            RST_STREAM => self.cancel(read.stream),
            SETTINGS if read.has(ACK) => self.acked += 1,
            SETTINGS => {
                self.connection.write(&frame(SETTINGS, ACK, 0, &[]));
            }
            PING if !read.has(ACK) => {
                self.connection.write(&frame(PING, ACK, 0, &read.payload));
            }
            _ => {}
        }
    }

    /// A stream begins: notes one that comes before any settings, or that all settings forbid which
    /// may be in force: the last acknowledged, and those sent since.
    fn check_limit(&mut self) {
        let open = self.uploading.len() + self.whole.len() + self.unended.len();
        // A flood of settings has no limit among them.
        let acked = self.acked.min(self.limits.len());
        let mut in_force = self.limits.iter().skip(acked.saturating_sub(1));
        let forbidden = in_force.all(|limit| u64::from(*limit) <= open as u64);
        self.connection.server.note(|log| log.over_limit += u64::from(forbidden));
    }

    /// Ends a request if this is its last frame.
    fn end_request(&mut self, read: &Frame) {
        let place = self.uploading.iter().position(|open| *open == read.stream);
        if let Some(place) = place.filter(|_| read.has(END_STREAM)) {
            self.uploading.remove(place);
            let mut number = 0;
            self.connection.server.note(|log| {
                log.requests += 1;
                number = log.requests;
            });
            self.whole.push(Request { stream: read.stream, number });
        }
    }

    /// The client gives up a stream.
    fn cancel(&mut self, stream: u32) {
        let before = self.uploading.len();
        self.uploading.retain(|open| *open != stream);
        let cut = (before - self.uploading.len()) as u64;
        self.whole.retain(|request| request.stream != stream);
        self.unended.retain(|open| *open != stream);
        self.connection.server.note(|log| {
            log.requests_cut += cut;
            log.cancelled += 1;
        });
    }

    /// Gives back the window that a frame has used.
    fn widen(&mut self, read: &Frame) {
        let bytes = u32::try_from(read.payload.len()).expect("at most 16 MiB");
        if 0 < bytes {
            let both = [window_update(0, bytes), window_update(read.stream, bytes)].concat();
            self.connection.write(&both);
        }
    }

    /// Answers an upload whose head has come, and asks for no more of it.
    fn answer_early(&mut self, stream: u32) {
        thread::sleep(THINK);
        let bytes = [answer(stream), reset(stream, 0)].concat();
        let written = self.connection.write(&bytes);
        self.connection.server.note(|log| {
            *log.answers.entry(200).or_default() += u64::from(written);
            log.early += u64::from(written);
        });
    }
}
