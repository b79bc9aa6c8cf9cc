//! Properties for any bytes: an error or a valid message, the same for every split, in bounded
//! memory.

use std::sync::LazyLock;

use agents::channel::{Channel, ChannelError, Side};
use agents::message::Message;
use proptest::prelude::*;

use crate::examples::{AGENT, Pair, bytes, conversation, frames, key, received};
use crate::harness;

/// The stream of a whole session of this side.
fn stream(side: Side) -> Vec<u8> {
    static STREAMS: LazyLock<[Vec<u8>; 2]> =
        LazyLock::new(|| [made(Side::Controller), made(Side::Agent)]);
    let [controllers, agents] = &*STREAMS;
    match side {
        Side::Controller => controllers.clone(),
        Side::Agent => agents.clone(),
    }
}

fn made(side: Side) -> Vec<u8> {
    let mut pair = Pair::open(key());
    let mut stream = match side {
        Side::Controller => pair.to_agent.clone(),
        Side::Agent => pair.to_controller.clone(),
    };
    for (sender, message) in conversation() {
        let frame = pair.frame(*sender, message);
        if *sender == side {
            stream.extend(frame);
        }
    }
    stream
}

/// The agent's side of the session whose controller sends [`stream`].
fn agent() -> Channel {
    Channel::agent(key(), AGENT)
}

fn sent(side: Side) -> usize {
    conversation().iter().filter(|(sender, _)| *sender == side).count()
}

/// Bytes that are likely to be taken for a frame.
fn likely() -> impl Strategy<Value = Vec<u8>> {
    let header = (0_u8..20, prop_oneof![0_u32..80, any::<u32>()], 0_u64..3).prop_map(
        |(kind, length, sequence)| {
            let mut bytes = b"TTAG\x01\x00".to_vec();
            bytes.push(kind);
            bytes.extend(length.to_le_bytes());
            bytes.extend(sequence.to_le_bytes());
            bytes.push(kind);
            bytes
        },
    );
    let rest = prop::collection::vec(prop_oneof![any::<u8>(), 0_u8..4, Just(0)], 0..200);
    prop::collection::vec((header, rest).prop_map(|(head, rest)| [head, rest].concat()), 1..4)
        .prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_or_messages(
        choice in any::<u8>(),
        stream in prop_oneof![prop::collection::vec(any::<u8>(), 0..300), likely()],
    ) {
        harness::run(&[vec![choice], stream].concat());
    }

    #[test]
    fn a_session_of_which_some_bytes_are_others_is_an_error_or_messages(
        choice in any::<u8>(),
        side in prop_oneof![Just(Side::Controller), Just(Side::Agent)],
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        end in any::<prop::sample::Index>(),
    ) {
        let mut stream = stream(side);
        for (at, byte) in changes {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        stream.truncate(end.index(stream.len() + 1));
        harness::run(&[vec![choice], stream].concat());
    }

    #[test]
    fn a_session_ends_with_the_first_bit_that_was_changed(
        at in any::<prop::sample::Index>(),
        bit in 0_u32..8,
    ) {
        let honest = stream(Side::Controller);
        let at = at.index(honest.len());
        let mut altered = honest.clone();
        altered[at] ^= 1 << bit;
        let mut agent = agent();
        let mut rest = altered.as_slice();
        let mut taken = 0;
        let error = loop {
            match agent.receive(&mut rest) {
                Ok(Some(_)) => taken = altered.len() - rest.len(),
                // A frame that now claims to be longer waits for bytes that never come.
                Ok(None) => break agent.finish().expect_err("cut"),
                Err(error) => break error,
            }
        };
        prop_assert!(taken <= at, "nothing of an altered frame is believed: {error}");
        prop_assert!(!agent.is_open());
    }
}

#[test]
fn a_whole_session_is_understood_in_every_split() {
    for side in [Side::Controller, Side::Agent] {
        let stream = stream(side);
        let of_side = conversation().iter().filter(|(sender, _)| *sender == side);
        let said: Vec<Message> = of_side.map(|(_, message)| message.clone()).collect();
        for piece in [1, 2, 3, 18, 19, 20, 51, 1_000, stream.len()] {
            let mut channel = match side {
                Side::Controller => agent(),
                Side::Agent => Channel::controller(key(), crate::examples::CONTROLLER),
            };
            let mut messages = Vec::new();
            for piece in stream.chunks(piece) {
                messages.extend(received(&mut channel, piece).expect("messages"));
            }
            assert!(messages == said, "in pieces of {piece}");
            channel.finish().expect("the stream may end here");
        }
        for frame in frames(&stream) {
            harness::run(&[vec![7], bytes(&frame)].concat());
            let said = format!("{:?}", frame.message().expect("a message"));
            let kind = format!("{:?}", frame.kind());
            assert!(said.starts_with(&kind), "{kind}: {said}");
        }
    }
}

#[test]
fn a_session_that_is_cut_anywhere_has_said_only_whole_messages() {
    let stream = stream(Side::Controller);
    let borders: Vec<usize> = frames(&stream)
        .iter()
        .scan(0, |at, frame| {
            *at += bytes(frame).len();
            Some(*at)
        })
        .collect();
    for end in 0..stream.len() {
        let mut agent = agent();
        let messages = received(&mut agent, &stream[..end]).expect("no error before the cut");
        assert!(messages.len() < sent(Side::Controller));
        let is_border = borders[1..].contains(&end);
        assert_eq!(agent.finish().is_ok(), is_border, "after {end} bytes");
        if !is_border {
            assert_eq!(agent.finish(), Err(ChannelError::Cut));
        }
    }
}
