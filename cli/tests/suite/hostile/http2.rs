//! Servers that speak HTTP/2 and misbehave: what each fault of RFC 9113 becomes.
//!
//! Every response follows its request by 2 ms or more, so no latency can be shorter: a refusal or a
//! failure that passed for an answer would be.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::check::Amount::{Any, None as Never, Some as Seen};
use super::check::Equality::{
    AnsweredWereWritten, ConnectsWereAccepted, FailedWereBroken, NoneOverLimit,
    RefusedWereRequeued, RequeuedWereRefused, SentWereRead, TimedOutWereUnended,
};
use super::check::{Equality, Expected, LoadShape, Row, Shown, check};
use super::server::{ConnectionRule, Fault, Flood, Http2, StreamRule, THINK};
use super::{BUSY, IMPATIENT, LARGE, LOAD, each};

/// Requests, answers and connections: as many as the server saw, and no stream too many.
const ALL: &[Equality] =
    &[SentWereRead, AnsweredWereWritten, ConnectsWereAccepted, RequeuedWereRefused, NoneOverLimit];
/// Each request is answered, perhaps by another stream than its first.
const FINE: Expected = Expected::answered().equal(ALL);
/// The same, if the server ends connections: the last ones may still be opening at the end.
const MOVED: Expected = Expected::answered().equal(&[
    SentWereRead,
    AnsweredWereWritten,
    RefusedWereRequeued,
    NoneOverLimit,
]);
/// Requests that the server never answers, because of what it sends in place of that.
const BROKEN: &[Equality] = &[SentWereRead, FailedWereBroken, ConnectsWereAccepted, NoneOverLimit];
/// Nothing is answered and everything times out.
const HUNG: Expected = Expected::timed_out().equal(&[ConnectsWereAccepted, NoneOverLimit]);
/// Some requests are answered, some end with their connection.
const LOST: Expected =
    Expected::mixed(Seen, Never, Any, &["closed_before_response", "behind_failed"]).equal(&[
        SentWereRead,
        AnsweredWereWritten,
        FailedWereBroken,
        RefusedWereRequeued,
        NoneOverLimit,
    ]);

/// The causes of streams that are reset by each code.
const RESETS: &[&str] = &[
    "stream_reset:no_error",
    "stream_reset:protocol_error",
    "stream_reset:internal_error",
    "stream_reset:flow_control_error",
    "stream_reset:settings_timeout",
    "stream_reset:stream_closed",
    "stream_reset:frame_size_error",
    "stream_reset:cancel",
    "stream_reset:compression_error",
    "stream_reset:connect_error",
    "stream_reset:enhance_your_calm",
    "stream_reset:inadequate_security",
    "stream_reset:http_1_1_required",
    "stream_reset:unknown",
];

/// Requests that fail by one of these causes, whatever the model.
fn fails(causes: &'static [&'static str]) -> Vec<Expected> {
    vec![Expected::failed(causes).equal(BROKEN)]
}

/// Declares each row as a test: its name, the fault, the load, and the outcome in the open, closed,
/// paced and no-keepalive models, or one if the model doesn't matter.
macro_rules! rows {
    ($($name:ident: $fault:expr, $load:expr, $expected:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let expected = $expected.into_iter().map(|one: Expected| one.fastest(THINK));
                let fault = Fault::Http2($fault);
                check(&Row { fault, load: $load, expected: expected.collect() });
            }
        )*
    };
}

/// The same for responses that break a rule of their stream.
macro_rules! stream_rules {
    ($($name:ident: $rule:ident, $cause:literal;)*) => {
        rows! { $($name: Http2::BreaksStream(StreamRule::$rule), LOAD, fails(&[$cause]);)* }
    };
}

/// The same for frames that break a rule of their connection. Its other requests end with it.
macro_rules! connection_rules {
    ($($name:ident: $rule:ident, $cause:literal;)*) => {
        rows! {
            $(
                $name: Http2::BreaksConnection(ConnectionRule::$rule), LOAD,
                    fails(&[$cause, "behind_failed"]);
            )*
        }
    };
}

/// The same for frames without an end.
macro_rules! floods {
    ($($name:ident: $flood:ident, $($cause:literal),+;)*) => {
        rows! {
            $(
                $name: Http2::Floods(Flood::$flood), LOAD, fails(&[$($cause,)+ "behind_failed"]);
            )*
        }
    };
}

