//! The paced closed model: each connection sends once per period, in order, even if late.

use std::collections::VecDeque;

use crate::due::DueRequest;
use crate::schedule::Arrival;
use crate::share::Share;

/// The paced closed model: connection i of n starts at `i/n` of the period, then once a period.
pub struct PacedLoad {
    period_ns: u64,
    /// Users of the whole run.
    total: u64,
    users: Vec<User>,
    round: u64,
    next_user: usize,
    waiting: u64,
    /// No connection before this one has a waiting request; only [`PacedLoad::pop_any_waiting`]
    /// moves it, after the end.
    first_waiting: usize,
}

/// How many waiting requests of a user are queued with the time they were noticed. A later one
/// counts as noticed when it was due, since only the backlog delayed it.
const NOTICED_MAX: usize = 16;

/// One connection's pace.
#[derive(Clone, Debug)]
struct User {
    /// Its first request, in the first period.
    first: Arrival,
    /// Requests that are due but haven't started.
    pending: u64,
    /// The oldest of them.
    oldest: Arrival,
    /// When the oldest of them were noticed, oldest first.
    noticed_ns: VecDeque<u64>,
}

impl PacedLoad {
    /// This share's connections out of `total`. The run's connections are spread evenly over the
    /// period, in the order in which they are dealt.
    pub fn new(period_ns: u64, total: usize, share: &Share) -> PacedLoad {
        let first = |user: u64| {
            let number = share.nth(user);
            let phase_ns = u128::from(period_ns) * u128::from(number) / total as u128;
            let due_ns = u64::try_from(phase_ns).expect("a phase is below the period");
            Arrival { due_ns, number }
        };
        let user = |at: u64| User {
            first: first(at),
            pending: 0,
            oldest: first(at),
            noticed_ns: VecDeque::with_capacity(NOTICED_MAX),
        };
        PacedLoad {
            period_ns,
            total: total as u64,
            users: (0..share.count(total) as u64).map(user).collect(),
            round: 0,
            next_user: 0,
            waiting: 0,
            first_waiting: 0,
        }
    }

    /// When the next request of any connection is due.
    pub fn next_due_ns(&self) -> u64 {
        self.round * self.period_ns + self.users[self.next_user].first.due_ns
    }

    /// Takes the next request, with its connection, if it is due at `now_ns` and before `end_ns`.
    pub fn take_due(&mut self, now_ns: u64, end_ns: u64) -> Option<(usize, Arrival)> {
        let due_ns = self.next_due_ns();
        if now_ns < due_ns || end_ns <= due_ns {
            return None;
        }
        let user = self.next_user;
        let number = self.round * self.total + self.users[user].first.number;
        self.next_user += 1;
        if self.next_user == self.users.len() {
            self.next_user = 0;
            self.round += 1;
        }
        Some((user, Arrival { due_ns, number }))
    }

    /// Queues a due request until its connection is free.
    pub fn wait(&mut self, user: usize, arrival: Arrival, noticed_ns: u64) {
        let user = &mut self.users[user];
        if user.pending == 0 {
            user.oldest = arrival;
        }
        if user.pending == user.noticed_ns.len() as u64 && user.noticed_ns.len() < NOTICED_MAX {
            user.noticed_ns.push_back(noticed_ns);
        }
        user.pending += 1;
        self.waiting += 1;
    }

    /// The request of this connection that has waited longest.
    pub fn pop_waiting(&mut self, user: usize) -> Option<DueRequest> {
        let user = &mut self.users[user];
        if user.pending == 0 {
            return None;
        }
        let oldest = user.oldest;
        let noticed_ns = user.noticed_ns.pop_front().unwrap_or(oldest.due_ns);
        user.pending -= 1;
        self.waiting -= 1;
        user.oldest.due_ns += self.period_ns;
        user.oldest.number += self.total;
        Some(DueRequest { waited: true, ..DueRequest::noticed(oldest, noticed_ns) })
    }

    /// True if a due request of this connection waits.
    pub fn is_waiting(&self, user: usize) -> bool {
        0 < self.users[user].pending
    }

    /// The number of this user's request that has waited longest.
    pub fn first_waiting(&self, user: usize) -> Option<u64> {
        let user = &self.users[user];
        (0 < user.pending).then_some(user.oldest.number)
    }

    /// Takes any waiting request after the end, to count it as unsent.
    pub fn pop_any_waiting(&mut self) -> Option<DueRequest> {
        let later = &self.users[self.first_waiting..];
        self.first_waiting += later.iter().position(|user| 0 < user.pending)?;
        self.pop_waiting(self.first_waiting)
    }

    /// The number of waiting requests.
    pub fn waiting_len(&self) -> u64 {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request that the only user of a 100 ns period has to send in this round.
    fn arrival(round: u64) -> Arrival {
        Arrival { due_ns: round * 100, number: round }
    }

    #[test]
    fn numbers_follow_the_order_in_which_all_users_are_due() {
        for shards in [1, 2, 7, 64] {
            let mut all = Vec::new();
            for shard in 0..shards {
                let mut load = PacedLoad::new(1_000_003, 64, &Share::equal(shard, shards));
                while let Some((user, due)) = load.take_due(5_000_000, 5_000_015) {
                    // One request waits and the next doesn't; both have the numbers dealt to them.
                    load.wait(user, due, due.due_ns);
                    let waited = load.pop_waiting(user).expect("it waits");
                    assert_eq!((waited.intended_ns, waited.number), (due.due_ns, due.number));
                    all.push(due);
                }
            }
            all.sort_unstable();
            let numbers: Vec<u64> = all.iter().map(|due| due.number).collect();
            assert_eq!(numbers, (0..all.len() as u64).collect::<Vec<u64>>(), "{shards} shards");
            assert!(4 * 64 < all.len());
        }
    }

    #[test]
    fn each_waiting_request_keeps_the_time_it_was_noticed() {
        let mut load = PacedLoad::new(100, 1, &Share::whole());
        // The first is noticed on time; then the shard stalls until 350.
        let noticed = [0, 350, 350, 350];
        for (round, noticed_ns) in (0_u64..).zip(noticed) {
            load.wait(0, arrival(round), noticed_ns);
        }
        for (round, noticed_ns) in (0_u64..).zip(noticed) {
            let due = DueRequest::noticed(arrival(round), noticed_ns);
            assert_eq!(load.pop_waiting(0), Some(DueRequest { waited: true, ..due }));
        }
        assert_eq!((load.pop_waiting(0), load.waiting_len()), (None, 0));
    }

    #[test]
    fn a_backlog_beyond_the_queue_counts_as_noticed_when_due() {
        let mut load = PacedLoad::new(100, 1, &Share::whole());
        let most = NOTICED_MAX as u64;
        for round in 0..most + 5 {
            load.wait(0, arrival(round), round * 100 + 7);
        }
        for round in 0..most + 5 {
            let late_ns = if round < most { 7 } else { 0 };
            let due = load.pop_waiting(0).expect("it waits");
            assert_eq!((due.intended_ns, due.noticed_ns), (round * 100, round * 100 + late_ns));
            if round == most {
                // There is room again, but the requests ahead in the backlog aren't in the queue.
                load.wait(0, arrival(most + 5), (most + 5) * 100 + 7);
            }
        }
        assert_eq!(load.pop_waiting(0).map(|due| due.noticed_ns), Some((most + 5) * 100));
    }
}
