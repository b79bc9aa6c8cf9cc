//! One handshake before a run: a target that isn't trusted, or doesn't use TLS, is refused before
//! anything is sent to it.
//!
//! An untrusted certificate fails every connection, so it is refused here, with its issuer's name.
//! Later failures are counted.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plan::endpoints::PlanEndpoint;
use plan::{Plan, PlanError};
use record::outcome::Cause;
use rustls::{ClientConnection, Error};

use super::client::ClientSetup;
use super::failure::cause;
use super::keep_issuer::KeepIssuer;

/// A failed handshake: the cause that it would be counted under in a run, and rustls's error.
struct Failed {
    cause: Cause,
    error: String,
}

impl ClientSetup {
    /// Performs a handshake on a socket that is connected to this endpoint.
    ///
    /// # Errors
    /// It fails, with the reason and the cure.
    pub fn probe(
        &self,
        stream: &TcpStream,
        endpoint: &PlanEndpoint,
        plan: &Plan,
    ) -> Result<(), PlanError> {
        let verifier = Arc::new(KeepIssuer::new(Arc::clone(&self.verifier)));
        let mut config = self.config.clone();
        config.dangerous().set_certificate_verifier(verifier.clone());
        let tls = ClientConnection::new(Arc::new(config), self.name.clone());
        let longest = Duration::from_nanos(plan.timeout.0);
        let done = tls
            .map_err(|error| Failed::of(&error, false))
            .and_then(|tls| shake_hands(tls, stream, longest));
        done.map_err(|failed| {
            let (problem, cure) = failed.problem_and_cure(verifier.issuer());
            endpoint.error(format!("{problem} ({})", failed.cause.name()), cure)
        })
    }
}

/// Performs a handshake within this time, and ends with a close_notify.
fn shake_hands(
    mut tls: ClientConnection,
    mut stream: &TcpStream,
    longest: Duration,
) -> Result<(), Failed> {
    let began = Instant::now();
    let flush = |tls: &mut ClientConnection| -> io::Result<()> {
        let mut bytes = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut bytes)?;
        }
        (&mut &*stream).write_all(&bytes)
    };
    let mut bytes = [0; 4_096];
    // Each pass consumes bytes or ends the loop, and all of them share the time that is left.
    while tls.is_handshaking() {
        let left = longest.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(Failed::by(Cause::TlsTimedOut, "no time is left"));
        }
        let closed = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Failed::by(Cause::TlsTimedOut, error)
            }
            _ => Failed::by(Cause::TlsClosed, error),
        };
        stream.set_read_timeout(Some(left)).map_err(closed)?;
        stream.set_write_timeout(Some(left)).map_err(closed)?;
        flush(&mut tls).map_err(closed)?;
        let length = match stream.read(&mut bytes) {
            Ok(0) => return Err(Failed::by(Cause::TlsClosed, "the end of the connection")),
            Ok(length) => length,
            // A read with a timeout isn't restarted automatically.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(closed(error)),
        };
        let mut rest = &bytes[..length];
        while !rest.is_empty() {
            match tls.read_tls(&mut rest) {
                Ok(0) | Err(_) => return Err(Failed::by(Cause::TlsBroken, "a message too long")),
                Ok(_) => {}
            }
            if let Err(error) = tls.process_new_packets() {
                // Sends the target the reason. If it no longer listens, it knows.
                let _ = flush(&mut tls);
                return Err(Failed::of(&error, tls.protocol_version().is_some()));
            }
        }
    }
    tls.send_close_notify();
    // The handshake is done, whether or not this arrives.
    let _ = flush(&mut tls).and_then(|()| stream.flush());
    Ok(())
}

impl Failed {
    fn of(error: &Error, has_spoken_tls: bool) -> Failed {
        Failed { cause: cause(error, has_spoken_tls), error: error.to_string() }
    }

    fn by(cause: Cause, error: impl ToString) -> Failed {
        Failed { cause, error: error.to_string() }
    }

    /// The problem and its cure; `issuer` is the certificate's.
    fn problem_and_cure(&self, issuer: Option<String>) -> (String, &'static str) {
        let error = &self.error;
        match self.cause {
            Cause::TlsUnknownIssuer => (
                format!(
                    "its certificate was issued by `{}`, which isn't trusted here",
                    issuer.as_deref().unwrap_or("unknown")
                ),
                "trust that issuer with --cacert FILE (an agent's own: SSL_CERT_FILE=FILE in its \
                 environment), or accept any certificate with --insecure",
            ),
            Cause::TlsWrongName => (
                format!("its certificate is for another name: {error}"),
                "request a name that it has, with --connect-to HOST:PORT where it is, or accept \
                 any certificate with --insecure",
            ),
            // rustls has no variant for this error of webpki's.
            Cause::TlsCertificate if error.contains("CaUsedAsEndEntity") => (
                "its certificate is an issuer's, not a server's".to_owned(),
                "trust that very certificate with --cacert FILE, make one with \
                 basicConstraints=critical,CA:FALSE, or accept any certificate with --insecure",
            ),
            Cause::TlsExpired | Cause::TlsCertificate => (
                format!("its certificate can't be accepted: {error}"),
                "replace it (if it isn't valid at this time, check the clocks), or accept any \
                 certificate with --insecure",
            ),
            Cause::TlsTimedOut => (
                "it didn't finish the TLS handshake in time".to_owned(),
                "raise --timeout, or see what the server waits for",
            ),
            Cause::TlsVersion => (
                format!("it speaks neither TLS 1.3 nor TLS 1.2: {error}"),
                "enable one of them there",
            ),
            Cause::TlsNotTls => (
                "what it answers isn't TLS".to_owned(),
                "give http:// if this port is that of plain HTTP",
            ),
            Cause::TlsNoAgreement => (
                format!("both sides have no cipher, key exchange or protocol in common: {error}"),
                "enable TLS 1.3 and HTTP/1.1 there, or give the client's certificate if it asks for \
                 one (--cert FILE --key FILE)",
            ),
            Cause::TlsClientCertificate => (
                format!("it doesn't accept this client: {error}"),
                "give a certificate that it accepts by --cert FILE --key FILE",
            ),
            _ => (format!("the TLS handshake failed: {error}"), "look into the server's log"),
        }
    }
}
