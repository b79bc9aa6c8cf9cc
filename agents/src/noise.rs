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
        let pattern = PATTERN.parse().expect("a pattern that snow knows");
        let prologue = format!("truetail {PROTOCOL}");
        let state = Builder::new(pattern)
            .psk(0, key.as_bytes())
            .and_then(|builder| builder.prologue(prologue.as_bytes()))
            .and_then(|builder| match side {
                Side::Controller => builder.build_initiator(),
                Side::Agent => builder.build_responder(),
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
