//! Authentication: which peers get in, which are refused with a reason, and what ends a session.

use agents::channel::{Channel, ChannelError};
use agents::frame::{FrameError, Kind, OPENING_MAX};
use agents::message::{Message, Part, Ping, Ready, Side};
use agents::refusal::Refusal;
use agents::versions::PROTOCOL;

use crate::examples::{Pair, conversation, frames, key, named_key, received};

/// The error of a refusal.
fn refused(refusal: Refusal) -> ChannelError {
    ChannelError::Refused(refusal)
}

#[test]
fn sides_with_the_same_key_or_both_without_one_understand_each_other() {
    for key in [key(), None] {
        let mut pair = Pair::open(key);
        for (side, message) in conversation() {
            let frame = pair.sent(*side, message);
            let receiver = match side {
                Side::Controller => &mut pair.agent,
                Side::Agent => &mut pair.controller,
            };
            assert!(received(receiver, &frame) == Ok(vec![message.clone()]));
        }
    }
}

#[test]
fn keys_that_differ_are_named_on_both_sides() {
    let other = || named_key("fedcba9876543210fedcba9876543210");
    for (controller, agent, controllers, agents) in [
        (key(), other(), refused(Refusal::WrongKey), ChannelError::WrongKey),
        (None, key(), refused(Refusal::KeyNeeded), ChannelError::PeerWithoutKey),
        (key(), None, refused(Refusal::KeyUnknown), ChannelError::PeerWithKey),
    ] {
        let mut pair = Pair::new(controller, agent);
        assert_eq!(pair.exchange(), (Err(controllers), Err(agents)));
        assert!(!pair.controller.is_open() && !pair.agent.is_open());
    }
}

#[test]
fn an_agent_gives_nothing_to_try_keys_on_before_the_controller_has_shown_its_own() {
    let mut pair = Pair::new(named_key("fedcba9876543210fedcba9876543210"), key());
    let _ = pair.exchange();
    let kinds: Vec<Kind> = frames(&pair.to_controller).iter().map(|frame| frame.kind()).collect();
    assert_eq!(kinds, [Kind::Refused]);
}

#[test]
fn a_fake_agent_without_the_key_is_found_out() {
    // It replays another session's answer, makes one up, and claims that it needs no key.
    let recorded = Pair::open(key()).to_controller;
    let mut made_up = recorded.clone();
    made_up.iter_mut().skip(14).for_each(|byte| *byte = byte.wrapping_mul(31));
    let without = Pair::open(None).to_controller;
    for (answer, error) in [
        (recorded, ChannelError::WrongKey),
        (made_up, ChannelError::WrongKey),
        (without, ChannelError::PeerWithoutKey),
    ] {
        let mut pair = Pair::new(key(), key());
        let opening = pair.controller.take_outgoing();
        assert_eq!(received(&mut pair.controller, &answer), Err(error));
        // An honest agent whose answer was replaced on its way finds out.
        received(&mut pair.agent, &opening).expect("an opening");
        let refusal = pair.controller.take_outgoing();
        let refused = received(&mut pair.agent, &refusal);
        assert!(matches!(refused, Err(ChannelError::Refused(_))), "{refused:?}");
    }
}

#[test]
fn versions_of_the_protocol_that_differ_are_named_on_both_sides() {
    let mut pair = Pair::new(key(), key());
    let mut newer = pair.controller.take_outgoing();
    newer[4] += 1;
    let error = received(&mut pair.agent, &newer).expect_err("another version");
    assert_eq!(error, FrameError::Version { found: PROTOCOL + 1 }.into());
    assert_eq!(
        error.to_string(),
        format!(
            "the peer speaks version {} of the protocol, this side {PROTOCOL}; update the older side",
            PROTOCOL + 1
        )
    );
    // The agent answers in its own version, from which the controller knows.
    let answer = pair.agent.take_outgoing();
    assert_eq!(frames(&answer)[0].kind(), Kind::Refused);
    let mut older = answer;
    older[4] = 0;
    let mut controller = Channel::controller(key().as_ref());
    let error = received(&mut controller, &older).expect_err("another version");
    assert_eq!(error, FrameError::Version { found: 0 }.into());
}

