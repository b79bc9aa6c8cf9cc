//! Traffic that looks like a flood and isn't one. `rules` has those that are.

use crate::conversation::Conversation;
use crate::frames::*;

/// A server's traffic over many responses: the transcript must have no error.
fn check(frames_of: impl Fn(u32) -> Vec<u8>) -> Conversation {
    let mut conversation = Conversation::new(false);
    conversation.receive(&settings(&[]));
    // Streams go on as 1, 3, 5 and so on.
    for number in 0..3_000 {
        conversation.receive(&frames_of(2 * number + 1));
    }
    let transcript = &conversation.transcript;
    assert!(!transcript.contains("broken"), "{}", &transcript[transcript.len() - 100..]);
    assert_eq!(transcript.matches(" 200 ").count(), 3_000);
    conversation
}

#[test]
fn pings_and_updates_beside_responses_are_no_flood() {
    let conversation = check(|stream| {
        let pings = vec![frame(PING, 0, 0, [7; 8]); 3].concat();
        [pings, window_update(0, 1), window_update(stream, 1), settings(&[]), ok(stream)].concat()
    });
    let acks = sent(&conversation.sent, PING);
    assert_eq!(acks.len(), 9_000);
    assert!(acks.iter().all(|ack| *ack == (ACK, 0, vec![7; 8])));
    let acks = sent(&conversation.sent, SETTINGS).into_iter().filter(|frame| frame.0 == ACK);
    assert_eq!(acks.count(), 3_001, "each of the server's settings");
}

#[test]
fn an_empty_end_of_data_is_no_flood() {
    check(|stream| {
        let head = headers(0, stream, &[(":status", "200")]);
        [head, data(0, stream, ""), data(END_STREAM, stream, "")].concat()
    });
}

#[test]
fn updates_for_a_large_upload_are_no_flood() {
    let mut conversation = Conversation::new(false);
    // A window of 20 bytes, opened 5,000 times: each lets a frame of the body leave.
    conversation.receive(&settings(&[(4, 20)]));
    for _ in 1..5_000 {
        conversation.receive(&window_update(5, 20));
        conversation.receive(&window_update(0, 20));
    }
    let sent_bytes: usize =
        sent(&conversation.sent, DATA).iter().map(|(_, _, bytes)| bytes.len()).sum();
    assert_eq!(sent_bytes, 100_000, "the whole body");
    assert!(!conversation.transcript.contains("broken"));
}
