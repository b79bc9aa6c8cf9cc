//! The bytes of every message: builds of one version of the protocol must understand each other.

use agents::frame::HEADER_BYTES;
use agents::message::{Message, ShardState, Side};
use agents::versions::Versions;
use sha2::{Digest as _, Sha256};

use crate::examples::{Pair, conversation, frames, key, received, records, shard};

/// The versions that must be equal on both sides, then the frames of a session without a key, header
/// and payload, then what a shard's results are made of.
fn session() -> Vec<String> {
    let mut pair = Pair::open(None);
    let opening = [pair.to_agent.clone(), pair.to_controller.clone()].concat();
    let mut shown: Vec<String> =
        frames(&opening).iter().map(|frame| parts(frame.as_bytes())).collect();
    shown.extend(conversation().iter().map(|(side, message)| parts(&pair.sent(*side, message))));
    let shard = shard();
    for bytes in [
        // Only names show that two fields of one type have changed places.
        serde_json::to_vec(&shard).expect("text"),
        serde_json::to_vec(&ShardState::new(&shard)).expect("text"),
    ] {
        let digest: String =
            Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        shown.push(format!("shard {digest}"));
    }
    shown
}

fn parts(frame: &[u8]) -> String {
    let (header, payload) = frame.split_at(HEADER_BYTES);
    // Its version is in the first line.
    let header: String = header[6..].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{header} {}", payload.escape_ascii())
}

/// What must be equal on both sides, as the first line has it.
fn versions() -> String {
    Versions::here().binding().map(|(what, version)| format!("{what} {version}")).join(", ")
}

/// [`session`] of the version in its first line: one frame a line. `UPDATE_GOLDEN=1` writes it anew
/// for another version.
const GOLDEN: &str = include_str!("golden.txt");

#[test]
fn the_bytes_of_every_message_are_those_of_this_version_of_the_protocol() {
    let (session, versions) = (session(), versions());
    let golden: Vec<&str> = GOLDEN.lines().collect();
    let is_same = golden.first() == Some(&versions.as_str()) && golden[1..] == session;
    if is_same {
        return;
    }
    for (at, frame) in session.iter().enumerate() {
        assert!(
            golden.first() != Some(&versions.as_str()) || golden.get(at + 1) == Some(&&frame[..]),
            "the wire has changed, so older builds would misread it: raise PROTOCOL in \
             agents/src/versions.rs (or SCHEMA or VERSION, if the change is theirs), then write \
             golden.txt by UPDATE_GOLDEN=1.\n was {:?}\n  is {frame:?}",
            golden.get(at + 1)
        );
    }
    assert!(
        std::env::var_os("UPDATE_GOLDEN").is_some(),
        "golden.txt is of {:?}, this is {versions}: write it by UPDATE_GOLDEN=1",
        golden.first()
    );
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/golden.txt");
    let lines = [&[versions], &session[..]].concat();
    std::fs::write(file, lines.join("\n") + "\n").expect("a file to write");
}

#[test]
fn a_handshake_has_48_bytes_each_way_and_16_to_confirm() {
    let pair = Pair::open(key());
    let both = [pair.to_agent.clone(), pair.to_controller.clone()].concat();
    let payloads: Vec<Vec<u8>> =
        frames(&both).iter().map(|frame| frame.as_bytes()[HEADER_BYTES..].to_vec()).collect();
    let [open, confirm, accept] = payloads.as_slice() else { panic!("{payloads:?}") };
    assert_eq!((&open[..3], open.len()), (&[0, 1, 48][..], 51));
    assert_eq!((&accept[..3], accept.len()), (&[1, 1, 48][..], 51));
    assert_eq!((&confirm[..2], confirm.len()), (&[2, 16][..], 18));
}

#[test]
fn each_document_lies_in_its_payload_as_json_and_with_a_key_none_is_in_the_clear() {
    for key in [None, key()] {
        let mut pair = Pair::open(key.clone());
        for (side, message) in conversation() {
            let json = match message {
                Message::Prepare(prepare) => serde_json::to_vec(&prepare.plan),
                Message::Report(results) => serde_json::to_vec(&results.head),
                Message::Hello(hello) => serde_json::to_vec(hello),
                Message::Refused(refusal) => serde_json::to_vec(refusal),
                _ => continue,
            };
            let json = json.expect("text");
            let sent = pair.sent(*side, message);
            let holds = |part: &[u8]| sent.windows(part.len()).any(|bytes| bytes == part);
            assert_eq!(holds(&json), key.is_none(), "{message:?}");
            assert!(key.is_none() || !json.chunks_exact(8).any(holds), "{message:?}");
        }
        let sides = |wanted| conversation().iter().filter(|(side, _)| *side == wanted).count();
        assert!(8 <= sides(Side::Agent) && 8 <= sides(Side::Controller));
    }
}

#[test]
fn a_long_frame_is_cut_into_records_of_64_kib_at_most() {
    let mut pair = Pair::open(key());
    let shard = agents::message::ShardState::of_bytes(vec![7; 1_000_000]);
    let sent = pair.sent(Side::Agent, &Message::Shard(shard.clone()));
    let lengths: Vec<usize> = records(&sent).iter().map(Vec::len).collect();
    // The frame has 1,000,017 bytes; a record has 2 of length and 16 of tag.
    assert_eq!(lengths, [[65_537; 15].as_slice(), &[1_000_017 - 15 * 65_519 + 18]].concat());
    let received = received(&mut pair.controller, &sent);
    assert!(received == Ok(vec![Message::Shard(shard)]));
}
