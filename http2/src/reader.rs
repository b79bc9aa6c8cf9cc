//! Frames from a byte stream at any split, in linear time and in 16 KiB.
//!
//! DATA is passed on as it arrives, without its padding, and never kept. Any other frame is passed
//! on whole: from where it lies if it arrived in one piece, or else gathered in a buffer, which
//! keeps its memory.

use crate::frame::{ACK, HEAD_BYTES, Head, Kind, PADDED, PAYLOAD_MAX};
use crate::violation::Violation;

/// The next piece of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// All bytes are consumed, and nothing is complete.
    NeedMore,
    /// A whole frame, but never DATA.
    Frame(Head, &'a [u8]),
    /// A part of a DATA frame, possibly without data.
    Data {
        head: Head,
        /// How many bytes of data it has, without padding.
        data_bytes: u32,
        /// How many bytes of what was consumed come before its data.
        data_at: u32,
        /// True for the first part of its frame.
        first: bool,
        /// True for the last part of its frame.
        last: bool,
        /// True if the frame has had no data so far.
        empty: bool,
    },
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum State {
    /// A head, of which this many bytes have been read.
    Head(u8),
    /// The payload of a frame that is gathered.
    Payload(Head),
    /// The payload of DATA.
    Data(Data),
}

/// A DATA frame that is being read.
#[derive(Clone, Copy, Debug)]
struct Data {
    head: Head,
    /// False if the length of the padding comes next.
    padding_known: bool,
    /// Bytes of data, then of padding, that are to come.
    data_left: u32,
    padding_left: u32,
    first: bool,
    empty: bool,
}

/// The reader of one connection.
#[derive(Debug)]
pub(crate) struct Reader {
    state: State,
    /// The part seen so far of a split head.
    head: [u8; HEAD_BYTES],
    /// The part seen so far of a split payload.
    payload: Vec<u8>,
    /// True once the first frame's head has been read.
    begun: bool,
}

impl Reader {
    /// A reader for a new connection.
    pub(crate) fn new() -> Reader {
        Reader { state: State::Head(0), head: [0; HEAD_BYTES], payload: Vec::new(), begun: false }
    }

    /// Starts over for a new connection; the buffer keeps its memory.
    pub(crate) fn reset(&mut self) {
        self.state = State::Head(0);
        self.payload.clear();
        self.begun = false;
    }

    /// Allocates room for the longest payload.
    pub(crate) fn reserve(&mut self) {
        self.payload.reserve_exact(size(PAYLOAD_MAX));
    }

    /// The memory that it holds, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.payload.capacity()
    }

    /// Takes the next piece off the front of `bytes`; returns how long it is.
    ///
    /// # Errors
    /// If a frame's head or its padding breaks a rule. The reader can't be used after that until it
    /// is [`reset`](Reader::reset).
    #[inline]
    pub(crate) fn next<'a>(&'a mut self, bytes: &'a [u8]) -> Result<(usize, Piece<'a>), Violation> {
        let mut at = 0;
        if let State::Head(have) = self.state {
            let Some((head, taken)) = self.take_head(usize::from(have), bytes)? else {
                return Ok((bytes.len(), Piece::NeedMore));
            };
            at = taken;
            if head.kind == Kind::Data {
                self.state = State::Data(Data::new(head));
            } else {
                let rest = &bytes[at..];
                let length = size(head.length);
                if length <= rest.len() {
                    self.state = State::Head(0);
                    return Ok((at + length, Piece::Frame(head, &rest[..length])));
                }
                self.payload.clear();
                self.state = State::Payload(head);
            }
        }
        let rest = &bytes[at..];
        match self.state {
            State::Data(data) => {
                let (taken, mut piece) = self.take_data(data, rest)?;
                if let Piece::Data { data_at, .. } = &mut piece {
                    *data_at += u32::try_from(at).expect("a frame's head");
                }
                Ok((at + taken, piece))
            }
            State::Payload(head) => {
                let missing = size(head.length) - self.payload.len();
                let taken = missing.min(rest.len());
                self.gather(&rest[..taken]);
                if taken < missing {
                    return Ok((at + taken, Piece::NeedMore));
                }
                self.state = State::Head(0);
                Ok((at + taken, Piece::Frame(head, &self.payload)))
            }
            State::Head(_) => unreachable!("the head has been read"),
        }
    }

    /// Takes a head, of which `have` bytes were read before; returns it and how many bytes it took
    /// off once it is complete.
    #[inline]
    fn take_head(&mut self, have: usize, bytes: &[u8]) -> Result<Option<(Head, usize)>, Violation> {
        let (taken, whole) = match bytes.first_chunk() {
            Some(whole) if have == 0 => (HEAD_BYTES, *whole),
            _ => {
                let taken = (HEAD_BYTES - have).min(bytes.len());
                self.head[have..have + taken].copy_from_slice(&bytes[..taken]);
                let now = have + taken;
                self.check_first(now)?;
                self.state = State::Head(u8::try_from(now).expect("at most nine"));
                if now < HEAD_BYTES {
                    return Ok(None);
                }
                (taken, self.head)
            }
        };
        if !self.begun {
            self.head = whole;
            self.check_first(HEAD_BYTES)?;
            self.begun = true;
        }
        Ok(Some((Head::read(&whole)?, taken)))
    }

    /// Checks that the connection begins with SETTINGS that are no acknowledgement, as far as
    /// `have` bytes of the first head show. A text such as `HTTP/1.1 400` must not wait for more.
    fn check_first(&self, have: usize) -> Result<(), Violation> {
        if self.begun {
            return Ok(());
        }
        const SETTINGS: u8 = 0x4;
        let seen = self.head[..have].iter().enumerate();
        let possible = seen.into_iter().all(|(place, &byte)| match place {
            // A length above 16 KiB shows here, but for 16 KiB itself, which no SETTINGS can have,
            // as it isn't a multiple of six.
            0 => byte == 0,
            1 => byte < 0x40,
            3 => byte == SETTINGS,
            4 => byte & ACK == 0,
            _ => true,
        });
        if possible { Ok(()) } else { Err(Violation::NotHttp2) }
    }

    /// Takes a part of a DATA frame.
    #[inline]
    fn take_data<'a>(
        &mut self,
        mut data: Data,
        bytes: &[u8],
    ) -> Result<(usize, Piece<'a>), Violation> {
        let mut taken = 0;
        let mut data_at = 0;
        if !data.padding_known {
            let Some(&padding) = bytes.first() else {
                self.state = State::Data(data);
                return Ok((0, Piece::NeedMore));
            };
            data.padding_left = u32::from(padding);
            data.data_left =
                data.data_left.checked_sub(data.padding_left).ok_or(Violation::Padding)?;
            data.padding_known = true;
            (taken, data_at) = (1, 1);
        }
        let data_bytes = most(data.data_left, bytes.len() - taken);
        taken += size(data_bytes);
        let padding_bytes = most(data.padding_left, bytes.len() - taken);
        taken += size(padding_bytes);
        data.data_left -= data_bytes;
        data.padding_left -= padding_bytes;
        data.empty &= data_bytes == 0;
        let Data { head, first, empty, .. } = data;
        let last = data.data_left == 0 && data.padding_left == 0;
        if taken == 0 && !last {
            self.state = State::Data(data);
            return Ok((0, Piece::NeedMore));
        }
        data.first = false;
        self.state = if last { State::Head(0) } else { State::Data(data) };
        Ok((taken, Piece::Data { head, data_bytes, data_at, first, last, empty }))
    }

    /// Adds bytes to the payload's buffer, whose capacity doubles up to the longest payload.
    fn gather(&mut self, bytes: &[u8]) {
        let length = self.payload.len() + bytes.len();
        if self.payload.capacity() < length {
            let capacity = length.next_power_of_two().max(64);
            self.payload.reserve_exact(capacity - self.payload.len());
        }
        self.payload.extend_from_slice(bytes);
    }
}

