//! The users of a closed model: when they come, and when they wait for a connection.
//!
//! A user comes, is on a connection with its requests or waits for one, thinks if it is paced, and
//! has left once the load is over. Each user has a connection of its own, in the slot with its
//! number. While that is missing, the user's next requests wait for it, from the moment at which
//! the user wanted it.

use load::{DueRequest, Load};

use super::shard::Shard;
use super::socket::State;

impl Shard {
    /// The slot of a user's connection.
    pub(super) fn slot_of(user: usize) -> u32 {
        u32::try_from(user).expect("connections are numbered in 32 bits")
    }

    /// The next request of an unpaced user who comes at this time, unless the load is over.
    #[inline]
    pub(super) fn user_comes(&mut self, came_ns: u64) -> Option<DueRequest> {
        if !self.phases.running() || self.phases.end_ns() <= came_ns || !self.has_left() {
            return None;
        }
        let Load::Closed(load) = &mut self.load else { panic!("others come by their schedule") };
        Some(load.take(came_ns))
    }

    /// All unpaced users come at this time, at the beginning of the run: those with a connection
    /// send, those whose connection is coming wait for it.
    pub(super) fn users_begin(&mut self, now_ns: u64) {
        let Load::Closed(load) = &self.load else { return };
        let (users, at_once) = (load.users(), load.at_once());
        for _ in 0..at_once {
            for slot in (0..users).map(Shard::slot_of) {
                if self.connections.has_room(slot)
                    && let Some(due) = self.user_comes(now_ns)
                {
                    self.connections.leave_idle(slot);
                    self.begin(slot, due);
                    self.connections.offer(slot);
                }
            }
        }
        for slot in (0..users).map(Shard::slot_of) {
            let socket = &self.connections[slot].socket;
            if socket.is_coming() || socket.state == State::Fresh {
                self.user_waits(slot, now_ns);
            }
        }
    }

    /// An unpaced user without a connection comes: as many of its requests as it has at once wait.
    pub(super) fn user_waits(&mut self, slot: u32, now_ns: u64) {
        let user = slot as usize;
        while let Load::Closed(load) = &self.load
            && load.waiting_of(user) < load.at_once()
            && let Some(due) = self.user_comes(now_ns)
            && let Load::Closed(load) = &mut self.load
        {
            load.wait(user, due);
        }
    }

    /// True if the user of this slot needs a connection: one of its requests waits, or will.
    pub(super) fn needs_connection(&self, slot: u32, now_ns: u64) -> bool {
        match &self.load {
            Load::Closed(load) => 0 < load.waiting_of(slot as usize),
            // Requests due before the end may not have been noticed yet.
            Load::Paced(load) => {
                now_ns < self.phases.end_ns()
                    || load.is_waiting(slot as usize)
                    || load.next_due_ns() < self.phases.end_ns()
            }
            Load::Open(_) => false,
        }
    }
}
