//! Hostile servers: the outcome of each fault in every model, and counts that equal the server's
//! own log.
//!
//! The meaning of a response follows RFC 9112. Each row is a test of its own, with one run in each
//! of the four models, or in one where the model doesn't matter. `TEST_HOSTILE_SCALE=10` makes the
//! windows ten times as long, and tries every row in each model.

mod check;
mod http2;
mod routes;
mod server;

use check::Amount::{Any, None as Never, Some as Seen};
use check::Equality::{
    AnsweredWereWritten, ConnectsWereAccepted, FailedWereBroken, FailedWereIgnored, SentWereRead,
    TimedOutWereIgnored, TimedOutWereUnended,
};
use check::{Equality, Expected, LoadShape, Row, Shown, Timeout, check};
use server::{DRIPPED, Fault, SLOW};

/// A small request, and a timeout far above any answer's time.
const LOAD: LoadShape = LoadShape {
    large: false,
    users: 4,
    period_ms: 25,
    warmup_ms: 0,
    window_ms: 300,
    timeout: Timeout::Ms(5_000),
};
/// More users, who send more often than they are answered.
const BUSY: LoadShape = LoadShape { users: 16, period_ms: 5, ..LOAD };
/// A timeout that ends hanging requests, well above an answer's time.
const IMPATIENT: LoadShape = LoadShape { timeout: Timeout::Ms(400), ..LOAD };
/// A request that no buffer holds.
const LARGE: LoadShape = LoadShape { large: true, ..LOAD };
/// The same from many users: the buffers of all their connections are full.
const LARGE_OF_MANY: LoadShape = LoadShape { users: 64, ..LARGE };
/// A timeout that expires only after the window: hanging requests began before it.
const PATIENT: LoadShape = LoadShape { warmup_ms: 100, timeout: Timeout::BeyondWindow, ..LOAD };

/// Requests, answers and connections: as many as the server saw.
const ALL: &[Equality] = &[SentWereRead, AnsweredWereWritten, ConnectsWereAccepted];

/// A server without a fault.
const FINE: Expected = Expected::answered().equal(ALL).clean();

/// Requests that are never answered.
const HUNG: Expected =
    Expected::timed_out().equal(&[ConnectsWereAccepted]).shown(&[Shown::StarvedUsers]);
/// Responses that begin and never end.
const UNENDED: Expected = Expected::timed_out()
    .equal(&[SentWereRead, TimedOutWereUnended, ConnectsWereAccepted])
    .shown(&[Shown::StarvedUsers]);
/// Valid answers, with bytes after them.
const TRAILED: Expected = Expected::answered().equal(ALL).shown(&[Shown::TrailingBytes]);
/// Answers to requests that were still being sent.
const EARLY: Expected = Expected::answered()
    .equal(&[AnsweredWereWritten, ConnectsWereAccepted])
    .shown(&[Shown::IncompleteUploads]);
/// Answers, and requests that met a close.
const CLOSED_ON: Expected = Expected::mixed(Seen, Never, Any, CLOSES).equal(&[AnsweredWereWritten]);
/// The same for a server that reads on after its FIN.
const FIN_READ_ON: Expected = Expected::mixed(Seen, Never, Any, &["closed_before_response"])
    .equal(&[SentWereRead, AnsweredWereWritten, FailedWereIgnored]);
/// Only the server knows which response belongs to which request.
const CONFUSED: Expected = Expected::mixed(Any, Any, Any, &["early_response", "unsolicited_bytes"]);
/// Some users hang while others are served.
const HALF_HUNG: Expected = Expected::mixed(Seen, Any, Never, &[])
    .equal(&[SentWereRead, AnsweredWereWritten, TimedOutWereIgnored])
    .shown(&[Shown::StarvedUsers]);

/// The possible effects of a close on a request.
const CLOSES: &[&str] = &["reset", "closed_before_response", "write_failed"];

/// The same outcome in every model.
fn each(expected: Expected) -> Vec<Expected> {
    vec![expected; 4]
}

/// A response that ends by this cause, in every model.
fn cut(cause: &'static [&'static str]) -> Vec<Expected> {
    each(broken(cause))
}

/// A response that breaks this rule, whatever the model.
fn breaks(rule: &'static [&'static str]) -> Vec<Expected> {
    vec![broken(rule)]
}

