//! The first step of a turn: what the ring completed, and which connection each completion belongs to.

use super::Shard;
use crate::record::outcome::{Cause, Outcome};
use crate::ring::token::{Op, Token};
use crate::ring::{Completion, TOKEN_NONE};
use crate::shard::connection::{Heard, State};

impl Shard {
    /// Handles all completions that are posted.
    pub(super) fn reap(&mut self) {
        while let Some(completion) = self.ring.next_completion() {
            if completion.token == TOKEN_NONE {
                continue;
            }
            let token = Token::decode(completion.token);
            // A completion of an earlier socket of the slot only has its buffer to give back.
            let current = self.slots.is_current(token);
            match token.kind {
                Op::Receive => self.received(token.slot, completion, current),
                Op::Connect if current => self.connected(token.slot, completion.result),
                Op::Send if current => self.sent(token.slot, completion.result),
                Op::Connect | Op::Send => {}
            }
        }
    }

    fn connected(&mut self, slot: u32, result: i32) {
        if self.slots[slot].state != State::Connecting {
            return;
        }
        if result < 0 {
            self.connect_failed(slot, Cause::of_connect(-result));
            return;
        }
        let now_ns = self.now_ns();
        self.deadlines.remove(slot);
        self.slots.connected(slot);
        if self.conns_most < self.slots.open_count() {
            self.conns_most = self.slots.open_count();
            self.grown_ns = now_ns;
        }
        let in_window = self.window_ns <= now_ns && now_ns < self.end_ns;
        self.recorder.connected(self.slots[slot].since_ns, now_ns, in_window);
        self.arm(slot);
        self.ready(slot);
    }

    fn sent(&mut self, slot: u32, result: i32) {
        if result < 0 {
            self.fail(slot, Cause::of_send(-result));
        } else if usize::try_from(result).is_ok_and(|sent| sent < self.plan.request.len()) {
            self.fail(slot, Cause::WriteFailed);
        } else {
            self.slots[slot].sending = false;
        }
    }

    fn received(&mut self, slot: u32, completion: Completion, current: bool) {
        let heard = match (completion.buffer, usize::try_from(completion.result)) {
            _ if !current => Heard::More,
            (Some(buffer), Ok(length)) if 0 < length => {
                self.slots[slot].heard(self.ring.received(buffer, length))
            }
            (_, Ok(_)) => self.slots[slot].heard_end(),
            (_, Err(_)) if completion.result == -libc::ENOBUFS => {
                self.meter.buffers_exhausted += 1;
                Heard::More
            }
            (_, Err(_)) => Heard::Failed(Cause::of_receive(-completion.result)),
        };
        if let Some(buffer) = completion.buffer {
            self.ring.give_back(buffer);
        }
        if !current {
            return;
        }
        let generation = self.slots[slot].generation;
        match heard {
            Heard::More => {}
            Heard::Answered { status, reusable } => self.answered(slot, status, reusable),
            Heard::Failed(cause) => return self.fail(slot, cause),
            Heard::Gone => return self.replace(slot),
        }
        // The answer may have been the connection's last, and the slot may have a new socket by now.
        let goes_on =
            self.slots[slot].generation == generation && self.slots[slot].state != State::Closed;
        if !completion.more && goes_on {
            self.slots.ask_rearm(slot);
        }
    }

    fn answered(&mut self, slot: u32, status: u16, reusable: bool) {
        let now_ns = self.now_ns();
        let connection = &self.slots[slot];
        let reusable = reusable
            && !connection.sending
            && connection.served < self.plan.requests_per_connection;
        self.end(slot, now_ns, Outcome::Answered(status));
        self.slots.answered(slot);
        if reusable {
            self.ready(slot);
        } else {
            self.replace(slot);
        }
    }

    /// Arms the receives that the kernel ended, now that their buffers are back.
    pub(super) fn rearm(&mut self) {
        while let Some(slot) = self.slots.take_rearm() {
            self.arm(slot);
        }
    }

    fn arm(&mut self, slot: u32) {
        let token = self.slots.token(Op::Receive, slot);
        self.make_room();
        self.ring.receive(token, self.slots[slot].fd);
    }
}
