//! A server that misbehaves in one way at a time and keeps its own log of what it did.
//!
//! One thread accepts and each connection has one of its own; nothing is shared with the engine or
//! the target but TCP. A thread ends when its client goes, or when the server stops, so the log is
//! complete once [`Server::stop`] returns. Connection 0 is the one with which the client checks
//! that the server listens.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

/// A pause before each response: it bounds the load of a closed loop.
const THINK: Duration = Duration::from_millis(2);
/// [`Fault::RepeatAnswers`] answers after this time, so none of its answers can come earlier.
pub const SLOW: Duration = Duration::from_millis(30);
/// It sends each of them once more after this time.
const REPEATED: Duration = Duration::from_millis(20);
/// [`Fault::CloseIdle`] closes after this time.
const IDLE: Duration = Duration::from_millis(10);
/// Between two pieces of a response that drips.
const DRIP: Duration = Duration::from_millis(10);
/// How long nobody listens during [`Fault::Restart`].
const DOWN: Duration = Duration::from_millis(200);
/// How often the accepting thread looks whether it is to stop.
const ACCEPT_POLL: Duration = Duration::from_millis(5);
/// Connections that a server accepts at most: more than any row can need.
const ACCEPTED_MAX: u64 = 50_000;
/// Pieces of a response without an end, at most: more than any client waits for.
const PIECES_MAX: usize = 100_000;
/// A connection queue of two, for servers that don't accept.
const BACKLOG_SMALL: i32 = 1;

/// A whole response that keeps the connection.
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// A whole response after which the server closes.
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
/// The refusal of a large request, after which the server closes.
const REFUSED: &[u8] = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
/// The shortest response, which drips.
const SHORT: &[u8] = b"HTTP/1.1 204 \r\n\r\n";
/// How long [`Fault::DripWholeResponse`] takes at least for a response.
pub const DRIPPED: Duration = Duration::from_millis(10 * (SHORT.len() as u64 - 1));

/// What a server does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,

    // Connections.
    /// Never answers on the connection of this number and later ones.
    HangFrom(u64),
    /// Accepts and reads nothing.
    NeverRead,
    /// Waits 20 ms before it accepts the next connection.
    AcceptSlowly,
    /// Closes after each response, and stops accepting before the connection of this number.
    StopAccepting(u64),
    /// Closes its connections and its port at the request of this number, and is back after 200 ms.
    Restart(u64),
    /// Sends FIN as soon as it has accepted, and reads on.
    FinOnAccept,
    /// Sends FIN when a connection has been idle for 10 ms.
    CloseIdle,

    // Answers at the wrong time.
    /// Answers when it accepts, and never again.
    AnswerOnAccept,
    /// Answers when it accepts, and then each request.
    AnswerOnAcceptAndAgain,
    /// Answers at the first byte of a request, and again when it has read it.
    AnswerBeforeReadAndAgain,
    /// Answers after 30 ms, and sends each answer once more 20 ms later.
    RepeatAnswers,
    /// Answers a large request at its head, and keeps the connection without reading the body.
    AnswerEarlyAndKeep,
    /// Answers a large request at its head, sends FIN, and reads the rest.
    AnswerEarlyAndClose,
    /// Answers a large request at its head, reads it, and keeps the connection.
    AnswerEarlyAndRead,
    /// Refuses a large request at its head, and closes with the body unread, which resets.
    AnswerEarlyAndReset,

    // More than an answer.
    /// Two responses in one write.
    TwoInOne,
    /// A response and bytes that belong to none.
    TrailingGarbage,
    /// A 204, which has no body, with one.
    BodyAfter204,

    // Unusual, and allowed.
    /// A 304 with the length of the body that it stands for.
    LengthWith304,
    /// One byte every 10 ms.
    DripWholeResponse,
    /// A body that ends where the connection does.
    CloseDelimited,
    /// Says that it closes, and does.
    ConnectionClose,
    /// A 503 to every third request.
    EveryThird503,

    // Closes that the client can't foresee.
    /// Closes after each response without having said so.
    KeepAliveLie,
    /// Sends FIN after each response without having said so, and reads on.
    HalfClose,
    /// Answers a request, and resets when the next one comes.
    ResetOnNextRequest,
    /// Answers a request, and sends FIN when the next one comes, which it reads.
    FinOnNextRequest,
    /// Resets once it has read a request.
    ResetAfterRequest,
    /// Resets in the middle of a body of a known length.
    ResetInBody,
    /// Resets in a body that ends where the connection does.
    ResetInCloseDelimited,
    /// Closes before the end of a body of a known length.
    ShortBody,

    // Responses without an end.
    /// A head, one byte every 10 ms.
    DripHead,
    /// A head of one endless line, as fast as the client takes it.
    EndlessHead,
    /// Chunks of one byte.
    EndlessChunks,
    /// Interim responses, one after the other.
    EndlessInterim,

    // Responses that break a rule.
    /// A head of 70 KiB.
    HugeHead,
    /// 200 header fields.
    ManyFields,
    /// A chunk size of more than 64 bits.
    ChunkSizeOverflow,
    /// Two lengths.
    LengthsDiffer,
    /// A length and chunks.
    TwoFramings,
    /// A transfer coding that nobody knows.
    UnknownCoding,
    /// A CR in a header's value.
    BareCr,
    /// A body without a head, as HTTP/0.9 had it.
    NoHead,
    /// A switch of protocols that nobody asked for.
    Upgrade,
}

