//! A request between its intended time and its connection.

use crate::schedule::Arrival;

/// A request that is due and has no connection yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueRequest {
    /// When it was due.
    pub intended_ns: u64,
    /// Which of the run's requests it is. What it asks for follows from that, and its connection
    /// knows it by that.
    pub number: u64,
    /// When the shard saw that it was due.
    pub noticed_ns: u64,
    /// Whether it had to wait for a connection.
    pub waited: bool,
}

impl DueRequest {
    /// One that the shard saw at this time.
    #[inline]
    pub fn noticed(arrival: Arrival, noticed_ns: u64) -> DueRequest {
        let Arrival { due_ns, number } = arrival;
        DueRequest { intended_ns: due_ns, number, noticed_ns, waited: false }
    }

    /// One that the shard hasn't seen before it is given up.
    pub fn unnoticed(arrival: Arrival) -> DueRequest {
        DueRequest::noticed(arrival, u64::MAX)
    }
}
