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
    /// HTTP/2: something happened.
    OnStream {
        /// How many of the bytes were consumed.
        consumed: usize,
        /// What it was.
        what: OnStream,
    },
    /// HTTP/2: all bytes were consumed.
    Taken,
    /// HTTP/2: the peer broke a rule that ends the connection, which fails with this cause.
    Violated(Cause),
}

/// What happened on an HTTP/2 connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStream {
    /// Nothing for any request.
    Nothing,
    /// The peer's settings have come, or changed.
    Settings,
    /// The peer takes no more requests.
    GoAway,
    /// A request's stream has ended, and the connection goes on.
    Ended {
        /// The request's number.
        number: u64,
        /// How it ended.
        ended: Ended,
    },
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With a response.
    Answered {
        /// Its status code.
        status: u16,
        /// True if the request's body had left completely.
        whole: bool,
    },
    /// Without one.
    Failed(Cause),
    /// The peer hasn't processed anything of the request: it may be sent again, once.
    Refused,
    /// The peer hasn't seen the request, and ends the connection: another one carries it.
    Unserved {
        /// True if the peer had refused it before.
        refused: bool,
    },
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
