//! How one intended request ended, and the causes of failures.

use http1::response::Violation;

/// How one intended request ended: each ends in exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A whole response came, with this status.
    Answered(u16),
    /// No whole response within the timeout or the deadline.
    TimedOut(TimeoutKind),
    /// The connection or the protocol failed.
    Failed(Cause),
    /// Sent, and still in flight when the drain ended.
    Abandoned,
    /// Never sent.
    Unsent(UnsentReason),
}

impl Outcome {
    /// Whether the time it took counts as a latency. That of a failure doesn't, nor that of a
    /// dropped arrival: short ones would make the percentiles look better than they were.
    pub fn has_latency(self) -> bool {
        !matches!(self, Outcome::Failed(_) | Outcome::Unsent(UnsentReason::Dropped))
    }
}

/// Which limit a request ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// The timeout, counted from sent.
    Timeout,
    /// The deadline, counted from intended.
    Deadline,
}

impl TimeoutKind {
    /// The cause that such a request is counted under.
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
    /// All of them.
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
            /// The response broke a rule of the protocol.
            ///
            /// `protocol:` with the rule in reports, from 256 on in samples.
            Protocol(Violation),
        }

        impl Cause {
            /// All causes but the rules of the protocol.
            pub const PLAIN: &[Cause] = &[$(Cause::$cause),*];

            /// The cause's name in a report.
            pub fn name(self) -> String {
                match self {
                    $(Cause::$cause => $name.to_owned(),)*
                    Cause::Protocol(rule) => format!("protocol:{}", rule.code()),
                }
            }

            /// The cause's number in samples. It allocates nothing: the shard calls it while it
            /// runs.
            pub fn number(self) -> u16 {
                match self {
                    $(Cause::$cause => $number,)*
                    Cause::Protocol(rule) => RULE_FIRST + rule as u16,
                }
            }
        }
    };
}

// Each with its name in a report and its number in samples, which never changes its meaning.
causes! {
    /// The target's host answered that nothing listens on the port.
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
    /// No whole response within the timeout, counted from sent.
    TimedOut, "timed_out", 11;
    /// No whole response within the deadline, counted from intended.
    Deadline, "deadline", 13;
    /// Bytes came that no request asked for.
    Unsolicited, "unsolicited_bytes", 12;
    /// A response was there before its request was sent, so it can't be the answer.
    EarlyResponse, "early_response", 14;
    /// Its connection ended with the answer to a request before it, or with that one's failure.
    BehindFailed, "behind_failed", 15;
    /// The file of the request's body was cut short during the run: always the generator's side.
    BodyUnreadable, "body_unreadable", 16;
    /// The target's certificate is signed by nobody who is trusted.
    TlsUnknownIssuer, "tls_unknown_issuer", 19;
    /// The target's certificate is for other names.
    TlsWrongName, "tls_wrong_name", 20;
    /// The target's certificate has expired.
    TlsExpired, "tls_expired", 21;
    /// The target's certificate can't be used for another reason.
    TlsCertificate, "tls_certificate", 22;
    /// The target speaks no version of TLS that is spoken here.
    TlsVersion, "tls_version", 23;
    /// No cipher, key exchange or protocol inside TLS that both sides know.
    TlsNoAgreement, "tls_no_agreement", 24;
    /// The target refused the client's certificate, or wanted one.
    TlsClientCertificate, "tls_client_certificate", 25;
    /// The target answered the handshake with something else than TLS.
    TlsNotTls, "tls_not_tls", 26;
    /// The peer closed or reset the connection during the handshake.
    TlsClosed, "tls_closed", 27;
    /// The handshake wasn't done within the timeout, counted from the connect.
    TlsTimedOut, "tls_timed_out", 28;
    /// The target ended the connection with an alert that stands under no other cause.
    TlsAlert, "tls_alert", 29;
    /// What the target sent broke TLS: its form, its order or its encryption.
    TlsBroken, "tls_broken", 30;
}

impl Cause {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Cause> {
        let broken = Violation::ALL.iter().map(Cause::of_violation);
        let broken = broken.filter(|cause| matches!(cause, Cause::Protocol(_)));
        Cause::PLAIN.iter().copied().chain(broken)
    }

    /// Those of what this machine ran out of.
    pub const LOCAL: [Cause; 3] = [Cause::NoLocalPort, Cause::NoFile, Cause::LocalResource];

    /// The cause that has this name in a report.
    pub fn from_name(name: &str) -> Option<Cause> {
        Cause::all().find(|cause| cause.name() == name)
    }

    /// The cause that has this number in samples.
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
            // Of a mapped file, the pages beyond its end can't be read.
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
}

/// What this machine, not the target, ran out of, if an errno says that.
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
    fn what_ran_out_here_is_told_apart() {
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
        // Two ends of a stream are no rules, but causes of their own.
        assert_eq!(seen, Cause::PLAIN.len() + Violation::ALL.len() - 2);
        assert_eq!(Cause::from_name("protocol:"), None);
        assert_eq!(Cause::from_number(0), None);
    }
}
