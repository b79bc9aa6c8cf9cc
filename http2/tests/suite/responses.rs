//! Responses, each whole, byte by byte and at every two-way split.

use http2::client::Client;
use http2::event::{Event, Request, Response};
use http2::request::{RequestSpec, Requests, Value};

use crate::conversation::{run, transcript};
use crate::frames::*;

/// Checks what a server sends after its settings, in every split, against the events up to the end
/// of the stream. `conversation` has the form, and the requests: 1 is GET, 2 HEAD and 3 POST, on
/// the streams 1, 3 and 5.
pub(crate) fn check(frames: &[Vec<u8>], expected: &str) {
    let stream = [settings(&[]), frames.concat()].concat();
    let whole = transcript(false, std::iter::once(stream.as_slice()));
    let events = whole.0.split("; |").next().expect("the end is marked");
    assert_eq!(
        events,
        format!("settings{}{expected}", if expected.is_empty() { "" } else { "; " })
    );
    run(&[&[7], stream.as_slice()].concat());
    for cut in 1..stream.len() {
        let (left, right) = stream.split_at(cut);
        assert_eq!(transcript(false, [left, right].into_iter()), whole, "cut at {cut}");
    }
}

#[test]
fn a_head_may_be_a_whole_response() {
    check(&[ok(1)], "1 200 0");
    check(&[headers(END_STREAM, 1, &[(":status", "404"), ("date", "now")])], "1 404 0");
    check(&[headers(END_STREAM, 1, &[(":status", "599")]), ok(3)], "1 599 0; 2 200 0");
    check(&[ok(3), ok(1), ok(5)], "2 200 0; 1 200 0; 3 200 0");
}

#[test]
fn data_of_streams_may_mix() {
    let head = |stream| headers(0, stream, &[(":status", "200")]);
    let frames = [
        head(1),
        head(5),
        data(0, 5, "abc"),
        data(0, 1, "de"),
        data(0, 5, ""),
        data(PADDED, 1, "\x04f\0\0\0\0"),
        data(END_STREAM, 5, ""),
        data(END_STREAM | PADDED, 1, "\0g"),
    ];
    check(&frames, "3 200 3; 1 200 4");
}

#[test]
fn heads_may_be_padded_prioritised_and_split() {
    let block = block(&[(":status", "200"), ("content-length", "0")]);
    let padded = [&[3][..], &block, &[0; 3]].concat();
    let both = [&[2, 0, 0, 0, 0, 9][..], &block, &[0; 2]].concat();
    let flags = END_STREAM | END_HEADERS;
    check(&[frame(HEADERS, flags | PADDED, 1, padded)], "1 200 0");
    check(&[frame(HEADERS, flags | PADDED | WITH_PRIORITY, 1, &both)], "1 200 0");
    for cut in 0..=block.len() {
        let (left, right) = block.split_at(cut);
        let mut frames = vec![
            frame(HEADERS, END_STREAM, 1, left),
            frame(CONTINUATION, 0, 1, ""),
            frame(CONTINUATION, END_HEADERS, 1, right),
        ];
        check(&frames, "1 200 0");
        frames[0] = frame(HEADERS, END_STREAM | PADDED, 1, [&[1][..], left, &[0]].concat());
        check(&frames, "1 200 0");
    }
}

#[test]
fn interim_responses_and_trailers_belong_to_the_response() {
    let early = headers(0, 1, &[(":status", "103"), ("link", "</a>")]);
    let head = headers(0, 1, &[(":status", "200"), ("content-length", "3")]);
    let trailers = headers(END_STREAM, 1, &[("x-sum", "1"), ("content-length", "9")]);
    let frames = [early.clone(), early, head, data(0, 1, "abc"), trailers];
    check(&frames, "1 interim 103; 1 interim 103; 1 200 3");
}

#[test]
fn some_responses_have_no_body() {
    let head = |stream, status| {
        headers(END_STREAM, stream, &[(":status", status), ("content-length", "9")])
    };
    check(&[head(3, "200")], "2 200 0");
    check(&[head(1, "204")], "1 204 0");
    check(&[head(1, "304")], "1 304 0");
    check(&[head(1, "205")], "1 length_mismatch");
    let open = headers(0, 3, &[(":status", "200"), ("content-length", "9")]);
    check(&[open.clone(), data(END_STREAM, 3, "")], "2 200 0");
    check(&[open, data(END_STREAM, 3, "a")], "2 body_forbidden");
}

