//! The bytes of every message: what an agent of today says to a controller of next year.

use agents::channel::Side;
use agents::frame::{HEADER_BYTES, TAG_BYTES};
use agents::message::Message;

use crate::examples::{Pair, bytes, conversation, frames, key};

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The frames of a session, in hexadecimal: header, payload and tag.
fn session() -> Vec<String> {
    let mut pair = Pair::open(key());
    let opening = [pair.to_agent.clone(), pair.to_controller.clone()].concat();
    let mut shown: Vec<String> =
        frames(&opening).iter().map(|frame| parts(&bytes(frame))).collect();
    for (side, message) in conversation() {
        let frame = pair.frame(*side, message);
        // The engine's documents change with the engine; its own tests hold them.
        let fields = match message {
            Message::Prepare(_) => Some(5),
            Message::Report(_) => Some(1),
            _ => None,
        };
        shown.push(match fields {
            None => parts(&frame),
            Some(len) => format!("{} …", hexadecimal(&frame[HEADER_BYTES..HEADER_BYTES + len])),
        });
    }
    shown
}

fn parts(frame: &[u8]) -> String {
    let (tagged, tag) = frame.split_at(frame.len() - TAG_BYTES);
    let (header, payload) = tagged.split_at(HEADER_BYTES);
    format!("{} {} {}", hexadecimal(header), hexadecimal(payload), hexadecimal(tag))
}

/// [`session`] as it was when the protocol got its version: one frame a line. Python's `hmac` finds
/// the same tags.
const GOLDEN: &str = include_str!("golden.txt");

#[test]
fn the_bytes_of_every_message_are_those_of_this_version_of_the_protocol() {
    let session = session();
    let golden: Vec<&str> = GOLDEN.lines().collect();
    for (frame, golden) in session.iter().zip(&golden) {
        assert_eq!(frame, golden);
    }
    assert_eq!(session.len(), golden.len());
}

#[test]
fn each_document_lies_in_its_payload_as_json() {
    let mut pair = Pair::open(key());
    for (side, message) in conversation() {
        let json = match message {
            Message::Prepare(prepare) => serde_json::to_vec(&prepare.plan),
            Message::Report(results) => serde_json::to_vec(&results.head),
            Message::Hello(hello) => serde_json::to_vec(hello),
            Message::Refused(refusal) => serde_json::to_vec(refusal),
            _ => continue,
        };
        let json = json.expect("text");
        let frame = pair.frame(*side, message);
        assert!(frame.windows(json.len()).any(|bytes| bytes == json), "{message:?}");
    }
    let sides = |wanted| conversation().iter().filter(|(side, _)| *side == wanted).count();
    assert!(8 <= sides(Side::Agent) && 8 <= sides(Side::Controller));
}
