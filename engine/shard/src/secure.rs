//! TLS between the ring and a shard's requests: handshake, encryption, decryption, close_notify.
//!
//! The code of a request's life calls this file when a socket is connected, when the next output is
//! made, when bytes or their end arrived, and when a socket is about to be closed.
//!
//! - A connection counts as connecting until its handshake is done and completely sent.
//! - Requests are encrypted as they leave, into the ring's outbox: at most one record per send.
//!   Each send reports back, since its bytes exist only once, and the connection takes no other
//!   request until then.
//! - Encryption comes before `sent`, in the connection wait, and decryption after `received`: naive
//!   latency includes neither, except for the later records of an upload of more than one.
//! - `received` is the stamp of the receive that completed the response's last record. Nothing of a
//!   record is known before it is complete, and a receive has the stamp of its last segment.
//! - There are no send stamps: the kernel would count bytes of records, which differ from the
//!   requests' bytes in number.
//! - A close without close_notify doesn't end a response that has no length of its own: the
//!   connection may have been cut.

use std::io::Write;

use record::outcome::Cause;
use tls::{End, RECORD_MAX, Sessions};
use uring::Ring;

use super::connection::Connection;
use super::output::{Making, Piece};
use super::shard::Shard;
use super::socket::State;

/// A receive's bytes, and when they arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrival {
    /// The buffer that holds them.
    pub(super) buffer: u16,
    /// Where the bytes begin, after the kernel's stamp.
    pub(super) from: usize,
    /// Where they end.
    pub(super) to: usize,
    /// The kernel's stamp of its last segment, ns since the epoch.
    pub(super) kernel_ns: Option<u64>,
    /// True if other segments may have arrived after the stamped one.
    pub(super) doubted: bool,
    /// True if the bytes are encrypted.
    pub(super) encrypted: bool,
}

impl Arrival {
    /// The bytes as received.
    #[inline]
    fn received(self, ring: &Ring) -> &[u8] {
        &ring.received(self.buffer, self.to)[self.from..]
    }

