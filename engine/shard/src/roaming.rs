//! The users of a closed model: their slots and, if they send to several endpoints, how much each
//! has in progress.

use super::plan::{Drive, ShardPlan};

/// The users of a shard. Only those who send to several endpoints have counts.
pub(super) struct Users {
    /// The number of users.
    users: u32,
    /// The requests that each has on its connections or given up for a pause.
    busy: Vec<u16>,
    /// Of these, those given up for a pause, after a failed connect.
    paused: Vec<u16>,
}

impl Users {
    /// The users of this plan.
    pub(super) fn new(plan: &ShardPlan) -> Users {
        let is_closed = matches!(plan.drive, Drive::Closed | Drive::Paced { .. });
        let roaming = if is_closed && 1 < plan.endpoints.len() { plan.conns } else { 0 };
        Users {
            users: u32::try_from(plan.conns).expect("connections are numbered in 32 bits"),
            busy: vec![0; roaming],
            paused: vec![0; roaming],
        }
    }

    /// True if users go from one endpoint to another.
    #[inline]
    pub(super) fn roam(&self) -> bool {
        !self.busy.is_empty()
    }

    /// The slot of a user's connection to an endpoint.
    pub(super) fn slot(&self, user: usize, endpoint: u16) -> u32 {
        let user = u32::try_from(user).expect("connections are numbered in 32 bits");
        u32::from(endpoint) * self.users + user
    }

    /// The requests that a user has in progress, or given up for a pause.
    pub(super) fn busy(&self, user: usize) -> usize {
        usize::from(self.busy[user])
    }

    /// The user of this slot.
    pub(super) fn of(&self, slot: u32) -> usize {
        (slot % self.users) as usize
    }

    /// A request of the slot's user has begun on a connection.
    pub(super) fn began(&mut self, slot: u32) {
        let user = self.of(slot);
        self.busy[user] += 1;
    }

    /// A request of the slot's user has ended.
    pub(super) fn ended(&mut self, slot: u32) {
        let user = self.of(slot);
        self.busy[user] -= 1;
    }

    /// The slot's user makes no other request instead of this one until [`Users::resume`].
    pub(super) fn pause(&mut self, slot: u32) {
        let user = self.of(slot);
        self.busy[user] += 1;
        self.paused[user] += 1;
    }

    /// The slot's user goes on after a pause.
    pub(super) fn resume(&mut self, slot: u32) {
        let user = self.of(slot);
        self.busy[user] -= std::mem::take(&mut self.paused[user]);
    }
}
