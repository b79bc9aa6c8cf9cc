//! The cause codes of samples: why a request failed, timed out or was never sent. A code never
//! changes its meaning.

use record::outcome::{Cause, PROTOCOL_RULES, UnsentReason};

/// The number of the first protocol rule; the others follow in order of [`PROTOCOL_RULES`].
const RULE_FIRST: u16 = 256;
/// A rule without a number of its own.
const RULE_OTHER: u16 = 255;

/// The number of a cause. It allocates nothing: the shard calls it while it runs.
pub(super) fn code(cause: Cause) -> u16 {
    match cause {
        Cause::ConnectRefused => 1,
        Cause::ConnectTimedOut => 2,
        Cause::ConnectUnreachable => 3,
        Cause::ConnectFailed => 4,
        Cause::LocalResource => 5,
        Cause::Reset => 6,
        Cause::ClosedBeforeResponse => 7,
        Cause::CutShort => 8,
        Cause::ReadFailed => 9,
        Cause::WriteFailed => 10,
        Cause::TimedOut => 11,
        Cause::Unsolicited => 12,
        Cause::Deadline => 13,
        Cause::EarlyResponse => 14,
        Cause::BehindFailed => 15,
        Cause::BodyUnreadable => 16,
        Cause::NoLocalPort => 17,
        Cause::NoFile => 18,
        Cause::TlsUnknownIssuer => 19,
        Cause::TlsWrongName => 20,
        Cause::TlsExpired => 21,
        Cause::TlsCertificate => 22,
        Cause::TlsVersion => 23,
        Cause::TlsNoAgreement => 24,
        Cause::TlsClientCertificate => 25,
        Cause::TlsNotTls => 26,
        Cause::TlsClosed => 27,
        Cause::TlsTimedOut => 28,
        Cause::TlsAlert => 29,
        Cause::TlsBroken => 30,
        Cause::Protocol(rule) => (RULE_FIRST..)
            .zip(PROTOCOL_RULES)
            .find(|(_, known)| *known == rule)
            .map_or(RULE_OTHER, |(code, _)| code),
    }
}

/// The number of the reason why a request was never sent.
pub(super) fn code_of_unsent(reason: UnsentReason) -> u16 {
    match reason {
        UnsentReason::Dropped => 64,
        UnsentReason::Deadline => 65,
        UnsentReason::End => 66,
    }
}

/// The report's name for the cause with this number: 1 `connect_refused`, 2 `connect_timed_out`, 3
/// `connect_unreachable`, 4 `connect_failed`, 5 `local_resource`, 6 `reset`, 7
/// `closed_before_response`, 8 `cut_short`, 9 `read_failed`, 10 `write_failed`, 11 `timed_out`, 12
/// `unsolicited_bytes`, 13 `deadline`, 14 `early_response`, 15 `behind_failed`, 16
/// `body_unreadable`, 17 `no_local_port`, 18 `no_file`, 19 `tls_unknown_issuer`, 20
/// `tls_wrong_name`, 21 `tls_expired`, 22 `tls_certificate`, 23 `tls_version`, 24
/// `tls_no_agreement`, 25 `tls_client_certificate`, 26 `tls_not_tls`, 27 `tls_closed`, 28
/// `tls_timed_out`, 29 `tls_alert`, 30 `tls_broken`; for unsent requests 64 `dropped`, 65
/// `deadline`, 66 `end_of_run`; and from 256 on `protocol:` with the broken rule. `None` for a
/// number without a meaning, including 0.
pub fn cause_name(code: u16) -> Option<String> {
    let unsent = || unsent_of(code).map(|reason| reason.name().to_owned());
    cause_of(code).map(Cause::name).or_else(unsent)
}

/// The cause with this number.
pub(super) fn cause_of(code: u16) -> Option<Cause> {
    match code.checked_sub(RULE_FIRST) {
        Some(at) => PROTOCOL_RULES.get(usize::from(at)).map(|rule| Cause::Protocol(rule)),
        None if code == RULE_OTHER => Some(Cause::Protocol("other")),
        None => Cause::PLAIN.into_iter().find(|cause| self::code(*cause) == code),
    }
}

/// The reason, with this number, why a request was never sent.
pub(super) fn unsent_of(code: u16) -> Option<UnsentReason> {
    UnsentReason::ALL.into_iter().find(|reason| code_of_unsent(*reason) == code)
}

#[cfg(test)]
mod tests {
    use http1::response::Violation;

    use super::*;

    #[test]
    fn every_number_leads_back_to_its_cause() {
        let rules = PROTOCOL_RULES.iter().map(|rule| Cause::Protocol(rule));
        let mut seen = Vec::new();
        for cause in Cause::PLAIN.into_iter().chain(rules) {
            let code = code(cause);
            assert_eq!(cause_name(code), Some(cause.name()));
            assert!(!seen.contains(&code), "{cause:?} has the number of another");
            seen.push(code);
        }
        assert_eq!(cause_name(0), None);
        assert_eq!(cause_name(RULE_FIRST + 22), None);
    }

    #[test]
    fn numbers_keep_their_meaning() {
        for (number, name) in [
            (1, "connect_refused"),
            (5, "local_resource"),
            (6, "reset"),
            (11, "timed_out"),
            (17, "no_local_port"),
            (18, "no_file"),
            (19, "tls_unknown_issuer"),
            (30, "tls_broken"),
            (64, "dropped"),
            (66, "end_of_run"),
            (256, "protocol:not_http"),
            (277, "protocol:trailers_too_large"),
        ] {
            assert_eq!(cause_name(number).as_deref(), Some(name));
        }
    }

    #[test]
    fn rules_are_named_as_the_parser_names_them() {
        for (violation, number) in [
            (Violation::NotHttp, 256),
            (Violation::ContentLength, 264),
            (Violation::ChunkEnd, 275),
            (Violation::TrailersTooLarge, 277),
        ] {
            assert_eq!(code(Cause::of_violation(&violation)), number, "{violation:?}");
        }
    }
}