    /// The plaintext.
    #[inline]
    pub(super) fn plain<'a>(self, ring: &'a Ring, sessions: &'a Option<Sessions>) -> &'a [u8] {
        match sessions {
            Some(sessions) if self.encrypted => sessions.plain(),
            _ => self.received(ring),
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
        self.connections[slot].socket.handshake(began_ns);
        let endpoint = usize::from(self.connections.endpoint(slot));
        self.sessions().begin(slot, endpoint);
        if !self.withhold(slot) {
            self.send_next(slot);
        }
        self.arm(slot);
        self.worked(began_ns);
    }

    /// A part of the handshake has left.
    pub(super) fn handshake_left(&mut self, slot: u32) {
        let began_ns = self.now_ns();
        self.continue_handshake(slot);
        self.worked(began_ns);
    }

    /// The handshake has progressed: it is done if nothing of it remains to be received or sent.
    fn continue_handshake(&mut self, slot: u32) {
        if self.connections[slot].socket.sending {
            return;
        }
        if self.sessions().wants_write(slot) {
            if !self.withhold(slot) {
                self.send_next(slot);
            }
            return;
        }
        if !self.sessions().is_handshaking(slot) {
            let (agreed, resumed) = self.sessions().agreed(slot);
            let connected_ns = self.connections[slot].socket.connected_ns;
            let now_ns = self.now_ns();
            let in_window = self.is_in_window(now_ns);
            let took_ns = in_window.then(|| now_ns - connected_ns);
            self.recording.shook_hands(agreed, resumed, took_ns);
            if !self.has_streams() {
                self.connected(slot, connected_ns);
            } else if self.sessions().speaks_http2(slot) {
                self.greet(slot, connected_ns);
            } else {
                self.give_up(slot, Cause::TlsNoAgreement);
            }
        }
    }

    /// The shard has worked on a handshake since `began_ns`.
    fn worked(&mut self, began_ns: u64) {
        let to_ns = self.now_ns().min(self.phases.end_ns());
        self.recording.tls_mut().handshake_work_ns +=
            to_ns.saturating_sub(began_ns.max(self.phases.window_ns()));
    }
}

/// Encrypts a record of the requests leaving on this slot, if the previous output has left, and
/// writes its session's own messages; returns the number of bytes. Nothing leaves on a failed
/// session: the requests fail with their connection.
pub(super) fn encrypt_next(
    sessions: &mut Sessions,
    slot: u32,
    of: Making<'_>,
    connection: &mut Connection,
    gathered: &mut Vec<u8>,
    out: &mut impl Write,
) -> usize {
    let Connection { socket, output, .. } = connection;
    let mut carried = output.carried();
    if carried == 0
        && let Some(piece) = output.next(of.steps, RECORD_MAX, RECORD_MAX)
    {
        let part = match piece {
            Piece::Range(step, part) => of.steps[usize::from(step)].request.bytes(part),
            Piece::Gathered => {
                gathered.clear();
                output.gather(of, RECORD_MAX, gathered);
                gathered
            }
        };
        carried = part.len();
        let goes_on = sessions.encrypt(slot, part);
        if !goes_on || sessions.is_spent(slot) {
            socket.retire();
        }
        if !goes_on {
            output.clear();
            return 0;
        }
    }
    let made = sessions.write(slot, out);
    output.make(made, carried);
    made
}

/// Sending.
impl Shard {
    /// Sends close_notify on a connection that is about to be closed, unless a send is in progress,
    /// and ends its session.
    pub(super) fn close_session(&mut self, slot: u32) {
        let Some(sessions) = &mut self.sessions else { return };
        let socket = &self.connections[slot].socket;
        if sessions.has(slot) && !socket.sending {
            sessions.close_notify(slot);
            let written = sessions.write(slot, &mut self.ring.out(slot));
            if 0 < written {
                self.ring.send_out_last(socket.fd, slot, 0..written);
            }
        }
        sessions.end(slot);
    }
}

/// Receiving.
impl Shard {
    /// Bytes arrived through TLS.
    // Not inlined, so that a request without TLS doesn't pay for a longer function.
    #[inline(never)]
    pub(super) fn received_encrypted(&mut self, slot: u32, arrival: Arrival) {
        let arrival = Arrival { encrypted: true, ..arrival };
        let socket = &self.connections[slot].socket;
        let (generation, shaking) = (socket.generation, socket.state == State::Handshaking);
        let began_ns = if shaking { self.now_ns() } else { 0 };
        let sessions = self.sessions.as_mut().expect("the plan has TLS");
        let end = sessions.receive(slot, arrival.received(&self.ring));
        let says_something = !sessions.plain().is_empty();
        // Bytes before the end may make room for a request, but the ended connection takes none.
        if end.is_some() {
            self.connections[slot].socket.retire();
        }
        if says_something {
            let answered = self.recording.counts().answered;
            self.parse(slot, arrival);
            if end == Some(End::Notified) {
                let together = self.recording.counts().answered - answered;
                self.recording.tls_mut().ended_together += together;
            }
        }
        if !self.connections[slot].socket.is_still(generation) {
            // All its requests had been answered: its failure fails none.
            if let Some(End::Failed(cause)) = end {
                self.recording.counts_mut().connection_errors.add(cause);
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

    /// Sends TLS's own messages. If a request is queued, they leave before it.
    fn send_unasked(&mut self, slot: u32) {
        let connection = &self.connections[slot];
        let is_free = connection.exchanges.queued() == 0 && !connection.socket.sending;
        if is_free && self.sessions().wants_write(slot) && !self.withhold(slot) {
            self.connections.leave_idle(slot);
            self.send_next(slot);
        }
    }

    /// The slot's connection was closed. With TLS, that doesn't show whether more would have
    /// followed.
    pub(super) fn count_close(&mut self, slot: u32) {
        let is_up = !self.connections[slot].socket.is_coming();
        self.recording.tls_mut().truncated += u64::from(is_up && self.is_secure(slot));
    }

    /// True if the slot's connection uses TLS.
    #[inline]
    pub(super) fn is_secure(&self, slot: u32) -> bool {
        self.sessions.as_ref().is_some_and(|sessions| sessions.has(slot))
    }
}
