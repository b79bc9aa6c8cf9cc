//! The cause codes of samples: why a request failed, timed out or was never sent. A code never
//! changes its meaning.

use record::outcome::{Cause, UnsentReason};

/// The number of the reason why a request was never sent.
pub(super) fn code_of_unsent(reason: UnsentReason) -> u16 {
    match reason {
        UnsentReason::Dropped => 64,
        UnsentReason::Deadline => 65,
        UnsentReason::End => 66,
    }
}

/// The report's name for the cause with this number: that of a [`Cause`], or for unsent requests 64
/// `dropped`, 65 `deadline`, 66 `end_of_run`. `None` for a number without a meaning, including 0.
pub fn cause_name(code: u16) -> Option<String> {
    let unsent = || unsent_of(code).map(|reason| reason.name().to_owned());
    Cause::from_number(code).map(Cause::name).or_else(unsent)
}

/// The reason, with this number, why a request was never sent.
pub(super) fn unsent_of(code: u16) -> Option<UnsentReason> {
    UnsentReason::ALL.into_iter().find(|reason| code_of_unsent(*reason) == code)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (33, "goaway"),
            (64, "dropped"),
            (66, "end_of_run"),
            (256, "protocol:not_http"),
            (264, "protocol:content_length"),
            (275, "protocol:chunk_end"),
            (277, "protocol:trailers_too_large"),
            (512, "http2:not_http2"),
            (768, "stream_reset:no_error"),
            (782, "stream_reset:unknown"),
        ] {
            assert_eq!(cause_name(number).as_deref(), Some(name));
        }
        for number in [0, 34, 67, 255, 278, 783] {
            assert_eq!(cause_name(number), None);
        }
    }
}
