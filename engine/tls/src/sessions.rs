//! The TLS sessions of a shard's connections, by slot: received bytes go in, bytes to send come
//! out.
//!
//! A receive is completely decrypted before any of it is parsed. So bytes after a response count
//! the same as without TLS, however they were cut into records, and a connection that TLS has ended
//! takes no new request, although the response before the end makes room for one.
//!
//! A connection is due for replacement when its keys have encrypted half of their limit: at the
//! limit of TLS 1.2, rustls would close it and drop the request. With TLS 1.3 rustls updates the
//! keys.
//!
//! rustls allocates only in here, marked by [`seal::lend`], so that the allocations test can count
//! it separately from the request loop, which allocates nothing of its own: twice for a request and
//! a response of one record each.

use std::io::{Read as _, Write};
use std::sync::Arc;

use record::outcome::Cause;
use record::tls::Agreed;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, SupportedCipherSuite};
use sys::seal;

use super::client::{ALPN_HTTP2, ClientSetup};
use super::failure::cause;

/// The most plaintext that one TLS record carries, bytes.
pub const RECORD_MAX: usize = 16_384;
/// A record's overhead over its plaintext is less than this, bytes.
const RECORD_OVERHEAD: usize = 2_304;

/// The sessions of a shard's connections.
pub struct Sessions {
    /// The servers that sessions are with, by endpoint; `None` for one without TLS.
    servers: Vec<Option<Server>>,
    by_slot: Vec<Option<Box<Session>>>,
    /// Room for the plaintext of one receive.
    plain: Box<[u8]>,
    /// How much of it the last one filled.
    plain_length: usize,
}

/// A server, by name, and how to speak to it.
struct Server {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// One connection's session.
struct Session {
    tls: ClientConnection,
    /// Records encrypted with its keys, and their limit.
    records: u64,
    records_max: u64,
    /// True if nothing more may be sent, since the peer broke the protocol or was sent an alert.
    has_failed: bool,
}

/// How a peer has ended its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By a close_notify.
    Notified,
    /// By breaking TLS or reporting an error: the cause.
    Failed(Cause),
}

impl Sessions {
    /// Empty, with room for the sessions of this many connections, each of whose receives brings at
    /// most `received_max` bytes; `clients` has the setup for each endpoint that uses TLS.
    pub fn new(clients: &[Option<ClientSetup>], conns: usize, received_max: usize) -> Sessions {
        let server = |client: &ClientSetup| Server {
            config: client.of_shard(conns),
            name: client.name.clone(),
        };
        // A record that a receive completes may have begun in the one before.
        let plain = vec![0; received_max + RECORD_MAX + RECORD_OVERHEAD].into_boxed_slice();
        Sessions {
            servers: clients.iter().map(|client| client.as_ref().map(server)).collect(),
            by_slot: (0..conns).map(|_| None).collect(),
            plain,
            plain_length: 0,
        }
    }

    #[inline]
    fn of(&mut self, slot: u32) -> &mut Session {
        self.by_slot[slot as usize].as_mut().expect("the slot's connection has a session")
    }

    /// True if this endpoint uses TLS.
    pub fn are_with(&self, endpoint: usize) -> bool {
        self.servers[endpoint].is_some()
    }

    /// The slot's socket is connected to this endpoint: its session begins.
    pub fn begin(&mut self, slot: u32, endpoint: usize) {
        let server = self.servers[endpoint].as_ref().expect("the endpoint uses TLS");
        let session = seal::lend(|| {
            let (config, name) = (Arc::clone(&server.config), server.name.clone());
            Box::new(Session {
                tls: ClientConnection::new(config, name).expect("the configuration was tried"),
                records: 0,
                records_max: u64::MAX,
                has_failed: false,
            })
        });
        self.by_slot[slot as usize] = Some(session);
    }

    /// Ends the slot's session, if it has one.
    pub fn end(&mut self, slot: u32) {
        self.by_slot[slot as usize] = None;
    }

    /// True if the slot has a session.
    pub fn has(&self, slot: u32) -> bool {
        self.by_slot[slot as usize].is_some()
    }

    /// True if the slot's handshake isn't done.
    pub fn is_handshaking(&mut self, slot: u32) -> bool {
        self.of(slot).tls.is_handshaking()
    }

