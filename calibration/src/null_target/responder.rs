//! The null target's event loop on one core: accepts, receives and sends through one ring.
//!
//! A turn handles all completions and enters the kernel once. Memory is fixed, except for heads
//! that arrive in pieces, which are bounded, and for TLS.

use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::uring::token::{GENERATION_BITS, Op, Token};
use engine::uring::{Completion, Payload, Ring, RingConfig, TOKEN_NONE};
use rustls::ServerConfig;
use socket2::Socket;

use super::frames::WRITE_MAX;
use super::protocol::Protocol;
use super::requests::LastHead;
use super::responses::Responses;
use super::tls::Tls;

/// What the null target counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were answered.
    pub requests: u64,
    /// Connections that were accepted and kept.
    pub connections: u64,
}

/// The longest sleep of a turn, ns: the stop flag is read once per turn.
const WAIT_NS: u64 = 100_000_000;

/// Size of one receive buffer, bytes: room for a pipeline of twenty common requests. Larger ones
/// gave no clear gain for their memory: 2,112 and 4,096 bytes cost 4.16 and 3.99 µs of CPU per
/// request, medians of five runs on a busy machine whose runs spread by 20 % (64 connections,
/// 2026-11).
const BUFFER_SIZE: usize = 2_048;

/// The token of the accept.
const TOKEN_ACCEPT: u64 = TOKEN_NONE - 1;

/// The generations of a slot: as many as a token tells apart.
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// A place for one connection.
#[derive(Debug, Default)]
struct Slot {
    /// The socket; `None` if the slot is free.
    fd: Option<RawFd>,
    generation: u32,
    protocol: Protocol,
    /// Its session, where TLS is spoken.
    tls: Option<Box<Tls>>,
    /// Bytes of the send in flight. The next send waits for it, because two sends on one socket may
    /// be reordered. Sends without a completion on success cost 4.06 instead of 4.16 µs of CPU per
    /// request, less than the runs' spread.
    sending: Option<usize>,
}

impl Slot {
    /// The tokens of the operations that may be pending on its socket; `slot` is its number.
    fn tokens(&self, slot: u32) -> [u64; 2] {
        let generation = self.generation;
        [Op::Receive, Op::Send].map(|kind| Token { kind, generation, slot }.encode())
    }
}

/// One core's ring and connections.
pub(super) struct Responder {
    ring: Ring,
    listener: Socket,
    /// True if the accept is armed. After an error it is re-armed when a connection closes or the
    /// ring is idle.
    accepting: bool,
    responses: Responses,
    /// The TLS configuration, if TLS is on.
    tls: Option<Arc<ServerConfig>>,
    /// The bytes of the responses, which TLS encrypts for each connection.
    payload: Vec<u8>,
    /// The last received bytes, decrypted.
    plain: Vec<u8>,
    /// The next frames of HTTP/2.
    frames: Vec<u8>,
    last_head: LastHead,
    slots: Vec<Slot>,
    free: Vec<u32>,
    counts: Counts,
}

impl Responder {
    /// Builds the ring and the slots on this thread.
    pub(super) fn new(
        listener: Socket,
        tls: Option<Arc<ServerConfig>>,
        conns_max: usize,
    ) -> io::Result<Responder> {
        let (responses, payload) = Responses::new();
        let ring = Ring::new(RingConfig {
            sockets_max: conns_max,
            buffer_size: BUFFER_SIZE,
            payloads: vec![Payload::copied(&payload, b"", 1)?],
            addresses: Vec::new(),
            outbox: true,
        })?;
        let conns_max = u32::try_from(conns_max).map_err(io::Error::other)?;
        Ok(Responder {
            ring,
            listener,
            accepting: false,
            responses,
            tls,
            payload,
            plain: Vec::new(),
            frames: Vec::with_capacity(WRITE_MAX),
            last_head: LastHead::default(),
            slots: (0..conns_max).map(|_| Slot::default()).collect(),
            free: (0..conns_max).rev().collect(),
            counts: Counts::default(),
        })
    }

