//! How one intended request ended, and the causes of failures.

use http1::response::Violation;
use http2::code::ErrorCode;
use http2::violation::Violation as Violation2;

/// How one intended request ended; each has exactly one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A complete response came, with this status.
    Answered(u16),
    /// A complete response came with this status, a success, and failed a check of its content.
    CheckFailed {
        /// The status.
        status: u16,
        /// The check, among those of its step.
        check: u8,
    },
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
    /// The status of the response, if a complete one came.
    #[inline]
    pub fn status(self) -> Option<u16> {
        match self {
            Outcome::Answered(status) | Outcome::CheckFailed { status, .. } => Some(status),
            _ => None,
        }
    }

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

/// The number in samples of the first rule of the protocol; the others follow in their order.
const RULE_FIRST: u16 = 256;
/// The number in samples of the first rule of HTTP/2; the others follow in their order.
const RULE2_FIRST: u16 = 512;
/// The number in samples of a stream that was reset with the first error code; the others follow.
const RESET_FIRST: u16 = 768;
/// The code that stands for all unknown ones.
const CODE_UNKNOWN: u32 = 14;
/// How many causes there are for a stream that was reset.
pub(crate) const RESETS_MAX: usize = 15;

/// Declares [`Cause`] and the table of its names and numbers from the same rows.
macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident, $name:literal, $number:literal;)*) => {
        /// Why a request failed, or why a connection without a request ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Cause {
            $(
                $(#[$doc])*
                #[doc = ""]
                #[doc = concat!("`", $name, "` in reports, ", $number, " in samples.")]
                $cause,
            )*
            /// The response broke a protocol rule.
            ///
            /// `protocol:` with the rule in reports, from 256 on in samples.
            Protocol(Violation),
            /// The peer broke a rule of HTTP/2.
            ///
            /// `http2:` with the rule in reports, from 512 on in samples.
            Http2(Violation2),
            /// The peer reset the request's stream: see [`Cause::of_reset`].
            ///
            /// `stream_reset:` with the error code in reports, from 768 on in samples.
            StreamReset(ErrorCode),
        }

        impl Cause {
            /// All causes but the protocol rules.
            pub const PLAIN: &[Cause] = &[$(Cause::$cause),*];

            /// The cause's name in a report.
            pub fn name(self) -> String {
                match self {
                    $(Cause::$cause => $name.to_owned(),)*
                    Cause::Protocol(rule) => format!("protocol:{}", rule.code()),
                    Cause::Http2(rule) => format!("http2:{}", rule.code()),
                    Cause::StreamReset(code) => format!("stream_reset:{}", code.name()),
                }
            }

            /// The cause's number in samples. It allocates nothing: the shard calls it while it
            /// runs.
            pub fn number(self) -> u16 {
                match self {
                    $(Cause::$cause => $number,)*
                    Cause::Protocol(rule) => RULE_FIRST + rule as u16,
                    Cause::Http2(rule) => RULE2_FIRST + rule as u16,
                    Cause::StreamReset(ErrorCode(code)) => {
                        let code = u16::try_from(code.min(CODE_UNKNOWN)).expect("a small number");
                        RESET_FIRST + code
                    }
                }
            }
        }
    };
}

