//! A request between its intended time and its connection.

/// A request that is due and has no connection yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DueRequest {
    /// When it was due.
    pub(crate) intended_ns: u64,
    /// When the shard saw that it was due.
    pub(crate) noticed_ns: u64,
    /// Whether it had to wait for a connection.
    pub(crate) waited: bool,
}

impl DueRequest {
    /// One that the shard hasn't seen before it is given up.
    pub(crate) fn unnoticed(intended_ns: u64) -> DueRequest {
        DueRequest { intended_ns, noticed_ns: u64::MAX, waited: false }
    }
}
