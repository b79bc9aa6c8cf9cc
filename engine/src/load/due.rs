//! A request between its intended time and its connection.

use crate::load::schedule::Arrival;

/// A request that is due and has no connection yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueRequest {
    /// When it was due.
    pub(crate) intended_ns: u64,
    /// Which of the run's requests it is. What it asks for follows from that, and is settled when
    /// its connection begins it: the connection doesn't keep the number.
    pub(crate) number: u64,
    /// When the shard saw that it was due.
    pub(crate) noticed_ns: u64,
    /// Whether it had to wait for a connection.
    pub(crate) waited: bool,
}

impl DueRequest {
    /// One that the shard saw at this time.
    #[inline]
    pub(crate) fn noticed(arrival: Arrival, noticed_ns: u64) -> DueRequest {
        let Arrival { due_ns, number } = arrival;
        DueRequest { intended_ns: due_ns, number, noticed_ns, waited: false }
    }

    /// One that the shard hasn't seen before it is given up.
    pub(crate) fn unnoticed(arrival: Arrival) -> DueRequest {
        DueRequest::noticed(arrival, u64::MAX)
    }

    /// The run's first request, which was due at this time and seen at once.
    #[cfg(test)]
    pub(crate) fn for_test(intended_ns: u64) -> DueRequest {
        DueRequest::noticed(Arrival { due_ns: intended_ns, number: 0 }, intended_ns)
    }
}