    /// The agreed parameters of the slot's completed handshake, and whether it resumed a session.
    pub fn agreed(&mut self, slot: u32) -> (Agreed, bool) {
        let session = self.of(slot);
        let tls = &session.tls;
        let suite = tls.negotiated_cipher_suite();
        // With TLS 1.3, rustls updates the keys in time.
        if let Some(SupportedCipherSuite::Tls12(suite)) = suite {
            session.records_max = suite.common.confidentiality_limit;
        }
        let agreed = Agreed {
            version: tls.protocol_version().map_or(0, u16::from),
            cipher: suite.map_or(0, |suite| suite.suite().into()),
            group: tls.negotiated_key_exchange_group().map_or(0, |group| group.name().into()),
        };
        (agreed, tls.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    /// True if the slot's completed handshake has agreed on HTTP/2.
    pub fn speaks_http2(&mut self, slot: u32) -> bool {
        self.of(slot).tls.alpn_protocol() == Some(ALPN_HTTP2)
    }

    /// Decrypts everything that a receive brought, up to the peer's end if there is one. The
    /// plaintext before it is in [`Sessions::plain`] until the next receive.
    pub fn receive(&mut self, slot: u32, received: &[u8]) -> Option<End> {
        let Sessions { by_slot, plain, plain_length, .. } = self;
        let session = by_slot[slot as usize].as_mut().expect("the slot's connection has a session");
        let tls = &mut session.tls;
        let mut rest = received;
        *plain_length = 0;
        while !rest.is_empty() {
            let taken = seal::lend(|| {
                let taken = match tls.read_tls(&mut rest) {
                    // It consumes bytes unless a message exceeds the maximum length.
                    Ok(0) | Err(_) => Err(Cause::TlsBroken),
                    Ok(_) => tls.process_new_packets().map_err(|error| {
                        let has_spoken_tls = tls.protocol_version().is_some();
                        cause(&error, has_spoken_tls)
                    }),
                };
                // Without plaintext this is an error, or an end that is also in the state.
                while let Ok(length @ 1..) = tls.reader().read(&mut plain[*plain_length..]) {
                    *plain_length += length;
                }
                taken
            });
            match taken {
                Ok(state) if state.peer_has_closed() => return Some(End::Notified),
                Ok(_) => {}
                Err(cause) => {
                    session.has_failed = true;
                    return Some(End::Failed(cause));
                }
            }
        }
        None
    }

    /// The plaintext of the last receive.
    #[inline]
    pub fn plain(&self) -> &[u8] {
        &self.plain[..self.plain_length]
    }

    /// Encrypts a part of a request, of at most one record, for the next [`Sessions::write`];
    /// returns true if the session can still send.
    pub fn encrypt(&mut self, slot: u32, part: &[u8]) -> bool {
        let session = self.of(slot);
        if session.has_failed {
            return false;
        }
        session.records += 1;
        seal::lend(|| session.tls.writer().write_all(part)).expect("there is room for a record");
        true
    }

    /// True if the slot's keys have encrypted half of their limit: at the limit, rustls would close
    /// the connection and drop the request.
    pub fn is_spent(&mut self, slot: u32) -> bool {
        let session = self.of(slot);
        session.records_max / 2 <= session.records
    }

    /// True if there is something to send.
    pub fn wants_write(&mut self, slot: u32) -> bool {
        self.of(slot).tls.wants_write()
    }

    /// Writes what is to be sent, as far as there is room; returns the number of bytes.
    pub fn write(&mut self, slot: u32, out: &mut impl Write) -> usize {
        let session = self.of(slot);
        let mut length = 0;
        seal::lend(|| {
            while session.tls.wants_write()
                && let Ok(written @ 1..) = session.tls.write_tls(out)
            {
                length += written;
            }
        });
        length
    }

    /// Queues a close_notify, if the session can still send.
    pub fn close_notify(&mut self, slot: u32) {
        let session = self.of(slot);
        if !session.has_failed && !session.tls.is_handshaking() {
            seal::lend(|| session.tls.send_close_notify());
        }
    }
}

#[cfg(test)]
mod tests {
    use plan::Plan;

    use super::*;

    #[test]
    fn keys_are_spent_at_half_of_their_limit() {
        let plan = Plan { insecure: true, ..Plan::default() };
        let client = ClientSetup::new(&plan, "localhost").expect("a configuration");
        let mut sessions = Sessions::new(&[Some(client)], 1, 0);
        sessions.begin(0, 0);
        for (records, records_max, is_spent) in [
            (0, 1 << 24, false),
            ((1 << 23) - 1, 1 << 24, false),
            (1 << 23, 1 << 24, true),
            (1 << 40, u64::MAX, false),
        ] {
            let session = sessions.of(0);
            (session.records, session.records_max) = (records, records_max);
            assert_eq!(sessions.is_spent(0), is_spent, "{records} of {records_max}");
        }
    }
}
