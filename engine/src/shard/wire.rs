//! What a shard hands to the kernel: connects, sends, receives and closes.
//!
//! `sent` is stamped just before the system call that carries the request. A call carries at most
//! `flush` requests, because one stamp for a long batch is wrong for its last members. Before any
//! operation is queued, room is made for it, so that a full queue never submits unstamped requests.

use super::connections::{Connection, State};
use super::deadlines::Awaited;
use super::shard::Shard;
use crate::load::{DueRequest, Load};
use crate::plan::StampSource;
use crate::record::outcome::Cause;
use crate::record::stamps::Stamps;
use crate::ring::socket::new_socket;
use crate::ring::token::Op;

/// Requests above this size, bytes, may still be on their way out when the response comes, so their
/// sends report back.
const SEND_SILENT_MAX: usize = 16_384;
/// With the program's stamps, the kernel stamps every so many connections as a control.
const CONTROL_EVERY: u32 = 16;

impl Shard {
    /// Connects a new socket in a slot taken for it; without a socket, the slot is given back.
    ///
    /// # Errors
    /// Why no socket could be made.
    pub(super) fn open(&mut self, slot: u32, now_ns: u64) -> Result<(), Cause> {
        let source = match self.plan.sources.len() {
            0 => None,
            sources => {
                self.next_source = (self.next_source + 1) % sources;
                Some(&self.plan.sources[self.next_source])
            }
        };
        let stamped = self.is_stamped(slot);
        match new_socket(&self.plan.address, source, stamped) {
            Ok(fd) => {
                self.connections.open(slot, fd, now_ns);
                self.connections[slot].stamped = stamped;
                self.deadlines.push(slot, now_ns + self.plan.timeout_ns, Awaited::Connect);
                let token = self.connections.token(Op::Connect, slot);
                self.make_room();
                self.ring.connect(token, fd);
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
        self.make_room();
        let Connection { fd, stamped, .. } = self.connections[slot];
        if stamped {
            self.ring.receive_stamped(token, fd);
        } else {
            self.ring.receive(token, fd);
        }
    }

    /// Whether the kernel is to stamp what the slot's sockets receive: with the program's stamps,
    /// that of a few, as a control.
    fn is_stamped(&self, slot: u32) -> bool {
        match self.plan.stamps {
            StampSource::Kernel => true,
            StampSource::User => slot.is_multiple_of(CONTROL_EVERY),
        }
    }

    /// Gives an idle connection its request and queues it for the next system call.
    pub(super) fn begin(&mut self, slot: u32, due: DueRequest) {
        self.make_room();
        let report_back = SEND_SILENT_MAX < self.plan.request.len();
        let token = self.connections.token(Op::Send, slot);
        let queued = self.connections.begin(slot, due, report_back);
        self.ring.send(token, self.connections[slot].fd, 0, report_back);
        if queued == self.plan.flush {
            self.flush();
        }
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

    /// Stamps the queued requests as sent; the next system call carries them.
    pub(super) fn stamp_queued(&mut self) {
        if self.connections.queued() == 0 {
            return;
        }
        let now_ns = self.now_ns();
        // What completes after this is handled no earlier.
        self.handled_ns = now_ns;
        self.recorder.in_flight.pass(now_ns, self.connections.in_flight());
        while let Some(slot) = self.connections.take_queued() {
            let connection = &mut self.connections[slot];
            if matches!(self.load, Load::Closed) && !connection.stamps.waited {
                // An unpaced request is intended when it is sent, unless its user had to wait for a
                // connection: then it was intended when that wait began.
                connection.stamps.intended_ns = now_ns;
                connection.stamps.noticed_ns = now_ns;
            }
            connection.seen |= self.window_ns <= now_ns;
            connection.sent(now_ns);
            let stamps = connection.stamps;
            let over_ns = (now_ns + self.plan.timeout_ns)
                .min(stamps.intended_ns.saturating_add(self.plan.deadline_ns));
            self.deadlines.push(slot, over_ns, Awaited::Response);
            if matches!(self.load, Load::Closed) {
                self.intended(stamps.intended_ns);
            }
            self.count_sent(&stamps);
        }
    }

    /// A request fell due.
    pub(super) fn intended(&mut self, intended_ns: u64) {
        self.progress.intended += 1;
        if self.window_ns <= intended_ns {
            self.recorder.intended(intended_ns);
        }
    }

    fn count_sent(&mut self, stamps: &Stamps) {
        if self.window_ns <= stamps.intended_ns {
            self.recorder.sent(stamps, stamps.sent_ns <= self.end_ns);
        } else {
            self.count_unrecorded();
        }
    }

    /// Counts a request sent before the window.
    pub(super) fn count_unrecorded(&mut self) {
        if self.running {
            self.recorder.counts.warmup.sent += 1;
        } else {
            self.recorder.counts.setup.sent += 1;
        }
    }

    /// Closes the slot's socket.
    pub(super) fn close(&mut self, slot: u32) {
        let connection = &self.connections[slot];
        // A request that nobody answered may still be on its way out.
        let is_busy = connection.is_busy();
        let is_connecting = connection.state == State::Connecting;
        let armed = if is_connecting { Op::Connect } else { Op::Receive };
        let pending = [armed, Op::Send].map(|kind| self.connections.token(kind, slot));
        let fd = self.connections.close(slot);
        self.make_room();
        self.ring.close(fd, if is_busy { &pending } else { &pending[..1] });
    }

    fn make_room(&mut self) {
        if self.ring.is_nearly_full() {
            self.flush();
        }
    }
}