/// What the server does once a response is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Keep,
    Close,
    FinAndRead,
    Reset,
}

/// What a written response is to the request that was read before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Its answer, with this status.
    Answer(u16),
    /// No answer: it breaks a rule or isn't whole.
    Broken,
}

/// One response to each request.
struct Reply {
    bytes: Vec<u8>,
    kind: Kind,
    then: Then,
}

impl Fault {
    /// The response of a server that reads each request and answers it once.
    fn reply(self, request: u64) -> Reply {
        let broken = Kind::Broken;
        let (bytes, kind, then) = match self {
            Fault::EveryThird503 if request.is_multiple_of(3) => (
                b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec(),
                Kind::Answer(503),
                Then::Keep,
            ),
            Fault::TwoInOne => ([OK, OK].concat(), Kind::Answer(200), Then::Keep),
            Fault::TrailingGarbage => ([OK, b"\0garbage"].concat(), Kind::Answer(200), Then::Keep),
            Fault::BodyAfter204 => (
                b"HTTP/1.1 204 No Content\r\n\r\nno content".to_vec(),
                Kind::Answer(204),
                Then::Keep,
            ),
            Fault::LengthWith304 => (
                b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n".to_vec(),
                Kind::Answer(304),
                Then::Keep,
            ),
            Fault::CloseDelimited => {
                (b"HTTP/1.1 200 OK\r\n\r\nbody".to_vec(), Kind::Answer(200), Then::FinAndRead)
            }
            Fault::ConnectionClose => (LAST.to_vec(), Kind::Answer(200), Then::FinAndRead),
            Fault::StopAccepting(_) => (LAST.to_vec(), Kind::Answer(200), Then::FinAndRead),
            Fault::KeepAliveLie => (
                b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n".to_vec(),
                Kind::Answer(200),
                Then::Close,
            ),
            Fault::HalfClose => (OK.to_vec(), Kind::Answer(200), Then::FinAndRead),
            Fault::ResetAfterRequest => (Vec::new(), broken, Then::Reset),
            Fault::ResetInBody => (
                b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart".to_vec(),
                broken,
                Then::Reset,
            ),
            Fault::ResetInCloseDelimited => {
                (b"HTTP/1.1 200 OK\r\n\r\npart".to_vec(), broken, Then::Reset)
            }
            Fault::ShortBody => (
                b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart".to_vec(),
                broken,
                Then::FinAndRead,
            ),
            Fault::HugeHead => (
                [b"HTTP/1.1 200 OK\r\nX: ", "x".repeat(70 * 1024).as_bytes(), b"\r\n\r\n"].concat(),
                broken,
                Then::Keep,
            ),
            Fault::ManyFields => (
                ["HTTP/1.1 200 OK\r\n", &"X: y\r\n".repeat(200), "Content-Length: 0\r\n\r\n"]
                    .concat()
                    .into_bytes(),
                broken,
                Then::Keep,
            ),
            Fault::ChunkSizeOverflow => (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nx"
                    .to_vec(),
                broken,
                Then::Keep,
            ),
            Fault::LengthsDiffer => (
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc".to_vec(),
                broken,
                Then::Keep,
            ),
            Fault::TwoFramings => (
                b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n\
                  0\r\n\r\n"
                    .to_vec(),
                broken,
                Then::Keep,
            ),
            Fault::UnknownCoding => (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: rot13\r\n\r\nbx".to_vec(),
                broken,
                Then::Keep,
            ),
            Fault::BareCr => (
                b"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 0\r\n\r\n".to_vec(),
                broken,
                Then::Keep,
            ),
            Fault::NoHead => (b"<p>hello</p>\n".to_vec(), broken, Then::FinAndRead),
            Fault::Upgrade => (
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"
                    .to_vec(),
                broken,
                Then::Keep,
            ),
            _ => (OK.to_vec(), Kind::Answer(200), Then::Keep),
        };
        Reply { bytes, kind, then }
    }

