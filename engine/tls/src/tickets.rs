//! A shard's tickets for resuming sessions: as many as it has connections, newest first.
//!
//! Each shard resumes its own sessions. rustls's own store keeps eight per server, fewer than the
//! connections that may begin at once: the others would do full handshakes although there was a
//! ticket for them. All connections of a run go to one server, so its name isn't needed to find a
//! ticket.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// The stored data of the server's sessions.
#[derive(Debug)]
pub(super) struct Tickets {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl Tickets {
    /// Empty, with room for this many tickets.
    pub(super) fn new(most: usize) -> Tickets {
        let kept = Kept { tls13: VecDeque::with_capacity(most), ..Kept::default() };
        Tickets { most, kept: Mutex::new(kept) }
    }

    /// Only its own shard's thread locks it, so this never waits.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.kept().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.kept().tls12 = Some(session);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.kept().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut kept = self.kept();
        if self.most <= kept.tls13.len() {
            kept.tls13.pop_front();
        }
        kept.tls13.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.kept().tls13.pop_back()
    }
}
