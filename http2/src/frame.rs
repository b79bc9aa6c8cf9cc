//! Frame heads: their nine bytes, read and written, and every rule that a head alone can break.

use crate::violation::Violation;

/// The length of a frame's head, bytes.
pub(crate) const HEAD_BYTES: usize = 9;

/// The longest payload that we accept, which is the smallest limit that a peer must be allowed (RFC
/// 9113, section 6.5.2), bytes.
pub(crate) const PAYLOAD_MAX: u32 = 16_384;

/// The greatest stream identifier, and the mask of its 31 bits.
pub(crate) const STREAM_MAX: u32 = 0x7fff_ffff;

/// DATA and HEADERS: the sender is done with the stream.
pub(crate) const END_STREAM: u8 = 0x1;
/// SETTINGS and PING: an acknowledgement.
pub(crate) const ACK: u8 = 0x1;
/// HEADERS and CONTINUATION: the header block is complete.
pub(crate) const END_HEADERS: u8 = 0x4;
/// DATA and HEADERS: the payload begins with the length of its padding.
pub(crate) const PADDED: u8 = 0x8;
/// HEADERS: five bytes of priority precede the block.
pub(crate) const PRIORITY: u8 = 0x20;

/// The length of those, bytes.
pub(crate) const PRIORITY_BYTES: u32 = 5;

/// The types of frames (RFC 9113, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Headers,
    Priority,
    ResetStream,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    /// A type of an extension, which must be ignored (section 4.1).
    Unknown,
}

impl Kind {
    /// The known types, at the place of their number.
    const ALL: [Kind; 10] = [
        Kind::Data,
        Kind::Headers,
        Kind::Priority,
        Kind::ResetStream,
        Kind::Settings,
        Kind::PushPromise,
        Kind::Ping,
        Kind::GoAway,
        Kind::WindowUpdate,
        Kind::Continuation,
    ];
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The length of the payload, bytes.
    pub(crate) length: u32,
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    /// 0 for the connection.
    pub(crate) stream: u32,
}

impl Head {
    /// A head from its bytes, checked unless it is that of an unknown frame.
    #[inline]
    pub(crate) fn read(bytes: &[u8; HEAD_BYTES]) -> Result<Head, Violation> {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        let head = Head {
            length: u32::from_be_bytes([0, a, b, c]),
            kind: Kind::ALL.get(usize::from(kind)).copied().unwrap_or(Kind::Unknown),
            flags,
            stream: u32::from_be_bytes(stream) & STREAM_MAX,
        };
        head.check()?;
        Ok(head)
    }

    /// Checks length and stream against the type.
    #[inline]
    fn check(&self) -> Result<(), Violation> {
        if PAYLOAD_MAX < self.length {
            return Err(Violation::FrameTooLarge);
        }
        let padding = u32::from(self.has(PADDED));
        let shortest_with_padding = match self.kind {
            Kind::Data => padding,
            Kind::Headers => padding + if self.has(PRIORITY) { PRIORITY_BYTES } else { 0 },
            _ => 0,
        };
        let length_is_possible = match self.kind {
            Kind::Data | Kind::Headers => shortest_with_padding <= self.length,
            Kind::Priority => self.length == PRIORITY_BYTES,
            Kind::ResetStream | Kind::WindowUpdate => self.length == 4,
            Kind::Settings if self.has(ACK) => self.length == 0,
            Kind::Settings => self.length.is_multiple_of(6),
            Kind::Ping => self.length == 8,
            Kind::GoAway => 8 <= self.length,
            Kind::PushPromise | Kind::Continuation | Kind::Unknown => true,
        };
        let stream_is_possible = match self.kind {
            Kind::Settings | Kind::Ping | Kind::GoAway => self.stream == 0,
            Kind::WindowUpdate | Kind::Unknown => true,
            _ => self.stream != 0,
        };
        match (stream_is_possible, length_is_possible) {
            (false, _) => Err(Violation::FrameStream),
            (true, false) => Err(Violation::FrameLength),
            (true, true) => Ok(()),
        }
    }

    /// Its bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> [u8; HEAD_BYTES] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind.number(), self.flags, d, e, f, g]
    }

    /// True if a flag is set; what it means depends on the type.
    #[inline]
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

impl Kind {
    /// Its number; unknown frames are never written.
    #[inline]
    fn number(self) -> u8 {
        match self {
            Kind::Data => 0x0,
            Kind::Headers => 0x1,
            Kind::Priority => 0x2,
            Kind::ResetStream => 0x3,
            Kind::Settings => 0x4,
            Kind::PushPromise => 0x5,
            Kind::Ping => 0x6,
            Kind::GoAway => 0x7,
            Kind::WindowUpdate => 0x8,
            Kind::Continuation => 0x9,
            Kind::Unknown => unreachable!("unknown frames are never written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_written_as_they_are_read() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(kind.number()), number);
            let stream = if kind.needs_no_stream() { 0 } else { 0x0102_0305 };
            let length = match kind {
                Kind::Priority => 5,
                Kind::ResetStream | Kind::WindowUpdate => 4,
                Kind::Settings => 6,
                _ => 8,
            };
            let head = Head { length, kind, flags: END_HEADERS, stream };
            assert_eq!(Head::read(&head.bytes()), Ok(head), "{kind:?}");
        }
    }

    impl Kind {
        fn needs_no_stream(self) -> bool {
            matches!(self, Kind::Settings | Kind::Ping | Kind::GoAway)
        }
    }

    #[test]
    fn the_reserved_bit_is_ignored() {
        let mut bytes = Head { length: 0, kind: Kind::Data, flags: 0, stream: 7 }.bytes();
        bytes[5] |= 0x80;
        assert_eq!(Head::read(&bytes).map(|head| head.stream), Ok(7));
    }

    #[test]
    fn unknown_types_have_any_stream_and_length_up_to_the_limit() {
        let head = |length: u32, stream: u8| {
            let [_, a, b, c] = length.to_be_bytes();
            Head::read(&[a, b, c, 0xfb, 0xff, 0, 0, 0, stream]).map(|head| head.kind)
        };
        assert_eq!(head(PAYLOAD_MAX, 0), Ok(Kind::Unknown));
        assert_eq!(head(3, 1), Ok(Kind::Unknown));
        assert_eq!(head(PAYLOAD_MAX + 1, 0), Err(Violation::FrameTooLarge));
    }
}
