//! TLS between the ring and a shard's requests: handshake, encryption, decryption, close_notify.
//!
//! A connection counts as connecting until its handshake is done and all of it has left. From then
//! on a request is encrypted when it leaves, and what was received reaches the parser as the target
//! said it. A send of TLS lies in the ring's outbox until it has left, so each tells when it has, and
//! the connection takes no other request before.

use std::ops::Range;

use tls::{End, RECORD_MAX, Sent, Sessions};
use uring::Ring;
use uring::token::Op;

use super::connection::State;
use super::leaving::Piece;
use super::shard::Shard;

/// What a receive brought, and when it arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrival {
    /// The buffer that it is in.
    pub(super) buffer: u16,
    /// Where in it the bytes begin, behind the kernel's stamp.
    pub(super) from: usize,
    /// Where they end.
    pub(super) to: usize,
    /// The kernel's stamp of its last segment, ns since the epoch.
    pub(super) kernel_ns: Option<u64>,
    /// Whether other segments may have arrived after the stamped one.
    pub(super) doubted: bool,
}

impl Arrival {
    /// The bytes as they were received.
    #[inline]
    fn received(self, ring: &Ring) -> &[u8] {
        &ring.received(self.buffer, self.to)[self.from..]
    }

    /// What they say, in plain.
    #[inline]
    pub(super) fn plain<'a>(self, ring: &'a Ring, sessions: &'a Option<Sessions>) -> &'a [u8] {
        match sessions {
            Some(sessions) => sessions.plain(),
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
        self.connections[slot].handshake(began_ns);
        self.sessions().begin(slot);
        self.send_written(slot);
        self.arm(slot);
        self.worked(began_ns);
    }

    /// The handshake has come further: it is done if nothing of it is still to come or to leave.
    fn continue_handshake(&mut self, slot: u32) {
        if self.connections[slot].sending {
            return;
        }
        if self.sessions().wants_write(slot) {
            return self.send_written(slot);
        }
        if !self.sessions().is_handshaking(slot) {
            let (agreed, resumed) = self.sessions().agreed(slot);
            let connected_ns = self.connections[slot].connected_ns;
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
}

/// What is sent.
impl Shard {
    /// Sends a record of what leaves on this slot. On a session that has failed nothing does: the
    /// requests fail with their connection.
    pub(super) fn send_encrypted(&mut self, slot: u32) {
        let sessions = self.sessions.as_mut().expect("the plan has TLS");
        let (steps, leaving) = (&self.plan.steps, &mut self.connections[slot].leaving);
        let goes_on = match leaving.next(steps, RECORD_MAX, RECORD_MAX) {
            Piece::Range(step, part) => {
                sessions.encrypt(slot, steps[usize::from(step)].request.bytes(part))
            }
            Piece::Gathered => {
                self.gathered.clear();
                leaving.gather(steps, RECORD_MAX, &mut self.gathered);
                sessions.encrypt(slot, &self.gathered)
            }
        };
        if goes_on {
            self.send_written(slot);
        } else {
            leaving.clear();
            self.connections[slot].sending = false;
        }
    }

    /// Sends what the slot's session has to say.
    fn send_written(&mut self, slot: u32) {
        let sessions = self.sessions.as_mut().expect("the plan has TLS");
        let written = sessions.write(slot, &mut self.ring.out(slot));
        self.connections[slot].sending = true;
        self.send_out(slot, 0..written);
    }

    fn send_out(&mut self, slot: u32, part: Range<usize>) {
        let token = self.connections.token(Op::Send, slot);
        self.ring.send_out(token, self.connections[slot].fd, slot, part);
    }

    /// A send of the slot's has completed: what that is for its requests, or `None` if it is nothing
    /// to them.
    pub(super) fn sent_encrypted(&mut self, slot: u32, result: i32) -> Option<i32> {
        let Some(sessions) = &mut self.sessions else { return Some(result) };
        let shaking = self.connections[slot].state == State::Handshaking;
        let bytes = match usize::try_from(result) {
            // The peer has ended the handshake. It may have said why, so what was received decides.
            Err(_) if shaking && [libc::EPIPE, libc::ECONNRESET].contains(&-result) => return None,
            Err(_) | Ok(0) => return Some(result),
            Ok(bytes) => bytes,
        };
        match sessions.sent(slot, bytes) {
            Sent::UpTo(from) => {
                let rest = from..sessions.written(slot);
                self.send_out(slot, rest);
                None
            }
            Sent::AllWritten => {
                self.send_written(slot);
                None
            }
            Sent::Whole(0) => {
                self.connections[slot].sending = false;
                if shaking {
                    let began_ns = self.now_ns();
                    self.continue_handshake(slot);
                    self.worked(began_ns);
                } else {
                    self.ready(slot);
                }
                None
            }
            Sent::Whole(request_bytes) => {
                self.connections[slot].retired |= sessions.is_spent(slot);
                Some(i32::try_from(request_bytes).expect("a record carries less than 2 GiB"))
            }
        }
    }

    /// Says that nothing follows on a connection that is about to be closed, unless a send is under
    /// way, and ends its session.
    pub(super) fn close_session(&mut self, slot: u32) {
        let Some(sessions) = &mut self.sessions else { return };
        let connection = &self.connections[slot];
        if sessions.has(slot) && !connection.sending {
            sessions.close_notify(slot);
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
    pub(super) fn received_encrypted(&mut self, slot: u32, arrival: Arrival) {
        let generation = self.connections[slot].generation;
        let shaking = self.connections[slot].state == State::Handshaking;
        let began_ns = if shaking { self.now_ns() } else { 0 };
        let sessions = self.sessions.as_mut().expect("the plan has TLS");
        let end = sessions.receive(slot, arrival.received(&self.ring));
        let says_something = !sessions.plain().is_empty();
        // What has ended takes no request that what came before the end makes room for.
        self.connections[slot].retired |= end.is_some();
        if says_something {
            let answered = self.recorder.counts.answered;
            self.parse(slot, arrival);
            if end == Some(End::Notified) {
                self.recorder.tls.ended_together += self.recorder.counts.answered - answered;
            }
        }
        let connection = &self.connections[slot];
        let is_gone = connection.generation != generation || connection.state == State::Closed;
        if is_gone {
            // It had answered all that it was asked: its failure fails no request.
            if let Some(End::Failed(cause)) = end {
                self.recorder.counts.connection_errors.add(cause);
            }
        } else {
            match end {
                Some(End::Notified) => self.received_end(slot, true),
                Some(End::Failed(cause)) => self.fail(slot, cause),
                None if shaking => self.continue_handshake(slot),
                None => self.send_unasked(slot),
            }
        }
        if shaking {
            self.worked(began_ns);
        }
    }

    /// Sends what TLS has to say by itself. With a request queued, it leaves before that.
    fn send_unasked(&mut self, slot: u32) {
        let connection = &self.connections[slot];
        if connection.queued() == 0 && !connection.sending && self.sessions().wants_write(slot) {
            self.connections.leave_idle(slot);
            self.send_written(slot);
        }
    }

    /// The slot's connection was closed. With TLS, that says nothing of what would have followed.
    pub(super) fn count_close(&mut self, slot: u32) {
        let is_up = !self.connections[slot].is_coming();
        self.recorder.tls.truncated += u64::from(is_up && self.sessions.is_some());
    }
}
