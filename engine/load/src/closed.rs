//! The closed model: users who send again as soon as a response has arrived.

use std::collections::VecDeque;
use std::ops::Range;

use crate::due::DueRequest;
use crate::presence::{Attendance, Presence};
use crate::schedule::Arrival;
use crate::share::{Numbers, Share};

/// The users of a shard. Their requests are numbered in the order in which users come: shards take
/// turns at the numbers, so a run of N requests has the first N, for any shares.
///
/// A user either waits for a connection, with its requests queued here, or has them in flight.
pub struct ClosedLoad {
    numbers: Numbers,
    /// The most requests of a user at once.
    at_once: usize,
    /// Each user's requests that wait for a connection.
    users: Vec<VecDeque<DueRequest>>,
    waiting: usize,
    /// No user before this one waits; only [`ClosedLoad::pop_any_waiting`] moves it, after the end.
    first_waiting: usize,
    /// Who is there; `None` if all users stay.
    attendance: Option<Attendance>,
}

impl ClosedLoad {
    /// This many users of this share, each with up to `at_once` requests at once.
    pub fn new(share: &Share, users: usize, at_once: usize) -> ClosedLoad {
        ClosedLoad {
            numbers: share.numbers(),
            at_once,
            users: (0..users).map(|_| VecDeque::with_capacity(2 * at_once)).collect(),
            waiting: 0,
            first_waiting: 0,
            attendance: None,
        }
    }

    /// The same users of this share of `total` users, who come and go.
    #[must_use]
    pub fn with_presence(self, presence: Presence, total: usize, share: &Share) -> ClosedLoad {
        ClosedLoad { attendance: Some(Attendance::new(presence, total, share)), ..self }
    }

    /// True if this user is there at this time. Times don't decrease.
    #[inline]
    pub fn is_present(&mut self, user: usize, at_ns: u64) -> bool {
        match &mut self.attendance {
            None => true,
            Some(attendance) => attendance.is_present(user, at_ns),
        }
    }

    /// When to look next whether a user has come; `None` if all users stay.
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        self.attendance.as_ref().map(Attendance::next_ns)
    }

    /// A user who has come by this time and hasn't begun.
    pub fn take_coming(&mut self, at_ns: u64) -> Option<usize> {
        self.attendance.as_mut()?.take_coming(at_ns)
    }

    /// For how long a user is there within this span, ns.
    pub fn present_ns(&self, user: usize, within: &Range<u64>) -> u64 {
        match &self.attendance {
            None => within.end.saturating_sub(within.start),
            Some(attendance) => attendance.present_ns(user, within),
        }
    }

    /// The number of users.
    pub fn users(&self) -> usize {
        self.users.len()
    }

    /// The most requests of a user at once.
    pub fn at_once(&self) -> usize {
        self.at_once
    }

    /// The request of a user who comes at this time.
    #[inline]
    pub fn take(&mut self, came_ns: u64) -> DueRequest {
        let arrival = Arrival { due_ns: came_ns, number: self.numbers.peek() };
        self.numbers.advance();
        DueRequest::noticed(arrival, came_ns)
    }

    /// Queues a user's request until it has a connection.
    pub fn wait(&mut self, user: usize, due: DueRequest) {
        self.users[user].push_back(DueRequest { waited: true, ..due });
        self.waiting += 1;
    }

    /// Queues a user's request that has been sent before and has to be sent again: before those
    /// that came later.
    pub fn wait_again(&mut self, user: usize, due: DueRequest) {
        let waiting = &mut self.users[user];
        let place = waiting.partition_point(|other| other.number < due.number);
        waiting.insert(place, due);
        self.waiting += 1;
    }

    /// The request of this user that has waited longest.
    #[inline]
    pub fn pop_waiting(&mut self, user: usize) -> Option<DueRequest> {
        // Rare: a user who waits for nothing doesn't pay for looking.
        if self.waiting == 0 { None } else { self.pop_of(user) }
    }

    fn pop_of(&mut self, user: usize) -> Option<DueRequest> {
        let due = self.users[user].pop_front()?;
        self.waiting -= 1;
        Some(due)
    }

    /// Takes any waiting request after the end, to count it as unsent.
    pub fn pop_any_waiting(&mut self) -> Option<DueRequest> {
        let later = &self.users[self.first_waiting..];
        self.first_waiting += later.iter().position(|waiting| !waiting.is_empty())?;
        self.pop_of(self.first_waiting)
    }

    /// The step of this user's request that has waited longest.
    pub fn first_waiting(&self, user: usize) -> Option<u16> {
        self.users[user].front().map(|due| due.step)
    }

    /// The number of this user's waiting requests.
    pub fn waiting_of(&self, user: usize) -> usize {
        self.users[user].len()
    }

    /// The number of waiting requests of all users.
    #[inline]
    pub fn waiting_len(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_number_of_requests_has_the_first_numbers_for_any_shares() {
        for shares in [
            vec![Share::whole()],
            (0..7).map(|shard| Share::equal(shard, 7)).collect(),
            vec![Share::units(0..1, 4), Share::units(1..4, 4)],
        ] {
            let mut numbers = Vec::new();
            for share in &shares {
                let mut load = ClosedLoad::new(share, 1, 1);
                numbers.extend((0..share.count_of(50)).map(|_| load.take(7).number));
            }
            numbers.sort_unstable();
            assert_eq!(numbers, (0..50).collect::<Vec<u64>>(), "{shares:?}");
        }
    }

    #[test]
    fn requests_wait_in_order_for_their_own_user() {
        let mut load = ClosedLoad::new(&Share::whole(), 3, 2);
        for user in [2, 0, 2] {
            let due = load.take(7);
            load.wait(user, due);
        }
        assert_eq!([0, 1, 2].map(|user| load.waiting_of(user)), [1, 0, 2]);
        let mut numbers = Vec::new();
        numbers.extend(load.pop_waiting(2).map(|due| due.number));
        assert_eq!((load.pop_waiting(1), load.waiting_len()), (None, 2));
        while let Some(due) = load.pop_any_waiting() {
            assert!(due.waited);
            numbers.push(due.number);
        }
        assert_eq!((numbers, load.waiting_len()), (vec![0, 1, 2], 0));
    }
}