    /// Serves until the stop flag is set, then closes every connection.
    pub(super) fn run(mut self, stop: &AtomicBool) -> Counts {
        self.accept();
        while !stop.load(Ordering::Relaxed) {
            self.ring.wait(WAIT_NS);
            let handled = self.reap();
            if handled == 0 && !self.accepting {
                self.accept();
            }
        }
        self.end()
    }

    /// Closes everything through the ring: a descriptor closed directly would stay open to its peer
    /// until the kernel has torn the ring down.
    fn end(self) -> Counts {
        let Responder { mut ring, listener, slots, counts, .. } = self;
        // The pending accept keeps the listener open, and its address in use, until the ring is
        // torn down, so listening ends here. It fails only if the socket no longer listens.
        let _ = listener.shutdown(Shutdown::Both);
        ring.close(listener.into_raw_fd(), &[TOKEN_ACCEPT]);
        for (number, slot) in (0_u32..).zip(&slots) {
            if let Some(fd) = slot.fd {
                ring.close(fd, &slot.tokens(number));
            }
        }
        ring.poll();
        counts
    }

    fn accept(&mut self) {
        self.ring.accept(TOKEN_ACCEPT, self.listener.as_raw_fd());
        self.accepting = true;
    }

    /// Handles all completions; returns how many there were.
    fn reap(&mut self) -> usize {
        let mut handled = 0;
        while let Some(completion) = self.ring.next_completion() {
            handled += 1;
            match completion.token {
                TOKEN_NONE => {}
                TOKEN_ACCEPT => self.accepted(completion),
                word => {
                    let token = Token::decode(word);
                    let slot = &self.slots[token.slot as usize];
                    let current = slot.fd.is_some() && slot.generation == token.generation;
                    if token.kind == Op::Receive {
                        self.received(token.slot, completion, current);
                    } else if current {
                        self.sent(token.slot, completion.result);
                    }
                }
            }
        }
        handled
    }

    fn token(&self, slot: u32, kind: Op) -> u64 {
        Token { kind, generation: self.slots[slot as usize].generation, slot }.encode()
    }

    fn accepted(&mut self, completion: Completion) {
        if 0 <= completion.result {
            match self.free.pop() {
                Some(slot) => {
                    self.counts.connections += 1;
                    let connection = &mut self.slots[slot as usize];
                    connection.fd = Some(completion.result);
                    connection.tls = self.tls.as_ref().map(|tls| Box::new(Tls::new(tls)));
                    self.receive(slot);
                }
                None => self.ring.close(completion.result, &[]),
            }
        }
        if !completion.more {
            self.accepting = false;
            if 0 <= completion.result {
                self.accept();
            }
        }
    }

    fn receive(&mut self, slot: u32) {
        if let Some(fd) = self.slots[slot as usize].fd {
            self.ring.receive(self.token(slot, Op::Receive), fd);
        }
    }

    fn received(&mut self, slot: u32, completion: Completion, current: bool) {
        let connection = &mut self.slots[slot as usize];
        let mut lost = false;
        if current {
            match (completion.buffer, usize::try_from(completion.result)) {
                (Some(buffer), Ok(length)) if 0 < length => {
                    let mut bytes = self.ring.received(buffer, length);
                    let mut is_last = false;
                    if let Some(tls) = &mut connection.tls {
                        self.plain.clear();
                        is_last = tls.take(bytes, &mut self.plain).unwrap_or(true);
                        bytes = &self.plain;
                    }
                    self.counts.requests += connection.protocol.take(bytes, &mut self.last_head);
                    if is_last {
                        connection.protocol.end();
                    }
                }
                // The client has closed its side and may still read its pending responses.
                (_, Ok(_)) => connection.protocol.end(),
                (_, Err(_)) => {
                    lost = completion.result != -rustix::io::Errno::NOBUFS.raw_os_error()
                }
            }
        }
        if let Some(buffer) = completion.buffer {
            self.ring.give_back(buffer);
        }
        if !current {
            return;
        }
        if lost {
            return self.close(slot);
        }
        let ended = connection.protocol.is_ended();
        self.send_pending(slot);
        if !completion.more && !ended {
            self.receive(slot);
        }
    }

