//! The shard's sockets: opened when requests wait for one, closed when they can't be used any more, tried again.

use super::Shard;
use crate::load::Load;
use crate::record::outcome::Cause;
use crate::ring::socket::new_socket;
use crate::ring::token::Op;

impl Shard {
    /// Opens connections while more arrivals wait than are being connected for, and the cap allows.
    pub(super) fn open_for_waiting(&mut self, now_ns: u64) {
        while let Load::Open(load) = &self.load
            && self.slots.connecting() < load.waiting_len()
            && self.open_connection(now_ns)
        {}
    }

    /// Opens a connection in a free slot; whether there was one.
    pub(super) fn open_connection(&mut self, now_ns: u64) -> bool {
        let Some(slot) = self.slots.take_any_closed() else { return false };
        self.open_slot(slot, now_ns);
        true
    }

    fn open_slot(&mut self, slot: u32, now_ns: u64) {
        let source = match self.plan.sources.len() {
            0 => None,
            sources => {
                self.next_source = (self.next_source + 1) % sources;
                Some(&self.plan.sources[self.next_source])
            }
        };
        match new_socket(&self.plan.address, source) {
            Ok(fd) => {
                self.slots.open(slot, fd, now_ns);
                self.deadlines.push(slot, now_ns + self.plan.timeout_ns);
                let token = self.slots.token(Op::Connect, slot);
                self.make_room();
                self.ring.connect(token, fd);
            }
            Err(error) => {
                self.slots.give_closed(slot);
                self.unserved(slot, Cause::of_connect(error.raw_os_error().unwrap_or(0)));
            }
        }
    }

    /// Nothing came of the slot's connect: the request that it was for fails.
    pub(super) fn connect_failed(&mut self, slot: u32, cause: Cause) {
        self.deadlines.remove(slot);
        self.close_slot(slot);
        self.unserved(slot, cause);
        self.open_for_waiting(self.now_ns());
    }

    /// The slot's connection can't be used any more.
    pub(super) fn replace(&mut self, slot: u32) {
        self.close_slot(slot);
        let now_ns = self.now_ns();
        match self.load {
            Load::Open(_) => self.open_for_waiting(now_ns),
            Load::Closed | Load::Paced(_) => self.reopen(slot, now_ns),
        }
    }

    /// Opens a closed model's connection again, unless nothing will be sent any more.
    fn reopen(&mut self, slot: u32, now_ns: u64) {
        if now_ns < self.end_ns || self.has_waiting(slot) {
            self.slots.take_closed(slot);
            self.open_slot(slot, now_ns);
        }
    }

    /// Opens again what waited after a failed connect.
    pub(super) fn retry(&mut self, now_ns: u64) {
        while let Some(slot) = self.slots.take_retry(now_ns) {
            self.reopen(slot, now_ns);
        }
    }

    pub(super) fn close_slot(&mut self, slot: u32) {
        let fd = self.slots.close(slot);
        self.make_room();
        self.ring.close(fd);
    }

    /// Keeps the submission queue from entering the kernel by itself, with requests that have no stamp yet.
    pub(super) fn make_room(&mut self) {
        if self.ring.is_nearly_full() {
            self.flush();
        }
    }
}
