//! The closed model: each connection is a user that sends again when the response has arrived.

use crate::due::DueRequest;
use crate::schedule::Arrival;
use crate::share::Share;

/// The users of a shard, and the number of each one's next request.
pub struct ClosedLoad {
    /// Users of the whole run.
    total: u64,
    /// The number of each user's next request: its previous requests times the number of users,
    /// plus the user's own number.
    next: Vec<u64>,
}

impl ClosedLoad {
    /// This share's users out of `total`, in the order in which they are dealt.
    pub fn new(total: usize, share: &Share) -> ClosedLoad {
        let next = (0..share.count(total) as u64).map(|user| share.nth(user)).collect();
        ClosedLoad { total: total as u64, next }
    }

    /// The request of this user, which sends at this time.
    #[inline]
    pub fn take(&mut self, user: usize, came_ns: u64) -> DueRequest {
        let next = &mut self.next[user];
        let arrival = Arrival { due_ns: came_ns, number: *next };
        *next += self.total;
        DueRequest::noticed(arrival, came_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_who_come_equally_often_have_all_numbers_once() {
        for shares in [
            vec![Share::whole()],
            (0..7).map(|shard| Share::equal(shard, 7)).collect(),
            vec![Share::units(0..1, 4), Share::units(1..4, 4)],
        ] {
            let mut numbers = Vec::new();
            for share in &shares {
                let mut load = ClosedLoad::new(10, share);
                let users = share.count(10);
                numbers.extend((0..5).flat_map(|_| 0..users).map(|user| load.take(user, 7).number));
            }
            numbers.sort_unstable();
            assert_eq!(numbers, (0..50).collect::<Vec<u64>>(), "{shares:?}");
        }
        let mut third = ClosedLoad::new(10, &Share::equal(2, 3));
        assert_eq!([1, 1, 0].map(|user| third.take(user, 7).number), [5, 15, 2]);
    }
}