// The buffer doubles up to its limit, so the limit must be reachable by doubling.
const _: () = assert!(PAYLOAD_MAX.is_power_of_two());

impl Data {
    fn new(head: Head) -> Data {
        let padded = head.has(PADDED);
        // The length of the padding is a byte of the payload itself.
        let data_left = head.length - u32::from(padded);
        Data { head, padding_known: !padded, data_left, padding_left: 0, first: true, empty: true }
    }
}

/// A length of a frame as a size.
#[inline]
pub(crate) fn size(length: u32) -> usize {
    length as usize
}

/// As many as are left and are there.
#[inline]
fn most(left: u32, there: usize) -> u32 {
    u32::try_from(there).map_or(left, |there| left.min(there))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::END_STREAM;

    /// What a stream cut into pieces consists of, DATA added up by frame.
    fn frames(pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> Result<Vec<String>, Violation> {
        let mut reader = Reader::new();
        let (mut seen, mut sum) = (Vec::new(), 0);
        for piece in pieces {
            let mut rest = piece.as_ref();
            while !rest.is_empty() {
                let (taken, piece) = reader.next(rest)?;
                rest = &rest[taken..];
                match piece {
                    Piece::NeedMore => {}
                    Piece::Frame(head, payload) => {
                        seen.push(format!("{:?} {} {payload:?}", head.kind, head.stream));
                    }
                    Piece::Data { head, data_bytes, last, .. } => {
                        sum += data_bytes;
                        if last {
                            seen.push(format!("Data {} {sum}", head.stream));
                            sum = 0;
                        }
                    }
                }
                assert!(reader.memory_bytes() <= size(PAYLOAD_MAX));
            }
        }
        Ok(seen)
    }

    fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short");
        [&Head { length, kind, flags, stream }.bytes(), payload].concat()
    }

    #[test]
    fn frames_are_the_same_at_every_split() {
        let stream = [
            frame(Kind::Settings, 0, 0, &[0, 1, 0, 0, 0, 0]),
            frame(Kind::Settings, ACK, 0, &[]),
            frame(Kind::Data, 0, 1, b"abc"),
            frame(Kind::Data, PADDED, 1, b"\x02abc\0\0"),
            frame(Kind::Data, PADDED, 1, b"\x03\0\0\0"),
            frame(Kind::Data, PADDED, 1, b"\0"),
            frame(Kind::Data, END_STREAM, 1, b""),
            frame(Kind::Ping, 0, 0, b"12345678"),
        ]
        .concat();
        let expected = [
            "Settings 0 [0, 1, 0, 0, 0, 0]",
            "Settings 0 []",
            "Data 1 3",
            "Data 1 3",
            "Data 1 0",
            "Data 1 0",
            "Data 1 0",
            "Ping 0 [49, 50, 51, 52, 53, 54, 55, 56]",
        ];
        for cut in 0..stream.len() {
            let (left, right) = stream.split_at(cut);
            assert_eq!(frames([left, right].into_iter()).expect("valid"), expected, "{cut}");
        }
        for length in 1..20 {
            assert_eq!(frames(stream.chunks(length)).expect("valid"), expected, "{length}");
        }
    }

    #[test]
    fn padding_is_shorter_than_the_payload() {
        let settings = frame(Kind::Settings, 0, 0, &[]);
        for (payload, expected) in [
            (&b"\x04abc"[..], Err(Violation::Padding)),
            (b"\x03abc", Ok("Data 1 0")),
            (b"\x01", Err(Violation::Padding)),
        ] {
            let stream = [&settings[..], &frame(Kind::Data, PADDED, 1, payload)].concat();
            for length in [1, 100] {
                let seen = frames(stream.chunks(length)).map(|seen| seen[1].clone());
                assert_eq!(seen.as_deref().map_err(|violation| *violation), expected);
            }
        }
    }

    #[test]
    fn a_connection_begins_with_settings() {
        for text in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"S", b"\0\x40", b"\0\0\0\x04\x01"] {
            for length in [1, 100] {
                assert_eq!(frames(text.chunks(length)), Err(Violation::NotHttp2), "{text:?}");
            }
        }
        let ping = frame(Kind::Ping, 0, 0, b"12345678");
        assert_eq!(frames([ping].iter()), Err(Violation::NotHttp2));
    }
}
