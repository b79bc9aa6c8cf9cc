//! How one intended request ended, and the causes of failures.

use http1::response::Violation;

/// How one intended request ended; each has exactly one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A complete response came, with this status.
    Answered(u16),
    /// No complete response within the timeout or the deadline.
    TimedOut(TimeoutKind),
    /// The connection or the protocol failed.
    Failed(Cause),
    /// Sent, and still in flight when the drain ended.
    Abandoned,
    /// Never sent.
    Unsent(UnsentReason),
}

impl Outcome {
    /// True if the time it took counts as a latency. The time of a failed request or a dropped
    /// arrival doesn't: short ones would improve the percentiles.
    pub fn has_latency(self) -> bool {
        !matches!(self, Outcome::Failed(_) | Outcome::Unsent(UnsentReason::Dropped))
    }
}

/// The limit that a request exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// The timeout, counted from the sending.
    Timeout,
    /// The deadline, counted from the intended time.
    Deadline,
}

impl TimeoutKind {
    /// The cause under which such a request is counted.
    pub fn cause(self) -> Cause {
        match self {
            TimeoutKind::Timeout => Cause::TimedOut,
            TimeoutKind::Deadline => Cause::Deadline,
        }
    }
}

/// Why a request was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsentReason {
    /// It found no connection within the longest wait, and the plan drops such requests.
    Dropped,
    /// Its deadline passed while it waited for a connection.
    Deadline,
    /// It was still waiting when the drain ended.
    End,
}

impl UnsentReason {
    /// All reasons.
    pub const ALL: [UnsentReason; 3] =
        [UnsentReason::Dropped, UnsentReason::Deadline, UnsentReason::End];

    /// The reason's name in a report.
    pub fn name(self) -> &'static str {
        match self {
            UnsentReason::Dropped => "dropped",
            UnsentReason::Deadline => "deadline",
            UnsentReason::End => "end_of_run",
        }
    }
}

/// Why a request failed, or why a connection without a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The target's host reported that nothing listens on the port.
    ConnectRefused,
    /// The connection wasn't established within the timeout.
    ConnectTimedOut,
    /// No route to the target.
    ConnectUnreachable,
    /// Connecting failed otherwise.
    ConnectFailed,
    /// No local port was left for the connection: always the generator's fault.
    NoLocalPort,
    /// No file descriptor was left for the connection: always the generator's fault.
    NoFile,
    /// This machine ran out of something else, such as buffers or memory: always the generator's
    /// fault.
    LocalResource,
    /// The peer reset the connection.
    Reset,
    /// The peer closed the connection before the first byte of a response.
    ClosedBeforeResponse,
    /// The connection closed in the middle of a response.
    CutShort,
    /// Receiving failed otherwise.
    ReadFailed,
    /// Sending failed.
    WriteFailed,
    /// No complete response within the timeout, counted from the sending.
    TimedOut,
    /// No complete response within the deadline, counted from the intended time.
    Deadline,
    /// Bytes came that no request had asked for.
    Unsolicited,
    /// A response arrived before its request was sent, so it can't be the answer.
    EarlyResponse,
    /// Its connection ended with the answer to an earlier request, or with that request's failure.
    BehindFailed,
    /// The file of the request's body was truncated during the run: always the generator's fault.
    BodyUnreadable,
    /// No trusted issuer signed the target's certificate.
    TlsUnknownIssuer,
    /// The target's certificate is for other names.
    TlsWrongName,
    /// The target's certificate has expired.
    TlsExpired,
    /// The target's certificate is unusable for another reason.
    TlsCertificate,
    /// The target and the client have no TLS version in common.
    TlsVersion,
    /// The two sides have no cipher, key exchange or inner protocol in common.
    TlsNoAgreement,
    /// The target refused the client's certificate, or required one.
    TlsClientCertificate,
    /// The target answered the handshake with something other than TLS.
    TlsNotTls,
    /// The peer closed or reset the connection during the handshake.
    TlsClosed,
    /// The handshake didn't finish within the timeout, counted from the connect.
    TlsTimedOut,
    /// The target ended the connection with an alert that has no cause of its own.
    TlsAlert,
    /// The target's bytes broke TLS: its form, order or encryption.
    TlsBroken,
    /// The response broke a protocol rule, given by its short name.
    Protocol(&'static str),
}

