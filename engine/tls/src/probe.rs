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
use plan::{Http, Plan, PlanError};
use record::outcome::Cause;
use rustls::{ClientConnection, Error, Stream};

use super::client::{ALPN_HTTP2, ClientSetup};
use super::failure::cause;
use super::keep_issuer::KeepIssuer;

/// A failed handshake: the cause that it would be counted under in a run, and rustls's error.
struct Failed {
    cause: Cause,
    error: String,
}

impl ClientSetup {
    /// Performs a handshake on a socket that is connected to this endpoint. If it agrees on HTTP/2,
    /// `speak` gets the connection, and its result is returned.
    ///
    /// # Errors
    /// The handshake fails, or doesn't agree on HTTP/2 although the plan has nothing else, with the
    /// reason and the cure; or `speak` does.
    pub fn probe<T>(
        &self,
        stream: &TcpStream,
        endpoint: &PlanEndpoint,
        plan: &Plan,
        speak: impl FnOnce(&mut Stream<'_, ClientConnection, &TcpStream>) -> Result<T, PlanError>,
    ) -> Result<Option<T>, PlanError> {
        let verifier = Arc::new(KeepIssuer::new(self.verifier.counted()));
        let mut config = self.config.clone();
        config.dangerous().set_certificate_verifier(verifier.clone());
        let tls = ClientConnection::new(Arc::new(config), self.name.clone());
        let longest = Duration::from_nanos(plan.timeout.0);
        let done = tls
            .map_err(|error| Failed::of(&error, false))
            .and_then(|tls| shake_hands(tls, stream, longest));
        let mut tls = done.map_err(|failed| {
            let (problem, cure) = failed.problem_and_cure(verifier.issuer(), plan.http);
            endpoint.error(format!("{problem} ({})", failed.cause.name()), cure)
        })?;
        let mut stream = stream;
        let spoken = if tls.alpn_protocol() == Some(ALPN_HTTP2) {
            Some(speak(&mut Stream::new(&mut tls, &mut stream))?)
        } else if plan.http == Http::V2 {
            let problem = "it doesn't choose HTTP/2 by ALPN";
            return Err(endpoint.error(problem, "give --http 1.1, or enable HTTP/2 there"));
        } else {
            None
        };
        tls.send_close_notify();
        // All is known, whether or not this arrives.
        let _ = Stream::new(&mut tls, &mut stream).flush();
        Ok(spoken)
    }
}

/// Performs a handshake within this time.
fn shake_hands(
    mut tls: ClientConnection,
    mut stream: &TcpStream,
    longest: Duration,
) -> Result<ClientConnection, Failed> {
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
    // The end of the handshake may wait to be sent.
    let _ = flush(&mut tls).and_then(|()| stream.flush());
    Ok(tls)
}

impl Failed {
    fn of(error: &Error, has_spoken_tls: bool) -> Failed {
        Failed { cause: cause(error, has_spoken_tls), error: error.to_string() }
    }

    fn by(cause: Cause, error: impl ToString) -> Failed {
        Failed { cause, error: error.to_string() }
    }

    /// The problem and its cure; `issuer` is the certificate's.
    fn problem_and_cure(&self, issuer: Option<String>, http: Http) -> (String, &'static str) {
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
            Cause::TlsNoAgreement if !http.is_1() => (
                format!("both sides have no cipher, key exchange or protocol in common: {error}"),
                "enable TLS 1.3 and HTTP/2 there, or give --http 1.1",
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
