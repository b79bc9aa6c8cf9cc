//! TLS between the ring and a shard's requests: handshakes, records that come and go, farewells.
//!
//! A connection counts as connecting until its handshake is done and all of it has left. From then
//! on a request is encrypted when it leaves, and what was received reaches the parser as the target
//! said it. A send of TLS lies in the ring's outbox until it has left, so each tells when it has, and
//! the connection takes no other request before. Without TLS, none of this is called.

use std::ops::Range;

use super::connection::State;
use super::shard::Shard;
use crate::record::outcome::Cause;
use crate::ring::Ring;
use crate::ring::token::Op;
use crate::tls::{Left, Sessions};

/// What a receive brought, and when it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// The buffer that it is in.
    pub(super) buffer: u16,
    /// Where in it the bytes begin, behind the kernel's stamp.
    pub(super) from: usize,
    /// Where they end.
    pub(super) to: usize,
    /// The kernel's stamp of its last segment, ns since the epoch.
    pub(super) kernel_ns: Option<u64>,
    /// That of the interface's hardware.
    pub(super) hardware_ns: Option<u64>,
}

impl Arrival {
    /// The bytes as they were received.
    #[inline]
    fn received(self, ring: &Ring) -> &[u8] {
        &ring.received(self.buffer, self.to)[self.from..]
    }

    /// What they say, in plain.
    #[inline]
    pub(super) fn plain<'a>(
        self,
        ring: &'a Ring,
        sessions: &'a mut Option<Sessions>,
        slot: u32,
    ) -> &'a [u8] {
        match sessions {
            Some(sessions) => sessions.plain(slot),
            None => self.received(ring),
        }
    }
}

/// The handshake.
impl Shard {
    fn sessions(&mut self) -> &mut Sessions {
        self.sessions.as_mut().expect("the plan has TLS")
    }

    /// The slot's socket is connected: its handshake begins.
    pub(super) fn shake_hands(&mut self, slot: u32) {
        let began_ns = self.now_ns();
        self.sessions().begin(slot, began_ns);
        self.send_written(slot);
        self.arm(slot);
        self.worked(began_ns);
    }

    /// Whether the slot's socket is connected and its handshake isn't done.
    pub(super) fn is_shaking_hands(&self, slot: u32) -> bool {
        self.connections[slot].state == State::Connecting
            && self.sessions.as_ref().is_some_and(|sessions| sessions.has(slot))
    }

    /// The handshake has come further: it is done if nothing of it is still to come or to leave.
    fn shaken(&mut self, slot: u32) {
        if self.connections[slot].sending {
            return;
        }
        if self.sessions().wants_write(slot) {
            return self.send_written(slot);
        }
        if !self.sessions().is_handshaking(slot) {
            let connected_ns = self.sessions().connected_ns(slot);
            let (agreed, resumed) = self.sessions().agreed(slot);
            let now_ns = self.now_ns();
            let in_window = self.connected(slot, connected_ns);
            self.recorder.tls.shook_hands(agreed, resumed);
            if in_window {
                self.recorder.times.handshake_time.record(now_ns - connected_ns);
            }
        }
    }

    /// The shard has worked on a handshake since `began_ns`.
    fn worked(&mut self, began_ns: u64) {
        let to_ns = self.now_ns().min(self.end_ns);
        self.recorder.tls.handshake_work_ns += to_ns.saturating_sub(began_ns.max(self.window_ns));
    }

    /// The cause under which a failure of the slot's handshake counts.
    pub(super) fn of_handshake(cause: Cause) -> Cause {
        if cause == Cause::Reset { Cause::TlsClosed } else { cause }
    }

    /// The cause under which a connect or a handshake of the slot's counts that took too long.
    pub(super) fn took_too_long(&self, slot: u32) -> Cause {
        if self.is_shaking_hands(slot) { Cause::TlsTimedOut } else { Cause::ConnectTimedOut }
    }
}

/// What is sent.
impl Shard {
    /// The most bytes of a request that one send of it carries.
    pub(super) fn send_max(&self, plain_max: usize) -> usize {
        if self.sessions.is_some() { crate::tls::RECORD_MAX } else { plain_max }
    }

    /// Sends a part of the slot's requests.
    pub(super) fn send_sealed(&mut self, slot: u32, part: Range<usize>) {
        let sessions = self.sessions.as_mut().expect("the plan has TLS");
        sessions.encrypt(slot, self.plan.request.bytes(part));
        self.send_written(slot);
    }