/// Responses that aren't answers, with this cause.
const fn broken(cause: &'static [&'static str]) -> Expected {
    Expected::failed(cause).equal(&[SentWereRead, FailedWereBroken, ConnectsWereAccepted])
}

/// Declares each row as a test: its name, the fault, the load, and the outcome in the open, closed,
/// paced and no-keepalive models, or one if the model doesn't matter.
macro_rules! rows {
    ($($name:ident: $fault:expr, $load:expr, $expected:expr;)*) => {
        $(
            #[test]
            fn $name() {
                check(&Row { fault: $fault, load: $load, expected: $expected });
            }
        )*
    };
}

rows! {
    // No fault, or none that a client may object to.
    an_honest_server: Fault::None, LOAD, each(FINE);
    accepts_slowly: Fault::AcceptSlowly, LOAD, each(FINE);
    drips_its_response: Fault::DripWholeResponse, LoadShape { period_ms: 200, ..LOAD },
        each(FINE.fastest(DRIPPED));
    ends_its_body_with_the_connection: Fault::CloseDelimited, LOAD, each(FINE);
    closes_as_it_says: Fault::ConnectionClose, LOAD, each(FINE);
    closes_as_it_says_to_busy_users: Fault::ConnectionClose, BUSY, each(FINE);
    sends_a_length_with_304: Fault::LengthWith304, LOAD, each(FINE);
    sends_503_to_every_third: Fault::EveryThird503, LOAD,
        each(Expected::answered().equal(ALL).codes(&["errors"]));

    // Connections that hang or are missing.
    hangs_from_the_third_connection_on: Fault::HangFrom(3), IMPATIENT, each(HALF_HUNG);
    hangs_longer_than_the_window: Fault::HangFrom(3), PATIENT, vec![
        Expected::mixed(Seen, Any, Never, &[]),
        Expected::mixed(Seen, Never, Never, &[]).shown(&[Shown::StarvedUsers]),
        Expected::mixed(Seen, Any, Never, &[]).shown(&[Shown::StarvedUsers]),
        Expected::mixed(Never, Never, Never, &[]).shown(&[Shown::StarvedUsers, Shown::NothingSent]),
    ];
    accepts_and_never_reads: Fault::NeverRead, IMPATIENT, each(HUNG);
    never_reads_a_large_request: Fault::NeverRead, LoadShape { large: true, ..IMPATIENT },
        each(HUNG);
    stops_accepting: Fault::StopAccepting(10), IMPATIENT,
        each(Expected::mixed(Seen, Seen, Any, &["connect_timed_out"])
            .equal(&[AnsweredWereWritten])
            .codes(&["errors"])
            .shown(&[Shown::StarvedUsers]));
    restarts: Fault::Restart(20), LoadShape { window_ms: 800, ..LOAD },
        each(Expected::mixed(
            Seen, Never, Seen,
            &["connect_refused", "reset", "closed_before_response", "write_failed"],
        ).equal(&[AnsweredWereWritten]));
    drips_a_head_without_an_end: Fault::DripHead, IMPATIENT, each(UNENDED);
    sends_chunks_without_an_end: Fault::EndlessChunks, IMPATIENT, each(UNENDED);

    // Unannounced closes.
    sends_fin_on_accept: Fault::FinOnAccept, LOAD,
        each(Expected::failed(&["closed_before_response"]).equal(&[FailedWereIgnored]));
    closes_idle_connections: Fault::CloseIdle, LOAD, each(FIN_READ_ON);
    closes_without_saying_so: Fault::KeepAliveLie, LOAD,
        vec![CLOSED_ON, CLOSED_ON, CLOSED_ON, FINE];
    half_closes_after_its_response: Fault::HalfClose, LOAD,
        vec![FIN_READ_ON, FIN_READ_ON, FIN_READ_ON, FINE];
    resets_on_the_next_request: Fault::ResetOnNextRequest, LOAD, vec![
        CLOSED_ON.equal(&[AnsweredWereWritten, FailedWereBroken]),
        CLOSED_ON.equal(&[AnsweredWereWritten, FailedWereBroken]),
        CLOSED_ON.equal(&[AnsweredWereWritten, FailedWereBroken]),
        FINE,
    ];
    sends_fin_on_the_next_request: Fault::FinOnNextRequest, LOAD,
        vec![FIN_READ_ON, FIN_READ_ON, FIN_READ_ON, FINE];
    resets_after_a_request: Fault::ResetAfterRequest, LOAD, cut(&["reset"]);
    resets_in_a_body: Fault::ResetInBody, LOAD, cut(&["reset"]);
    resets_where_only_a_close_ends_the_body: Fault::ResetInCloseDelimited, LOAD,
        cut(&["reset"]);
    cuts_its_body_short: Fault::ShortBody, LOAD, cut(&["cut_short"]);

    // Answers at the wrong time. A repeated answer that comes while the next request is in flight
    // looks like that one's answer; the rest is seen when a connection is idle.
    answers_on_accept: Fault::AnswerOnAccept, IMPATIENT, vec![
        CONFUSED,
        CONFUSED.shown(&[Shown::EarlyResponses]),
        CONFUSED.shown(&[Shown::EarlyResponses]),
        CONFUSED.shown(&[Shown::EarlyResponses]),
    ];
    answers_on_accept_and_again: Fault::AnswerOnAcceptAndAgain, LOAD, vec![
        CONFUSED.shown(&[Shown::UnaskedBytes]),
        CONFUSED.shown(&[Shown::EarlyResponses]),
        CONFUSED.shown(&[Shown::EarlyResponses]),
        CONFUSED.shown(&[Shown::EarlyResponses]),
    ];
    answers_before_it_read_and_again: Fault::AnswerBeforeReadAndAgain, LOAD, vec![
        CONFUSED.shown(&[Shown::UnaskedBytes]),
        CONFUSED,
        CONFUSED.shown(&[Shown::UnaskedBytes]),
        CONFUSED,
    ];
    repeats_its_answers: Fault::RepeatAnswers, LOAD, vec![
        CONFUSED.shown(&[Shown::UnaskedBytes]),
        CONFUSED,
        CONFUSED.shown(&[Shown::UnaskedBytes]),
        FINE.fastest(SLOW),
    ];
    answers_a_large_request_early_and_keeps: Fault::AnswerEarlyAndKeep, LARGE, each(EARLY);
    answers_a_large_request_early_and_closes: Fault::AnswerEarlyAndClose, LARGE, each(EARLY);
    answers_a_large_request_early_and_reads: Fault::AnswerEarlyAndRead, LARGE,
        each(EARLY);
    answers_a_large_request_early_and_resets: Fault::AnswerEarlyAndReset, LARGE,
        each(EARLY.codes(&["errors"]));
    answers_many_large_requests_early_and_keeps: Fault::AnswerEarlyAndKeep, LARGE_OF_MANY,
        each(EARLY);
    answers_many_large_requests_early_and_resets: Fault::AnswerEarlyAndReset, LARGE_OF_MANY,
        each(EARLY.codes(&["errors"]));

    // More than an answer.
    sends_two_responses_in_one: Fault::TwoInOne, LOAD, each(TRAILED);
    sends_garbage_after_its_response: Fault::TrailingGarbage, LOAD, each(TRAILED);
    sends_a_body_after_204: Fault::BodyAfter204, LOAD, each(TRAILED);

    // Responses that break a rule.
    sends_a_head_without_an_end: Fault::EndlessHead, LOAD, breaks(&["protocol:head_too_large"]);
    sends_interim_responses_without_an_end: Fault::EndlessInterim, LOAD,
        breaks(&["protocol:too_many_interim"]);
    sends_a_head_of_70_kib: Fault::HugeHead, LOAD, breaks(&["protocol:head_too_large"]);
    sends_200_fields: Fault::ManyFields, LOAD, breaks(&["protocol:too_many_fields"]);
    sends_a_chunk_size_beyond_64_bits: Fault::ChunkSizeOverflow, LOAD,
        breaks(&["protocol:chunk_size_overflow"]);
    sends_two_lengths: Fault::LengthsDiffer, LOAD, breaks(&["protocol:content_lengths_differ"]);
    sends_a_length_and_chunks: Fault::TwoFramings, LOAD, breaks(&["protocol:two_framings"]);
    sends_an_unknown_coding: Fault::UnknownCoding, LOAD, breaks(&["protocol:transfer_coding"]);
    sends_a_bare_cr: Fault::BareCr, LOAD, breaks(&["protocol:header_value"]);
    sends_a_body_without_a_head: Fault::NoHead, LOAD, breaks(&["protocol:not_http"]);
    switches_protocols_unasked: Fault::Upgrade, LOAD, breaks(&["protocol:upgrade"]);
}
