//! Streams over the life of a connection: limits, resets, GOAWAY, and their end.

use http2::client::{Client, NoRoom};
use http2::code::ErrorCode;
use http2::event::{Event, Failure, Request};
use http2::request::{RequestSpec, Requests, Value};
use http2::violation::Violation;

use crate::frames::*;

/// A client that knows a server's settings, and one request without a body.
pub(crate) struct Talk {
    pub(crate) client: Client,
    requests: Requests,
    pub(crate) out: Vec<u8>,
}

impl Talk {
    pub(crate) fn new(streams_max: usize, server: &[(u16, u32)]) -> Talk {
        let spec = RequestSpec {
            method: "POST",
            scheme: "https",
            authority: Value::Constant("localhost"),
            path: Value::Constant("/"),
            headers: &[],
        };
        let requests = Requests::render(&[spec]).expect("valid");
        let mut talk = Talk { client: Client::new(streams_max), requests, out: Vec::new() };
        talk.client.start(&mut talk.out);
        assert_eq!(talk.begin(0, 0), Err(NoRoom::Settings));
        assert_eq!(talk.client.room(), 0);
        assert_eq!(talk.receive(&[settings(server)]), [Event::Settings]);
        talk
    }

    /// Begins a request.
    pub(crate) fn begin(&mut self, body_bytes: u64, key: u64) -> Result<u32, NoRoom> {
        let Talk { client, requests, out } = self;
        client.begin(requests, 0, &[], body_bytes, key, out)
    }

    /// All events of these frames.
    pub(crate) fn receive(&mut self, frames: &[Vec<u8>]) -> Vec<Event> {
        let stream = frames.concat();
        let (mut rest, mut events) = (stream.as_slice(), Vec::new());
        loop {
            let (taken, event) = self.client.receive(rest);
            rest = &rest[taken..];
            match event {
                Event::NeedMore => return events,
                Event::Broken(violation) => panic!("{violation:?} after {events:?}"),
                event => events.push(event),
            }
        }
    }

    /// What the client has sent of one type, with what waits.
    pub(crate) fn sent(&mut self, kind: u8) -> Vec<(u8, u32, Vec<u8>)> {
        self.client.write(&mut self.out);
        sent(&self.out, kind)
    }
}

fn request(key: u64, stream: u32) -> Request {
    Request { key, stream }
}

/// The keys of the responses.
fn done(events: &[Event]) -> Vec<u64> {
    let key = |event: &Event| match event {
        Event::Done(request, _) => request.key,
        other => panic!("{other:?}"),
    };
    events.iter().map(key).collect()
}

#[test]
fn the_lower_limit_of_streams_counts() {
    for (ours, theirs, limit) in [(5, 3, 3), (3, 5, 3), (3, u32::MAX, 3), (3, 0, 0)] {
        let mut talk = Talk::new(ours, &[(3, theirs)]);
        assert_eq!(talk.client.room(), limit);
        for key in 0..limit as u64 {
            assert!(talk.begin(0, key).is_ok());
        }
        let before = talk.out.len();
        assert_eq!(talk.begin(0, 9), Err(NoRoom::Streams));
        assert_eq!(talk.out.len(), before, "nothing is sent");
        assert_eq!(talk.client.open(), limit);
    }
}

#[test]
fn a_limit_lowered_during_the_run_is_obeyed() {
    let mut talk = Talk::new(4, &[]);
    for key in 0..4 {
        talk.begin(0, key).expect("room");
    }
    assert_eq!(talk.receive(&[settings(&[(3, 2)])]), [Event::Settings]);
    assert_eq!(talk.client.open(), 4, "those that are open go on");
    for (stream, room) in [(1, 0), (3, 0), (5, 1), (7, 2)] {
        talk.receive(&[ok(stream)]);
        assert_eq!(talk.client.room(), room);
    }
    talk.receive(&[settings(&[(3, 100)])]);
    assert_eq!(talk.client.room(), 4);
}