// Each with its name in a report and its number in samples, which never changes its meaning.
causes! {
    /// The target's host reported that nothing listens on the port.
    ConnectRefused, "connect_refused", 1;
    /// The connection wasn't established within the timeout.
    ConnectTimedOut, "connect_timed_out", 2;
    /// No route to the target.
    ConnectUnreachable, "connect_unreachable", 3;
    /// Connecting failed otherwise.
    ConnectFailed, "connect_failed", 4;
    /// No local port was left for the connection: always the generator's fault.
    NoLocalPort, "no_local_port", 17;
    /// No file descriptor was left for the connection: always the generator's fault.
    NoFile, "no_file", 18;
    /// This machine ran out of something else, such as buffers or memory: always the generator's
    /// fault.
    LocalResource, "local_resource", 5;
    /// The peer reset the connection.
    Reset, "reset", 6;
    /// The peer closed the connection before the first byte of a response.
    ClosedBeforeResponse, "closed_before_response", 7;
    /// The connection closed in the middle of a response.
    CutShort, "cut_short", 8;
    /// Receiving failed otherwise.
    ReadFailed, "read_failed", 9;
    /// Sending failed.
    WriteFailed, "write_failed", 10;
    /// No complete response within the timeout, counted from the sending.
    TimedOut, "timed_out", 11;
    /// No complete response within the deadline, counted from the intended time.
    Deadline, "deadline", 13;
    /// Bytes came that no request had asked for.
    Unsolicited, "unsolicited_bytes", 12;
    /// A response arrived before its request was sent, so it can't be the answer.
    EarlyResponse, "early_response", 14;
    /// Its connection ended with the answer to an earlier request, or with that request's failure.
    BehindFailed, "behind_failed", 15;
    /// The file of the request's body was truncated during the run: always the generator's fault.
    BodyUnreadable, "body_unreadable", 16;
    /// No trusted issuer signed the target's certificate.
    TlsUnknownIssuer, "tls_unknown_issuer", 19;
    /// The target's certificate is for other names.
    TlsWrongName, "tls_wrong_name", 20;
    /// The target's certificate has expired.
    TlsExpired, "tls_expired", 21;
    /// The target's certificate is unusable for another reason.
    TlsCertificate, "tls_certificate", 22;
    /// The target and the client have no TLS version in common.
    TlsVersion, "tls_version", 23;
    /// The two sides have no cipher, key exchange or inner protocol in common.
    TlsNoAgreement, "tls_no_agreement", 24;
    /// The target refused the client's certificate, or required one.
    TlsClientCertificate, "tls_client_certificate", 25;
    /// The target answered the handshake with something other than TLS.
    TlsNotTls, "tls_not_tls", 26;
    /// The peer closed or reset the connection during the handshake.
    TlsClosed, "tls_closed", 27;
    /// The handshake didn't finish within the timeout, counted from the connect.
    TlsTimedOut, "tls_timed_out", 28;
    /// The target ended the connection with an alert that has no cause of its own.
    TlsAlert, "tls_alert", 29;
    /// The target's bytes broke TLS: its form, order or encryption.
    TlsBroken, "tls_broken", 30;
    /// The target's HTTP/2 settings didn't come within the timeout, counted from the connect.
    SettingsTimedOut, "settings_timed_out", 31;
    /// The target refused the request's stream twice.
    RefusedStream, "refused_stream", 32;
    /// The target ended the connection by GOAWAY before it took a request.
    GoAway, "goaway", 33;
}

impl Cause {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Cause> {
        let broken = Violation::ALL.iter().map(Cause::of_violation);
        let broken = broken.filter(|cause| matches!(cause, Cause::Protocol(_)));
        let broken2 = Violation2::ALL.iter().map(|rule| Cause::of_violation2(*rule));
        let broken2 = broken2.filter(|cause| matches!(cause, Cause::Http2(_)));
        let resets = (0..=CODE_UNKNOWN).map(|code| Cause::of_reset(ErrorCode(code)));
        Cause::PLAIN.iter().copied().chain(broken).chain(broken2).chain(resets)
    }

    /// The causes for a lack of resources on this machine.
    pub const LOCAL: [Cause; 3] = [Cause::NoLocalPort, Cause::NoFile, Cause::LocalResource];

    /// The cause with this name in a report.
    pub fn from_name(name: &str) -> Option<Cause> {
        Cause::all().find(|cause| cause.name() == name)
    }

    /// The cause with this number in samples.
    pub fn from_number(number: u16) -> Option<Cause> {
        Cause::all().find(|cause| cause.number() == number)
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
            rule => Cause::Protocol(*rule),
        }
    }

    /// The cause behind a peer that breaks a rule of HTTP/2.
    pub fn of_violation2(violation: Violation2) -> Cause {
        match violation {
            Violation2::ClosedBeforeResponse => Cause::ClosedBeforeResponse,
            Violation2::CutShort => Cause::CutShort,
            rule => Cause::Http2(rule),
        }
    }

    /// The cause behind a stream that was reset with this code; unknown ones count together.
    pub fn of_reset(ErrorCode(code): ErrorCode) -> Cause {
        Cause::StreamReset(ErrorCode(code.min(CODE_UNKNOWN)))
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
    fn name_and_number_of_every_cause_lead_back_to_it() {
        let mut seen = 0;
        for cause in Cause::all() {
            assert_eq!(Cause::from_name(&cause.name()), Some(cause));
            assert_eq!(Cause::from_number(cause.number()), Some(cause));
            seen += 1;
        }
        // Two ends of a connection are no rules, but causes of their own.
        let rules = Violation::ALL.len() + Violation2::ALL.len() - 4;
        assert_eq!(seen, Cause::PLAIN.len() + rules + 15);
        assert_eq!(Cause::of_reset(ErrorCode(99)).name(), "stream_reset:unknown");
        assert_eq!(Cause::from_name("protocol:"), None);
        assert_eq!(Cause::from_number(0), None);
    }
}
