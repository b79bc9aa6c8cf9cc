//! Judges a certificate as another verifier does, and keeps who had issued the refused one.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use super::issuer::issuer;

/// Judges as another verifier does.
#[derive(Debug)]
pub(super) struct Witness {
    judge: Arc<dyn ServerCertVerifier>,
    issuer: Mutex<Option<String>>,
}

impl Witness {
    /// Judges as `judge` does.
    pub(super) fn new(judge: Arc<dyn ServerCertVerifier>) -> Witness {
        Witness { judge, issuer: Mutex::default() }
    }

    /// Who issued the last of the certificates that were presented, if one was and can be read.
    pub(super) fn issuer(&self) -> Option<String> {
        self.issuer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        status: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The issuer that would have to be trusted is that of the chain's end.
        let last = between.last().unwrap_or(certificate);
        *self.issuer.lock().unwrap_or_else(PoisonError::into_inner) = issuer(last);
        self.judge.verify_server_cert(certificate, between, name, status, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.judge.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.judge.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.judge.supported_verify_schemes()
    }
}