/// The protocol rules by the parser's names. Append new ones: a sample refers to a rule by its
/// position here.
pub const PROTOCOL_RULES: [&str; 22] = [
    "not_http",
    "version",
    "status_line",
    "header_name",
    "header_value",
    "line_end",
    "head_too_large",
    "too_many_fields",
    "content_length",
    "content_lengths_differ",
    "two_framings",
    "transfer_coding",
    "chunked_twice",
    "upgrade",
    "too_many_interim",
    "chunk_size",
    "chunk_size_overflow",
    "chunk_extension",
    "chunk_line_too_long",
    "chunk_end",
    "trailer",
    "trailers_too_large",
];

impl Cause {
    /// All causes but the protocol rules.
    pub const PLAIN: [Cause; 30] = [
        Cause::ConnectRefused,
        Cause::ConnectTimedOut,
        Cause::ConnectUnreachable,
        Cause::ConnectFailed,
        Cause::LocalResource,
        Cause::Reset,
        Cause::ClosedBeforeResponse,
        Cause::CutShort,
        Cause::ReadFailed,
        Cause::WriteFailed,
        Cause::TimedOut,
        Cause::Unsolicited,
        Cause::Deadline,
        Cause::EarlyResponse,
        Cause::BehindFailed,
        Cause::BodyUnreadable,
        Cause::NoLocalPort,
        Cause::NoFile,
        Cause::TlsUnknownIssuer,
        Cause::TlsWrongName,
        Cause::TlsExpired,
        Cause::TlsCertificate,
        Cause::TlsVersion,
        Cause::TlsNoAgreement,
        Cause::TlsClientCertificate,
        Cause::TlsNotTls,
        Cause::TlsClosed,
        Cause::TlsTimedOut,
        Cause::TlsAlert,
        Cause::TlsBroken,
    ];

    /// The causes for a lack of resources on this machine.
    pub const LOCAL: [Cause; 3] = [Cause::NoLocalPort, Cause::NoFile, Cause::LocalResource];

    /// The cause with this name in a report.
    pub fn from_name(name: &str) -> Option<Cause> {
        match name.strip_prefix("protocol:") {
            Some(rule) => {
                let known = PROTOCOL_RULES.into_iter().find(|known| *known == rule);
                known.map(Cause::Protocol)
            }
            None => Cause::PLAIN.into_iter().find(|cause| cause.name() == name),
        }
    }

    /// The cause's name in a report.
    pub fn name(self) -> String {
        match self {
            Cause::ConnectRefused => "connect_refused",
            Cause::ConnectTimedOut => "connect_timed_out",
            Cause::ConnectUnreachable => "connect_unreachable",
            Cause::ConnectFailed => "connect_failed",
            Cause::NoLocalPort => "no_local_port",
            Cause::NoFile => "no_file",
            Cause::LocalResource => "local_resource",
            Cause::Reset => "reset",
            Cause::ClosedBeforeResponse => "closed_before_response",
            Cause::CutShort => "cut_short",
            Cause::ReadFailed => "read_failed",
            Cause::WriteFailed => "write_failed",
            Cause::TimedOut => "timed_out",
            Cause::Deadline => "deadline",
            Cause::Unsolicited => "unsolicited_bytes",
            Cause::EarlyResponse => "early_response",
            Cause::BehindFailed => "behind_failed",
            Cause::BodyUnreadable => "body_unreadable",
            Cause::TlsUnknownIssuer => "tls_unknown_issuer",
            Cause::TlsWrongName => "tls_wrong_name",
            Cause::TlsExpired => "tls_expired",
            Cause::TlsCertificate => "tls_certificate",
            Cause::TlsVersion => "tls_version",
            Cause::TlsNoAgreement => "tls_no_agreement",
            Cause::TlsClientCertificate => "tls_client_certificate",
            Cause::TlsNotTls => "tls_not_tls",
            Cause::TlsClosed => "tls_closed",
            Cause::TlsTimedOut => "tls_timed_out",
            Cause::TlsAlert => "tls_alert",
            Cause::TlsBroken => "tls_broken",
            Cause::Protocol(rule) => return format!("protocol:{rule}"),
        }
        .to_owned()
    }

