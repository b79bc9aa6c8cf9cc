//! The TLS sessions of a shard's connections, by slot: bytes that were received go in, bytes to be
//! sent come out.
//!
//! What rustls allocates, it does in here, marked by [`seal::lend`].

use std::io::{BufRead as _, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind};

use super::client::Client;
use super::failure::cause;
use crate::record::outcome::Cause;
use crate::record::tls::Agreed;
use crate::sys::seal;

/// The most that one record of TLS carries, bytes.
pub(crate) const RECORD_MAX: usize = 16_384;

/// The sessions of a shard's connections.
pub(crate) struct Sessions {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    by_slot: Vec<Option<Box<Session>>>,
}

/// One connection's session.
struct Session {
    tls: ClientConnection,
    /// When its socket was connected, ns since the epoch.
    connected_ns: u64,
    /// Bytes that were written to be sent.
    written: usize,
    /// Of these, those that have left.
    left: usize,
    /// Bytes of requests in what was written.
    carried: usize,
    /// Whether nothing more may be said, since the peer broke the protocol or was told why not.
    has_failed: bool,
}

/// What came of received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// How many were taken.
    pub(crate) bytes: usize,
    /// Whether the peer has said that nothing follows (close_notify).
    pub(crate) is_last: bool,
}

/// What a part that has left means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// A part of what was written is still to be sent: from there on.
    Rest(usize),
    /// All has left, with so many bytes of requests in it.
    All(usize),
}

impl Sessions {
    /// None yet, with room for those of so many connections.
    pub(crate) fn new(client: &Client, conns: usize) -> Sessions {
        let by_slot = (0..conns).map(|_| None).collect();
        Sessions { config: client.of_shard(conns), name: client.name.clone(), by_slot }
    }

    #[inline]
    fn of(&mut self, slot: u32) -> &mut Session {
        self.by_slot[slot as usize].as_mut().expect("the slot's connection has a session")
    }

    /// The slot's socket was connected at `connected_ns`: its session begins.
    pub(crate) fn begin(&mut self, slot: u32, connected_ns: u64) {
        let session = seal::lend(|| {
            let (config, name) = (Arc::clone(&self.config), self.name.clone());
            Box::new(Session {
                tls: ClientConnection::new(config, name).expect("the configuration was tried"),
                connected_ns,
                written: 0,
                left: 0,
                carried: 0,
                has_failed: false,
            })
        });
        self.by_slot[slot as usize] = Some(session);
    }

    /// The slot's session is over, if it has one.
    pub(crate) fn end(&mut self, slot: u32) {
        self.by_slot[slot as usize] = None;
    }

    /// Whether the slot has a session.
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.by_slot[slot as usize].is_some()
    }

    /// The clock has a new epoch, which is now.
    pub(crate) fn begin_epoch(&mut self) {
        self.by_slot.iter_mut().flatten().for_each(|session| session.connected_ns = 0);
    }

    /// When the slot's socket was connected, ns since the epoch.
    pub(crate) fn connected_ns(&mut self, slot: u32) -> u64 {
        self.of(slot).connected_ns
    }

    /// Whether the slot's handshake isn't done.
    pub(crate) fn is_handshaking(&mut self, slot: u32) -> bool {
        self.of(slot).tls.is_handshaking()
    }

    /// What the slot's handshake agreed on, and whether it resumed a session; it is done.
    pub(crate) fn agreed(&mut self, slot: u32) -> (Agreed, bool) {
        let tls = &self.of(slot).tls;
        let agreed = Agreed {
            version: tls.protocol_version().map_or(0, u16::from),
            cipher: tls.negotiated_cipher_suite().map_or(0, |suite| suite.suite().into()),
            group: tls.negotiated_key_exchange_group().map_or(0, |group| group.name().into()),
        };
        (agreed, tls.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    /// Takes received bytes, at most a few thousand at once. What they say is then in
    /// [`Sessions::plain`], also if what follows it is wrong.
    ///
    /// # Errors
    /// The cause for which the connection has failed.
    pub(crate) fn take(&mut self, slot: u32, received: &[u8]) -> Result<Taken, Cause> {
        let session = self.of(slot);
        let mut rest = received;
        let result = seal::lend(|| {
            match session.tls.read_tls(&mut rest) {
                // It takes bytes unless a message is longer than any may be.
                Ok(0) | Err(_) => return Err(Cause::TlsBroken),
                Ok(_) => {}
            }
            let handshaking = session.tls.is_handshaking();
            session.tls.process_new_packets().map_err(|error| cause(&error, handshaking))
        });
        match result {
            Ok(state) => {
                let is_last = state.peer_has_closed();
                Ok(Taken { bytes: received.len() - rest.len(), is_last })
            }
            Err(cause) => {
                session.has_failed = true;
                Err(cause)
            }
        }
    }

    /// What the peer has said and nobody has consumed: a piece of it, or nothing.
    #[inline]
    pub(crate) fn plain(&mut self, slot: u32) -> &[u8] {
        // Without a piece it is an error, or an end that `take` has told of.
        self.of(slot).tls.reader().into_first_chunk().unwrap_or_default()
    }

    /// The first bytes of [`Sessions::plain`] are done with.
    #[inline]
    pub(crate) fn consume(&mut self, slot: u32, length: usize) {
        self.of(slot).tls.reader().consume(length);
    }

    /// Encrypts a part of a request, of at most one record, for the next [`Sessions::write`].
    pub(crate) fn encrypt(&mut self, slot: u32, part: &[u8]) {
        let session = self.of(slot);
        session.carried = part.len();
        seal::lend(|| session.tls.writer().write_all(part)).expect("there is room for a record");
    }

    /// Whether something is to be sent.
    pub(crate) fn wants_write(&mut self, slot: u32) -> bool {
        self.of(slot).tls.wants_write()
    }

    /// Writes what is to be sent, as far as there is room; returns how many bytes.
    pub(crate) fn write(&mut self, slot: u32, out: &mut impl Write) -> usize {
        let session = self.of(slot);
        (session.written, session.left) = (0, 0);
        seal::lend(|| {
            while session.tls.wants_write()
                && let Ok(written @ 1..) = session.tls.write_tls(out)
            {
                session.written += written;
            }
        });
        session.written
    }

    /// So many of the bytes that were written have left.
    pub(crate) fn left(&mut self, slot: u32, bytes: usize) -> Left {
        let session = self.of(slot);
        session.left += bytes;
        match session.left < session.written || session.tls.wants_write() {
            true => Left::Rest(session.left),
            false => Left::All(std::mem::take(&mut session.carried)),
        }
    }

    /// How many bytes were written to be sent.
    pub(crate) fn written(&mut self, slot: u32) -> usize {
        self.of(slot).written
    }

    /// Says that nothing follows, if anything may be said.
    pub(crate) fn say_the_end(&mut self, slot: u32) {
        let session = self.of(slot);
        if !session.has_failed && !session.tls.is_handshaking() {
            seal::lend(|| session.tls.send_close_notify());
        }
    }
}
