//! Frames: the format of messages on a stream, and their bounds.
//!
//! | offset | type | content |
//! | --- | --- | --- |
//! | 0 | 4 bytes | `TTAG` |
//! | 4 | u16 | version of the protocol, [`PROTOCOL`] |
//! | 6 | u8 | type of the message, see [`Kind`] |
//! | 7 | u32 | length of the payload, n |
//! | 11 | n bytes | payload: the message |
//!
//! Numbers are little endian. Magic and version are at the same place in every version, so that two
//! sides of different versions can report that they differ. The type precedes the payload, which
//! repeats it, because it decides how long the payload may be: a greater length is refused before
//! any memory is allocated for it. No claimed length is trusted: a reader holds only what has
//! arrived, and payloads are decoded by borrowing (`agents/tests/alone` counts).
//!
//! Each shard's results have a frame of their own, since those of an agent with many cores don't
//! fit into one of 16 MiB. An agent doesn't send a report: the controller makes each agent's report
//! from the same results as the report of all.

use std::fmt;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codec;
use crate::message::{Message, Side};
use crate::versions::PROTOCOL;

/// Bytes before a frame's payload.
pub const HEADER_BYTES: usize = size_of::<Header>();
/// The longest payload before the peer is authenticated, for a frame of 1 KiB.
pub const OPENING_MAX: usize = (1 << 10) - HEADER_BYTES;
/// The longest payload of a message that controls a run.
pub const CONTROL_MAX: usize = 64 << 10;
/// The longest payload with a plan: a thousand scenarios of a kilobyte each. What is longer travels
/// as a file.
pub const PLAN_MAX: usize = 1 << 20;
/// The longest payload with a part of a file: raw samples, or an attachment.
pub const PART_MAX: usize = 256 << 10;
/// The longest payload with results.
pub const RESULTS_MAX: usize = 16 << 20;

const MAGIC: [u8; 4] = *b"TTAG";
/// Bytes of magic and version, the same in every version of the protocol.
const VERSIONED_BYTES: usize = MAGIC.len() + size_of::<U16>();

/// The header before a payload.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 4],
    version: U16,
    kind: u8,
    length: U32,
}

/// Declares [`Kind`] and the properties of each type from the same rows.
macro_rules! kinds {
    ($($kind:ident: $($sender:ident)|+, $max:expr, $early:literal;)*) => {
        /// The type of a message: the variant of [`Message`] of the same name.
        #[expect(missing_docs, reason = "the message of that name says what it is")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($kind,)*
        }

        impl Kind {
            /// Every type, by its number in a frame.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// The type of a message.
            pub(crate) fn of_message(message: &Message) -> Kind {
                match message {
                    $(Message::$kind { .. } => Kind::$kind,)*
                }
            }

            /// True if this side may send messages of this type.
            pub(crate) fn is_sent_by(self, side: Side) -> bool {
                match self {
                    $(Kind::$kind => [$(Side::$sender),+].contains(&side),)*
                }
            }

            /// The longest payload of this type.
            pub fn payload_max(self) -> usize {
                match self {
                    $(Kind::$kind => $max,)*
                }
            }

            /// True if a peer may send it before it is authenticated.
            fn comes_early(self) -> bool {
                match self {
                    $(Kind::$kind => $early,)*
                }
            }
        }
    };
}

// In the order of the messages: sender, longest payload, allowed before authentication.
kinds! {
    Open: Controller, OPENING_MAX, true;
    Accept: Agent, OPENING_MAX, true;
    Confirm: Controller, OPENING_MAX, true;
    Refused: Controller | Agent, CONTROL_MAX, true;
    Hello: Controller | Agent, CONTROL_MAX, false;
    Ping: Controller, CONTROL_MAX, false;
    Pong: Agent, CONTROL_MAX, false;
    Heartbeat: Controller, CONTROL_MAX, false;
    Prepare: Controller, PLAN_MAX, false;
    Wanted: Controller | Agent, CONTROL_MAX, false;
    Part: Controller | Agent, PART_MAX, false;
    Ready: Agent, CONTROL_MAX, false;
    Start: Controller, CONTROL_MAX, false;
    Progress: Agent, CONTROL_MAX, false;
    Stop: Controller, CONTROL_MAX, false;
    Collect: Controller, CONTROL_MAX, false;
    Report: Agent, RESULTS_MAX, false;
    Shard: Agent, RESULTS_MAX, false;
    Bye: Controller | Agent, CONTROL_MAX, false;
    Resume: Controller, CONTROL_MAX, false;
    Kept: Agent, PLAN_MAX, false;
}

impl Kind {
    /// The type with this number.
    fn of(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", format!("{self:?}").to_lowercase())
    }
}