    /// The cause behind a failed connect's errno.
    pub fn of_connect(errno: i32) -> Cause {
        match errno {
            libc::ECONNREFUSED => Cause::ConnectRefused,
            libc::ETIMEDOUT => Cause::ConnectTimedOut,
            libc::ENETUNREACH | libc::EHOSTUNREACH => Cause::ConnectUnreachable,
            libc::ECONNRESET => Cause::Reset,
            errno => of_here(errno).unwrap_or(Cause::ConnectFailed),
        }
    }

    /// The cause behind a failed receive's errno.
    pub fn of_receive(errno: i32) -> Cause {
        match errno {
            libc::ECONNRESET => Cause::Reset,
            errno => of_here(errno).unwrap_or(Cause::ReadFailed),
        }
    }

    /// The cause behind a failed send's errno.
    pub fn of_send(errno: i32) -> Cause {
        match errno {
            libc::ECONNRESET => Cause::Reset,
            // Pages beyond the end of a mapped file can't be read.
            libc::EFAULT => Cause::BodyUnreadable,
            errno => of_here(errno).unwrap_or(Cause::WriteFailed),
        }
    }

    /// The cause behind a response that breaks the protocol.
    pub fn of_violation(violation: &Violation) -> Cause {
        match violation {
            Violation::ClosedBeforeResponse => Cause::ClosedBeforeResponse,
            Violation::CutShort => Cause::CutShort,
            rule => Cause::Protocol(rule.code()),
        }
    }
}

/// The cause if an errno means that this machine, not the target, ran out of something.
fn of_here(errno: i32) -> Option<Cause> {
    match errno {
        libc::EADDRNOTAVAIL => Some(Cause::NoLocalPort),
        libc::EMFILE | libc::ENFILE => Some(Cause::NoFile),
        libc::ENOBUFS | libc::ENOMEM => Some(Cause::LocalResource),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next violation; the match has no wildcard, so a new variant must be placed.
    fn next(violation: Violation) -> Option<Violation> {
        use Violation as V;
        Some(match violation {
            V::NotHttp => V::Version,
            V::Version => V::StatusLine,
            V::StatusLine => V::HeaderName,
            V::HeaderName => V::HeaderValue,
            V::HeaderValue => V::LineEnd,
            V::LineEnd => V::HeadTooLarge,
            V::HeadTooLarge => V::TooManyFields,
            V::TooManyFields => V::ContentLength,
            V::ContentLength => V::ContentLengthsDiffer,
            V::ContentLengthsDiffer => V::TwoFramings,
            V::TwoFramings => V::TransferCoding,
            V::TransferCoding => V::ChunkedTwice,
            V::ChunkedTwice => V::Upgrade,
            V::Upgrade => V::TooManyInterim,
            V::TooManyInterim => V::ChunkSize,
            V::ChunkSize => V::ChunkSizeOverflow,
            V::ChunkSizeOverflow => V::ChunkExtension,
            V::ChunkExtension => V::ChunkLineTooLong,
            V::ChunkLineTooLong => V::ChunkEnd,
            V::ChunkEnd => V::Trailer,
            V::Trailer => V::TrailersTooLarge,
            V::TrailersTooLarge => V::ClosedBeforeResponse,
            V::ClosedBeforeResponse => V::CutShort,
            V::CutShort => return None,
        })
    }

    #[test]
    fn local_exhaustion_has_its_own_causes() {
        for (errno, cause) in [
            (libc::EADDRNOTAVAIL, Cause::NoLocalPort),
            (libc::EMFILE, Cause::NoFile),
            (libc::ENFILE, Cause::NoFile),
            (libc::ENOBUFS, Cause::LocalResource),
            (libc::ENOMEM, Cause::LocalResource),
        ] {
            for of in [Cause::of_connect, Cause::of_receive, Cause::of_send] {
                assert_eq!(of(errno), cause);
            }
        }
        assert_eq!(Cause::of_connect(libc::EPERM), Cause::ConnectFailed);
    }

    #[test]
    fn the_name_of_every_cause_leads_back_to_it() {
        let violations = std::iter::successors(Some(Violation::NotHttp), |last| next(*last));
        let broken = violations.map(|violation| Cause::of_violation(&violation));
        for cause in Cause::PLAIN.into_iter().chain(broken) {
            assert_eq!(Cause::from_name(&cause.name()), Some(cause));
        }
        assert_eq!(Cause::from_name("protocol:"), None);
    }
}