#[test]
fn responses_come_in_any_order_over_many_streams() {
    let mut talk = Talk::new(100, &[]);
    let mut open: Vec<(u64, u32)> = Vec::new();
    let mut random = crate::random_blocks::Random(3);
    for key in 0..20_000 {
        if open.len() == 100 {
            let (key, stream) = open.swap_remove(random.below(100));
            assert_eq!(done(&talk.receive(&[ok(stream)])), [key]);
        }
        let stream = talk.begin(0, key).expect("room");
        assert!(open.iter().all(|(_, other)| *other < stream), "identifiers rise");
        open.push((key, stream));
    }
    assert_eq!(talk.client.open(), 100);
}

#[test]
fn go_away_lets_the_first_go_on_and_gives_back_the_others() {
    let mut talk = Talk::new(4, &[]);
    for key in 10..14 {
        talk.begin(0, key).expect("room");
    }
    let events = talk.receive(&[go_away(3, 0), ok(3)]);
    let go_away_event = Event::GoAway { last_stream: 3, code: ErrorCode::NO_ERROR };
    let unserved = [Event::Unserved(request(12, 5)), Event::Unserved(request(13, 7))];
    assert_eq!(events[..3], [go_away_event, unserved[0], unserved[1]]);
    assert_eq!(done(&events[3..]), [11]);
    assert_eq!(talk.begin(0, 9), Err(NoRoom::Connection));
    assert!(!talk.client.is_drained());
    assert_eq!(done(&talk.receive(&[ok(1)])), [10]);
    assert!(talk.client.is_drained());
}

#[test]
fn go_away_may_be_announced() {
    let mut talk = Talk::new(4, &[]);
    for key in 0..3 {
        talk.begin(0, key).expect("room");
    }
    let announced = Event::GoAway { last_stream: 0x7fff_ffff, code: ErrorCode::NO_ERROR };
    assert_eq!(talk.receive(&[go_away(0x7fff_ffff, 0)]), [announced], "all go on");
    assert_eq!(talk.client.room(), 0);
    let events = talk.receive(&[go_away(3, 2)]);
    let code = ErrorCode(2);
    assert_eq!(code.name(), "internal_error");
    let expected = [Event::GoAway { last_stream: 3, code }, Event::Unserved(request(2, 5))];
    assert_eq!(events, expected);
    assert_eq!(done(&talk.receive(&[ok(1), ok(3)])), [0, 1]);
}

#[test]
fn a_go_away_of_many_streams_gives_back_each() {
    let mut talk = Talk::new(5_000, &[]);
    for key in 0..5_000 {
        talk.begin(0, key).expect("room");
    }
    let events = talk.receive(&[go_away(0, 11)]);
    assert_eq!(events.len(), 5_001);
    assert!(talk.client.is_drained());
}

#[test]
fn refused_and_reset_streams_are_told_apart() {
    let mut talk = Talk::new(3, &[]);
    for key in 0..3 {
        talk.begin(0, key).expect("room");
    }
    let head = headers(0, 5, &[(":status", "200")]);
    let events = talk.receive(&[reset(3, 7), reset(1, 11), head, reset(5, 0)]);
    let failed =
        |key, stream, code| Event::Failed(request(key, stream), Failure::Reset(ErrorCode(code)));
    assert_eq!(events, [Event::Refused(request(1, 3)), failed(0, 1, 11), failed(2, 5, 0)]);
    assert_eq!(talk.client.room(), 3);
    assert!(talk.sent(RST_STREAM).is_empty(), "a reset isn't answered by another");
}

