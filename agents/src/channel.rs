//! One side of a session: authenticates the peer, then turns messages into bytes and back.
//!
//! 1. The controller opens and the agent accepts, in plain frames. With a key, each frame has that
//!    side's part of a Noise handshake; the controller's part requires the key, so a stranger gets
//!    nothing to try keys on.
//! 2. The controller proves that its part wasn't replayed. Until then the agent sends nothing else.
//! 3. From then on all frames are within encrypted records, see `noise.rs`. A record that is
//!    repeated, reordered, left out, altered, from another session or sent back to its sender ends
//!    the session.
//!
//! Two sides without a key use plain frames throughout. If only one side has a key, each refuses
//! the other, so no peer can downgrade a session. An agent without a key listens on loopback only.
//!
//! Nothing here reads a socket or a clock.

use crate::bytes::Bytes;
use crate::frame::{self, Frame, FrameError, FrameReader, Kind, TooLong};
use crate::key::Key;
use crate::message::{Message, Side};
use crate::noise::{Handshake, NotAuthentic, Records};
use crate::refusal::Refusal;

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The stream isn't made of frames that are allowed.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// The peer has no key, this side has one.
    #[error("--key-file: the peer has no key and this side has one; give both the same")]
    PeerWithoutKey,
    /// The peer has a key, this side has none.
    #[error("--key-file: the peer has a key and this side has none; give both the same")]
    PeerWithKey,
    /// The peer doesn't have this side's key.
    #[error("--key-file: the peer has another key; give both sides the same")]
    WrongKey,
    /// A record isn't authentic.
    #[error("a record was altered, repeated, reordered or lost, or isn't of this session")]
    Tampered,
    /// The peer sent a message that isn't for its side to send, or not now.
    #[error("{0} is out of turn")]
    OutOfTurn(Kind),
    /// The peer refused this side. The refusal isn't authenticated, so it may be forged.
    #[error("refused by the peer: {0}")]
    Refused(Refusal),
    /// The stream ended before the peer was authenticated, or within a frame.
    #[error("the connection was cut")]
    Cut,
}

impl ChannelError {
    /// The refusal for the peer; `None` if it wouldn't help.
    fn refusal(&self) -> Option<Refusal> {
        match self {
            ChannelError::Frame(FrameError::Foreign)
            | ChannelError::Refused(_)
            | ChannelError::Cut => None,
            ChannelError::Frame(error) => Some(Refusal::Frame(error.to_string())),
            ChannelError::PeerWithoutKey => Some(Refusal::KeyNeeded),
            ChannelError::PeerWithKey => Some(Refusal::KeyUnknown),
            ChannelError::WrongKey => Some(Refusal::WrongKey),
            ChannelError::Tampered => Some(Refusal::Tampered(self.to_string())),
            ChannelError::OutOfTurn(kind) => Some(Refusal::OutOfTurn(kind.to_string())),
        }
    }
}

/// The stage of a session.
enum Stage {
    /// The peer's opening is awaited; with a key, it is part of a handshake.
    Opening(Option<Handshake>),
    /// The controller's confirmation is awaited, in a plain frame; outgoing frames are encrypted.
    Confirming(Records),
    /// Both sides are authenticated; with a key, all frames are encrypted.
    Open(Option<Records>),
}

/// One side of a session.
pub struct Channel {
    side: Side,
    stage: Stage,
    reader: FrameReader,
    /// Decrypted bytes that haven't been read yet.
    unread: Vec<u8>,
    outgoing: Vec<u8>,
    /// The peer's opening, until it is asked for.
    opening: Option<Vec<u8>>,
    error: Option<ChannelError>,
}

impl Channel {
    /// The side that connects.
    pub fn controller(key: Option<&Key>) -> Channel {
        let mut channel = Channel::new(Side::Controller, key);
        let Stage::Opening(handshake) = &mut channel.stage else { unreachable!("it is new") };
        let part = handshake.as_mut().map(|handshake| handshake.write().into());
        channel.push_handshake(&Message::Open(part));
        channel
    }

    /// The side that listens.
    pub fn agent(key: Option<&Key>) -> Channel {
        Channel::new(Side::Agent, key)
    }

    fn new(side: Side, key: Option<&Key>) -> Channel {
        Channel {
            side,
            stage: Stage::Opening(key.map(|key| Handshake::new(side, key))),
            reader: FrameReader::default(),
            unread: Vec::new(),
            outgoing: Vec::new(),
            opening: None,
            error: None,
        }
    }

