//! Properties for any bytes: an error or a valid message, the same for every split, in bounded
//! memory.

use std::path::PathBuf;
use std::sync::LazyLock;

use agents::channel::{Channel, ChannelError};
use agents::frame::Kind;
use agents::key::Key;
use agents::message::{Message, Side};
use agents::versions::PROTOCOL;
use proptest::prelude::*;

use crate::examples::{Pair, conversation, frames, key, received, records};
use crate::harness;

/// The stream of a whole session of this side, without a key.
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
    let mut pair = Pair::open(None);
    let opening = match side {
        Side::Controller => pair.to_agent.clone(),
        Side::Agent => pair.to_controller.clone(),
    };
    [opening, said(&mut pair, side)].concat()
}

/// All messages of a side to an authenticated peer, as bytes.
fn said(pair: &mut Pair, side: Side) -> Vec<u8> {
    let of_side = conversation().iter().filter(|(sender, _)| *sender == side);
    of_side.flat_map(|(_, message)| pair.sent(side, message)).collect()
}

fn messages(side: Side) -> Vec<Message> {
    let of_side = conversation().iter().filter(|(sender, _)| *sender == side);
    of_side.map(|(_, message)| message.clone()).collect()
}

/// An open session, and the receiver of this side's messages.
fn open(key: Option<Key>, side: Side) -> (Pair, fn(&mut Pair) -> &mut Channel) {
    let hears: fn(&mut Pair) -> &mut Channel = match side {
        Side::Controller => |pair| &mut pair.agent,
        Side::Agent => |pair| &mut pair.controller,
    };
    (Pair::open(key), hears)
}

/// Bytes that look like a frame.
fn likely() -> impl Strategy<Value = Vec<u8>> {
    // And the first number that none has.
    let kinds = u8::try_from(Kind::ALL.len()).expect("few types");
    let header =
        (0..=kinds, prop_oneof![0_u32..80, any::<u32>()]).prop_map(|(kind, length): (u8, u32)| {
            let mut bytes = [&b"TTAG"[..], &PROTOCOL.to_le_bytes()].concat();
            bytes.push(kind);
            bytes.extend(length.to_le_bytes());
            bytes.push(kind);
            bytes
        });
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
    fn a_session_with_changed_bytes_is_an_error_or_messages(
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
    fn a_session_ends_at_the_first_changed_bit(
        at in any::<prop::sample::Index>(),
        bit in 0_u32..8,
    ) {
        let mut pair = Pair::new(key(), key());
        let mut altered = pair.controller.take_outgoing();
        let opening = altered.len();
        // Every whole session has the same number of bytes.
        static BYTES: LazyLock<usize> = LazyLock::new(|| {
            let mut pair = Pair::open(key());
            pair.to_agent.len() + said(&mut pair, Side::Controller).len()
        });
        let at = at.index(*BYTES);
        if at < opening {
            altered[at] ^= 1 << bit;
            // The controller goes on only if the agent answers.
            let _ = received(&mut pair.agent, &altered);
        } else {
            received(&mut pair.agent, &altered).expect("an opening");
            received(&mut pair.controller, &pair.agent.take_outgoing()).expect("its answer");
            altered.extend(pair.controller.take_outgoing());
            let rest = said(&mut pair, Side::Controller);
            altered.extend(rest);
            prop_assert_eq!(altered.len(), *BYTES);
            altered[at] ^= 1 << bit;
        }
        let mut rest = &altered[opening..];
        let mut taken = 0;
        let error = loop {
            match pair.agent.receive(&mut rest) {
                Ok(Some(_)) => taken = altered.len() - rest.len(),
                // A frame or record with an increased length waits for bytes that never come.
                Ok(None) => break pair.agent.finish().expect_err("cut"),
                Err(error) => break error,
            }
        };
        prop_assert!(taken <= at, "no part of an altered record is accepted: {error}");
        prop_assert!(!pair.agent.is_open());
    }
}

#[test]
fn a_whole_session_is_understood_in_every_split() {
    for (side, key) in
        [Side::Controller, Side::Agent].map(|side| [(side, None), (side, key())]).concat()
    {
        for piece in [1, 2, 3, 10, 11, 12, 51, 1_000, 1 << 20] {
            let (mut pair, hears) = open(key.clone(), side);
            let stream = said(&mut pair, side);
            let mut heard = Vec::new();
            for piece in stream.chunks(piece) {
                heard.extend(received(hears(&mut pair), piece).expect("messages"));
            }
            assert!(heard == messages(side), "in pieces of {piece}");
            hears(&mut pair).finish().expect("the stream may end here");
        }
    }
    // The folder where the fuzzer begins.
    let seeds = std::env::var_os("FUZZ_SEEDS").map(PathBuf::from);
    for side in [Side::Controller, Side::Agent] {
        for (number, frame) in frames(&stream(side)).iter().enumerate() {
            let input = [&[7][..], frame.as_bytes()].concat();
            harness::run(&input);
            if let Some(seeds) = &seeds {
                let seed = seeds.join(format!("{side:?}-{number}"));
                std::fs::write(seed, &input).expect("a folder to write to");
            }
            let said = format!("{:?}", frame.message().expect("a message"));
            let kind = format!("{:?}", frame.kind());
            assert!(said.starts_with(&kind), "{kind}: {said}");
        }
    }
}

#[test]
fn a_session_cut_anywhere_yields_only_whole_messages() {
    for key in [None, key()] {
        let (mut pair, _) = open(key.clone(), Side::Controller);
        let stream = said(&mut pair, Side::Controller);
        let parts: Vec<usize> = match &key {
            None => frames(&stream).iter().map(|frame| frame.as_bytes().len()).collect(),
            Some(_) => records(&stream).iter().map(Vec::len).collect(),
        };
        let borders: Vec<usize> = parts
            .iter()
            .scan(0, |at, length| {
                *at += length;
                Some(*at)
            })
            .collect();
        let near = borders.iter().flat_map(|at| [at - 1, *at, at + 1]);
        for end in near.chain((0..stream.len()).step_by(61)).filter(|end| *end < stream.len()) {
            let (mut pair, hears) = open(key.clone(), Side::Controller);
            let stream = said(&mut pair, Side::Controller);
            let agent = hears(&mut pair);
            let heard = received(agent, &stream[..end]).expect("no error before the cut");
            let whole = borders.iter().filter(|border| **border <= end).count();
            assert_eq!(heard.len(), whole, "after {end} bytes");
            let is_border = end == 0 || borders.contains(&end);
            let ended = if is_border { Ok(()) } else { Err(ChannelError::Cut) };
            assert_eq!(agent.finish(), ended, "after {end} bytes");
        }
    }
}
