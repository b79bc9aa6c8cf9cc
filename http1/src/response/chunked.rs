//! The chunked coding up to its last chunk, one byte at a time for the lines, in bulk for the data.
//!
//! The trailer section behind the last chunk is made of header fields and is left to the caller.

use super::violation::Violation;

/// Bytes in one chunk line (size, extensions and line end), at most.
pub(crate) const CHUNK_LINE_MAX: u32 = 16 * 1024;

/// Where in the coding the next byte belongs.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The first digit of a size.
    FirstDigit,
    /// A further digit of a size.
    Digits,
    /// Blanks behind a size.
    Blanks,
    /// The extensions of a chunk line.
    Extension,
    /// The LF of a chunk line.
    LineFeed,
    /// The data of a chunk.
    Data,
    /// The CR behind the data.
    DataReturn,
    /// The LF behind the data.
    DataFeed,
}

/// The state of one chunked body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunks {
    place: Place,
    /// The size read so far, then the bytes of data that are still to come.
    remaining: u64,
    line_length: u32,
}

impl Chunks {
    /// The start of a chunked body.
    pub(crate) fn new() -> Chunks {
        Chunks { place: Place::FirstDigit, remaining: 0, line_length: 0 }
    }

    /// Takes bytes from the front of `bytes` and adds the data to `body_bytes`.
    ///
    /// Returns how many bytes were taken and whether the last chunk's line is over; all bytes are
    /// taken while it is not.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        body_bytes: &mut u64,
    ) -> Result<(usize, bool), Violation> {
        let mut at = 0;
        while at < bytes.len() {
            if let Place::Data = self.place {
                let here = bytes.len() - at;
                let taken = usize::try_from(self.remaining).map_or(here, |left| left.min(here));
                at += taken;
                self.remaining -= taken as u64;
                *body_bytes =
                    body_bytes.checked_add(taken as u64).ok_or(Violation::ChunkSizeOverflow)?;
                if self.remaining == 0 {
                    self.place = Place::DataReturn;
                }
                continue;
            }
            let last_chunk = self.step(bytes[at])?;
            at += 1;
            if last_chunk {
                return Ok((at, true));
            }
        }
        Ok((at, false))
    }

    /// Takes one byte outside the data; true when it ended the line of the last chunk.
    fn step(&mut self, byte: u8) -> Result<bool, Violation> {
        self.line_length += 1;
        if CHUNK_LINE_MAX < self.line_length {
            return Err(Violation::ChunkLineTooLong);
        }
        self.place = match self.place {
            Place::FirstDigit => self.digit(byte)?,
            Place::Digits if byte.is_ascii_hexdigit() => self.digit(byte)?,
            // Blanks before a semicolon must be skipped (RFC 9112, section 7.1.1). Before the line
            // end the grammar has none, but servers pad sizes there and the length stays certain.
            Place::Digits | Place::Blanks => match byte {
                b' ' | b'\t' => Place::Blanks,
                b';' => Place::Extension,
                b'\r' => Place::LineFeed,
                b'\n' => return Err(Violation::ChunkEnd),
                _ => return Err(Violation::ChunkSize),
            },
            // Unknown extensions must be ignored, and all are unknown here; what could hide a line
            // end from another recipient is refused.
            Place::Extension => match byte {
                b'\r' => Place::LineFeed,
                b'\n' => return Err(Violation::ChunkEnd),
                b'\t' => Place::Extension,
                _ if byte.is_ascii_control() => return Err(Violation::ChunkExtension),
                _ => Place::Extension,
            },
            Place::LineFeed if byte == b'\n' && self.remaining == 0 => return Ok(true),
            Place::LineFeed if byte == b'\n' => {
                self.line_length = 0;
                Place::Data
            }
            Place::DataReturn if byte == b'\r' => Place::DataFeed,
            Place::DataFeed if byte == b'\n' => {
                *self = Chunks::new();
                return Ok(false);
            }
            // A single LF may end a start line and a field (RFC 9112, section 2.2), not a chunk line.
            Place::LineFeed | Place::DataReturn | Place::DataFeed | Place::Data => {
                return Err(Violation::ChunkEnd);
            }
        };
        Ok(false)
    }

    /// Takes one digit of a size.
    fn digit(&mut self, byte: u8) -> Result<Place, Violation> {
        let digit = char::from(byte).to_digit(16).ok_or(Violation::ChunkSize)?;
        self.remaining =
            self.remaining.checked_mul(16).ok_or(Violation::ChunkSizeOverflow)? | u64::from(digit);
        Ok(Place::Digits)
    }
}
