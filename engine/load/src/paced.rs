//! The paced closed model: each connection sends once per period, in order, even if late. Users who
//! come and go send what is due while they are there.

use std::collections::VecDeque;
use std::ops::Range;

use crate::due::DueRequest;
use crate::presence::Presence;
use crate::schedule::Arrival;
use crate::share::Share;

/// The paced closed model: connection i of n starts at `i/n` of the period, then once a period.
pub struct PacedLoad {
    period_ns: u64,
    /// Users of the whole run.
    total: u64,
    users: Vec<User>,
    /// When they come and go; `None` if all stay.
    presence: Option<Presence>,
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
    /// Requests that have been sent before and have to be sent again, oldest first.
    again: VecDeque<DueRequest>,
}

impl User {
    fn is_waiting(&self) -> bool {
        0 < self.pending || !self.again.is_empty()
    }
}

impl PacedLoad {
    /// This share's connections out of `total`. The run's connections are spread evenly over the
    /// period, in the order in which they are dealt.
    pub fn new(
        period_ns: u64,
        total: usize,
        share: &Share,
        presence: Option<Presence>,
    ) -> PacedLoad {
        let first = |number: u64| {
            let phase_ns = u128::from(period_ns) * u128::from(number) / total as u128;
            let due_ns = u64::try_from(phase_ns).expect("a phase is below the period");
            Arrival { due_ns, number }
        };
        let user = |number: u64| User {
            first: first(number),
            pending: 0,
            oldest: first(number),
            noticed_ns: VecDeque::with_capacity(NOTICED_MAX),
            again: VecDeque::new(),
        };
        let mut load = PacedLoad {
            period_ns,
            total: total as u64,
            users: share.users(total).map(user).collect(),
            presence,
            round: 0,
            next_user: 0,
            waiting: 0,
            first_waiting: 0,
        };
        load.skip_absent();
        load
    }

    /// The same load, in which up to so many of each user's requests go before those that wait.
    #[must_use]
    pub fn with_again(mut self, most: usize) -> PacedLoad {
        self.users.iter_mut().for_each(|user| user.again.reserve_exact(most));
        self
    }

    /// True if this user of the shard is there at this time.
    pub fn is_present(&self, user: usize, at_ns: u64) -> bool {
        let is_present = |of: &Presence| self.users[user].first.number < of.users_at(at_ns);
        self.presence.as_ref().is_none_or(is_present)
    }

