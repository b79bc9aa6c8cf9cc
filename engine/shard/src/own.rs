//! Connections that are sessions' own: opened when the session begins, and closed when it ends.
//!
//! They have an endpoint of their own, so its waiting requests are those of sessions without a
//! connection: they have just begun, or the target has closed theirs. A connection is a session's
//! from its first request on, and never offered to another. In a closed model it is its user's, and
//! replaced after each session.

use std::num::NonZeroU32;

use load::Load;

use super::connection::Connection;
use super::sessions::Own;
use super::shard::Shard;
use super::socket::State;

impl Shard {
    /// A session sends a request on this connection, which is its own from now on if its scenario's
    /// sessions have some.
    // A request without a session shouldn't pay for a longer function.
    #[inline(never)]
    pub(super) fn takes_own(&mut self, place: NonZeroU32, slot: u32) {
        if self.connections.is_own(slot) {
            let generation = self.connections[slot].socket.generation;
            self.recording.sessions().own(place, Own { slot, generation });
        }
    }

    /// The session's own connection, if it can take the next request.
    #[inline(never)]
    pub(super) fn own_with_room(&self, place: NonZeroU32) -> Option<u32> {
        let Own { slot, generation } = self.recording.own_of(place)?;
        let is_still = self.connections[slot].socket.is_still(generation);
        (is_still && self.connections.has_room(slot)).then_some(slot)
    }

    /// A connection of an open model, to be a session's own, may have room. If it is new, a session
    /// that waits gets it; without one, it isn't needed any more.
    pub(super) fn serve_session(&mut self, slot: u32) {
        if 0 < self.connections[slot].exchanges.served() || !self.connections.has_room(slot) {
            return;
        }
        let now_ns = self.clock.handled_ns();
        while now_ns < self.phases.send_end_ns()
            && let Load::Open(load) = &mut self.load
            && let Some(due) = load.pop_waiting(usize::from(self.connections.endpoint(slot)))
        {
            if let Some(due) = self.in_time(due, now_ns) {
                return self.begin(slot, due);
            }
        }
        self.close(slot);
    }

    /// Closes the connections of sessions that are over.
    #[inline(never)]
    pub(super) fn close_released(&mut self) {
        while let Some(Own { slot, generation }) = self.recording.sessions().take_released() {
            let Connection { socket, exchanges, .. } = &self.connections[slot];
            if socket.is_still(generation)
                && matches!(socket.state, State::Open | State::Retired)
                && exchanges.open() == 0
            {
                self.replace(slot);
            }
        }
    }
}
