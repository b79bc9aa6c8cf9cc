//! A request between its intended time and its connection.

use std::num::NonZeroU32;

use crate::schedule::Arrival;

/// A request that is due and has no connection yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueRequest {
    /// When it was due.
    pub intended_ns: u64,
    /// The request's number in the run, or its session's. It determines what the request asks for,
    /// and identifies it on its connection, since a session has one request at a time.
    pub number: u64,
    /// Its step among the plan's.
    pub step: u16,
    /// Its session among those of the shard; `None` if its scenario has only one step.
    pub session: Option<NonZeroU32>,
    /// When the shard noticed that it was due.
    pub noticed_ns: u64,
    /// Whether it had to wait for a connection.
    pub waited: bool,
}

impl DueRequest {
    /// A request of the first step that the shard noticed at this time.
    #[inline]
    pub fn noticed(arrival: Arrival, noticed_ns: u64) -> DueRequest {
        let Arrival { due_ns, number } = arrival;
        let (step, session, waited) = (0, None, false);
        DueRequest { intended_ns: due_ns, number, step, session, noticed_ns, waited }
    }

    /// A request that is given up before the shard has noticed it.
    pub fn unnoticed(arrival: Arrival) -> DueRequest {
        DueRequest::noticed(arrival, u64::MAX)
    }
}
