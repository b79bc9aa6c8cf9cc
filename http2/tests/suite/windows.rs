//! Request bodies under the server's windows.

use http2::event::Event;

use crate::frames::*;
use crate::streams::Talk;

/// All that may be sent now, as (key, at, bytes, last).
fn parts(talk: &mut Talk, bytes_max: u32) -> Vec<(u64, u64, u32, bool)> {
    let mut parts = Vec::new();
    while let Some(part) = talk.client.next_body_part(bytes_max) {
        let length = part.bytes.to_be_bytes();
        assert_eq!(part.head[..5], [length[1], length[2], length[3], DATA, u8::from(part.last)]);
        parts.push((part.key, part.at, part.bytes, part.last));
    }
    parts
}

const MAX: u32 = u32::MAX;

#[test]
fn a_body_leaves_in_frames_that_the_server_takes() {
    let mut talk = Talk::new(1, &[]);
    talk.begin(40_000, 1).expect("room");
    let expected = [(1, 0, 16_384, false), (1, 16_384, 16_384, false), (1, 32_768, 7_232, true)];
    assert_eq!(parts(&mut talk, MAX), expected);

    let mut talk = Talk::new(1, &[(5, 1 << 20), (4, 1 << 30)]);
    talk.receive(&[window_update(0, 1 << 30)]);
    talk.begin(300_000, 1).expect("room");
    let expected = [(1, 0, 262_144, false), (1, 262_144, 37_856, true)];
    assert_eq!(parts(&mut talk, MAX), expected, "but none of ours is above 256 KiB");
}

#[test]
fn bodies_take_turns() {
    let mut talk = Talk::new(3, &[]);
    for key in 1..4 {
        talk.begin(if key == 2 { 0 } else { 250 }, key).expect("room");
    }
    let expected = [
        (1, 0, 100, false),
        (3, 0, 100, false),
        (1, 100, 100, false),
        (3, 100, 100, false),
        (1, 200, 50, true),
        (3, 200, 50, true),
    ];
    assert_eq!(parts(&mut talk, 100), expected);
    assert_eq!(talk.client.next_body_part(0), None);
}

#[test]
fn the_connections_window_is_shared() {
    let mut talk = Talk::new(2, &[(5, 60_000)]);
    talk.begin(50_000, 1).expect("room");
    talk.begin(50_000, 2).expect("room");
    assert_eq!(parts(&mut talk, MAX), [(1, 0, 50_000, true), (2, 0, 15_535, false)]);
    assert_eq!(talk.receive(&[window_update(2 * 2 - 1, 10)]), [], "the connection's is closed");
    assert_eq!(parts(&mut talk, MAX), []);
    assert_eq!(talk.receive(&[window_update(0, 10)]), [Event::WindowOpened]);
    assert_eq!(parts(&mut talk, MAX), [(2, 15_535, 10, false)]);
    assert_eq!(talk.receive(&[window_update(0, 100_000)]), [Event::WindowOpened]);
    assert_eq!(parts(&mut talk, MAX), [(2, 15_545, 34_455, true)]);
    assert_eq!(talk.receive(&[window_update(0, 1)]), [], "nothing waits for it");
}

#[test]
fn a_closed_stream_window_holds_no_other_back() {
    let mut talk = Talk::new(2, &[(4, 10)]);
    talk.begin(25, 1).expect("room");
    talk.begin(8, 2).expect("room");
    assert_eq!(parts(&mut talk, MAX), [(1, 0, 10, false), (2, 0, 8, true)]);
    assert_eq!(talk.receive(&[window_update(1, 10)]), [Event::WindowOpened]);
    assert_eq!(parts(&mut talk, MAX), [(1, 10, 10, false)]);
    assert_eq!(talk.receive(&[window_update(3, 10)]), [], "its body has left");
    assert_eq!(talk.receive(&[window_update(1, 2), window_update(1, 2)]).len(), 2);
    assert_eq!(parts(&mut talk, MAX), [(1, 20, 4, false)]);
}

#[test]
fn settings_change_the_windows_of_open_streams() {
    let mut talk = Talk::new(2, &[(4, 100)]);
    talk.begin(200, 1).expect("room");
    assert_eq!(parts(&mut talk, MAX), [(1, 0, 100, false)]);
    // 100 − 70 below zero: 70 more are owed before anything may be sent.
    assert_eq!(talk.receive(&[settings(&[(4, 30)])]), [Event::Settings]);
    talk.begin(50, 2).expect("room");
    assert_eq!(parts(&mut talk, MAX), [(2, 0, 30, false)], "new ones have the new window");
    assert_eq!(talk.receive(&[window_update(1, 70)]), []);
    assert_eq!(parts(&mut talk, MAX), []);
    assert_eq!(talk.receive(&[window_update(1, 5)]), [Event::WindowOpened]);
    assert_eq!(parts(&mut talk, MAX), [(1, 100, 5, false)]);
    assert_eq!(talk.receive(&[settings(&[(4, 0), (4, 45)])]), [Event::Settings]);
    let expected = [(1, 105, 15, false), (2, 30, 15, false)];
    assert_eq!(parts(&mut talk, MAX), expected, "each has 15 more");
    talk.receive(&[settings(&[(4, 1_000)])]);
    assert_eq!(parts(&mut talk, MAX), [(1, 120, 80, true), (2, 45, 5, true)]);
}

#[test]
fn a_body_of_a_gibibyte_leaves_whole() {
    const GIB: u64 = 1 << 30;
    let mut talk = Talk::new(1, &[]);
    talk.begin(GIB, 1).expect("room");
    let (mut sent, mut last) = (0, false);
    while !last {
        for (_, at, bytes, ends) in parts(&mut talk, MAX) {
            assert_eq!(at, sent);
            (sent, last) = (sent + u64::from(bytes), ends);
        }
        talk.receive(&[window_update(0, 60_000), window_update(1, 60_000)]);
    }
    assert_eq!(sent, GIB);
}

#[test]
fn streams_that_ended_leave_the_queue() {
    let mut talk = Talk::new(4, &[]);
    talk.begin(1 << 20, 0).expect("room");
    parts(&mut talk, MAX);
    // The connection's window is closed: each of these waits in the queue when it is reset.
    for key in 1..10_000 {
        let stream = talk.begin(10, key).expect("room");
        talk.receive(&[reset(stream, 7)]);
    }
    talk.receive(&[window_update(0, 100)]);
    assert_eq!(parts(&mut talk, MAX), [], "stream 1 waits for its own window");
    assert_eq!(talk.receive(&[window_update(1, 100)]), [Event::WindowOpened]);
    assert_eq!(parts(&mut talk, MAX), [(0, 65_535, 100, false)]);
}