#[test]
fn frames_that_come_back_to_their_sender_end_the_session() {
    // During the handshake.
    let mut pair = Pair::new(key(), key());
    let opening = pair.controller.take_outgoing();
    let error = received(&mut pair.controller, &opening);
    assert_eq!(error, Err(ChannelError::OutOfTurn(Kind::Open)));
    let mut pair = Pair::new(key(), key());
    received(&mut pair.agent, &pair.controller.take_outgoing()).expect("an opening");
    received(&mut pair.controller, &pair.agent.take_outgoing()).expect("its answer");
    let confirmation = pair.controller.take_outgoing();
    assert_eq!(received(&mut pair.controller, &confirmation), Ok(vec![]), "no whole record");
    assert_eq!(pair.controller.finish(), Err(ChannelError::Cut));
    // And after it, with a message that both sides may send.
    for side in [Side::Controller, Side::Agent] {
        let mut pair = Pair::open(key());
        let sent = pair.sent(side, &Message::Bye);
        let channel = match side {
            Side::Controller => &mut pair.controller,
            Side::Agent => &mut pair.agent,
        };
        assert_eq!(received(channel, &sent), Err(ChannelError::Tampered), "{side:?}");
    }
}

#[test]
fn a_session_that_is_replayed_gets_no_further_than_its_confirmation() {
    let mut recorded = Pair::open(key());
    let stop = recorded.sent(Side::Controller, &Message::Stop);
    recorded.to_agent.extend(stop);
    let mut agent = Channel::agent(key().as_ref());
    assert_eq!(received(&mut agent, &recorded.to_agent), Err(ChannelError::WrongKey));
    assert!(!agent.is_open());
    let mut controller = Channel::controller(key().as_ref());
    let error = received(&mut controller, &recorded.to_controller);
    assert_eq!(error, Err(ChannelError::WrongKey));
    // Its records alone, in another session of the same key.
    let mut other = Pair::open(key());
    let stop = recorded.sent(Side::Controller, &Message::Stop);
    assert_eq!(received(&mut other.agent, &stop), Err(ChannelError::Tampered));
}

#[test]
fn an_agent_serves_no_controller_before_it_has_confirmed() {
    let mut pair = Pair::new(key(), key());
    received(&mut pair.agent, &pair.controller.take_outgoing()).expect("an opening");
    assert!(!pair.agent.is_open());
    received(&mut pair.controller, &pair.agent.take_outgoing()).expect("its answer");
    let mut confirmation = pair.controller.take_outgoing();
    *confirmation.last_mut().expect("a tag") ^= 1;
    assert_eq!(received(&mut pair.agent, &confirmation), Err(ChannelError::WrongKey));
    // The controller can read the reason.
    let answer = pair.agent.take_outgoing();
    let refused = Message::Refused(Refusal::WrongKey);
    assert_eq!(received(&mut pair.controller, &answer), Ok(vec![refused]));
}

#[test]
fn records_that_are_repeated_reordered_or_left_out_end_the_session() {
    for order in [vec![0, 0], vec![1, 0], vec![0, 2], vec![0, 1, 0]] {
        let mut pair = Pair::open(key());
        let sent: Vec<Vec<u8>> = (0..3)
            .map(|sent_ns| pair.sent(Side::Controller, &Message::Ping(Ping { sent_ns })))
            .collect();
        let stream: Vec<u8> = order.iter().flat_map(|at| sent[*at].clone()).collect();
        let error = received(&mut pair.agent, &stream).expect_err("out of order");
        assert_eq!(error, ChannelError::Tampered, "{order:?}");
        let refusal = Refusal::Tampered(error.to_string());
        let answer = pair.agent.take_outgoing();
        assert_eq!(received(&mut pair.controller, &answer), Ok(vec![Message::Refused(refusal)]));
        let again = received(&mut pair.agent, &sent[0]);
        assert_eq!(again, Err(error), "the end is final");
    }
}

#[test]
fn a_truncated_tag_is_invalid() {
    let mut pair = Pair::open(key());
    let mut cut = pair.sent(Side::Controller, &Message::Stop);
    cut.pop();
    assert_eq!(received(&mut pair.agent, &cut), Ok(vec![]));
    assert!(pair.agent.is_open());
    // The next frame's first byte takes the place of the tag's last.
    let next = pair.sent(Side::Controller, &Message::Bye);
    assert_eq!(received(&mut pair.agent, &next), Err(ChannelError::Tampered));

    let mut pair = Pair::open(key());
    let cut = pair.sent(Side::Controller, &Message::Stop);
    received(&mut pair.agent, &cut[..cut.len() - 1]).expect("no error yet");
    assert_eq!(pair.agent.finish(), Err(ChannelError::Cut));

    let mut pair = Pair::open(key());
    let mut without = pair.sent(Side::Controller, &Message::Stop);
    let tag = without.len() - 16;
    without[tag..].fill(0);
    assert_eq!(received(&mut pair.agent, &without), Err(ChannelError::Tampered));

    // Records too short for a tag.
    for length in 0..16 {
        let mut pair = Pair::open(key());
        let short = [&[0, length][..], &vec![7; usize::from(length)]].concat();
        assert_eq!(received(&mut pair.agent, &short), Err(ChannelError::Tampered), "{length}");
    }
}

