//! One request on a connection.

use record::stamps::Stamps;

/// A request on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Its stamps, and its step.
    pub stamps: Stamps,
    /// Its number in the run.
    pub number: u64,
}