#[test]
fn what_comes_for_a_stream_that_was_given_up_is_ignored() {
    let mut talk = Talk::new(2, &[]);
    let stream = talk.begin(100, 1).expect("room");
    talk.begin(0, 2).expect("room");
    talk.client.cancel(stream);
    talk.client.cancel(stream);
    assert_eq!(talk.client.room(), 1);
    assert_eq!(talk.sent(RST_STREAM), [(0, 1, vec![0, 0, 0, 8])], "once");
    assert_eq!(talk.client.next_body_part(100), None);
    // Fields of its block enter the table nevertheless.
    let head = frame(HEADERS, END_HEADERS, 1, [0x48, 3, b'2', b'0', b'3']);
    let late = [head, data(0, 1, "a"), window_update(1, 9), data(END_STREAM, 1, ""), reset(1, 0)];
    assert_eq!(talk.receive(&late), []);
    let events = talk.receive(&[frame(HEADERS, END_HEADERS | END_STREAM, 3, [0xbe])]);
    let [Event::Done(_, response)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(response.status, 203);
}

#[test]
fn an_answer_before_the_body_ends_the_body() {
    let mut talk = Talk::new(2, &[(4, 10)]);
    talk.begin(100, 1).expect("room");
    assert!(talk.client.next_body_part(1_000).is_some_and(|part| part.bytes == 10));
    let events = talk.receive(&[headers(END_STREAM, 1, &[(":status", "413")]), reset(1, 0)]);
    assert_eq!(done(&events), [1]);
    assert_eq!(talk.sent(RST_STREAM), [(0, 1, vec![0, 0, 0, 8])]);
    assert_eq!(talk.receive(&[window_update(1, 10)]), []);
    assert_eq!(talk.client.next_body_part(1_000), None);
}

#[test]
fn a_client_starts_over_on_a_new_connection() {
    let mut talk = Talk::new(2, &[(3, 1), (1, 0)]);
    talk.begin(0, 1).expect("room");
    talk.begin(0, 2).expect_err("one stream only");
    let fills = frame(HEADERS, END_HEADERS | END_STREAM, 1, [0x88, 0x40, 1, b'x', 1, b'y']);
    talk.receive(&[fills, go_away(1, 0), vec![0, 0]]);
    assert_eq!(talk.client.refusal(), Some(NoRoom::Connection));

    talk.client.reset();
    talk.out.clear();
    talk.client.start(&mut talk.out);
    assert_eq!(talk.client.peer_settings(), None);
    assert_eq!(talk.receive(&[settings(&[])]), [Event::Settings]);
    assert_eq!(talk.client.room(), 2);
    assert_eq!(talk.begin(0, 3), Ok(1));
    let (_, _, block) = &talk.sent(HEADERS)[0];
    assert!(9 < block.len(), "the first block fills the table again");
    // The table is empty again.
    let uses = frame(HEADERS, END_HEADERS | END_STREAM, 1, [0x88, 0xbe]);
    assert_eq!(talk.client.receive(&uses), (11, Event::Broken(Violation::HpackIndex)));
    assert_eq!(talk.client.receive(&uses), (0, Event::Broken(Violation::HpackIndex)));
}

#[test]
fn a_closed_connection_takes_no_request() {
    let mut talk = Talk::new(2, &[]);
    talk.begin(0, 1).expect("room");
    talk.client.close();
    assert_eq!(talk.sent(GOAWAY), [(0, 0, vec![0; 8])]);
    talk.client.finish();
    let closed = Failure::Violation(Violation::ClosedBeforeResponse);
    assert_eq!(talk.receive(&[]), [Event::Failed(request(1, 1), closed)]);
    assert_eq!(talk.begin(0, 2), Err(NoRoom::Connection));
    assert!(talk.client.is_drained());
}

#[test]
fn all_fields_can_be_read_if_asked_for() {
    let mut talk = Talk::new(2, &[]);
    talk.client.decode_fully();
    talk.begin(0, 1).expect("room");
    let events = talk.receive(&[headers(0, 1, &[(":status", "200"), ("x", "y")])]);
    assert_eq!(events, [Event::Head(request(1, 1), 200)]);
    let fields: Vec<_> =
        talk.client.fields().iter().map(|field| (&field.name[..], &field.value[..])).collect();
    assert_eq!(fields, [(&b":status"[..], &b"200"[..]), (b"x", b"y")]);
}