    /// The peer's proper opening, once: its part of the handshake, which only a peer with the key
    /// can make, but anyone can record; empty without a key.
    pub(crate) fn take_opening(&mut self) -> Option<Vec<u8>> {
        self.opening.take()
    }

    /// True if the peer is authenticated and the session hasn't ended.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_)) && self.error.is_none()
    }

    /// Takes received bytes from the front of `input`, up to the end of a message, and returns
    /// that message. `None` if it isn't complete yet, and then `input` is empty. Each call may add
    /// to [`Channel::take_outgoing`].
    ///
    /// # Errors
    /// The session has ended. [`Channel::take_outgoing`] may have a refusal for the peer; the next
    /// call returns the same error.
    pub fn receive(&mut self, input: &mut &[u8]) -> Result<Option<Message>, ChannelError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        loop {
            let message = match self.next(input) {
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => self.take(&frame),
                Err(error) => Err(error),
            };
            match message {
                Ok(None) => {}
                Ok(Some(message)) => return Ok(Some(message)),
                Err(error) => return Err(self.end(error)),
            }
        }
    }

    /// The stream has ended: nothing more will come.
    ///
    /// # Errors
    /// It ended before the session was open or within a frame, or there was an earlier error.
    pub fn finish(&mut self) -> Result<(), ChannelError> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None if self.is_open() && self.is_between_frames() => Ok(()),
            None => Err(self.end(ChannelError::Cut)),
        }
    }

    /// Adds a message's frame to [`Channel::take_outgoing`].
    ///
    /// # Errors
    /// The message is longer than its type allows. Nothing is sent, and the session goes on.
    ///
    /// # Panics
    /// The session isn't open, or the message isn't one that this side sends.
    pub fn send(&mut self, message: &Message) -> Result<(), TooLong> {
        assert!(self.is_open(), "only an authenticated peer is sent anything");
        let kind = self.push(message)?;
        assert!(kind.is_sent_by(self.side), "{kind} isn't for this side to send");
        Ok(())
    }

    /// Refuses the peer at any time, and ends the session.
    pub fn refuse(&mut self, refusal: Refusal) {
        if self.error.is_none() {
            // One that is too long isn't sent; the connection's end still shows the refusal.
            let _ = self.push(&Message::Refused(refusal));
            self.error = Some(ChannelError::Cut);
        }
    }

    /// Takes the bytes to send to the peer.
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// The next frame, plain or from encrypted records.
    fn next(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, ChannelError> {
        let Stage::Open(Some(records)) = &mut self.stage else {
            return Ok(self.reader.feed(input)?);
        };
        loop {
            let mut rest = self.unread.as_slice();
            let frame = self.reader.feed(&mut rest)?;
            self.unread = rest.to_vec();
            if frame.is_some() {
                return Ok(frame);
            }
            match records.read(input) {
                Ok(Some(stream)) => self.unread = stream,
                Ok(None) => return Ok(None),
                Err(NotAuthentic) => return Err(ChannelError::Tampered),
            }
        }
    }

    fn is_between_frames(&self) -> bool {
        let is_between_records = match &self.stage {
            Stage::Open(Some(records)) => records.is_between_records(),
            Stage::Opening(_) | Stage::Confirming(_) | Stage::Open(None) => true,
        };
        is_between_records && self.unread.is_empty() && self.reader.is_between_frames()
    }

    /// A frame's message for the caller; `None` if it was part of the handshake.
    fn take(&mut self, frame: &Frame) -> Result<Option<Message>, ChannelError> {
        let kind = frame.kind();
        if !kind.is_sent_by(self.side.other()) {
            return Err(ChannelError::OutOfTurn(kind));
        }
        match (frame.message()?, &mut self.stage) {
            (Message::Refused(refusal), Stage::Opening(_) | Stage::Confirming(_)) => {
                Err(ChannelError::Refused(refusal))
            }
            (Message::Open(part) | Message::Accept(part), Stage::Opening(handshake)) => {
                let handshake = handshake.take();
                self.opened(handshake, part.as_ref())?;
                Ok(None)
            }
            (Message::Confirm(part), Stage::Confirming(records)) => {
                let confirmed = records.confirm(part.as_slice());
                confirmed.map_err(|NotAuthentic| ChannelError::WrongKey)?;
                self.confirmed();
                Ok(None)
            }
            (Message::Open(_) | Message::Accept(_) | Message::Confirm(_), _)
            | (_, Stage::Opening(_) | Stage::Confirming(_)) => Err(ChannelError::OutOfTurn(kind)),
            (message, Stage::Open(_)) => Ok(Some(message)),
        }
    }

    /// Handles the peer's opening, with its part of the handshake if it has a key.
    fn opened(
        &mut self,
        handshake: Option<Handshake>,
        part: Option<&Bytes>,
    ) -> Result<(), ChannelError> {
        let (mut handshake, part) = match (handshake, part) {
            (Some(handshake), Some(part)) => (handshake, part),
            (Some(_), None) => return Err(ChannelError::PeerWithoutKey),
            (None, Some(_)) => return Err(ChannelError::PeerWithKey),
            (None, None) => {
                if self.side == Side::Agent {
                    self.push_handshake(&Message::Accept(None));
                }
                self.opening = Some(Vec::new());
                self.open(None);
                return Ok(());
            }
        };
        handshake.read(part.as_slice()).map_err(|NotAuthentic| ChannelError::WrongKey)?;
        self.opening = Some(part.as_slice().to_vec());
        match self.side {
            Side::Agent => {
                self.push_handshake(&Message::Accept(Some(handshake.write().into())));
                self.stage = Stage::Confirming(handshake.finish());
            }
            Side::Controller => {
                let mut records = handshake.finish();
                self.push_handshake(&Message::Confirm(records.confirmation().into()));
                self.open(Some(records));
            }
        }
        Ok(())
    }

    /// The controller has proved that it isn't a replay.
    fn confirmed(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Opening(None)) {
            Stage::Confirming(records) => self.open(Some(records)),
            Stage::Opening(_) | Stage::Open(_) => unreachable!("a confirmation is taken once"),
        }
    }

    fn open(&mut self, records: Option<Records>) {
        self.stage = Stage::Open(records);
        self.reader.authenticate();
    }

    fn push_handshake(&mut self, message: &Message) {
        self.push(message).expect("messages of the handshake are short");
    }

    /// Adds a message's frame to the outgoing bytes, and returns its type.
    fn push(&mut self, message: &Message) -> Result<Kind, TooLong> {
        let (kind, frame) = frame::render(message)?;
        match &mut self.stage {
            Stage::Opening(_) | Stage::Open(None) => self.outgoing.extend_from_slice(&frame),
            Stage::Confirming(records) | Stage::Open(Some(records)) => {
                records.write(&frame, &mut self.outgoing);
            }
        }
        Ok(kind)
    }

    /// Ends the session, with a refusal for the peer if that helps.
    fn end(&mut self, error: ChannelError) -> ChannelError {
        if let Some(refusal) = error.refusal() {
            self.refuse(refusal);
        }
        self.error = Some(error.clone());
        error
    }
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Controller => Side::Agent,
            Side::Agent => Side::Controller,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Ping, Ready};

    /// This side of an open session without a key.
    fn open(side: Side) -> Channel {
        let mut channel = match side {
            Side::Controller => Channel::controller(None),
            Side::Agent => Channel::agent(None),
        };
        channel.open(None);
        channel
    }

    #[test]
    fn an_authenticated_peer_that_says_what_is_not_its_to_say_ends_the_session() {
        let confirm = || Message::Confirm(vec![7; 16].into());
        for (side, message, kind) in [
            (Side::Agent, Message::Ready(Ready { settled: None }), Kind::Ready),
            (Side::Agent, confirm(), Kind::Confirm),
            (Side::Agent, Message::Open(None), Kind::Open),
            (Side::Controller, Message::Ping(Ping { sent_ns: 1 }), Kind::Ping),
            (Side::Controller, Message::Accept(None), Kind::Accept),
            (Side::Controller, confirm(), Kind::Confirm),
        ] {
            let mut channel = open(side);
            let (_, frame) = frame::render(&message).expect("short");
            let error = ChannelError::OutOfTurn(kind);
            assert_eq!(channel.receive(&mut frame.as_slice()), Err(error), "{side:?}");
            assert!(!channel.is_open());
        }
    }

    #[test]
    fn a_payload_that_is_not_of_its_frames_type_ends_the_session() {
        let (_, honest) = frame::render(&Message::Stop).expect("short");
        let stop = honest[frame::HEADER_BYTES];
        for (payload, problem) in [
            (vec![stop + 1], "the payload is of another type"),
            (vec![], "the payload is of another type"),
            (vec![stop, 0], "1 bytes follow the message"),
        ] {
            let mut forged = honest[..frame::HEADER_BYTES].to_vec();
            forged[7] = u8::try_from(payload.len()).expect("short");
            forged.extend(payload);
            let problem = problem.to_owned();
            let error = FrameError::Malformed { kind: Kind::Stop, problem };
            let received = open(Side::Agent).receive(&mut forged.as_slice());
            assert_eq!(received, Err(error.into()));
        }
    }
}
