//! What a shard hands to the kernel: connects, sends, receives and closes.
//!
//! `sent` is stamped just before the system call that carries the request. A call carries at most
//! `flush` sends, because one stamp for a long batch is wrong for its last members; while the shard
//! is behind its schedule a call carries four times as many, since it is the calls that make it
//! fall behind. Requests on the same connection leave in one send. A send is handed to the ring
//! only once its requests are stamped, so that a full ring never submits unstamped requests.
//!
//! In an agent's run, each call that sends is preceded by a fresh reading of the clock: if the
//! lease has ended, queued requests are withdrawn, and the rest of an upload or of a TLS handshake
//! isn't sent. The kernel still sends what it holds by then: a connect, the contents of a socket
//! buffer, and one send of up to 256 KiB that waits for room there. A run without a controller
//! doesn't read the clock for this.

use load::DueRequest;
use plan::StampSource;
use record::config::RecorderConfig;
use record::outcome::Cause;
use record::stamps::Stamps;
use uring::OUT_BYTES;
use uring::receive_stamps::ReceiveStamps;
use uring::socket::new_socket;
use uring::token::Op;

use super::connection::Connection;
use super::output::{Left, Making, Piece};
use super::secure::encrypt_next;
use super::shard::{Sending, Shard};
use super::socket::State;

/// The most bytes of one send: the shard is in the kernel while they are copied.
const SEND_MAX: usize = 262_144;
/// A request overdue by more than this is behind its schedule, ns: several times the duration of
/// the longest batch.
const BEHIND_NS: u64 = 100_000;
/// With the program's stamps, the kernel stamps every Nth connection as a control.
const CONTROL_EVERY: u32 = 16;

impl Shard {
    /// Connects a new socket to an endpoint, in a slot taken for it; without a socket, the slot is
    /// given back.
    ///
    /// # Errors
    /// No socket could be created, with the cause.
    pub(super) fn open(&mut self, slot: u32, endpoint: u16, now_ns: u64) -> Result<(), Cause> {
        let source = match self.plan.sources.len() {
            0 => None,
            sources => Some(&self.plan.sources[self.connections.take_source(sources)]),
        };
        let stamps = self.receive_stamps(slot);
        let of = usize::from(endpoint);
        match new_socket(&self.plan.endpoints[of].address, source, stamps) {
            Ok(fd) => {
                self.connections.open(slot, endpoint, fd, now_ns);
                self.connections.deadlines.check_by(slot, now_ns + self.plan.connect_max_ns);
                let token = self.connections.token(Op::Connect, slot);
                self.ring.connect(token, fd, of);
                Ok(())
            }
            Err(error) => {
                self.connections.give_closed(slot);
                Err(Cause::of_connect(error.raw_os_error().unwrap_or(0)))
            }
        }
    }

    /// Arms the slot's multishot receive.
    pub(super) fn arm(&mut self, slot: u32) {
        let token = self.connections.token(Op::Receive, slot);
        let fd = self.connections[slot].socket.fd;
        match self.receive_stamps(slot) {
            ReceiveStamps::Off => self.ring.receive(token, fd),
            _ => self.ring.receive_stamped(token, fd),
        }
    }

    /// What stamps the data that the slot's sockets receive: with the program's stamps, the kernel
    /// stamps a few connections, as a control.
    pub(super) fn receive_stamps(&self, slot: u32) -> ReceiveStamps {
        match self.plan.stamps {
            StampSource::Kernel => ReceiveStamps::Software,
            StampSource::User if self.plan.kernel_stamps && slot.is_multiple_of(CONTROL_EVERY) => {
                ReceiveStamps::Software
            }
            StampSource::User => ReceiveStamps::Off,
        }
    }

    /// Assigns a request to a connection and queues it for the next system call.
    #[inline]
    pub(super) fn begin(&mut self, slot: u32, due: DueRequest) {
        let behind = BEHIND_NS < self.clock.handled_ns().saturating_sub(due.intended_ns);
        if self.connections.must_flush(slot, behind) {
            self.flush();
        }
        self.connections.begin(slot, due);
        if self.users.roam() {
            self.users.began(slot);
        }
        if let Some(place) = due.session {
            self.takes_own(place, slot);
        }
    }