    /// Sends what the slot's session has to say.
    fn send_written(&mut self, slot: u32) {
        let token = self.connections.token(Op::Send, slot);
        let sessions = self.sessions.as_mut().expect("the plan has TLS");
        let written = sessions.write(slot, &mut self.ring.out(slot));
        let connection = &mut self.connections[slot];
        connection.sending = true;
        self.ring.send_out(token, connection.fd, slot, 0..written);
    }

    /// A send of the slot's has completed: what that is for its requests, or `None` if it is nothing
    /// to them.
    pub(super) fn sent_sealed(&mut self, slot: u32, result: i32) -> Option<i32> {
        let Some(sessions) = &mut self.sessions else { return Some(result) };
        let connecting = self.connections[slot].state == State::Connecting;
        let sent = match usize::try_from(result) {
            // The peer has ended the handshake. It may have said why, so what was received decides.
            Err(_) if connecting && [libc::EPIPE, libc::ECONNRESET].contains(&-result) => {
                return None;
            }
            Err(_) | Ok(0) => return Some(result),
            Ok(sent) => sent,
        };
        match sessions.left(slot, sent) {
            Left::Rest(from) if from < sessions.written(slot) => {
                let rest = from..sessions.written(slot);
                let token = self.connections.token(Op::Send, slot);
                self.ring.send_out(token, self.connections[slot].fd, slot, rest);
                None
            }
            Left::Rest(_) => {
                self.send_written(slot);
                None
            }
            Left::All(0) => {
                self.connections[slot].sending = false;
                if connecting {
                    self.shaken(slot)
                } else {
                    self.ready(slot)
                }
                None
            }
            Left::All(carried) => {
                Some(i32::try_from(carried).expect("a record carries less than 2 GiB"))
            }
        }
    }

    /// Says farewell on a connection that is about to be closed, unless a send is under way, and
    /// ends its session.
    pub(super) fn say_farewell(&mut self, slot: u32) {
        let Some(sessions) = &mut self.sessions else { return };
        let connection = &self.connections[slot];
        if sessions.has(slot) && !connection.sending {
            sessions.say_the_end(slot);
            let written = sessions.write(slot, &mut self.ring.out(slot));
            if 0 < written {
                self.ring.send_out_last(connection.fd, slot, 0..written);
            }
        }
        sessions.end(slot);
    }
}

/// What is received.
impl Shard {
    /// Bytes arrived through TLS.
    // Without TLS, a request doesn't pay for a longer function.
    #[inline(never)]
    pub(super) fn received_sealed(&mut self, slot: u32, arrival: Arrival) {
        let generation = self.connections[slot].generation;
        let shaking = self.is_shaking_hands(slot);
        let began_ns = if shaking { self.now_ns() } else { 0 };
        let mut at = 0;
        while at < arrival.received(&self.ring).len() {
            let sessions = self.sessions.as_mut().expect("the plan has TLS");
            let taken = sessions.take(slot, &arrival.received(&self.ring)[at..]);
            if self.parse_plain(slot, generation, arrival) {
                // The rest was for a connection that is gone.
                return;
            }
            match taken {
                Ok(taken) if taken.is_last => return self.received_end(slot, true),
                Ok(taken) => at += taken.bytes,
                Err(cause) => return self.fail(slot, cause),
            }
        }
        if shaking {
            self.shaken(slot);
            return self.worked(began_ns);
        }
        // TLS has something to say by itself. With a request queued, it leaves before that.
        let connection = &self.connections[slot];
        if connection.queued() == 0 && !connection.sending && self.sessions().wants_write(slot) {
            self.connections.leave_idle(slot);
            self.send_written(slot);
        }
    }

    /// Parses what the slot's peer has said; returns whether its connection is gone after it.
    fn parse_plain(&mut self, slot: u32, generation: u32, arrival: Arrival) -> bool {
        loop {
            let connection = &self.connections[slot];
            if connection.generation != generation || connection.state == State::Closed {
                return true;
            }
            let length = self.sessions().plain(slot).len();
            if length == 0 {
                return false;
            }
            self.parse(slot, arrival);
            let connection = &self.connections[slot];
            if connection.generation == generation && connection.state != State::Closed {
                self.sessions().consume(slot, length);
            }
        }
    }

    /// The slot's connection was closed. With TLS, that is no farewell.
    pub(super) fn count_close(&mut self, slot: u32) {
        let is_up = self.connections[slot].state != State::Connecting;
        self.recorder.tls.truncated += u64::from(is_up && self.sessions.is_some());
    }
}
