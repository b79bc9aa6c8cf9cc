//! A session as one side sees it: authenticates the peer, then every frame.
//!
//! 1. The controller sends its nonce, the agent answers with its own. These frames, and a refusal
//!    in their place, have a tag of zeros.
//! 2. Both derive the session's keys. The controller proves that it has the key, by the tag of its
//!    next frame; only then does the agent do the same, so a stranger gets no tag to try keys on.
//! 3. From then on each frame carries a tag over all of it, its sequence included. One that is
//!    repeated, reordered, left out, altered, of another session or sent back to its sender ends
//!    the session.
//!
//! A side without a key only talks to one without; see `seal` for what tags mean then.
//!
//! Nothing here reads a socket, a clock or a source of random numbers.

use crate::frame::{self, Frame, FrameError, FrameReader, Kind, TAG_BYTES, TooLong};
use crate::key::Key;
use crate::message::{Message, Nonce, Opening};
use crate::refusal::Refusal;
pub use crate::seal::Side;
use crate::seal::{Nonces, SessionKeys};

/// The tag of a frame before there are keys.
const NO_TAG: [u8; TAG_BYTES] = [0; TAG_BYTES];

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The stream isn't one of frames that may come.
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
    /// A tag isn't the frame's.
    #[error("frame {0} was altered on its way, or isn't of this session")]
    Altered(u64),
    /// A frame came twice, too early, or not at all.
    #[error("frame {found} came where frame {expected} was due: repeated, reordered or lost")]
    Sequence {
        /// Its sequence.
        found: u64,
        /// The one that was due.
        expected: u64,
    },
    /// The peer said something that isn't its to say, or not now.
    #[error("{0} is out of turn")]
    OutOfTurn(Kind),
    /// The peer refused this side. Nothing shows that it was the peer who did.
    #[error("refused by the peer: {0}")]
    Refused(Refusal),
    /// The stream ended before the peer was authenticated, or within a frame.
    #[error("the connection was cut")]
    Cut,
}

impl ChannelError {
    /// What the peer is told; `None` if that wouldn't help it.
    fn refusal(&self) -> Option<Refusal> {
        match self {
            ChannelError::Frame(FrameError::Foreign)
            | ChannelError::Refused(_)
            | ChannelError::Cut => None,
            ChannelError::Frame(error) => Some(Refusal::Frame(error.to_string())),
            ChannelError::PeerWithoutKey => Some(Refusal::KeyNeeded),
            ChannelError::PeerWithKey => Some(Refusal::KeyUnknown),
            ChannelError::WrongKey => Some(Refusal::WrongKey),
            ChannelError::Altered(_) | ChannelError::Sequence { .. } => {
                Some(Refusal::Tampered(self.to_string()))
            }
            ChannelError::OutOfTurn(kind) => Some(Refusal::OutOfTurn(kind.to_string())),
        }
    }
}

/// How far a session has got.
enum Stage {
    /// The peer's nonce is awaited.
    Opening,
    /// The peer's proof is awaited.
    Proving(SessionKeys),
    /// Both sides are authenticated.
    Open(SessionKeys),
}

/// One side of a session.
pub struct Channel {
    side: Side,
    key: Option<Key>,
    nonce: Nonce,
    stage: Stage,
    reader: FrameReader,
    /// Frames sent.
    sent: u64,
    /// Frames received.
    received: u64,
    outgoing: Vec<u8>,
    error: Option<ChannelError>,
}

impl Channel {
    /// The side that connects. `nonce` must be random, and of no other session.
    pub fn controller(key: Option<Key>, nonce: Nonce) -> Channel {
        let mut channel = Channel::new(Side::Controller, key, nonce);
        channel.push_opening(Message::Open);
        channel
    }

    /// The side that listens. `nonce` must be random, and of no other session.
    pub fn agent(key: Option<Key>, nonce: Nonce) -> Channel {
        Channel::new(Side::Agent, key, nonce)
    }

    fn new(side: Side, key: Option<Key>, nonce: Nonce) -> Channel {
        Channel {
            side,
            key,
            nonce,
            stage: Stage::Opening,
            reader: FrameReader::default(),
            sent: 0,
            received: 0,
            outgoing: Vec::new(),
            error: None,
        }
    }