rows! {
    // No fault, or none that a client may object to.
    an_honest_server: Http2::None, LOAD, each(FINE.clean());
    an_honest_server_of_many: Http2::None, BUSY, each(FINE.clean());
    resets_without_an_error_after_its_answer: Http2::ResetAfterAnswer, LOAD, each(FINE.clean());
    sends_its_settings_late: Http2::SettingsLate, LOAD, each(FINE);
    takes_one_stream_at_once: Http2::Streams(1), LOAD, each(FINE);
    lowers_its_limit_of_streams: Http2::StreamsLowered, LOAD, each(FINE);
    takes_no_streams_for_a_while: Http2::StreamsPaused, LOAD, each(FINE);
    opens_its_window_in_small_steps: Http2::WindowSmall, LARGE, each(FINE);
    opens_its_window_late: Http2::WindowLate, LARGE, each(FINE);

    // Requests that weren't served: they go elsewhere, and keep their intended times.
    goes_away_after_three_requests: Http2::GoAwayAfter(3), LOAD, each(MOVED);
    goes_away_after_three_of_many: Http2::GoAwayAfter(3), BUSY, each(MOVED);
    goes_away_after_each_request: Http2::GoAwayAfter(1), LOAD,
        vec![MOVED, MOVED.codes(&["requeued"]), MOVED, FINE];
    goes_away_in_two_steps: Http2::GoAwayTwice, LOAD, each(MOVED);
    goes_away_and_closes: Http2::GoAwayAndClose(3), LOAD, vec![LOST, LOST, LOST, FINE];
    refuses_every_third_stream: Http2::RefuseEvery(3), LOAD,
        each(Expected::mixed(Seen, Never, Any, &["refused_stream"]).equal(ALL)
            .codes(&["requeued"]));
    refuses_every_stream: Http2::RefuseEvery(1), LOAD,
        each(Expected::failed(&["refused_stream"]).equal(ALL).codes(&["errors", "requeued"]));
    goes_away_at_once: Http2::GoAwayAtOnce, IMPATIENT,
        each(Expected::mixed(Never, Any, Any, &["goaway"]).equal(&[
            AnsweredWereWritten, RefusedWereRequeued, NoneOverLimit,
        ]));
    goes_away_from_every_request: Http2::GoAwayUnserved, IMPATIENT,
        each(Expected::mixed(Never, Seen, Any, &["goaway", "settings_timed_out"])
            .equal(&[NoneOverLimit])
            .codes(&["errors", "requeued"]));

    // Streams that fail or hang: the connection lives on.
    resets_streams_by_each_code: Http2::ResetByEachCode, LOAD,
        each(Expected::failed(RESETS).equal(BROKEN));
    resets_streams_in_their_bodies: Http2::ResetInBody, LOAD,
        each(Expected::failed(&["stream_reset:cancel"]).equal(BROKEN));
    stalls_in_every_third_response: Http2::StallEveryThird, IMPATIENT, {
        let some = Expected::mixed(Seen, Seen, Never, &[])
            .equal(&[SentWereRead, AnsweredWereWritten, TimedOutWereUnended, NoneOverLimit]);
        let kept = some.shown(&[Shown::ConnectionsLiveOn]);
        vec![kept, kept, kept, some]
    };
    sends_bodies_without_an_end: Http2::EndlessBody, IMPATIENT,
        each(Expected::timed_out().equal(&[SentWereRead, TimedOutWereUnended, NoneOverLimit]));
    never_opens_its_window: Http2::WindowNever, LoadShape { large: true, ..IMPATIENT },
        each(HUNG);
    // Window updates without progress are a flood after a thousand.
    widens_a_stream_by_nothing: Http2::BreaksStream(StreamRule::StreamIncrement), LOAD,
        fails(&["http2:stream_increment", "http2:frame_flood", "behind_failed"]);
    widens_a_stream_too_far: Http2::BreaksStream(StreamRule::StreamWindow), LOAD,
        fails(&["http2:stream_window", "http2:frame_flood", "behind_failed"]);
    answers_uploads_early: Http2::AnswerEarly, LARGE,
        each(Expected::answered().equal(&[AnsweredWereWritten, ConnectsWereAccepted])
            .shown(&[Shown::IncompleteUploads]));

    // Connections that fail, with all their streams.
    sends_no_settings: Http2::SettingsNever, IMPATIENT,
        each(Expected::mixed(Never, Never, Any, &["settings_timed_out"]).equal(&[NoneOverLimit]));
    takes_no_streams: Http2::Streams(0), IMPATIENT,
        each(Expected::mixed(Never, Never, Any, &["settings_timed_out"]).equal(&[NoneOverLimit]));
    answers_by_http_1: Http2::AnswerHttp1, IMPATIENT,
        each(Expected::mixed(Never, Never, Any, &["http2:not_http2"])
            .equal(&[SentWereRead, NoneOverLimit]));
    closes_in_bodies: Http2::CloseInBody, LOAD,
        each(Expected::failed(&["cut_short", "closed_before_response", "behind_failed"])
            .equal(BROKEN));
    resets_the_connection_in_bodies: Http2::ResetConnectionInBody, LOAD,
        each(Expected::failed(&["reset", "cut_short", "write_failed", "behind_failed"]));
    closes_on_a_request: Http2::CloseOnRequest, LOAD,
        each(Expected::failed(&["closed_before_response", "behind_failed"]).equal(BROKEN));
    ends_a_stream_twice: Http2::EndTwice, LOAD,
        each(Expected::mixed(Seen, Never, Any, &["http2:closed_stream", "behind_failed"])
            .equal(&[SentWereRead, AnsweredWereWritten, FailedWereBroken, NoneOverLimit]));
}

