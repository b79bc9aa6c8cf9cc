//! The users of a closed model: when they come, and when they wait for a connection.
//!
//! A user comes, is on a connection with its requests or waits for one, thinks if it is paced, and
//! has left once the load is over. Each user has a connection of its own to each endpoint: user u
//! of U to endpoint e in slot e × U + u. While a connection is missing, the user's next requests
//! wait for it, from the moment at which the user wanted it.
//!
//! With one endpoint, a user's slot has its number, and its connection's room is all that limits
//! the user. With several, the user goes from one connection to another, and has no more requests
//! in progress on all of them than one connection has room for. They are sent in order: one that
//! waits for its connection holds back the user's next ones, but no other user.
//!
//! With stages, users leave earlier and may come again. One who leaves still gets the answer to its
//! request, and sends what was due before; its connections stay open and idle. If the target closes
//! one, it is opened again when the user is back.

use load::{DueRequest, Load};

use super::shard::Shard;
use super::socket::State;

impl Shard {
    /// The slot of a user's connection to an endpoint.
    pub(super) fn slot_of(&self, user: usize, endpoint: u16) -> u32 {
        self.users.slot(user, endpoint)
    }

    /// The user of a slot in a closed model.
    pub(super) fn user_of(&self, slot: u32) -> usize {
        if self.users.roam() { self.users.of(slot) } else { slot as usize }
    }

    /// The next request of this slot's unpaced user if it comes at this time, unless it has left or
    /// the load is over.
    #[inline(always)]
    pub(super) fn user_comes(&mut self, slot: u32, came_ns: u64) -> Option<DueRequest> {
        if !self.phases.running() || self.phases.end_ns() <= came_ns || !self.has_left() {
            return None;
        }
        let user = self.user_of(slot);
        if self.recording.uses_sessions()
            && (self.is_in_session(user) || self.connections.is_used(slot))
        {
            return None;
        }
        let Load::Closed(load) = &mut self.load else { panic!("others come by their schedule") };
        if !load.is_present(user, came_ns) {
            return None;
        }
        let due = load.take(came_ns);
        Some(self.arrives(due, slot))
    }

    /// True if the user of a closed model has as many sessions as it may have at once.
    #[inline(never)]
    fn is_in_session(&self, user: usize) -> bool {
        match &self.load {
            Load::Closed(load) => load.at_once() <= self.recording.sessions_of(user),
            Load::Open(_) | Load::Paced(_) => false,
        }
    }

    /// All unpaced users come at this time, at the beginning of the run: those with a connection
    /// send, those whose connection is coming wait for it.
    pub(super) fn users_begin(&mut self, now_ns: u64) {
        let Load::Closed(load) = &self.load else { return };
        if load.next_ns().is_some() {
            return self.users_come(now_ns);
        }
        let (users, at_once) = (load.users(), load.at_once());
        if self.users.roam() {
            return (0..users).for_each(|user| self.serve(user, now_ns));
        }
        for _ in 0..at_once {
            for user in 0..users {
                self.user_sends(self.slot_of(user, 0), now_ns);
            }
        }
        for user in 0..users {
            let slot = self.slot_of(user, 0);
            if self.connections[slot].socket.is_unserved() {
                self.user_waits(slot, now_ns);
            }
        }
    }

    /// An unpaced user has come, and sends a request if its connection has room.
    fn user_sends(&mut self, slot: u32, now_ns: u64) {
        if self.connections.has_room(slot)
            && let Some(due) = self.user_comes(slot, now_ns)
        {
            self.connections.leave_idle(slot);
            self.begin(slot, due);
            self.connections.offer(slot);
        }
    }

    /// Unpaced users have come by this time: those with a connection send, the others wait for it.
    /// A user who has come back before its last request has ended goes on after that.
    pub(super) fn users_come(&mut self, now_ns: u64) {
        while let Load::Closed(load) = &mut self.load
            && let Some(user) = load.take_coming(now_ns)
        {
            if self.users.roam() {
                self.serve(user, now_ns);
                continue;
            }
            let slot = self.slot_of(user, 0);
            let socket = &self.connections[slot].socket;
            if socket.is_unserved() {
                self.user_waits(slot, now_ns);
            } else if socket.state == State::Closed {
                self.user_reconnects(slot, now_ns);
            } else {
                self.user_sends(slot, now_ns);
            }
        }
    }

    /// A user is back whose connection was closed meanwhile: it is opened, if that doesn't have to
    /// wait for the end of a pause.
    pub(super) fn user_reconnects(&mut self, slot: u32, now_ns: u64) {
        match self.connections.is_pausing(slot) {
            true => self.user_waits(slot, now_ns),
            false => self.reopen(slot, now_ns),
        }
    }

    /// An unpaced user without a connection comes: as many of its requests as it has at once wait.
    fn user_waits(&mut self, slot: u32, now_ns: u64) {
        let user = slot as usize;
        while let Load::Closed(load) = &self.load
            && load.waiting_of(user) < load.at_once()
            && let Some(due) = self.user_comes(slot, now_ns)
            && let Load::Closed(load) = &mut self.load
        {
            load.wait(user, due);
        }
    }

