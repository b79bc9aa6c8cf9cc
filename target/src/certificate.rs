//! A TLS server's certificate: made at the start for the addresses that it listens on, and signed
//! by an issuer of its own, whose certificate clients can be given.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use thiserror::Error;

/// The protocol of HTTP/2 in TLS handshakes.
pub(crate) const ALPN_HTTP2: &[u8] = b"h2";
/// The protocol of HTTP/1.1 in TLS handshakes.
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// Why a server has no certificate.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// The certificate can't be made.
    #[error("--tls: the certificate can't be made: {0}; run again")]
    Make(#[from] rcgen::Error),
    /// The certificate can't be used.
    #[error("--tls: the certificate can't be used: {0}; run again")]
    Use(#[from] rustls::Error),
    /// The addresses of this machine can't be read.
    #[error("--listen: the addresses of this machine can't be read: {0}; name one instead")]
    Addresses(io::Error),
}

/// A server's certificate with its key, and the certificate of its issuer.
#[derive(Debug)]
pub struct Certificate {
    server: Arc<ServerConfig>,
    issuer: String,
}

impl Certificate {
    /// A certificate for `localhost` and the address listened on, or all of this machine's.
    ///
    /// # Errors
    /// The addresses can't be read, or the system has no random numbers.
    pub fn new(listen: IpAddr) -> Result<Certificate, CertificateError> {
        let mut params = CertificateParams::default();
        let key = KeyPair::generate()?;
        // The issuer's name differs in each run, so that a client with an earlier run's certificate
        // reports an unknown issuer, not a wrong signature.
        let name: String = params.key_identifier(&key)[..6].iter().map(hex).collect();
        params.distinguished_name.push(DnType::CommonName, format!("truetail issuer {name}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, key)?;

        let mut params = CertificateParams::new(names(listen)?)?;
        params.distinguished_name.push(DnType::CommonName, "truetail");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let chain = vec![params.signed_by(&key, &issuer)?.der().clone()];
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());

        let provider = Arc::new(ring::default_provider());
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        server.alpn_protocols = [ALPN_HTTP2, ALPN_HTTP1].map(<[u8]>::to_vec).to_vec();
        // Clients keep the sessions, so any number of them can be resumed.
        server.ticketer = ring::Ticketer::new()?;
        Ok(Certificate { server: Arc::new(server), issuer: issuer.pem() })
    }

    /// The server configuration: HTTP/2 and HTTP/1.1, sessions that can be resumed.
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }

    /// The issuer's certificate, as PEM.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }
}

/// A byte in two hexadecimal digits.
fn hex(byte: &u8) -> String {
    format!("{byte:02x}")
}

/// The names of a server that listens on this address.
fn names(listen: IpAddr) -> Result<Vec<String>, CertificateError> {
    let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    let mut addresses = loopback.to_vec();
    if listen.is_unspecified() {
        let interfaces = if_addrs::get_if_addrs().map_err(CertificateError::Addresses)?;
        addresses.extend(interfaces.iter().map(if_addrs::Interface::ip));
    } else {
        addresses.push(listen);
    }
    addresses.sort_unstable();
    addresses.dedup();
    let addresses = addresses.iter().map(IpAddr::to_string);
    Ok(std::iter::once("localhost".to_owned()).chain(addresses).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_after_its_address() {
        let of = |listen: &str| names(listen.parse().expect("an address")).expect("names");
        assert_eq!(of("127.0.0.1"), ["localhost", "127.0.0.1", "::1"]);
        assert_eq!(of("10.1.2.3"), ["localhost", "10.1.2.3", "127.0.0.1", "::1"]);
        for listen in ["0.0.0.0", "::"] {
            let all = of(listen);
            assert!(all.contains(&"127.0.0.1".to_owned()), "{all:?}");
            assert!(!all.contains(&listen.to_owned()), "{all:?}");
        }
    }
}