stream_rules! {
    sends_more_than_its_content_length: BodyTooLong, "http2:length_mismatch";
    sends_less_than_its_content_length: BodyTooShort, "http2:length_mismatch";
    sends_a_body_before_the_head: BodyEarly, "http2:body_early";
    sends_a_body_with_204: BodyForbidden, "http2:body_forbidden";
    sends_a_header_list_of_72_kib: HeaderBomb, "http2:header_list_too_large";
    sends_no_status: StatusMissing, "http2:status_missing";
    sends_a_status_of_two_digits: StatusInvalid, "http2:status_invalid";
    sends_a_field_of_http_1: ConnectionField, "http2:connection_field";
    sends_a_name_in_capitals: FieldName, "http2:field_name";
    sends_17_interim_responses: TooManyInterim, "http2:too_many_interim";
    switches_protocols: Upgrade, "http2:upgrade";
    sends_trailers_that_go_on: TrailersGoOn, "http2:trailers_go_on";
}

connection_rules! {
    sends_a_frame_above_16_kib: FrameTooLarge, "http2:frame_too_large";
    sends_a_ping_of_seven_bytes: FrameLength, "http2:frame_length";
    sends_settings_of_a_stream: FrameStream, "http2:frame_stream";
    pads_beyond_the_frame: Padding, "http2:padding";
    interrupts_a_header_block: BlockInterrupted, "http2:block_interrupted";
    continues_nothing: StrayContinuation, "http2:stray_continuation";
    promises_a_push: PushPromise, "http2:push_promise";
    answers_on_a_stream_of_its_own: ServerStream, "http2:server_stream";
    answers_on_a_stream_that_never_began: IdleStream, "http2:idle_stream";
    acknowledges_unsent_settings: SettingsAck, "http2:settings_ack";
    enables_pushes_to_itself: EnablePush, "http2:enable_push";
    sets_a_window_of_2_gib: InitialWindow, "http2:initial_window";
    sets_frames_of_100_bytes: MaxFrameSize, "http2:max_frame_size";
    widens_the_connection_by_nothing: ConnectionIncrement, "http2:connection_increment";
    widens_the_connection_too_far: ConnectionWindow, "http2:connection_window";
    raises_its_last_stream: GoAwayRaised, "http2:go_away_raised";
    sends_the_index_0: HpackIndex, "http2:hpack_index";
    pads_huffman_by_a_byte: HpackHuffman, "http2:hpack_huffman";
    enlarges_the_dynamic_table: HpackTableSize, "http2:hpack_table_size";
}

floods! {
    floods_with_settings: Settings, "http2:settings_flood";
    floods_with_pings: Ping, "http2:ping_flood";
    floods_with_empty_data: EmptyData, "http2:empty_data_flood";
    floods_with_resets: Reset, "http2:reset_flood", "stream_reset:cancel";
    floods_with_window_updates: WindowUpdate, "http2:frame_flood";
    floods_with_priorities: Priority, "http2:frame_flood";
    floods_with_empty_continuations: EmptyContinuation, "http2:continuation_flood";
    floods_with_continuations: Continuation, "http2:block_too_large";
}

/// What a server does that doesn't speak HTTP/2.
type Stranger = fn(&mut std::net::TcpStream);

#[test]
fn a_server_without_http_2_is_refused_before_the_run() {
    let strangers: [(&str, Stranger); 3] = [
        ("closes", |_| {}),
        ("answers by HTTP/1.1", |stream| {
            let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
            // The client may have gone.
            let _ = stream.write_all(answer);
        }),
        ("is silent", |stream| {
            let _ = stream.read(&mut [0; 1_024]);
            thread::sleep(Duration::from_secs(2));
        }),
    ];
    for (what, stranger) in strangers {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        // It ends with the test's process.
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                // The preface and settings are read, since a close of unread bytes is a reset.
                let _ = stream.read(&mut [0; 1_024]);
                stranger(&mut stream);
            }
        });
        let folder = tempfile::tempdir().expect("a folder");
        let output = Command::new(env!("CARGO_BIN_EXE_truetail"))
            // The user's saved calibrations are out of its reach.
            .env("XDG_CACHE_HOME", "/dev/null")
            .args(["run", &format!("http://127.0.0.1:{port}/"), "--http", "2", "--rate", "100"])
            .args(["--warmup", "0s", "--duration", "200ms", "--timeout", "500ms"])
            .args(["--out", "report.json"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .output()
            .expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{what}: {text}");
        assert!(text.contains("--http 1.1"), "{what}: {text}");
        assert!(!folder.path().join("report.json").exists(), "{what}");
    }
}
