//! The closed model: each connection is a user that sends again when the response has arrived.

use crate::due::DueRequest;
use crate::schedule::Arrival;
use crate::share::{Numbers, Share};

/// The users of a shard, whose requests are numbered in the order in which they come. Shards take
/// turns at the numbers, so a run of N requests has the first N, for any shares.
pub struct ClosedLoad {
    numbers: Numbers,
}

impl ClosedLoad {
    /// The users of this share.
    pub fn new(share: &Share) -> ClosedLoad {
        ClosedLoad { numbers: share.numbers() }
    }

    /// The request of a user who sends at this time.
    #[inline]
    pub fn take(&mut self, came_ns: u64) -> DueRequest {
        let arrival = Arrival { due_ns: came_ns, number: self.numbers.peek() };
        self.numbers.advance();
        DueRequest::noticed(arrival, came_ns)
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
                let mut load = ClosedLoad::new(share);
                numbers.extend((0..share.count_of(50)).map(|_| load.take(7).number));
            }
            numbers.sort_unstable();
            assert_eq!(numbers, (0..50).collect::<Vec<u64>>(), "{shares:?}");
        }
    }
}
