//! A server's own log.

use std::collections::BTreeMap;

/// A server's own log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Connections accepted.
    pub accepted: u64,
    /// Requests read to their end.
    pub requests: u64,
    /// Requests that the client didn't finish, as far as the server read on.
    pub requests_cut: u64,
    /// Whole responses to a request, by status: each request has at most one.
    pub answers: BTreeMap<u16, u64>,
    /// The answers sent before the request was read to its end.
    pub early: u64,
    /// Responses beyond one for each request: repeated, or before any request.
    pub extra: u64,
    /// Responses on a new connection that were written before any request had arrived.
    pub unasked: u64,
    /// Responses that break a rule, that aren't whole, or that were due when the server reset.
    pub broken: u64,
    /// Requests read that got nothing.
    pub ignored: u64,
    /// Requests read of which the server said that it doesn't serve them (HTTP/2).
    pub refused: u64,
    /// Streams that the client gave up (HTTP/2).
    pub cancelled: u64,
    /// Streams begun before the settings, or beyond their limit (HTTP/2).
    pub over_limit: u64,
    /// Responses that couldn't be written because the client had disconnected.
    pub unwritten: u64,
    /// Connections that the server closed first, by FIN.
    pub closes: u64,
    /// Connections that the server reset.
    pub resets: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl Log {
    /// Whole responses to requests, whatever their status.
    pub fn answered(&self) -> u64 {
        self.answers.values().sum()
    }
}
