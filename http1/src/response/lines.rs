//! Judges the lines of a head or of trailers one byte at a time, by the rules of the parser of whole heads.
//!
//! A head that comes in pieces is parsed when it is whole. Without this its peer could break a rule, keep the
//! connection open and pass for slow, and the cause would depend on how TCP cut the bytes. Meaning (lengths, codings,
//! persistence) is not judged here.

use super::head::FIELDS_MAX;
use super::violation::Violation;
use crate::syntax::is_token_byte;

/// The longest beginning of a head whose every byte is known: `HTTP/1.1 200`.
const START_LENGTH: u8 = 12;

// The count of fields goes one beyond the limit.
const _: () = assert!(FIELDS_MAX < u8::MAX as usize);

/// Where in the lines the next byte belongs.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// One of the known bytes of the status line, counted from 0.
    Start(u8),
    /// Behind the status code.
    CodeEnd,
    /// The reason phrase.
    Reason,
    /// The LF of the status line.
    StatusFeed,
    /// The first byte of a line that continues no field.
    LineStart,
    /// A field's name.
    Name,
    /// A field's value, over all its lines.
    Value,
    /// The LF of a field line.
    ValueFeed,
    /// The first byte behind a field line, which may fold into the next (RFC 9112, section 5.2).
    FieldEnd,
    /// The LF of the blank line.
    LastFeed,
}

/// The state of one head or one trailer section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    place: Place,
    /// Fields that are over.
    fields: u8,
}

impl Lines {
    /// The start of a head.
    pub(crate) fn head() -> Lines {
        Lines { place: Place::Start(0), fields: 0 }
    }

    /// The start of a trailer section: fields without a status line.
    pub(crate) fn trailers() -> Lines {
        Lines { place: Place::LineStart, fields: 0 }
    }

    /// Takes bytes up to the end of the blank line, and returns where that is.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Option<usize>, Violation> {
        for (at, &byte) in bytes.iter().enumerate() {
            if self.step(byte)? {
                return Ok(Some(at + 1));
            }
        }
        Ok(None)
    }

    /// Takes one byte; true when it ended the blank line.
    fn step(&mut self, byte: u8) -> Result<bool, Violation> {
        if matches!(self.place, Place::FieldEnd) && !matches!(byte, b' ' | b'\t') {
            self.fields += 1;
            if FIELDS_MAX < usize::from(self.fields) {
                return Err(Violation::TooManyFields);
            }
            self.place = Place::LineStart;
        }
        self.place = match (self.place, byte) {
            (Place::Start(place), _) => {
                check_start_byte(place, byte)?;
                if place + 1 < START_LENGTH { Place::Start(place + 1) } else { Place::CodeEnd }
            }
            (Place::CodeEnd, b' ') => Place::Reason,
            (Place::CodeEnd | Place::Reason, b'\r') => Place::StatusFeed,
            (Place::CodeEnd | Place::Reason | Place::StatusFeed, b'\n') => Place::LineStart,
            (Place::Reason, _) if is_text(byte) => Place::Reason,
            (Place::CodeEnd | Place::Reason | Place::StatusFeed, _) => {
                return Err(Violation::StatusLine);
            }
            (Place::LineStart, b'\r') => Place::LastFeed,
            (Place::LineStart | Place::LastFeed, b'\n') => return Ok(true),
            (Place::LastFeed, _) => return Err(Violation::LineEnd),
            (Place::Name, b':') => Place::Value,
            (Place::LineStart | Place::Name, _) if is_token_byte(byte) => Place::Name,
            (Place::LineStart | Place::Name, _) => return Err(Violation::HeaderName),
            (Place::Value, b'\r') => Place::ValueFeed,
            (Place::Value | Place::ValueFeed, b'\n') => Place::FieldEnd,
            (Place::Value | Place::FieldEnd, _) if is_text(byte) => Place::Value,
            (Place::Value | Place::ValueFeed | Place::FieldEnd, _) => {
                return Err(Violation::HeaderValue);
            }
        };
        Ok(false)
    }
}

/// Refuses at once what cannot become a status line of HTTP/1 (RFC 9112, section 4), such as a code below
/// 100 (RFC 9110, section 15).
///
/// So a peer that speaks something else is found by its first bytes, not by a timeout.
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

/// Whether a byte may stand in a reason phrase or a field's value: blanks, visible characters and what is beyond ASCII.
fn is_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}
