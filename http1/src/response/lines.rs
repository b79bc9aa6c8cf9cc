//! Syntax check of split heads and trailers, byte by byte, by the rules of the head parser.
//!
//! A head that arrives in pieces is parsed once it is complete. Without this check, a peer could
//! break a rule, keep the connection open and seem slow, and the error would depend on how TCP
//! split the bytes. Meaning (lengths, codings, persistence) isn't checked here.

use super::head::FIELDS_MAX;
use super::violation::Violation;
use crate::syntax::is_token_byte;

/// Length of the fixed-format start of a head: `HTTP/1.1 200`.
const START_LENGTH: u8 = 12;

// The number of fields reaches one more than the limit.
const _: () = assert!(FIELDS_MAX < u8::MAX as usize);

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum LineState {
    /// A byte of the status line's fixed-format start, counted from 0.
    Start(u8),
    /// The byte after the status code.
    CodeEnd,
    /// The reason phrase.
    Reason,
    /// The LF of the status line.
    StatusFeed,
    /// The first byte of a line that doesn't continue a field.
    LineStart,
    /// A field's name.
    Name,
    /// A field's value, over all its lines.
    Value,
    /// The LF of a field line.
    ValueFeed,
    /// The first byte after a field line, which may fold into the next (RFC 9112, section 5.2).
    FieldEnd,
    /// The LF of the blank line.
    LastFeed,
}

/// The state of one head or one trailer section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    state: LineState,
    /// The number of complete fields.
    fields: u8,
}

impl Lines {
    /// The start of a head.
    pub(crate) fn head() -> Lines {
        Lines { state: LineState::Start(0), fields: 0 }
    }

    /// The start of a trailer section: fields without a status line.
    pub(crate) fn trailers() -> Lines {
        Lines { state: LineState::LineStart, fields: 0 }
    }

    /// Consumes bytes up to the end of the blank line; returns the number consumed once it is
    /// found.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Option<usize>, Violation> {
        for (at, &byte) in bytes.iter().enumerate() {
            if self.step(byte)? {
                return Ok(Some(at + 1));
            }
        }
        Ok(None)
    }

    /// Consumes one byte; returns true if it ended the blank line.
    fn step(&mut self, byte: u8) -> Result<bool, Violation> {
        if matches!(self.state, LineState::FieldEnd) && !matches!(byte, b' ' | b'\t') {
            self.fields += 1;
            if FIELDS_MAX < usize::from(self.fields) {
                return Err(Violation::TooManyFields);
            }
            self.state = LineState::LineStart;
        }
        self.state = match (self.state, byte) {
            (LineState::Start(place), _) => {
                check_start_byte(place, byte)?;
                if place + 1 < START_LENGTH {
                    LineState::Start(place + 1)
                } else {
                    LineState::CodeEnd
                }
            }
            (LineState::CodeEnd, b' ') => LineState::Reason,
            (LineState::CodeEnd | LineState::Reason, b'\r') => LineState::StatusFeed,
            (LineState::CodeEnd | LineState::Reason | LineState::StatusFeed, b'\n') => {
                LineState::LineStart
            }
            (LineState::Reason, _) if is_text(byte) => LineState::Reason,
            (LineState::CodeEnd | LineState::Reason | LineState::StatusFeed, _) => {
                return Err(Violation::StatusLine);
            }
            (LineState::LineStart, b'\r') => LineState::LastFeed,
            (LineState::LineStart | LineState::LastFeed, b'\n') => return Ok(true),
            (LineState::LastFeed, _) => return Err(Violation::LineEnd),
            (LineState::Name, b':') => LineState::Value,
            (LineState::LineStart | LineState::Name, _) if is_token_byte(byte) => LineState::Name,
            (LineState::LineStart | LineState::Name, _) => return Err(Violation::HeaderName),
            (LineState::Value, b'\r') => LineState::ValueFeed,
            (LineState::Value | LineState::ValueFeed, b'\n') => LineState::FieldEnd,
            (LineState::Value | LineState::FieldEnd, _) if is_text(byte) => LineState::Value,
            (LineState::Value | LineState::ValueFeed | LineState::FieldEnd, _) => {
                return Err(Violation::HeaderValue);
            }
        };
        Ok(false)
    }
}

/// Refuses bytes that can't begin an HTTP/1 status line (RFC 9112, section 4), including codes
/// below 100 (RFC 9110, section 15).
///
/// So a peer with another protocol is detected by its first bytes, not by a timeout.
pub(crate) fn check_start(bytes: &[u8]) -> Result<(), Violation> {
    bytes.iter().zip(0..START_LENGTH).try_for_each(|(&byte, place)| check_start_byte(place, byte))
}

fn check_start_byte(place: u8, byte: u8) -> Result<(), Violation> {
    let (fits, violation) = match place {
        0..5 => (byte == b"HTTP/"[usize::from(place)], Violation::NotHttp),
        5..7 => (byte == b"1."[usize::from(place) - 5], Violation::Version),
        7 => (byte.is_ascii_digit(), Violation::Version),
        8 => (byte == b' ', Violation::StatusLine),
        9 => (matches!(byte, b'1'..=b'9'), Violation::StatusLine),
        _ => (byte.is_ascii_digit(), Violation::StatusLine),
    };
    if fits { Ok(()) } else { Err(violation) }
}

/// True for a byte of a reason phrase or field value: blanks, visible characters and bytes beyond
/// ASCII.
fn is_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}