    /// Hands the slot's queued requests to the ring.
    fn send_queued(&mut self, slot: u32) {
        let token = self.connections.token(Op::Send, slot);
        let connection = &mut self.connections[slot];
        let count = connection.exchanges.leave();
        if let Some(step) = connection.rendered(&self.plan.steps) {
            let request = &self.plan.steps[usize::from(step)].request;
            let bytes = count * request.len();
            let ahead = connection.exchanges.in_flight() * self.sending.longest;
            if bytes + ahead <= self.sending.silent_max && bytes <= request.whole_len() {
                // No completion follows for these: they leave completely, or the connection breaks.
                connection.socket.give(bytes);
                let fd = connection.socket.fd;
                self.recording.meter().sent_bytes += bytes as u64;
                if self.sending.sample.take(connection, count) {
                    self.ring.send_stamped(token, fd, step, count);
                } else {
                    self.ring.send(token, fd, step, 0..bytes, false);
                }
                return;
            }
        }
        connection.leave(&self.plan.steps);
        self.send_next(slot);
    }

    /// Sends what leaves next on this slot, from memory or made now; the send reports back.
    pub(super) fn send_next(&mut self, slot: u32) {
        if self.has_streams() {
            return self.send_frames(slot);
        }
        let token = self.connections.token(Op::Send, slot);
        let connection = &mut self.connections[slot];
        let Sending { gathered, seed, room, .. } = &mut self.sending;
        let (steps, carried) = (&self.plan.steps, &self.carried);
        let of = Making { steps, seed: *seed, carried, room };
        let made = if let Some(sessions) = self.sessions.as_mut().filter(|all| all.has(slot)) {
            encrypt_next(sessions, slot, of, connection, gathered, &mut self.ring.out(slot))
        } else {
            match connection.output.next(of.steps, SEND_MAX, OUT_BYTES) {
                Some(Piece::Range(step, part)) => {
                    connection.socket.sending = true;
                    return self.ring.send(token, connection.socket.fd, step, part, true);
                }
                Some(Piece::Gathered) => {
                    connection.output.gather_into(of, OUT_BYTES, &mut self.ring.out(slot))
                }
                None => 0,
            }
        };
        let socket = &mut connection.socket;
        socket.sending = 0 < made;
        if 0 < made {
            self.ring.send_out(token, socket.fd, slot, 0..made);
        }
    }

    /// Another `bytes` of the output of this slot have left. Returns true if all has.
    pub(super) fn left(&mut self, slot: u32, bytes: usize) -> bool {
        let sessions = self.sessions.as_mut().filter(|sessions| sessions.has(slot));
        let Connection { output, exchanges, protocol, .. } = &mut self.connections[slot];
        let is_whole =
            !sessions.is_some_and(|sessions| sessions.wants_write(slot)) && !protocol.wants_write();
        let left = output.left(&self.plan.steps, bytes, is_whole, |number, length| {
            if self.recording.has_parts() {
                // It hasn't ended: one that is answered before it has left ends its connection.
                let stamps = &exchanges.get(number).stamps;
                self.recording.bytes_sent(&self.phases, stamps, length);
            }
        });
        match left {
            Left::All => self.connections[slot].socket.sending = false,
            _ if self.withhold(slot) => {}
            // If a send was short, the next one shows why.
            Left::More => self.send_next(slot),
            Left::Rest(rest) => {
                let fd = self.connections[slot].socket.fd;
                let token = self.connections.token(Op::Send, slot);
                self.ring.send_out(token, fd, slot, rest);
            }
        }
        !self.connections[slot].socket.sending
    }

    /// Holds back further output of this slot if the lease has ended, and returns true if so: the
    /// slot's send then never ends, its requests are abandoned, and nothing else leaves on it. For
    /// output that leaves without being queued and so without the check of the lease.
    pub(super) fn withhold(&mut self, slot: u32) -> bool {
        let is_over = self.signals.is_leased() && self.heed_lease(self.now_ns());
        if is_over {
            self.connections[slot].socket.sending = true;
        }
        is_over
    }

