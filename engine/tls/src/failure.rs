//! The cause under which a TLS failure is counted.

use record::outcome::Cause;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// The cause under which an error of rustls is counted; `has_spoken_tls`: the peer had sent valid
/// TLS before.
pub(super) fn cause(error: &Error, has_spoken_tls: bool) -> Cause {
    match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::NoCertificatesPresented | Error::UnsupportedNameType => Cause::TlsCertificate,
        Error::PeerIncompatible(error) => of_incompatible(error),
        Error::AlertReceived(alert) => of_alert(*alert),
        Error::NoApplicationProtocol => Cause::TlsNoAgreement,
        // No TLS record begins like this.
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) if !has_spoken_tls => Cause::TlsNotTls,
        _ => Cause::TlsBroken,
    }
}

fn of_certificate(error: &CertificateError) -> Cause {
    match error {
        CertificateError::UnknownIssuer => Cause::TlsUnknownIssuer,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Cause::TlsWrongName
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Cause::TlsExpired,
        _ => Cause::TlsCertificate,
    }
}

fn of_incompatible(error: &PeerIncompatible) -> Cause {
    match error {
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled => Cause::TlsVersion,
        _ => Cause::TlsNoAgreement,
    }
}

fn of_alert(alert: AlertDescription) -> Cause {
    match alert {
        AlertDescription::ProtocolVersion => Cause::TlsVersion,
        AlertDescription::HandshakeFailure
        | AlertDescription::InsufficientSecurity
        | AlertDescription::UnrecognisedName
        | AlertDescription::NoApplicationProtocol => Cause::TlsNoAgreement,
        // A server's response to the certificate that it got, or didn't get.
        AlertDescription::NoCertificate
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied
        | AlertDescription::CertificateRequired => Cause::TlsClientCertificate,
        _ => Cause::TlsAlert,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_cause() {
        for (error, expected) in [
            (CertificateError::UnknownIssuer.into(), Cause::TlsUnknownIssuer),
            (CertificateError::NotValidForName.into(), Cause::TlsWrongName),
            (CertificateError::Expired.into(), Cause::TlsExpired),
            (CertificateError::NotValidYet.into(), Cause::TlsCertificate),
            (CertificateError::BadSignature.into(), Cause::TlsCertificate),
            (Error::NoCertificatesPresented, Cause::TlsCertificate),
            (PeerIncompatible::ServerDoesNotSupportTls12Or13.into(), Cause::TlsVersion),
            (PeerIncompatible::NoKxGroupsInCommon.into(), Cause::TlsNoAgreement),
            (Error::AlertReceived(AlertDescription::ProtocolVersion), Cause::TlsVersion),
            (Error::AlertReceived(AlertDescription::HandshakeFailure), Cause::TlsNoAgreement),
            (Error::AlertReceived(AlertDescription::UnknownCA), Cause::TlsClientCertificate),
            (Error::AlertReceived(AlertDescription::InternalError), Cause::TlsAlert),
            (InvalidMessage::InvalidContentType.into(), Cause::TlsNotTls),
            (Error::DecryptError, Cause::TlsBroken),
        ] {
            assert_eq!(cause(&error, false), expected, "{error:?}");
        }
        let later = cause(&InvalidMessage::InvalidContentType.into(), true);
        assert_eq!(later, Cause::TlsBroken, "it has sent TLS before");
    }
}