    /// The start of a response without an end, one more piece of it, and the pause before each.
    fn endless(self) -> Option<(&'static [u8], Vec<u8>, Duration)> {
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

/// What a server did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Connections accepted.
    pub accepted: u64,
    /// Requests read to their end.
    pub requests: u64,
    /// Requests that the client didn't finish, as far as the server read on.
    pub requests_cut: u64,
    /// Whole responses to a request, by status: each request has one at most.
    pub answers: BTreeMap<u16, u64>,
    /// Of these, how many were sent before the request was read to its end.
    pub early: u64,
    /// Responses beyond one for each request: repeated, or before any request.
    pub extra: u64,
    /// Responses that break a rule, that aren't whole, or that were due when the server reset.
    pub broken: u64,
    /// Requests read that got nothing.
    pub ignored: u64,
    /// Responses that couldn't be written because the client had gone.
    pub unwritten: u64,
    /// Connections that the server closed first, by FIN.
    pub closes: u64,
    /// Connections that the server reset.
    pub resets: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl Log {
    /// Whole responses to requests, whatever their status.
    pub fn answered(&self) -> u64 {
        self.answers.values().sum()
    }
}

/// A running server.
pub struct Server {
    /// Where it listens.
    pub port: u16,
    shared: Arc<Shared>,
    accepting: thread::JoinHandle<()>,
}

struct Shared {
    fault: Fault,
    log: Mutex<Log>,
    state: Mutex<State>,
    changed: Condvar,
}

/// What the threads of a server have to know of each other.
#[derive(Default)]
struct State {
    stopped: bool,
    /// Whether the server is to close its port for a while; once in its life.
    down: bool,
    went_down: bool,
    /// Connections to close when the server goes down.
    open: Vec<TcpStream>,
}

impl Server {
    /// Starts a server on a free port.
    pub fn start(fault: Fault) -> Server {
        let listener = listen(0, fault);
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            fault,
            log: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = thread::spawn({
            let shared = Arc::clone(&shared);
            move || thread::scope(|scope| shared.accept(scope, listener, port))
        });
        Server { port, shared, accepting }
    }

    /// Stops a server whose clients have gone, and returns its log.
    pub fn stop(self) -> Log {
        self.shared.state.lock().expect("no thread panics").stopped = true;
        self.shared.changed.notify_all();
        self.accepting.join().expect("the server never panics");
        self.shared.log.lock().expect("no thread panics").clone()
    }
}

/// Listens on a port, 0 for any.
fn listen(port: u16, fault: Fault) -> TcpListener {
    let small = matches!(fault, Fault::StopAccepting(_));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_reuse_address(true).expect("an option");
    socket.set_read_timeout(Some(ACCEPT_POLL)).expect("an option");
    if fault == Fault::NeverRead {
        socket.set_recv_buffer_size(4_096).expect("an option");
    }
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into()).expect("a free port");
    socket.listen(if small { BACKLOG_SMALL } else { 1_024 }).expect("it listens");
    socket.into()
}

impl Shared {
    fn note(&self, note: impl FnOnce(&mut Log)) {
        note(&mut self.log.lock().expect("no thread panics"));
    }