    /// For how long a user is there within this span, ns.
    pub fn present_ns(&self, user: usize, within: &Range<u64>) -> u64 {
        let number = self.users[user].first.number;
        match &self.presence {
            Some(presence) => presence.present_ns(number, within),
            None => within.end.saturating_sub(within.start),
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
        self.pass();
        self.skip_absent();
        Some((user, Arrival { due_ns, number }))
    }

    fn pass(&mut self) {
        self.next_user += 1;
        if self.next_user == self.users.len() {
            self.next_user = 0;
            self.round += 1;
        }
    }

    /// Passes over the requests of users who are away.
    fn skip_absent(&mut self) {
        let Some(presence) = self.presence.take() else { return };
        loop {
            let (due_ns, next) = (self.next_due_ns(), self.users[self.next_user].first);
            if presence.end_ns() <= due_ns || next.number < presence.users_at(due_ns) {
                break;
            }
            let round_end_ns = (self.round + 1) * self.period_ns;
            if next.number < presence.most(due_ns..round_end_ns) {
                self.pass();
                continue;
            }
            // No user is left in this round: on to the one in which the first user comes.
            let comes_ns = presence.comes_ns(self.users[0].first.number, round_end_ns);
            let round = comes_ns.unwrap_or(presence.end_ns()) / self.period_ns;
            (self.next_user, self.round) = (0, round.max(self.round + 1));
        }
        self.presence = Some(presence);
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

    /// Queues a user's request that has to be sent again, or that its session goes on with: before
    /// those that were due later.
    pub fn wait_again(&mut self, user: usize, due: DueRequest) {
        let again = &mut self.users[user].again;
        let place = again.partition_point(|other| other.number < due.number);
        again.insert(place, due);
        self.waiting += 1;
    }

    /// True if the request of this connection that has waited longest is one of those that go
    /// before the others.
    pub fn is_sent_again(&self, user: usize) -> bool {
        !self.users[user].again.is_empty()
    }

    /// The request of this connection that has waited longest.
    pub fn pop_waiting(&mut self, user: usize) -> Option<DueRequest> {
        let user = &mut self.users[user];
        if let Some(due) = user.again.pop_front() {
            self.waiting -= 1;
            return Some(due);
        }
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
        self.users[user].is_waiting()
    }

    /// The number of this user's request that has waited longest.
    pub fn first_waiting(&self, user: usize) -> Option<u64> {
        let user = &self.users[user];
        let again = user.again.front().map(|due| due.number);
        again.or_else(|| (0 < user.pending).then_some(user.oldest.number))
    }

    /// Takes any waiting request after the end, to count it as unsent.
    pub fn pop_any_waiting(&mut self) -> Option<DueRequest> {
        let later = &self.users[self.first_waiting..];
        self.first_waiting += later.iter().position(User::is_waiting)?;
        self.pop_waiting(self.first_waiting)
    }

    /// The number of waiting requests.
    pub fn waiting_len(&self) -> u64 {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use plan::{Model, Plan};
    use units::Nanos;

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
                let mut load = PacedLoad::new(1_000_003, 64, &Share::equal(shard, shards), None);
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
    fn users_who_come_and_go_send_what_is_due_while_they_are_there() {
        let ms = 1_000_000;
        for text in [
            "3..64:80ms,2:7ms,0:40ms,40..5:30ms",
            "0:50ms,0..9:9ms,9:3ms,0:900ms,1:20ms",
            "0:45ms,9:30ms,0:41ms,9:3ms",
        ] {
            let stage = text.split(',').map(|stage| stage.parse().expect(stage)).collect();
            let plan = Plan { target: "http://h/".to_owned(), stage, ..Plan::default() };
            let (model, warmup) = (Some(Model::Closed), Nanos(7 * ms));
            let plan = Plan { model, warmup, ..plan }.complete(&[0]).expect("it runs");
            let presence = Presence::of_plan(&plan).expect("users come and go");
            let (total, end_ns) = (plan.conns(), presence.end_ns());
            for period_ns in [3 * ms + 1, 20 * ms] {
                let of = |share: &Share, presence: Option<Presence>| {
                    let mut load = PacedLoad::new(period_ns, total, share, presence);
                    let all = std::iter::from_fn(move || load.take_due(end_ns, end_ns));
                    all.map(|(_, due)| due).collect::<Vec<Arrival>>()
                };
                let mut expected = of(&Share::whole(), None);
                let is_there =
                    |due: &Arrival| due.number % (total as u64) < presence.users_at(due.due_ns);
                expected.retain(is_there);
                assert!(5 < expected.len(), "{}", expected.len());
                for shares in [
                    vec![Share::whole()],
                    (0..3).map(|shard| Share::equal(shard, 3)).collect(),
                    vec![Share::units(0..2, 9), Share::units(2..9, 9)],
                ] {
                    let each = shares.iter().map(|share| of(share, Some(presence.clone())));
                    let mut found = each.collect::<Vec<_>>().concat();
                    found.sort_unstable();
                    assert_eq!(found, expected, "{text}, {period_ns} ns, {shares:?}");
                }
            }
        }
    }

    #[test]
    fn each_waiting_request_keeps_the_time_it_was_noticed() {
        let mut load = PacedLoad::new(100, 1, &Share::whole(), None);
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
        let mut load = PacedLoad::new(100, 1, &Share::whole(), None);
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
