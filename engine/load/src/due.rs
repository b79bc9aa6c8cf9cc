//! A request between its intended time and its connection.

use crate::schedule::Arrival;

/// A request that is due and has no connection yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueRequest {
    /// When it was due.
    pub intended_ns: u64,
    /// The request's number in the run. It determines what the request asks for, and identifies it
    /// on its connection.
    pub number: u64,
    /// When the shard noticed that it was due.
    pub noticed_ns: u64,
    /// Whether it had to wait for a connection.
    pub waited: bool,
}

impl DueRequest {
    /// A request that the shard noticed at this time.
    #[inline]
    pub fn noticed(arrival: Arrival, noticed_ns: u64) -> DueRequest {
        let Arrival { due_ns, number } = arrival;
        DueRequest { intended_ns: due_ns, number, noticed_ns, waited: false }
    }

    /// A request that is given up before the shard has noticed it.
    pub fn unnoticed(arrival: Arrival) -> DueRequest {
        DueRequest::noticed(arrival, u64::MAX)
    }
}