#[test]
fn content_length_must_be_kept() {
    let head = |length| headers(0, 1, &[(":status", "200"), ("content-length", length)]);
    check(&[head("3"), data(END_STREAM, 1, "abc")], "1 200 3");
    check(&[head("003"), data(0, 1, "ab"), data(END_STREAM, 1, "c")], "1 200 3");
    check(&[head("3"), data(0, 1, "abcd")], "1 length_mismatch");
    check(&[head("3"), data(END_STREAM, 1, "ab")], "1 length_mismatch");
    check(&[head("18446744073709551615"), data(END_STREAM, 1, "ab")], "1 length_mismatch");
    let same =
        headers(0, 1, &[(":status", "200"), ("content-length", "3"), ("content-length", "3")]);
    check(&[same, data(END_STREAM, 1, "abc")], "1 200 3");
}

#[test]
fn frames_that_mean_nothing_are_ignored() {
    let frames = [
        frame(PRIORITY, 0, 1, [0; 5]),
        frame(PRIORITY, 0, 4, [0; 5]),
        frame(0xfa, 0xff, 7, "anything"),
        frame(0x0a, 0, 0, ""),
        frame(PING, ACK, 0, [0; 8]),
        window_update(1, 5),
        frame(SETTINGS, ACK, 0, ""),
        ok(1),
        window_update(1, 5),
        reset(1, 0),
    ];
    check(&frames, "1 200 0");
}

#[test]
fn a_failed_stream_leaves_the_others_alone() {
    let bad = headers(0, 1, &[("date", "now")]);
    let frames = [
        bad.clone(),
        data(0, 1, "was on its way"),
        headers(END_STREAM, 1, &[("x", "y")]),
        reset(1, 0),
        ok(3),
    ];
    check(&frames, "1 status_missing; 2 200 0");
    // The table is kept in step by the block of a stream that fails.
    let fills = frame(HEADERS, END_HEADERS | END_STREAM, 1, [0x40, 1, b'x', 1, b'y']);
    let uses = frame(HEADERS, END_HEADERS | END_STREAM, 3, [0x88, 0xbe]);
    check(&[fills, uses], "1 status_missing; 2 200 0");
}

#[test]
fn the_end_of_the_connection_ends_each_request() {
    let check = |frames: &[Vec<u8>], expected: &str| {
        let stream = frames.concat();
        let (events, _) = transcript(false, stream.chunks(5));
        assert_eq!(events.split("| ").nth(1), Some(expected));
    };
    check(&[], "");
    check(&[settings(&[(3, 0)])], "");
    let (early, late) = ("closed_before_response", "cut_short");
    let expected = format!("1 {late}; 2 {early}; 3 {late}; ");
    let interim = headers(0, 5, &[(":status", "100")]);
    check(
        &[settings(&[]), frame(HEADERS, 0, 1, [0x88])],
        &format!("1 {late}; 2 {early}; 3 {early}; "),
    );
    check(&[settings(&[]), interim, headers(0, 1, &[(":status", "200")])], &expected);
}

#[test]
fn a_response_is_counted_as_it_was_transferred() {
    let spec = RequestSpec {
        method: "GET",
        scheme: "http",
        authority: Value::Constant("localhost"),
        path: Value::Constant("/"),
        headers: &[],
    };
    let requests = Requests::render(&[spec]).expect("valid");
    let mut client = Client::new(1);
    client.receive(&settings(&[]));
    client.begin(&requests, 0, &[], 0, 42, &mut Vec::new()).expect("room");
    let stream = [
        headers(0, 1, &[(":status", "200"), ("a", "bcd")]),
        data(0, 1, "abc"),
        data(PADDED, 1, "\x02de\0\0"),
        headers(END_STREAM, 1, &[("e", "f")]),
    ]
    .concat();
    let response = Response {
        status: 200,
        frames: 4,
        header_bytes: (1 + 8 + 4) + (1 + 2 + 4) + (1 + 2 + 2),
        field_bytes: 10 + 4 + 2,
        body_bytes: 5,
    };
    let done = Event::Done(Request { key: 42, stream: 1 }, response);
    assert_eq!(client.receive(&stream), (stream.len(), done));
}

#[test]
fn a_body_of_a_gibibyte_takes_no_memory_and_few_updates() {
    let mut conversation = crate::conversation::Conversation::new(false);
    conversation.receive(&settings(&[]));
    conversation.receive(&headers(0, 1, &[(":status", "200"), ("content-length", "1073741824")]));
    let part = data(0, 1, [0; 16_384]);
    for _ in 1..65_536 {
        conversation.receive(&part);
    }
    conversation.receive(&data(END_STREAM, 1, [0; 16_384]));
    assert_eq!(conversation.transcript, "settings; 1 200 1073741824; ");
    let updates = sent(&conversation.sent, WINDOW_UPDATE);
    let increments: Vec<_> = updates
        .iter()
        .map(|(_, stream, bytes)| (*stream, u32::from_be_bytes(bytes[..].try_into().expect("4"))))
        .collect();
    let half = 1 << 29;
    // The first is the connection's window; the stream's end needs none.
    assert_eq!(increments, [(0, (1 << 30) - 65_535), (0, half), (1, half), (0, half)]);
}
