//! What may have happened on a connection when bytes arrived on it, or their end.

use record::outcome::Cause;

/// What received bytes, or their end, mean. The shard makes outcomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// All bytes were taken, and no request has ended with them.
    More,
    /// A request was answered.
    Answered {
        /// Which.
        number: u64,
        /// The response's status code.
        status: u16,
        /// How many of the bytes were taken.
        consumed: usize,
        /// What the connection may carry from now on.
        next: Next,
    },
    /// A request failed with what was to answer it, and the connection with it.
    Failed {
        /// Which.
        number: u64,
        /// Why.
        cause: Cause,
    },
    /// The connection failed. If it has requests, the oldest fails with this cause.
    Broken(Cause),
    /// The peer closed it while it had no request, as it may.
    Closed,
}

/// What a connection may carry after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Further requests and responses.
    Any,
    /// Nothing: the peer ends it.
    Nothing,
    /// Nothing: bytes follow that no request has asked for.
    Unasked,
}