    /// Whether the peer is authenticated.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_)) && self.error.is_none()
    }

    /// Takes bytes that came from the front of `input`, up to the end of a message, and returns
    /// that message. `None` if there is none yet, and then `input` is empty. Each call may add to
    /// [`Channel::take_outgoing`].
    ///
    /// # Errors
    /// The session has ended. The peer is told, if [`Channel::take_outgoing`] still reaches it; the
    /// next call says the same.
    pub fn receive(&mut self, input: &mut &[u8]) -> Result<Option<Message>, ChannelError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        loop {
            let message = match self.reader.feed(input) {
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => self.take(&frame),
                Err(error) => Err(error.into()),
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
    /// It wasn't to end here, or an earlier error.
    pub fn finish(&mut self) -> Result<(), ChannelError> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None if self.is_open() && self.reader.is_between_frames() => Ok(()),
            None => Err(self.end(ChannelError::Cut)),
        }
    }

    /// Sends a message: [`Channel::take_outgoing`] has its frame.
    ///
    /// # Errors
    /// The message is longer than its type allows. Nothing is sent, and the session goes on.
    ///
    /// # Panics
    /// The session isn't open, or the message isn't one that this side sends.
    pub fn send(&mut self, message: &Message) -> Result<(), TooLong> {
        assert!(self.is_open(), "only an authenticated peer is told anything");
        let kind = self.push(message)?;
        assert!(sends(self.side, kind), "{kind} isn't for this side to send");
        Ok(())
    }

    /// Refuses the peer at any time, and ends the session.
    pub fn refuse(&mut self, refusal: Refusal) {
        if self.error.is_none() {
            // A refusal that is too long says nothing; that the connection ends still does.
            let _ = self.push(&Message::Refused(refusal));
            self.error = Some(ChannelError::Cut);
        }
    }

    /// The bytes to send to the peer, which are then no longer here.
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Bytes that are to be sent.
    pub fn outgoing_len(&self) -> usize {
        self.outgoing.len()
    }

    /// What a frame means here and now; `None` if it was for this module alone.
    fn take(&mut self, frame: &Frame) -> Result<Option<Message>, ChannelError> {
        let kind = frame.kind();
        let is_early = match &self.stage {
            Stage::Opening => true,
            // A peer that refuses has no keys, or others.
            Stage::Proving(_) => kind == Kind::Refused,
            Stage::Open(_) => false,
        };
        let is_authentic = match &self.stage {
            Stage::Opening => frame.tag() == NO_TAG,
            Stage::Proving(_) if is_early => frame.tag() == NO_TAG,
            Stage::Proving(keys) | Stage::Open(keys) => keys.is_peers(frame.tagged(), frame.tag()),
        };
        match &self.stage {
            _ if is_authentic => {}
            Stage::Proving(_) if kind == Kind::Proof => return Err(ChannelError::WrongKey),
            _ => return Err(ChannelError::Altered(self.received)),
        }
        if frame.sequence() != self.received {
            let (found, expected) = (frame.sequence(), self.received);
            return Err(ChannelError::Sequence { found, expected });
        }
        self.received += 1;
        if !sends(self.side.other(), kind) {
            return Err(ChannelError::OutOfTurn(kind));
        }
        match (frame.message()?, &self.stage) {
            (Message::Refused(refusal), Stage::Opening | Stage::Proving(_)) => {
                Err(ChannelError::Refused(refusal))
            }
            (Message::Open(peer) | Message::Challenge(peer), Stage::Opening) => {
                self.opened(&peer).map(|()| None)
            }
            (Message::Proof, Stage::Proving(_)) => {
                self.proved();
                Ok(None)
            }
            (Message::Open(_) | Message::Challenge(_) | Message::Proof, _)
            | (_, Stage::Opening | Stage::Proving(_)) => Err(ChannelError::OutOfTurn(kind)),
            (message, Stage::Open(_)) => Ok(Some(message)),
        }
    }

    /// The peer's nonce is known, and so are the keys.
    fn opened(&mut self, peer: &Opening) -> Result<(), ChannelError> {
        match (&self.key, peer.has_key) {
            (Some(_), false) => return Err(ChannelError::PeerWithoutKey),
            (None, true) => return Err(ChannelError::PeerWithKey),
            (Some(_), true) | (None, false) => {}
        }
        let nonces = match self.side {
            Side::Controller => Nonces { controller: self.nonce, agent: peer.nonce },
            Side::Agent => Nonces { controller: peer.nonce, agent: self.nonce },
        };
        let keys = SessionKeys::new(self.side, self.key.as_ref(), &nonces);
        if self.side == Side::Agent {
            self.push_opening(Message::Challenge);
        }
        self.stage = Stage::Proving(keys);
        if self.side == Side::Controller {
            self.push_proof();
        }
        Ok(())
    }

    /// The peer has the key.
    fn proved(&mut self) {
        if self.side == Side::Agent {
            self.push_proof();
        }
        let stage = std::mem::replace(&mut self.stage, Stage::Opening);
        self.stage = match stage {
            Stage::Proving(keys) => Stage::Open(keys),
            Stage::Opening | Stage::Open(_) => unreachable!("a proof ends the proving"),
        };
        self.reader.authenticate();
    }

    fn push_opening(&mut self, message: impl Fn(Opening) -> Message) {
        let opening = Opening { nonce: self.nonce, has_key: self.key.is_some() };
        self.push(&message(opening)).expect("an opening is short");
    }

    fn push_proof(&mut self) {
        self.push(&Message::Proof).expect("a proof is short");
    }

    /// Adds a message's frame to those to be sent, and returns its type.
    fn push(&mut self, message: &Message) -> Result<Kind, TooLong> {
        let tag = |tagged: &[u8]| match &self.stage {
            Stage::Opening => NO_TAG,
            // A peer with other keys must still be able to read why it is refused.
            Stage::Proving(_) if matches!(message, Message::Refused(_)) => NO_TAG,
            Stage::Proving(keys) | Stage::Open(keys) => keys.tag(tagged),
        };
        let (kind, frame) = frame::render(message, self.sent, tag)?;
        self.sent += 1;
        self.outgoing.extend_from_slice(&frame);
        Ok(kind)
    }

    /// Ends the session, and tells the peer why where that helps.
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

