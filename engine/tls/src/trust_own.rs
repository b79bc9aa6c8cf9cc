//! Trusts certificates signed by trusted issuers, and a certificate that is one of the user's own,
//! byte for byte and within its dates, whatever its issuer and its name.
//!
//! `openssl req -x509` makes a server's certificate that claims to be an issuer's and has no name
//! that is checked. A user who names that very file in `--cacert` has identified the certificate
//! better than a chain or a name would. The system's store contains only issuers.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Trusts issuers, and the user's own certificates.
#[derive(Clone, Debug)]
pub(super) struct TrustOwn {
    issuers: Arc<WebPkiServerVerifier>,
    own: Vec<CertificateDer<'static>>,
}

impl TrustOwn {
    /// Trusts what `issuers` trusts, and `own`.
    pub(super) fn new(
        issuers: Arc<WebPkiServerVerifier>,
        own: Vec<CertificateDer<'static>>,
    ) -> TrustOwn {
        TrustOwn { issuers, own }
    }
}

impl ServerCertVerifier for TrustOwn {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        status: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError as Refused;
        let verified = self.issuers.verify_server_cert(certificate, between, name, status, now);
        verified.or_else(|error| match error {
            // Its dates are checked before anything else, so they apply to the user's own as well.
            Error::InvalidCertificate(
                Refused::Expired
                | Refused::ExpiredContext { .. }
                | Refused::NotValidYet
                | Refused::NotValidYetContext { .. },
            ) => Err(error),
            _ if self.own.iter().any(|own| own == certificate) => {
                Ok(ServerCertVerified::assertion())
            }
            // An issuer of the same name is trusted, but with another key: it isn't the one that
            // signed.
            Error::InvalidCertificate(
                Refused::BadSignature
                | Refused::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
            ) => Err(Refused::UnknownIssuer.into()),
            _ => Err(error),
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issuers.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issuers.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issuers.supported_verify_schemes()
    }
}