/// An error in bytes that should be a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// They don't begin with the magic bytes.
    #[error("the peer doesn't speak truetail's protocol; check the address")]
    Foreign,
    /// They are of another version of the protocol.
    #[error(
        "the peer speaks version {found} of the protocol, this side {PROTOCOL}; update the older \
         side"
    )]
    Version {
        /// The peer's.
        found: u16,
    },
    /// No message has this type.
    #[error("no message has type {0}")]
    Unknown(u8),
    /// A peer that isn't authenticated sent a message that requires it.
    #[error("{0} before authentication")]
    Early(Kind),
    /// The payload is longer than its type allows.
    #[error("{kind} of {length} bytes, at most {max} are allowed")]
    TooLong {
        /// The type.
        kind: Kind,
        /// The length.
        length: usize,
        /// The most that is allowed here.
        max: usize,
    },
    /// The payload isn't a message of its type, as this build has it.
    #[error(
        "malformed {kind}: {problem}; the sides are different builds of truetail, update the older \
         one"
    )]
    Malformed {
        /// The type.
        kind: Kind,
        /// The problem.
        problem: String,
    },
}

/// A message that doesn't fit into a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} of {length} bytes: a frame holds {max}")]
pub struct TooLong {
    /// Its type.
    pub kind: Kind,
    /// Its length, bytes.
    pub length: usize,
    /// The most that its type allows.
    pub max: usize,
}

/// The frame of a message, and its type.
///
/// # Errors
/// The message is too long for its type.
pub(crate) fn render(message: &Message) -> Result<(Kind, Vec<u8>), TooLong> {
    let payload = codec::encode(message);
    // A payload begins with the number of the message's variant, in one byte.
    let kind = Kind::of(payload[0]).expect("each message has a type");
    let max = kind.payload_max();
    if max < payload.len() {
        return Err(TooLong { kind, length: payload.len(), max });
    }
    let header = Header {
        magic: MAGIC,
        version: PROTOCOL.into(),
        kind: payload[0],
        length: u32::try_from(payload.len()).expect("a payload is far shorter").into(),
    };
    Ok((kind, [header.as_bytes(), &payload].concat()))
}

/// A whole frame as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    kind: Kind,
    bytes: Vec<u8>,
}

impl Frame {
    /// The type of its message.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The whole frame.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its message.
    ///
    /// # Errors
    /// The payload isn't one of the frame's type.
    pub fn message(&self) -> Result<Message, FrameError> {
        let malformed = |problem| FrameError::Malformed { kind: self.kind, problem };
        let payload = &self.bytes[HEADER_BYTES..];
        if payload.first().copied().and_then(Kind::of) != Some(self.kind) {
            return Err(malformed("the payload is of another type".to_owned()));
        }
        codec::decode(payload).map_err(|error| malformed(error.to_string()))
    }
}

/// Cuts a stream into frames as its bytes arrive.
///
/// It holds one frame at most, in less than twice the memory of the bytes that have arrived.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    authenticated: bool,
}

impl FrameReader {
    /// The peer is authenticated: from now on it may send frames of any type, as long as the type
    /// allows.
    pub fn authenticate(&mut self) {
        self.authenticated = true;
    }

    /// Takes bytes from the front of `input`, at most up to the end of a frame; returns that frame.
    /// `None` if it isn't complete yet, and then `input` is empty.
    ///
    /// # Errors
    /// The bytes aren't a frame, or not one allowed now. The next call returns the same error.
    pub fn feed(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        loop {
            let (wanted, kind) = self.wanted()?;
            let missing = wanted - self.bytes.len();
            if let Some(kind) = kind
                && missing == 0
            {
                return Ok(Some(Frame { kind, bytes: std::mem::take(&mut self.bytes) }));
            }
            if input.is_empty() {
                return Ok(None);
            }
            let (taken, rest) = input.split_at(missing.min(input.len()));
            self.bytes.extend_from_slice(taken);
            *input = rest;
        }
    }

    /// The bytes needed for the frame, or first for its header; and its type, once known.
    fn wanted(&self) -> Result<(usize, Option<Kind>), FrameError> {
        let known = self.bytes.len();
        if !self.bytes.starts_with(&MAGIC[..known.min(MAGIC.len())]) {
            return Err(FrameError::Foreign);
        }
        if let Some(versioned) = self.bytes.first_chunk::<VERSIONED_BYTES>() {
            let found = u16::from_le_bytes([versioned[4], versioned[5]]);
            if found != PROTOCOL {
                return Err(FrameError::Version { found });
            }
        }
        let Ok((header, _)) = Header::ref_from_prefix(&self.bytes) else {
            return Ok((HEADER_BYTES, None));
        };
        let kind = Kind::of(header.kind).ok_or(FrameError::Unknown(header.kind))?;
        if !self.authenticated && !kind.comes_early() {
            return Err(FrameError::Early(kind));
        }
        let max = if self.authenticated {
            kind.payload_max()
        } else {
            kind.payload_max().min(OPENING_MAX)
        };
        let length = usize::try_from(header.length.get()).unwrap_or(usize::MAX);
        if max < length {
            return Err(FrameError::TooLong { kind, length, max });
        }
        Ok((HEADER_BYTES + length, Some(kind)))
    }

    /// True if no frame is incomplete: the stream may end here.
    pub fn is_between_frames(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Memory held, bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}
