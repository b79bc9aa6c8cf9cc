//! Who issued a certificate.

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// The name of whoever issued a certificate, such as `CN=R3,O=Let's Encrypt,C=US`; `None` if it
/// can't be read.
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