    /// Submits the queued requests, if there are any.
    pub(super) fn flush_queued(&mut self) {
        if 0 < self.connections.queued() {
            self.flush();
        }
    }

    /// Stamps the queued requests and submits them.
    pub(super) fn flush(&mut self) {
        self.stamp_queued();
        self.ring.submit();
    }

    /// Hands the queued requests to the ring and stamps them as sent; the next system call carries
    /// them.
    pub(super) fn stamp_queued(&mut self) {
        let sends = self.connections.sends();
        if sends == 0 {
            return;
        }
        if self.signals.is_leased() && self.heed_lease(self.now_ns()) {
            return self.withdraw_queued();
        }
        self.ring.make_room(sends);
        while let Some(slot) = self.connections.take_send() {
            self.send_queued(slot);
        }
        let now_ns = self.now_ns();
        self.clock.handled_no_earlier(now_ns);
        self.recording.in_flight(now_ns, self.connections.in_flight());
        let is_unpaced = self.load.is_unpaced();
        let has_streams = self.has_streams();
        while let Some(slot) = self.connections.take_queued() {
            if has_streams && self.is_sent_again(slot) {
                continue;
            }
            let exchanges = &mut self.connections[slot].exchanges;
            let together = exchanges.left_together();
            let is_first = exchanges.in_flight() == 0;
            let stamps = exchanges.send();
            stamps.sent_ns = now_ns;
            if is_unpaced && !stamps.waited && !is_later(&self.plan.recorder_config, stamps) {
                // An unpaced request is intended when it is sent, unless its user had to wait for a
                // connection: then it was intended when that wait began. A session's later step was
                // due when its user had thought.
                self.recording.queued(stamps.intended_ns, now_ns);
                stamps.intended_ns = now_ns;
                stamps.noticed_ns = now_ns;
                if let Some(place) = stamps.session {
                    self.recording.sessions().begin_at(place, now_ns);
                }
            }
            let stamps = *stamps;
            if has_streams {
                self.stream_taken(slot, &stamps);
            } else if is_first {
                self.connections.deadlines.check_by(slot, self.look_ns(&stamps));
            }
            if is_unpaced {
                self.recording.intended(&self.phases, (stamps.intended_ns, stamps.session));
            }
            self.recording.sent(&self.phases, &stamps, together);
            if self.recording.has_parts() {
                self.part_sent(slot, &stamps);
            }
        }
    }

    /// Records for its part that a request was sent. The bytes of those in the output are counted
    /// as they leave.
    // One request on one route at one rate shouldn't pay for a longer function.
    #[inline(never)]
    fn part_sent(&mut self, slot: u32, stamps: &Stamps) {
        self.recording.connection_taken(stamps);
        let is_made = self.sessions.is_some() || self.has_streams();
        let is_silent = !is_made && self.connections[slot].output.requests() == 0;
        if is_silent {
            let length = self.plan.steps[usize::from(stamps.step)].request.len();
            self.recording.bytes_sent(&self.phases, stamps, length);
        }
    }

    /// Closes the slot's socket.
    pub(super) fn close(&mut self, slot: u32) {
        let socket = &self.connections[slot].socket;
        let armed = if socket.state == State::Connecting { Op::Connect } else { Op::Receive };
        let pending = [armed, Op::Send].map(|kind| self.connections.token(kind, slot));
        // A request without an answer, or with an early one, may still be leaving.
        let may_send = socket.unanswered || socket.sending;
        self.close_session(slot);
        let fd = self.connections.close(slot);
        self.ring.close(fd, if may_send { &pending } else { &pending[..1] });
    }
}

/// True for a later step of a session, which is due when its user has thought.
fn is_later(config: &RecorderConfig, stamps: &Stamps) -> bool {
    stamps.session.is_some() && !config.is_first(stamps.step)
}
