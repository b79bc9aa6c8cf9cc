//! Noise with a pre-shared key: authenticates both sides of a session and encrypts what they send.
//!
//! The pattern is `NNpsk0` of the Noise Protocol Framework: both sides have the key, and know
//! nothing else of each other, so no certificates are needed. Each makes a pair of keys for the
//! session alone.
//!
//! ```text
//! controller to agent   psk, e    can only be made with the key, and could be a recording
//! agent to controller   e, ee     can only be made with the key, and is of this session
//! controller to agent   nothing   encrypted, so the controller is of this session as well
//! ```
//!
//! From then on the frames of each direction are one stream of bytes, cut into records:
//!
//! | offset | type | content |
//! | --- | --- | --- |
//! | 0 | u16, big endian | length of what follows, n |
//! | 2 | n bytes | Noise message: up to 65,519 bytes of the stream, encrypted, and 16 of tag |
//!
//! A tag also covers the record's number in its direction. A recorded session can't be decrypted
//! later with the shared key, since the session's keys are gone.

use std::mem;

use snow::{Builder, HandshakeState, TransportState};

use crate::key::Key;
use crate::message::Side;
use crate::versions::PROTOCOL;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Bytes of a tag.
const TAG_BYTES: usize = 16;
/// Bytes of each handshake message except the last: a public key and a tag.
const HANDSHAKE_BYTES: usize = 32 + TAG_BYTES;
/// Bytes before a record.
const LENGTH_BYTES: usize = size_of::<u16>();
/// The most bytes of the stream in one record.
const STREAM_MAX: usize = u16::MAX as usize - TAG_BYTES;

/// Not the Noise message that a peer with the same key would send here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAuthentic;

/// One side of a handshake.
pub(crate) struct Handshake(Box<HandshakeState>);

impl Handshake {
    pub(crate) fn new(side: Side, key: &Key) -> Handshake {
        Handshake::build(side, key, &format!("truetail {PROTOCOL}"), |builder| builder)
    }

    fn build<'a>(
        side: Side,
        key: &'a Key,
        prologue: &'a str,
        more: impl FnOnce(Builder<'a>) -> Builder<'a>,
    ) -> Handshake {
        let pattern = PATTERN.parse().expect("a pattern that snow knows");
        let state = Builder::new(pattern)
            .psk(0, key.as_bytes())
            .and_then(|builder| builder.prologue(prologue.as_bytes()))
            .and_then(|builder| match side {
                Side::Controller => more(builder).build_initiator(),
                Side::Agent => more(builder).build_responder(),
            });
        Handshake(Box::new(state.expect("all that the pattern needs is there")))
    }

    /// This side's message.
    pub(crate) fn write(&mut self) -> Vec<u8> {
        let mut message = vec![0; HANDSHAKE_BYTES];
        let written = self.0.write_message(&[], &mut message);
        assert_eq!(written, Ok(HANDSHAKE_BYTES), "it is this side's turn, and there is room");
        message
    }

    /// Takes the peer's message.
    pub(crate) fn read(&mut self, message: &[u8]) -> Result<(), NotAuthentic> {
        if message.len() != HANDSHAKE_BYTES {
            return Err(NotAuthentic);
        }
        let read = self.0.read_message(message, &mut [0; HANDSHAKE_BYTES]);
        read.map(drop).map_err(|_| NotAuthentic)
    }

    /// The records that follow once both messages were exchanged.
    pub(crate) fn finish(self) -> Records {
        let transport = self.0.into_transport_mode().expect("both messages were exchanged");
        Records { transport: Box::new(transport), arriving: Vec::new() }
    }
}

/// The records of a session, in both directions.
pub(crate) struct Records {
    transport: Box<TransportState>,
    /// The received part of an incomplete record.
    arriving: Vec<u8>,
}

impl Records {
    /// The last message of the handshake: nothing, encrypted.
    pub(crate) fn confirmation(&mut self) -> Vec<u8> {
        let mut message = vec![0; TAG_BYTES];
        self.encrypt(&[], &mut message);
        message
    }