    /// Sends the next pending responses unless a send is in flight; closes the connection after the
    /// last.
    fn send_pending(&mut self, slot: u32) {
        let connection = &mut self.slots[slot as usize];
        if connection.sending.is_some() {
            return;
        }
        if connection.tls.is_some() {
            return self.send_encrypted(slot);
        }
        match &mut connection.protocol {
            Protocol::Http1(requests) => match requests.pending() {
                Some((form, count)) => {
                    let (part, taken) = self.responses.part(form, count);
                    requests.sending(taken);
                    connection.sending = Some(part.len());
                    let fd = connection.fd.expect("only an open connection has pending responses");
                    self.ring.send(self.token(slot, Op::Send), fd, 0, part, true);
                }
                None if requests.is_ended() => self.close(slot),
                None => {}
            },
            Protocol::Http2(frames) => {
                self.frames.clear();
                frames.write(&mut self.frames);
                let mut out = self.ring.out(slot);
                out.write_all(&self.frames).expect("there is room for one write");
                let length = self.frames.len();
                self.send_out(slot, length);
            }
            Protocol::Unknown(_) => {}
        }
    }

    /// The same through TLS, which also sends records of its own.
    fn send_encrypted(&mut self, slot: u32) {
        let connection = &mut self.slots[slot as usize];
        let tls = connection.tls.as_mut().expect("the caller has seen it");
        if tls.is_written() {
            match &mut connection.protocol {
                Protocol::Http1(requests) => {
                    if let Some((form, count)) = requests.pending() {
                        let (part, taken) = self.responses.part(form, count);
                        requests.sending(taken);
                        tls.say(&self.payload[part]);
                    } else if requests.is_ended() {
                        tls.say_the_end();
                    }
                }
                Protocol::Http2(frames) => {
                    self.frames.clear();
                    frames.write(&mut self.frames);
                    if !self.frames.is_empty() {
                        tls.say(&self.frames);
                    } else if frames.is_ended() {
                        tls.say_the_end();
                    }
                }
                Protocol::Unknown(_) => {}
            }
        }
        let mut out = self.ring.out(slot);
        tls.write(&mut out);
        let length = out.written();
        self.send_out(slot, length);
    }

    /// Sends the bytes that were written for this connection; closes it if these were the last.
    fn send_out(&mut self, slot: u32, length: usize) {
        let token = self.token(slot, Op::Send);
        let connection = &mut self.slots[slot as usize];
        match length {
            0 if connection.protocol.is_ended() => self.close(slot),
            0 => {}
            length => {
                connection.sending = Some(length);
                let fd = connection.fd.expect("only an open connection sends");
                self.ring.send_out(token, fd, slot, 0..length);
            }
        }
    }

    fn sent(&mut self, slot: u32, result: i32) {
        let sending = self.slots[slot as usize].sending.take();
        if usize::try_from(result).ok() == sending {
            self.send_pending(slot);
        } else {
            self.close(slot);
        }
    }

    /// Closes the connection and frees its slot; operations still in flight carry the old
    /// generation.
    fn close(&mut self, slot: u32) {
        let connection = &mut self.slots[slot as usize];
        let tokens = connection.tokens(slot);
        let fd = connection.fd.take().expect("only an open connection is closed");
        connection.generation = (connection.generation + 1) & GENERATION_MASK;
        connection.protocol = Protocol::default();
        connection.tls = None;
        connection.sending = None;
        self.free.push(slot);
        self.ring.close(fd, &tokens);
        if !self.accepting {
            self.accept();
        }
    }
}
