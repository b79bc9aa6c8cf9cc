//! Wraps another verifier, and keeps the last certificate's issuer for the error.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// Verifies like another verifier.
#[derive(Debug)]
pub(super) struct KeepIssuer {
    verifier: Arc<dyn ServerCertVerifier>,
    issuer: Mutex<Option<String>>,
}

impl KeepIssuer {
    /// Verifies like `verifier`.
    pub(super) fn new(verifier: Arc<dyn ServerCertVerifier>) -> KeepIssuer {
        KeepIssuer { verifier, issuer: Mutex::default() }
    }

    /// The issuer of the last certificate presented, if there was one and it can be read.
    pub(super) fn issuer(&self) -> Option<String> {
        self.issuer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ServerCertVerifier for KeepIssuer {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        status: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The issuer that would have to be trusted is the one at the end of the chain.
        let last = between.last().unwrap_or(certificate);
        *self.issuer.lock().unwrap_or_else(PoisonError::into_inner) = issuer(last);
        self.verifier.verify_server_cert(certificate, between, name, status, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// The name of a certificate's issuer, such as `CN=R3,O=Let's Encrypt,C=US`; `None` if it can't be
/// read.
pub(super) fn issuer(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    Some(certificate.tbs_certificate().issuer().to_string())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn an_issuer_is_named() {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "Some Body");
        params.distinguished_name.push(DnType::CommonName, "root 1");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let name = issuer(certificate.der()).expect("a name");
        assert!(name.contains("CN=root 1") && name.contains("O=Some Body"), "{name}");
        assert_eq!(issuer(&CertificateDer::from(vec![1, 2, 3])), None);
    }
}
