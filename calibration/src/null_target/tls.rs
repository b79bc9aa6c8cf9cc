//! TLS of one of the null target's connections: decrypts received bytes and encrypts bytes to send.

use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use engine::uring::Out;
use rustls::{ServerConfig, ServerConnection};

/// One connection's session.
#[derive(Debug)]
pub(super) struct Tls {
    session: ServerConnection,
    is_closed: bool,
}

impl Tls {
    /// A session before its handshake.
    pub(super) fn new(config: &Arc<ServerConfig>) -> Tls {
        let session = ServerConnection::new(Arc::clone(config));
        Tls { session: session.expect("the configuration is that of a server"), is_closed: false }
    }

    /// Decrypts received bytes and adds them to `plain`; returns true once the client has closed
    /// its side.
    ///
    /// # Errors
    /// The client breaks the protocol: the alert must still be sent.
    pub(super) fn take(&mut self, mut received: &[u8], plain: &mut Vec<u8>) -> io::Result<bool> {
        let mut is_last = false;
        while !received.is_empty() && !is_last {
            self.session.read_tls(&mut received)?;
            let state = self.session.process_new_packets().map_err(io::Error::other)?;
            is_last = state.peer_has_closed();
            let at = plain.len();
            plain.resize(at + state.plaintext_bytes_to_read(), 0);
            self.session.reader().read_exact(&mut plain[at..])?;
        }
        Ok(is_last)
    }

    /// True if everything to send is written.
    pub(super) fn is_written(&self) -> bool {
        !self.session.wants_write()
    }

    /// Queues these bytes.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        self.session.writer().write_all(bytes).expect("there is room for one send");
    }

    /// Queues the close; once.
    pub(super) fn say_the_end(&mut self) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.session.send_close_notify();
        }
    }

    /// Writes queued records, as far as there is room.
    pub(super) fn write(&mut self, out: &mut Out) {
        while 0 < self.session.write_tls(out).expect("memory takes what there is room for") {}
    }
}