    /// The connection of the slot's user is missing, and may be opened again.
    pub(super) fn reopen(&mut self, slot: u32, now_ns: u64) {
        if self.users.roam() {
            self.users.resume(slot);
            return self.serve_user_of(slot, now_ns);
        }
        self.user_waits(slot, now_ns);
        if now_ns < self.phases.send_end_ns() && self.needs_connection(slot, now_ns) {
            self.connections.take_closed(slot);
            self.open_slot(slot, 0, now_ns);
        }
    }

    /// True if the user of this slot needs a connection: one of its requests waits, or will.
    fn needs_connection(&self, slot: u32, now_ns: u64) -> bool {
        match &self.load {
            Load::Closed(load) => 0 < load.waiting_of(slot as usize),
            // Requests due before the end may not have been noticed yet.
            Load::Paced(load) => {
                let goes_on =
                    now_ns < self.phases.end_ns() || load.next_due_ns() < self.phases.end_ns();
                let user = slot as usize;
                load.is_waiting(user) || goes_on && load.is_present(user, now_ns)
            }
            Load::Open(_) => false,
        }
    }

    /// True if the slot's user, who goes to several endpoints, may have one more request in
    /// progress.
    pub(super) fn may_begin(&self, slot: u32) -> bool {
        self.users.busy(self.users.of(slot)) < self.plan.depth
    }

    /// The step of the request of a user that has waited longest for a connection.
    fn first_waiting(&self, user: usize) -> Option<u16> {
        match &self.load {
            Load::Closed(load) => load.first_waiting(user),
            Load::Paced(load) => load.first_waiting(user).map(|number| self.plan.mix.step(number)),
            Load::Open(_) => None,
        }
    }

    /// True if the next request of the slot's user waits for this slot's connection.
    pub(super) fn is_awaited(&self, slot: u32) -> bool {
        let user = self.user_of(slot);
        let first = self.first_waiting(user);
        first.is_some_and(|step| self.slot_of(user, self.plan.endpoint_of(step)) == slot)
    }

    /// Takes the request of a user that has waited longest.
    pub(super) fn pop_waiting_of(&mut self, user: usize) -> Option<DueRequest> {
        let due = match &mut self.load {
            Load::Closed(load) => load.pop_waiting(user),
            Load::Paced(load) => load.pop_waiting(user),
            Load::Open(_) => None,
        };
        due.map(|due| self.with_step(due))
    }

    /// The next step of a session of a closed model is due: its user sends it, or waits for its
    /// connection.
    pub(super) fn user_goes_on(&mut self, due: DueRequest, now_ns: u64) {
        let Some(place) = due.session else { return };
        let slot = self.recording.sessions().user(place);
        let is_paced = !self.load.is_unpaced();
        if is_paced {
            self.recording.intended(&self.phases, (due.intended_ns, due.session));
        }
        if self.connections.has_room(slot) {
            self.connections.leave_idle(slot);
            self.begin(slot, due);
            return self.connections.offer(slot);
        }
        let user = self.user_of(slot);
        match &mut self.load {
            Load::Closed(load) => load.wait(user, due),
            Load::Paced(load) => load.wait_again(user, DueRequest { waited: true, ..due }),
            Load::Open(_) => {}
        }
        if is_paced {
            self.recording.waited(&self.phases, &due, false);
        }
        if self.connections[slot].socket.state == State::Closed {
            self.user_reconnects(slot, now_ns);
        }
    }

    /// [`Shard::serve`] for the user of this slot.
    pub(super) fn serve_user_of(&mut self, slot: u32, now_ns: u64) {
        let user = self.user_of(slot);
        self.serve(user, now_ns);
    }

    /// A user who goes to several endpoints sends as much as it may: what waits, and then, without
    /// a period, what comes now. The connection that it lacks for the next one is opened.
    pub(super) fn serve(&mut self, user: usize, now_ns: u64) {
        let at_once = match &self.load {
            Load::Closed(load) => load.at_once(),
            _ => self.plan.depth,
        };
        while now_ns < self.phases.send_end_ns() && self.users.busy(user) < at_once {
            if self.first_waiting(user).is_none() {
                let Load::Closed(_) = &self.load else { return };
                let Some(due) = self.user_comes(self.slot_of(user, 0), now_ns) else { return };
                let slot = self.slot_of(user, self.plan.endpoint_of(due.step));
                if self.connections.has_room(slot) {
                    self.connections.leave_idle(slot);
                    self.begin(slot, due);
                    continue;
                }
                let Load::Closed(load) = &mut self.load else { return };
                load.wait(user, due);
            }
            let Some(step) = self.first_waiting(user) else { return };
            let endpoint = self.plan.endpoint_of(step);
            let slot = self.slot_of(user, endpoint);
            if !self.connections.has_room(slot) {
                if self.connections[slot].socket.state == State::Closed {
                    self.connections.take_closed(slot);
                    self.open_slot(slot, endpoint, now_ns);
                }
                return;
            }
            let Some(due) = self.pop_waiting_of(user) else { return };
            if let Some(due) = self.in_time(due, now_ns) {
                self.connections.leave_idle(slot);
                self.begin(slot, due);
            }
        }
    }
}
