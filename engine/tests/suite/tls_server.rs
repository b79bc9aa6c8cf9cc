//! A small TLS server on plain threads, whose every answer the test writes itself, and certificates
//! for it.
#![allow(dead_code, reason = "each test file uses its own part of the support")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::plan::Plan;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
use tempfile::TempDir;

use crate::support::{OK, plan};

/// Both versions.
pub const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// An issuer of certificates, with its own certificate in a file.
pub struct Authority {
    pub issuer: CertifiedIssuer<'static, KeyPair>,
    pub name: String,
    pub folder: TempDir,
}

impl Authority {
    /// An authority with a name of its own.
    pub fn new() -> Authority {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Authority::named(&format!("issuer {}", NUMBER.fetch_add(1, Ordering::Relaxed)))
    }

    pub fn named(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("ca.pem"), issuer.pem()).expect("written");
        Authority { issuer, name: name.to_owned(), folder }
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for this name, and its key.
    pub fn certificate(
        &self,
        name: &str,
        change: impl Fn(&mut CertificateParams),
    ) -> (CertificateDer<'static>, KeyPair) {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.issuer).expect("a certificate").der().clone(), key)
    }

    /// A server of this name with these versions.
    pub fn server(
        &self,
        name: &str,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ServerConfig {
        let (certificate, key) = self.certificate(name, |_| {});
        server_with(certificate, &key, versions)
    }

    /// A plan for a server that listens on this address.
    pub fn plan(&self, address: SocketAddr) -> Plan {
        let target = format!("https://{address}/");
        Plan { target, cacert: Some(self.file()), conns: Some(8), ..plan(address) }
    }
}

pub fn server_with(
    certificate: CertificateDer<'static>,
    key: &KeyPair,
    versions: &[&'static SupportedProtocolVersion],
) -> ServerConfig {
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("versions of the provider")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate with its key");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ticketer = ring::Ticketer::new().expect("random numbers");
    config
}

/// The server's end of one connection.
pub struct Peer {
    pub tls: ServerConnection,
    pub socket: TcpStream,
    pub unread: Vec<u8>,
}

impl Peer {
    /// Performs a handshake; `None` if that fails.
    pub fn accept(config: &Arc<ServerConfig>, mut socket: TcpStream) -> Option<Peer> {
        socket.set_nodelay(true).expect("a socket");
        let mut tls = ServerConnection::new(config.clone()).expect("a configuration of a server");
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).ok()?;
        }
        Some(Peer { tls, socket, unread: Vec::new() })
    }

    /// Reads a head; `false` if the client has closed.
    pub fn request(&mut self) -> bool {
        let mut bytes = [0; 16_384];
        loop {
            if let Some(end) = self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                self.unread.drain(..end + 4);
                return true;
            }
            let Peer { tls, socket, .. } = self;
            match rustls::Stream::new(tls, socket).read(&mut bytes) {
                Ok(0) | Err(_) => return false,
                Ok(length) => self.unread.extend_from_slice(&bytes[..length]),
            }
        }
    }

    /// The encrypted bytes of this text.
    pub fn encrypted(&mut self, plain: &[u8]) -> Vec<u8> {
        self.tls.writer().write_all(plain).expect("there is room");
        self.pending()
    }

    /// The bytes to be sent.
    pub fn pending(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut bytes).expect("memory");
        }
        bytes
    }

    /// Sends this; returns false if that failed.
    pub fn send(&mut self, plain: &[u8]) -> bool {
        let Peer { tls, socket, .. } = self;
        let mut stream = rustls::Stream::new(tls, socket);
        stream.write_all(plain).and_then(|()| stream.flush()).is_ok()
    }

    pub fn close_notify(&mut self) {
        self.tls.send_close_notify();
        let bytes = self.pending();
        // A peer that is gone knows.
        let _ = self.socket.write_all(&bytes);
    }
}

/// Passes each connection, numbered from 0, to `serve`.
pub fn listen(serve: impl Fn(u64, TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let serve = Arc::new(serve);
    // The threads end with their connections, the last with the test process.
    std::thread::spawn(move || {
        for (number, socket) in (0..).zip(listener.incoming()) {
            let (serve, Ok(socket)) = (serve.clone(), socket) else { return };
            std::thread::spawn(move || serve(number, socket));
        }
    });
    address
}

/// Answers each request over TLS with `answer`, until that returns that it hangs up.
pub fn serve(
    config: ServerConfig,
    answer: impl Fn(u64, &mut Peer) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    let config = Arc::new(config);
    let served = AtomicU64::new(0);
    listen(move |_, socket| {
        let Some(mut peer) = Peer::accept(&config, socket) else { return };
        while peer.request() {
            if !answer(served.fetch_add(1, Ordering::Relaxed), &mut peer) {
                return;
            }
        }
    })
}

pub fn always_ok(_: u64, peer: &mut Peer) -> bool {
    peer.send(OK)
}
