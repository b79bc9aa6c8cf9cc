//! The stamps of one request.

/// The stamps of one request, ns since the epoch of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// When it was due.
    pub intended_ns: u64,
    /// When the shard saw that it was due.
    pub noticed_ns: u64,
    /// Just before the system call that carried it.
    pub sent_ns: u64,
}