    /// Takes the peer's last message of the handshake.
    pub(crate) fn confirm(&mut self, message: &[u8]) -> Result<(), NotAuthentic> {
        match self.decrypt(message)?.as_slice() {
            [] => Ok(()),
            _ => Err(NotAuthentic),
        }
    }

    /// Adds bytes of the stream to `outgoing`, in records.
    pub(crate) fn write(&mut self, stream: &[u8], outgoing: &mut Vec<u8>) {
        for part in stream.chunks(STREAM_MAX) {
            let length = part.len() + TAG_BYTES;
            outgoing.extend(u16::try_from(length).expect("within STREAM_MAX").to_be_bytes());
            let at = outgoing.len();
            outgoing.resize(at + length, 0);
            self.encrypt(part, &mut outgoing[at..]);
        }
    }

    /// The bytes of the record at the front of `input`. `None` if it is incomplete, and then
    /// `input` is empty. They aren't kept here: a controller has many sessions.
    pub(crate) fn read(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, NotAuthentic> {
        loop {
            let length = self.arriving.first_chunk().map(|length| u16::from_be_bytes(*length));
            let whole = LENGTH_BYTES + usize::from(length.unwrap_or(0));
            let missing = whole - self.arriving.len();
            if length.is_some() && missing == 0 {
                let record = mem::take(&mut self.arriving);
                return self.decrypt(&record[LENGTH_BYTES..]).map(Some);
            }
            if input.is_empty() {
                return Ok(None);
            }
            let (taken, rest) = input.split_at(missing.min(input.len()));
            self.arriving.extend_from_slice(taken);
            *input = rest;
        }
    }

    /// True if the last record was complete.
    pub(crate) fn is_between_records(&self) -> bool {
        self.arriving.is_empty()
    }

    fn encrypt(&mut self, stream: &[u8], message: &mut [u8]) {
        let written = self.transport.write_message(stream, message);
        assert_eq!(written, Ok(stream.len() + TAG_BYTES), "no session has 2^64 records");
    }

    fn decrypt(&mut self, message: &[u8]) -> Result<Vec<u8>, NotAuthentic> {
        let mut stream = vec![0; message.len()];
        let length = self.transport.read_message(message, &mut stream);
        stream.truncate(length.map_err(|_| NotAuthentic)?);
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_of_known_randomness_has_the_same_bytes_in_every_build() {
        let key = Key::find(None, Some("0123456789abcdef0123456789abcdef".as_ref()));
        let key = key.expect("a key").expect("it is given");
        let side = |side, ephemeral: u8| {
            let secret = [ephemeral; 32];
            Handshake::build(side, &key, "truetail 1", |builder| {
                builder.fixed_ephemeral_key_for_testing_only(&secret)
            })
        };
        let (mut controller, mut agent) = (side(Side::Controller, 1), side(Side::Agent, 2));
        let opening = controller.write();
        agent.read(&opening).expect("the same key");
        let accepted = agent.write();
        controller.read(&accepted).expect("the same key");
        let (mut controller, mut agent) = (controller.finish(), agent.finish());
        let confirmation = controller.confirmation();
        agent.confirm(&confirmation).expect("of this session");
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        controller.write(b"ping", &mut asked);
        agent.write(b"pong", &mut answered);
        assert_eq!(agent.read(&mut asked.as_slice()), Ok(Some(b"ping".to_vec())));
        let shown = [opening, accepted, confirmation, asked, answered]
            .map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        assert_eq!(shown.each_ref().map(|hex| hex.len() / 2), [48, 48, 16, 22, 22]);
        assert_eq!(shown.join(" "), GOLDEN);
    }

    /// What [`a_session_of_known_randomness_has_the_same_bytes_in_every_build`] sends.
    const GOLDEN: &str = "\
        a4e09292b651c278b9772c569f5fa9bb13d906b46ab68c9df9dc2b4409f8a209\
        c906141da0fc075a309b4e5d592b3b8d \
        ce8d3ad1ccb633ec7b70c17814a5c76ecd029685050d344745ba05870e587d59\
        211784cddbc89b7584294ee3a95e06de \
        cd8e4723a4fbeacab0051666c2dbeae5 \
        001472970d4f4f7417b74f44d8fe263d7363b471d04b \
        00142476641e97707dfc0a24cdec10859f969fed3da7";
}
