//! A request's way through the shard: begun, stamped when the system call that carries it is next, ended in one outcome.

use super::Shard;
use crate::load::{Load, Waiting};
use crate::record::outcome::{Cause, Outcome, TimeoutKind};
use crate::record::stamps::Stamps;
use crate::ring::token::Op;
use crate::shard::connection::State;

/// Requests above this size, bytes, may still be on their way out when the response comes, so their sends report back.
const SEND_SILENT_MAX: usize = 16_384;

/// Pause before a closed model's connection tries again after a failed connect, ns: a refused connect returns at once
/// and would spin.
const RETRY_NS: u64 = 10_000_000;

impl Shard {
    /// A request takes an idle connection and is queued for the next system call.
    pub(super) fn begin(&mut self, slot: u32, waiting: Waiting) {
        self.make_room();
        let tell = SEND_SILENT_MAX < self.plan.request.len();
        let token = self.slots.token(Op::Send, slot);
        let queued = self.slots.begin(slot, waiting.intended_ns, waiting.noticed_ns, tell);
        self.ring.send(token, self.slots[slot].fd, 0, tell);
        if queued == self.plan.flush {
            self.flush();
        }
    }

    /// Stamps what is queued and hands it to the kernel.
    pub(super) fn flush(&mut self) {
        self.stamp_queued();
        self.ring.submit();
    }

    /// Stamps the queued requests as sent: the next system call carries them.
    pub(super) fn stamp_queued(&mut self) {
        if self.slots.queued() == 0 {
            return;
        }
        let now_ns = self.now_ns();
        self.recorder.in_flight.pass(now_ns, self.slots.in_flight());
        while let Some(slot) = self.slots.take_queued() {
            let connection = &mut self.slots[slot];
            if matches!(self.load, Load::Closed) {
                // A user without a pace means to ask when it asks.
                connection.stamps.intended_ns = now_ns;
                connection.stamps.noticed_ns = now_ns;
            }
            connection.sent(now_ns);
            let stamps = connection.stamps;
            let over_ns = now_ns + self.plan.timeout_ns;
            self.deadlines
                .push(slot, over_ns.min(stamps.intended_ns.saturating_add(self.plan.deadline_ns)));
            if matches!(self.load, Load::Closed) {
                self.intended(now_ns);
            }
            self.count_sent(&stamps);
        }
    }

    fn count_sent(&mut self, stamps: &Stamps) {
        if self.window_ns <= stamps.intended_ns {
            self.recorder.sent(stamps, stamps.sent_ns <= self.end_ns);
        } else {
            self.count_unrecorded();
        }
    }

    fn count_unconnected(&mut self, stamps: &Stamps) {
        if self.window_ns <= stamps.intended_ns {
            self.recorder.unconnected(stamps);
        } else {
            self.count_unrecorded();
        }
    }

    fn count_unrecorded(&mut self) {
        if self.running {
            self.recorder.warmup_sent += 1;
        } else {
            self.recorder.setup_sent += 1;
        }
    }

    /// The slot's request is over; its connection is freed or closed after this.
    pub(super) fn end(&mut self, slot: u32, ended_ns: u64, outcome: Outcome) {
        self.deadlines.remove(slot);
        let stamps = self.slots[slot].stamps;
        self.recorder.in_flight.pass(ended_ns, self.slots.in_flight());
        self.recorder.in_flight.stay(stamps.sent_ns, ended_ns);
        self.record(&stamps, ended_ns, outcome);
    }

    /// Gives a request's one outcome to the recorder.
    pub(super) fn record(&mut self, stamps: &Stamps, ended_ns: u64, outcome: Outcome) {
        match outcome {
            Outcome::Answered(_) => self.progress.answered += 1,
            Outcome::Unsent(_) => {}
            Outcome::TimedOut(_) | Outcome::Failed(_) | Outcome::Abandoned => {
                self.progress.errors += 1
            }
        }
        if self.window_ns <= stamps.intended_ns {
            self.recorder.ended(stamps, ended_ns, ended_ns <= self.end_ns, outcome);
            if let Some(sampler) = &mut self.sampler {
                sampler.push(stamps, ended_ns, outcome);
            }
            if outcome.has_latency() {
                self.progress.latency.record(ended_ns - stamps.intended_ns);
            }
        } else if matches!(outcome, Outcome::Answered(_)) {
            let answered = if self.running {
                &mut self.recorder.warmup_answered
            } else {
                &mut self.recorder.setup_answered
            };
            *answered += 1;
        }
    }

    /// The slot's connection failed, with its request if it had one; another takes its place.
    pub(super) fn fail(&mut self, slot: u32, cause: Cause) {
        if self.slots[slot].state == State::Queued {
            self.stamp_queued();
        }
        if self.slots[slot].state == State::InFlight {
            self.end(slot, self.now_ns(), Outcome::Failed(cause));
        } else {
            self.recorder.connection_errors.add(cause);
        }
        self.replace(slot);
    }

    /// Ends requests and connects whose time is over.
    pub(super) fn expire(&mut self, now_ns: u64) {
        while let Some((slot, over_ns)) = self.deadlines.first() {
            if now_ns < over_ns {
                return;
            }
            if self.slots[slot].state == State::Connecting {
                self.connect_failed(slot, Cause::ConnectTimedOut);
                continue;
            }
            let sent_ns = self.slots[slot].stamps.sent_ns;
            let patience = if over_ns < sent_ns + self.plan.timeout_ns {
                TimeoutKind::Deadline
            } else {
                TimeoutKind::Timeout
            };
            self.end(slot, over_ns.max(sent_ns), Outcome::TimedOut(patience));
            self.replace(slot);
        }
    }

    /// The request for which slot `slot` was to have a connection fails; a closed model tries again after a pause.
    pub(super) fn unserved(&mut self, slot: u32, cause: Cause) {
        // Requests are recorded in the order of their intended times: those queued came before this one.
        self.stamp_queued();
        let now_ns = self.now_ns();
        let waiting = match &mut self.load {
            Load::Open(load) => load.pop_waiting(),
            Load::Closed if self.running && now_ns < self.end_ns => {
                self.intended(now_ns);
                Some(Waiting { intended_ns: now_ns, noticed_ns: now_ns })
            }
            Load::Closed => None,
            Load::Paced(load) => load.pop_waiting(slot as usize),
        };
        match waiting {
            Some(Waiting { intended_ns, noticed_ns }) => {
                let stamps = Stamps { intended_ns, noticed_ns, sent_ns: now_ns };
                self.count_unconnected(&stamps);
                self.record(&stamps, now_ns, Outcome::Failed(cause));
            }
            None => self.recorder.connection_errors.add(cause),
        }
        if !matches!(self.load, Load::Open(_)) {
            self.slots.retry_at(slot, now_ns + RETRY_NS);
        }
    }
}