/// Whether this side may send messages of this type.
fn sends(side: Side, kind: Kind) -> bool {
    match kind {
        Kind::Proof | Kind::Refused | Kind::Hello | Kind::Bye => true,
        Kind::Open
        | Kind::Ping
        | Kind::Heartbeat
        | Kind::Prepare
        | Kind::Start
        | Kind::Stop
        | Kind::Collect => side == Side::Controller,
        Kind::Challenge
        | Kind::Pong
        | Kind::Ready
        | Kind::Progress
        | Kind::Report
        | Kind::Samples
        | Kind::Shard => side == Side::Agent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Ping, Samples};

    #[test]
    fn an_authenticated_peer_that_says_what_is_not_its_to_say_ends_the_session() {
        let opening = Opening { nonce: [7; 32], has_key: false };
        let samples = Samples { offset: 0, bytes: vec![1].into(), is_last: true };
        for (side, message, kind) in [
            (Side::Agent, Message::Samples(samples), Kind::Samples),
            (Side::Agent, Message::Proof, Kind::Proof),
            (Side::Agent, Message::Open(opening), Kind::Open),
            (Side::Controller, Message::Ping(Ping { sent_ns: 1 }), Kind::Ping),
            (Side::Controller, Message::Challenge(opening), Kind::Challenge),
        ] {
            let nonces = Nonces { controller: [1; 32], agent: [2; 32] };
            let mut channel = match side {
                Side::Controller => Channel::controller(None, nonces.controller),
                Side::Agent => Channel::agent(None, nonces.agent),
            };
            channel.stage = Stage::Open(SessionKeys::new(side, None, &nonces));
            channel.reader.authenticate();
            let peer = SessionKeys::new(side.other(), None, &nonces);
            let (_, frame) = frame::render(&message, 0, |tagged| peer.tag(tagged)).expect("short");
            let error = ChannelError::OutOfTurn(kind);
            assert_eq!(channel.receive(&mut frame.as_slice()), Err(error), "{side:?}");
            assert!(!channel.is_open());
        }
    }

    #[test]
    fn a_payload_that_is_not_of_its_frames_type_ends_the_session() {
        let nonces = Nonces { controller: [1; 32], agent: [2; 32] };
        let peer = SessionKeys::new(Side::Controller, None, &nonces);
        let (_, honest) =
            frame::render(&Message::Stop, 0, |tagged| peer.tag(tagged)).expect("short");
        let stop = honest[frame::HEADER_BYTES];
        for (payload, problem) in [
            (vec![stop + 1], "the payload is of another type"),
            (vec![], "the payload is of another type"),
            (vec![stop, 0], "1 bytes follow the message"),
        ] {
            let mut forged = honest[..frame::HEADER_BYTES].to_vec();
            forged[7] = u8::try_from(payload.len()).expect("short");
            forged.extend(payload);
            forged.extend(peer.tag(&forged));
            let mut channel = Channel::agent(None, nonces.agent);
            channel.stage = Stage::Open(SessionKeys::new(Side::Agent, None, &nonces));
            channel.reader.authenticate();
            let problem = problem.to_owned();
            let error = FrameError::Malformed { kind: Kind::Stop, problem };
            assert_eq!(channel.receive(&mut forged.as_slice()), Err(error.into()));
        }
    }
}