#[test]
fn an_authenticated_peers_message_is_bounded_by_its_type() {
    let heartbeat = Kind::ALL.iter().position(|kind| *kind == Kind::Heartbeat).expect("a type");
    let mut header = [&b"TTAG"[..], &PROTOCOL.to_le_bytes()].concat();
    header.push(u8::try_from(heartbeat).expect("few"));
    header.extend(u32::MAX.to_le_bytes());
    let mut pair = Pair::open(None);
    let error = received(&mut pair.agent, &header).expect_err("too long");
    let max = Kind::Heartbeat.payload_max();
    let length = u32::MAX as usize;
    assert_eq!(error, FrameError::TooLong { kind: Kind::Heartbeat, length, max }.into());
    let answer = pair.agent.take_outgoing();
    let refusal = Message::Refused(Refusal::Frame(error.to_string()));
    assert_eq!(received(&mut pair.controller, &answer), Ok(vec![refusal]));
}

#[test]
fn a_stranger_may_only_send_short_openings() {
    let early = Pair::open(None).sent(Side::Controller, &Message::Heartbeat);
    let mut agent = Channel::agent(key().as_ref());
    let error = received(&mut agent, &early);
    assert_eq!(error, Err(FrameError::Early(Kind::Heartbeat).into()));

    // Each type that is allowed, with a length that only an authenticated peer may claim.
    for kind in [Kind::Open, Kind::Accept, Kind::Confirm, Kind::Refused] {
        for (length, is_refused) in [(OPENING_MAX, false), (OPENING_MAX + 1, true), (1 << 30, true)]
        {
            let mut header = [&b"TTAG"[..], &PROTOCOL.to_le_bytes()].concat();
            header.push(
                u8::try_from(Kind::ALL.iter().position(|of| *of == kind).expect("a type"))
                    .expect("few"),
            );
            header.extend(u32::try_from(length).expect("32 bits").to_le_bytes());
            let mut agent = Channel::agent(key().as_ref());
            let max = OPENING_MAX;
            let wanted = match is_refused {
                true => Err(FrameError::TooLong { kind, length, max }.into()),
                false => Ok(vec![]),
            };
            assert_eq!(received(&mut agent, &header), wanted, "{kind} of {length}");
        }
    }
}

#[test]
fn a_stranger_of_another_protocol_gets_no_answer() {
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], b"TTAx", b"\x16\x03\x01"] {
        let mut agent = Channel::agent(key().as_ref());
        assert_eq!(received(&mut agent, bytes), Err(FrameError::Foreign.into()));
        assert!(agent.take_outgoing().is_empty());
    }
}

#[test]
#[should_panic(expected = "isn't for this side to send")]
fn a_controller_never_sends_an_agents_message() {
    let mut pair = Pair::open(key());
    let _ = pair.controller.send(&Message::Ready(Ready { settled: None }));
}

#[test]
fn a_message_that_fits_into_no_frame_is_not_sent_and_the_session_goes_on() {
    let mut pair = Pair::open(key());
    let part =
        |len: usize| Message::Part(Part { number: 0, offset: 0, bytes: vec![1; len].into() });
    let error = pair.agent.send(&part(256 << 10)).expect_err("too long");
    assert_eq!(error.to_string(), "part of 262152 bytes: a frame holds 262144");
    let frame = pair.sent(Side::Agent, &part((256 << 10) - 8));
    assert!(received(&mut pair.controller, &frame).is_ok());
}

#[test]
fn a_side_that_refuses_gives_the_reason_and_reads_no_more() {
    let mut pair = Pair::new(key(), key());
    pair.agent.refuse(Refusal::Crowded(64));
    let (controller, agent) = pair.exchange();
    assert_eq!(controller, Err(refused(Refusal::Crowded(64))));
    assert_eq!(agent, Err(ChannelError::Cut));
}
