//! Events on a connection when bytes, or their end, arrive.

use record::outcome::Cause;

/// The meaning of received bytes, or of their end. The shard turns it into outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// All bytes were consumed, and no request ended with them.
    More,
    /// A request was answered.
    Answered {
        /// Its number.
        number: u64,
        /// The response's status code.
        status: u16,
        /// How many of the bytes were consumed.
        consumed: usize,
        /// What the connection can carry from now on.
        next: Next,
    },
    /// A request failed because of its response, and the connection with it.
    Failed {
        /// Its number.
        number: u64,
        /// The cause.
        cause: Cause,
    },
    /// The connection failed. If it has requests, the oldest fails with this cause.
    Broken(Cause),
    /// The peer closed it while it had no request, which it may.
    Closed,
}

/// What a connection can carry after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Further requests and responses.
    Any,
    /// Nothing: the peer ends it.
    Nothing,
    /// Nothing: further bytes follow that no request asked for.
    Unasked,
}
