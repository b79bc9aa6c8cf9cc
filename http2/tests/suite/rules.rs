//! Each rule is broken once, and found by its name, in every split.

use std::collections::BTreeSet;

use http2::violation::{Scope, Violation};

use crate::conversation::{Conversation, run, transcript};
use crate::frames::*;

/// What a server sends after its settings, to break a rule.
fn breach(violation: Violation) -> Vec<Vec<u8>> {
    let fields = |fields: &[(&str, &str)]| vec![headers(END_STREAM, 1, fields)];
    let block = |bytes: &[u8]| vec![frame(HEADERS, END_HEADERS | END_STREAM, 1, bytes)];
    let open = |fields: &[(&str, &str)]| headers(0, 1, fields);
    let ok_open = open(&[(":status", "200")]);
    let status = (":status", "200");
    let many = |frame: Vec<u8>| vec![frame; 1_001];
    match violation {
        Violation::NotHttp2 => unreachable!("it isn't broken after settings"),
        Violation::FrameTooLarge => vec![vec![0, 0x40, 1, DATA, 0, 0, 0, 0, 1]],
        Violation::FrameLength => vec![frame(PING, 0, 0, [0; 7])],
        Violation::FrameStream => vec![data(0, 0, "a")],
        Violation::Padding => vec![frame(HEADERS, END_HEADERS | PADDED, 1, [2, 0x88])],
        Violation::BlockInterrupted => {
            vec![frame(HEADERS, 0, 1, [0x88]), frame(PING, 0, 0, [0; 8])]
        }
        Violation::StrayContinuation => vec![frame(CONTINUATION, END_HEADERS, 1, [0x88])],
        Violation::PushPromise => {
            vec![frame(PUSH_PROMISE, END_HEADERS, 1, [0, 0, 0, 2, 0x82, 0x84])]
        }
        Violation::ServerStream => vec![ok(2)],
        Violation::IdleStream => vec![ok(99)],
        Violation::ClosedStream => vec![ok(1), data(END_STREAM, 1, "late")],
        Violation::SettingsAck => vec![frame(SETTINGS, ACK, 0, ""); 2],
        Violation::EnablePush => vec![settings(&[(2, 1)])],
        Violation::InitialWindow => vec![settings(&[(4, 1 << 31)])],
        Violation::MaxFrameSize => vec![settings(&[(5, 16_383)])],
        Violation::ConnectionIncrement => vec![window_update(0, 0)],
        Violation::ConnectionWindow => vec![window_update(0, 0x7fff_ffff); 2],
        Violation::GoAwayRaised => vec![go_away(5, 0), go_away(7, 0)],
        Violation::HpackIndex => block(&[0xbe]),
        Violation::HpackInteger => block(&[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        Violation::HpackCut => block(&[0x88, 0x40, 1]),
        Violation::HpackHuffman => block(&[0x88, 0x00, 1, b'x', 0x81, 0]),
        Violation::HpackTableSize => block(&[0x3f, 0xe2, 0x1f, 0x88]),
        Violation::HpackTableLate => block(&[0x88, 0x20]),
        Violation::BlockTooLarge => {
            let mut frames = vec![frame(CONTINUATION, 0, 1, [0; 16_384]); 5];
            frames[0] = frame(HEADERS, 0, 1, [0; 16_384]);
            frames
        }
        Violation::ContinuationFlood => {
            let mut frames = vec![frame(CONTINUATION, 0, 1, ""); 66];
            frames[0] = frame(HEADERS, 0, 1, "");
            frames
        }
        Violation::SettingsFlood => many(settings(&[])),
        Violation::PingFlood => many(frame(PING, 0, 0, [7; 8])),
        Violation::ResetFlood => [vec![ok(1)], vec![reset(1, 8); 1_001]].concat(),
        Violation::EmptyDataFlood => [vec![ok_open], many(data(0, 1, ""))].concat(),
        Violation::FrameFlood => many(frame(PRIORITY, 0, 1, [0; 5])),
        Violation::AnswersUnread => {
            // Eight for each byte of data, so it isn't a flood, but nothing that we report either.
            let pings = vec![frame(PING, 0, 0, [7; 8]); 8];
            let round = [pings, vec![data(0, 1, "a")]].concat();
            [vec![ok_open], vec![round.concat(); 500]].concat()
        }
        Violation::StreamIncrement => vec![window_update(1, 0)],
        Violation::StreamWindow => vec![window_update(1, 0x7fff_ffff)],
        Violation::HeaderListTooLarge => {
            let field = [&[0x88, 0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'v'; 4_000]].concat();
            block(&[&field[..], &[0xbe; 16]].concat())
        }
        Violation::StatusMissing => fields(&[("date", "now")]),
        Violation::StatusInvalid => fields(&[(":status", "20x")]),
        Violation::StatusRepeated => fields(&[status, status]),
        Violation::PseudoUnknown => fields(&[status, (":path", "/")]),
        Violation::PseudoLate => fields(&[("date", "now"), status]),
        Violation::PseudoInTrailers => vec![ok_open, headers(END_STREAM, 1, &[status])],
        Violation::FieldName => fields(&[status, ("Date", "now")]),
        Violation::ConnectionField => fields(&[status, ("transfer-encoding", "chunked")]),
        Violation::FieldValue => fields(&[status, ("date", "no\rw")]),
        Violation::ContentLength => fields(&[status, ("content-length", "3,3")]),
        Violation::ContentLengthsDiffer => {
            fields(&[status, ("content-length", "3"), ("content-length", "4")])
        }
        Violation::LengthMismatch => fields(&[status, ("content-length", "3")]),
        Violation::BodyForbidden => vec![open(&[(":status", "204")]), data(0, 1, "a")],
        Violation::BodyEarly => vec![data(0, 1, "a")],
        Violation::InterimEnds => fields(&[(":status", "103")]),
        Violation::TooManyInterim => vec![open(&[(":status", "103")]); 17],
        Violation::Upgrade => vec![open(&[(":status", "101")])],
        Violation::TrailersGoOn => vec![ok_open, open(&[("x", "y")])],
        Violation::ClosedBeforeResponse => vec![],
        Violation::CutShort => vec![ok_open],
    }
}

/// Those that say how the connection ended.
const AT_THE_END: [Violation; 2] = [Violation::ClosedBeforeResponse, Violation::CutShort];

#[test]
fn each_rule_is_found_when_it_is_broken() {
    let after_settings =
        Violation::ALL.iter().filter(|violation| **violation != Violation::NotHttp2);
    for &violation in after_settings {
        let stream = [settings(&[]), breach(violation).concat()].concat();
        let fully = violation == Violation::FieldValue;
        let mut conversation = Conversation::new(fully);
        conversation.receive(&stream);
        if AT_THE_END.contains(&violation) {
            conversation.finish();
        }
        let code = violation.code();
        let expected = match violation.scope() {
            Scope::Connection => format!("; broken {code}; "),
            Scope::Stream => format!("; 1 {code}; "),
        };
        let transcript = &conversation.transcript;
        assert!(transcript.contains(&expected), "{violation:?}: {transcript}");
        // Nothing else is wrong.
        let found = Violation::ALL.iter().filter(|other| {
            let other = other.code();
            transcript.contains(&format!("broken {other};"))
                || transcript.contains(&format!("1 {other};"))
        });
        assert_eq!(found.collect::<Vec<_>>(), [&violation], "{transcript}");

        let error_code = violation.error_code().0;
        if violation.scope() == Scope::Connection {
            let frames = sent(&conversation.sent, GOAWAY);
            let expected = [[0; 4], error_code.to_be_bytes()].concat();
            assert_eq!(frames, [(0, 0, expected)], "{violation:?}");
        } else if !AT_THE_END.contains(&violation) {
            let frames = sent(&conversation.sent, RST_STREAM);
            let expected = error_code.to_be_bytes().to_vec();
            assert_eq!(frames, [(0, 1, expected)], "{violation:?}");
        }
        run(&[&[200], stream.as_slice()].concat());
    }
}

#[test]
fn a_server_of_another_protocol_is_found_by_its_first_bytes() {
    for text in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"SSH-2.0-x\r\n", b"\x15\x03\x01\0\x02"]
    {
        run(&[&[3], text].concat());
        assert_eq!(transcript(false, text.chunks(1)).0, "broken not_http2; | ");
    }
    for first in [frame(PING, 0, 0, [0; 8]), frame(SETTINGS, ACK, 0, ""), go_away(0, 0)] {
        run(&[&[3], first.as_slice()].concat());
        assert_eq!(transcript(false, first.chunks(1)).0, "broken not_http2; | ");
    }
}

#[test]
fn names_are_unique() {
    let codes: BTreeSet<_> = Violation::ALL.iter().map(|violation| violation.code()).collect();
    assert_eq!(codes.len(), Violation::ALL.len());
}

/// Further ways to break some of the rules.
#[test]
fn rules_have_no_gaps() {
    let check = |frames: &[Vec<u8>], code: &str| {
        let stream = [settings(&[]), frames.concat()].concat();
        let (events, _) = transcript(false, std::iter::once(stream.as_slice()));
        let expected = format!("broken {code}; | ");
        assert!(events.ends_with(&expected), "{events}, not {code}");
        run(&[&[5], stream.as_slice()].concat());
    };
    let begun = frame(HEADERS, 0, 1, [0x88]);
    for interruption in [
        data(0, 1, "a"),
        settings(&[]),
        frame(0xee, 0, 0, ""),
        frame(CONTINUATION, END_HEADERS, 3, ""),
        frame(HEADERS, END_HEADERS, 1, ""),
    ] {
        check(&[begun.clone(), interruption], "block_interrupted");
    }
    for (kind, length, stream) in [
        (SETTINGS, 5, 0),
        (PING, 9, 0),
        (GOAWAY, 7, 0),
        (WINDOW_UPDATE, 3, 0),
        (WINDOW_UPDATE, 5, 1),
        (RST_STREAM, 5, 1),
        (PRIORITY, 4, 1),
    ] {
        check(&[frame(kind, 0, stream, vec![0; length])], "frame_length");
    }
    check(&[frame(SETTINGS, ACK, 0, [0; 6])], "frame_length");
    check(&[frame(DATA, PADDED, 1, "")], "frame_length");
    check(&[frame(HEADERS, PADDED | WITH_PRIORITY, 1, [0; 5])], "frame_length");
    check(&[frame(HEADERS, PADDED | WITH_PRIORITY, 1, [1, 0, 0, 0, 0, 0])], "padding");
    check(&[data(PADDED, 1, "\x03ab")], "padding");
    for kind in [DATA, HEADERS, PRIORITY, RST_STREAM, CONTINUATION, PUSH_PROMISE] {
        check(&[frame(kind, 0, 0, [0; 4])], "frame_stream");
    }
    for kind in [SETTINGS, PING, GOAWAY] {
        check(&[frame(kind, 0, 1, [0; 8])], "frame_stream");
    }
    check(&[data(0, 2, "a")], "server_stream");
    check(&[reset(2, 0)], "server_stream");
    check(&[window_update(2, 1)], "server_stream");
    check(&[data(0, 7, "a")], "idle_stream");
    check(&[reset(7, 0)], "idle_stream");
    check(&[window_update(7, 1)], "idle_stream");
    check(&[ok(1), ok(1)], "closed_stream");
    check(&[frame(0xee, 0, 0, vec![0; 16_385])], "frame_too_large");
    // A window that settings make too wide: 2³¹ − 1 − 65,535 by an update, and then as many more.
    let (update, settings) = (window_update(1, 0x7fff_0000), settings(&[(4, 65_536)]));
    check(&[update, settings], "initial_window");
}