    fn is_stopped(&self) -> bool {
        self.state.lock().expect("no thread panics").stopped
    }

    /// Waits until the server is stopped.
    fn park(&self) {
        let state = self.state.lock().expect("no thread panics");
        drop(self.changed.wait_while(state, |state| !state.stopped).expect("no thread panics"));
    }

    /// Accepts until the server is stopped and nobody waits to be accepted.
    fn accept<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        mut listener: TcpListener,
        port: u16,
    ) {
        for number in 0.. {
            assert!(number < ACCEPTED_MAX, "{:?} accepted too many", self.fault);
            if self.fault == Fault::StopAccepting(number) {
                return self.park();
            }
            let stream = loop {
                match listener.accept() {
                    Ok((stream, _)) => break stream,
                    Err(error) => {
                        let idle = matches!(
                            error.kind(),
                            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                        );
                        assert!(
                            idle || error.kind() == ErrorKind::ConnectionAborted,
                            "accept: {error}"
                        );
                    }
                }
                if std::mem::take(&mut self.state.lock().expect("no thread panics").down) {
                    drop(listener);
                    thread::sleep(DOWN);
                    listener = listen(port, self.fault);
                }
                if self.is_stopped() {
                    return;
                }
            };
            self.note(|log| log.accepted += 1);
            if let Fault::Restart(_) = self.fault {
                let clone = stream.try_clone().expect("a descriptor");
                self.state.lock().expect("no thread panics").open.push(clone);
            }
            scope.spawn(move || {
                Connection { stream, server: self, buffer: Vec::new() }.serve(number)
            });
            match self.fault {
                Fault::AcceptSlowly => thread::sleep(Duration::from_millis(20)),
                Fault::FinOnAccept | Fault::AnswerOnAccept => thread::sleep(THINK),
                _ => {}
            }
        }
    }

    /// Goes down at the request of this number: closes all connections, and the port.
    fn go_down_at(&self, number: u64) -> bool {
        let read = self.log.lock().expect("no thread panics").requests;
        let mut state = self.state.lock().expect("no thread panics");
        if read < number || state.went_down {
            return false;
        }
        (state.down, state.went_down) = (true, true);
        for stream in state.open.drain(..) {
            // Its client may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        true
    }
}

/// One accepted connection.
struct Connection<'server> {
    stream: TcpStream,
    server: &'server Shared,
    /// Bytes that were read and belong to the next request.
    buffer: Vec<u8>,
}

