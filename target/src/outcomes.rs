//! The counts of the requests of one route: what became of them, and how long they were held.

use std::ops::AddAssign;

use crate::distribution::Distribution;

/// The counts of one route in one executor, or their sum over several.
#[derive(Clone, Debug)]
pub(crate) struct Outcomes {
    /// Requests read in full.
    pub(crate) received: u64,
    /// Of these, those whose complete response was written to the socket.
    pub(crate) answered: u64,
    /// Of the answered ones, those whose response was written twice, as configured.
    pub(crate) repeated: u64,
    /// Of those received, the ones left without a whole response, as configured.
    pub(crate) faulty: u64,
    /// Of those received, the ones whose peer closed the connection first.
    pub(crate) closed_by_peer_unanswered: u64,
    /// Of those received, the ones still being held.
    pub(crate) in_flight: u64,
    /// Hold times of the answered requests.
    pub(crate) held: Distribution,
}

impl Outcomes {
    /// Zero counts. All memory is allocated here.
    pub(crate) fn new() -> Outcomes {
        Outcomes {
            received: 0,
            answered: 0,
            repeated: 0,
            faulty: 0,
            closed_by_peer_unanswered: 0,
            in_flight: 0,
            held: Distribution::new(),
        }
    }

    /// Counts a request read in full.
    pub(crate) fn receive(&mut self) {
        self.received += 1;
        self.in_flight += 1;
    }

    /// Counts a request answered after `held_ns`.
    pub(crate) fn answer(&mut self, held_ns: u64) {
        self.answered += 1;
        self.in_flight -= 1;
        self.held.record(held_ns);
    }

    /// Counts a request answered twice after `held_ns`.
    pub(crate) fn repeat(&mut self, held_ns: u64) {
        self.answer(held_ns);
        self.repeated += 1;
    }

    /// Counts a request that is left without a whole response, as configured.
    pub(crate) fn break_off(&mut self) {
        self.faulty += 1;
        self.in_flight -= 1;
    }

    /// Counts a request whose peer closed the connection before it was answered.
    pub(crate) fn close_unanswered(&mut self) {
        self.closed_by_peer_unanswered += 1;
        self.in_flight -= 1;
    }

    /// Panics if the sums don't match: the counts are wrong then, and none of them may be used.
    pub(crate) fn assert_closes(&self) {
        assert_eq!(
            self.received,
            self.answered + self.faulty + self.closed_by_peer_unanswered + self.in_flight,
            "every request received has exactly one outcome"
        );
        assert_eq!(self.held.count(), self.answered, "every answer has one hold time");
    }
}

impl AddAssign<&Outcomes> for Outcomes {
    fn add_assign(&mut self, other: &Outcomes) {
        self.received += other.received;
        self.answered += other.answered;
        self.repeated += other.repeated;
        self.faulty += other.faulty;
        self.closed_by_peer_unanswered += other.closed_by_peer_unanswered;
        self.in_flight += other.in_flight;
        self.held += &other.held;
    }
}
