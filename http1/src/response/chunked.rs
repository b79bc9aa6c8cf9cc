//! Chunked transfer coding up to the last chunk: lines byte by byte, data in bulk.
//!
//! The trailer section after the last chunk consists of header fields and is left to the caller.

use super::keep::Keep;
use super::violation::Violation;

/// The longest chunk line (size, extensions and line end), bytes.
pub(crate) const CHUNK_LINE_MAX: u32 = 16 * 1024;

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum ChunkState {
    /// The first digit of a size.
    FirstDigit,
    /// A further digit of a size.
    Digits,
    /// Blanks after a size.
    Blanks,
    /// The extensions of a chunk line.
    Extension,
    /// The LF of a chunk line.
    LineFeed,
    /// The data of a chunk.
    Data,
    /// The CR after the data.
    DataReturn,
    /// The LF after the data.
    DataFeed,
}

/// The state of one chunked body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunks {
    state: ChunkState,
    /// The size read so far, then the bytes of data left.
    remaining: u64,
    line_length: u32,
}

impl Chunks {
    /// The start of a chunked body.
    pub(crate) fn new() -> Chunks {
        Chunks { state: ChunkState::FirstDigit, remaining: 0, line_length: 0 }
    }

    /// Consumes bytes from the front of `bytes`, hands their data to `keep` and adds its length to
    /// `body_bytes`.
    ///
    /// Returns how many bytes were consumed and whether the last chunk's line is complete; until
    /// then all bytes are consumed.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        body_bytes: &mut u64,
        keep: &mut impl Keep,
    ) -> Result<(usize, bool), Violation> {
        let mut at = 0;
        while at < bytes.len() {
            if let ChunkState::Data = self.state {
                let here = bytes.len() - at;
                let taken = usize::try_from(self.remaining).map_or(here, |left| left.min(here));
                keep.body(&bytes[at..at + taken]);
                at += taken;
                self.remaining -= taken as u64;
                *body_bytes =
                    body_bytes.checked_add(taken as u64).ok_or(Violation::ChunkSizeOverflow)?;
                if self.remaining == 0 {
                    self.state = ChunkState::DataReturn;
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

    /// Consumes one byte outside the data; returns true if it ended the line of the last chunk.
    fn step(&mut self, byte: u8) -> Result<bool, Violation> {
        self.line_length += 1;
        if CHUNK_LINE_MAX < self.line_length {
            return Err(Violation::ChunkLineTooLong);
        }
        self.state = match self.state {
            ChunkState::FirstDigit => self.digit(byte)?,
            ChunkState::Digits if byte.is_ascii_hexdigit() => self.digit(byte)?,
            // Blanks before a semicolon must be skipped (RFC 9112, section 7.1.1). Before the line
            // end the grammar has none, but servers pad sizes there and the length stays
            // unambiguous.
            ChunkState::Digits | ChunkState::Blanks => match byte {
                b' ' | b'\t' => ChunkState::Blanks,
                b';' => ChunkState::Extension,
                b'\r' => ChunkState::LineFeed,
                b'\n' => return Err(Violation::ChunkEnd),
                _ => return Err(Violation::ChunkSize),
            },
            // Unknown extensions must be ignored, and all are unknown here; bytes that could hide a
            // line end from another recipient are refused.
            ChunkState::Extension => match byte {
                b'\r' => ChunkState::LineFeed,
                b'\n' => return Err(Violation::ChunkEnd),
                b'\t' => ChunkState::Extension,
                _ if byte.is_ascii_control() => return Err(Violation::ChunkExtension),
                _ => ChunkState::Extension,
            },
            ChunkState::LineFeed if byte == b'\n' && self.remaining == 0 => return Ok(true),
            ChunkState::LineFeed if byte == b'\n' => {
                self.line_length = 0;
                ChunkState::Data
            }
            ChunkState::DataReturn if byte == b'\r' => ChunkState::DataFeed,
            ChunkState::DataFeed if byte == b'\n' => {
                *self = Chunks::new();
                return Ok(false);
            }
            // A single LF may end a start line and a field (RFC 9112, section 2.2), but not a chunk
            // line.
            ChunkState::LineFeed
            | ChunkState::DataReturn
            | ChunkState::DataFeed
            | ChunkState::Data => {
                return Err(Violation::ChunkEnd);
            }
        };
        Ok(false)
    }

    /// Consumes one digit of a size.
    fn digit(&mut self, byte: u8) -> Result<ChunkState, Violation> {
        let digit = char::from(byte).to_digit(16).ok_or(Violation::ChunkSize)?;
        self.remaining =
            self.remaining.checked_mul(16).ok_or(Violation::ChunkSizeOverflow)? | u64::from(digit);
        Ok(ChunkState::Digits)
    }
}