impl Connection<'_> {
    /// Serves until either side has had enough.
    fn serve(mut self, number: u64) {
        self.stream.set_nodelay(true).expect("an option");
        // An accepted socket inherits the listener's timeout.
        self.stream.set_read_timeout(None).expect("an option");
        match self.server.fault {
            Fault::NeverRead => self.server.park(),
            Fault::FinOnAccept => self.fin_and_read(),
            Fault::HangFrom(first) if first <= number => while self.ignore() {},
            Fault::CloseIdle => self.close_when_idle(),
            Fault::AnswerOnAccept => {
                if self.write_extra(OK) {
                    while self.ignore() {}
                }
            }
            Fault::AnswerOnAcceptAndAgain => {
                if self.write_extra(OK) {
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
                    // The client has its response while its request is still on its way.
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

    /// Reads each request and answers it once.
    fn answer_each(&mut self) {
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

    /// Answers as usual, and closes what has been idle for a while.
    fn close_when_idle(&mut self) {
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

    /// Answers each request after a while, and once more after another: the next request is read
    /// meanwhile.
    fn repeat_answers(&mut self) {
        thread::scope(|scope| {
            while self.read_request() {
                thread::sleep(SLOW);
                if !self.answer(OK, Kind::Answer(200)) {
                    return;
                }
                let stream = self.stream.try_clone().expect("a descriptor");
                let mut again = Connection { stream, server: self.server, buffer: Vec::new() };
                scope.spawn(move || {
                    thread::sleep(REPEATED);
                    again.write_extra(OK);
                });
            }
        });
    }

    /// Answers once the head of a request is read; the length of its body if it could.
    fn answer_early(&mut self, response: &[u8], status: u16) -> Option<usize> {
        let length = self.read_head()?;
        if !self.answer(response, Kind::Answer(status)) {
            return None;
        }
        self.server.note(|log| log.early += 1);
        Some(length)
    }

    /// Writes a response byte by byte; whether it could.
    fn drip(&mut self) -> bool {
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

    /// Writes a response without an end until the client has gone.
    fn write_endless(&mut self, start: &[u8], piece: &[u8], pause: Duration) {
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

    /// Reads the head of a request; the length of its body, `None` at the end of the connection.
    fn read_head(&mut self) -> Option<usize> {
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

    /// Reads a request to its end; whether there was one.
    fn read_request(&mut self) -> bool {
        self.read_head().is_some_and(|length| self.read_body(length))
    }

    /// Reads the body of a request to its end; whether it was whole.
    fn read_body(&mut self, length: usize) -> bool {
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

    /// Reads a request and does nothing about it; whether there was one.
    fn ignore(&mut self) -> bool {
        let read = self.read_request();
        self.server.note(|log| log.ignored += u64::from(read));
        read
    }

    fn read_more(&mut self) -> bool {
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

    /// Waits for the first byte of a request without reading it; whether there was one.
    fn has_more(&mut self) -> bool {
        !self.buffer.is_empty() || matches!(self.stream.peek(&mut [0]), Ok(1..))
    }

    /// Writes the response to a request; whether it could.
    fn answer(&mut self, bytes: &[u8], kind: Kind) -> bool {
        let written = self.write(bytes);
        self.server.note(|log| match kind {
            _ if !written => log.unwritten += 1,
            Kind::Answer(status) => *log.answers.entry(status).or_default() += 1,
            Kind::Broken => log.broken += 1,
        });
        written
    }

    /// Writes a response that no request asks for; whether it could.
    fn write_extra(&mut self, bytes: &[u8]) -> bool {
        let written = self.write(bytes);
        self.server.note(|log| log.extra += u64::from(written));
        written
    }

    fn write(&mut self, bytes: &[u8]) -> bool {
        let written = self.stream.write_all(bytes).is_ok();
        if written {
            self.server.note(|log| log.bytes_written += bytes.len() as u64);
        }
        written
    }

    fn fin(&mut self) {
        self.server.note(|log| log.closes += 1);
        // The client may have closed it already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Sends FIN and reads until the client has closed, so that unread bytes cause no reset.
    fn fin_and_read(&mut self) {
        self.fin();
        self.stream.set_read_timeout(None).expect("an option");
        while self.ignore() {}
    }

    /// Resets the connection when it is dropped.
    fn reset(&mut self) {
        self.server.note(|log| log.resets += 1);
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("an option");
    }
}
