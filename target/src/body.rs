//! Request bodies: read to the end, to find the start of the next request.

use httparse::Status;

use crate::responses::Rejection;

/// The longest chunk-size line including extensions, bytes.
const CHUNK_LINE_LEN_MAX: usize = 4 << 10;
/// The longest trailer section, bytes.
const TRAILERS_LEN_MAX: u64 = 16 << 10;

/// What remains of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// This many bytes.
    Sized(u64),
    /// Chunks (RFC 9112, section 7.1).
    Chunked(Expected),
}

/// What comes next in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A line with a chunk's size.
    Size,
    /// This many more bytes of the chunk.
    Data(u64),
    /// The line break after a chunk's data.
    DataEnd,
    /// Trailer lines up to the blank one; this many bytes of them have been read.
    Trailers(u64),
    /// Nothing: the body is complete.
    Nothing,
}

impl Body {
    /// A body of `length` bytes.
    pub(crate) fn sized(length: u64) -> Body {
        Body::Sized(length)
    }

    /// An unread chunked body.
    pub(crate) fn chunked() -> Body {
        Body::Chunked(Expected::Size)
    }

    /// True if the whole body has been read.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Body::Sized(0) | Body::Chunked(Expected::Nothing))
    }

    /// Consumes as much of the body as `bytes` begins with, and gives `keep` the content; returns
    /// the number of bytes consumed. The remaining bytes belong to the next request if the body is
    /// complete, else to an incomplete line.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        mut keep: impl FnMut(&[u8]),
    ) -> Result<usize, Rejection> {
        let mut taken = 0;
        while !self.is_complete() {
            let rest = &bytes[taken..];
            let is_content = matches!(self, Body::Sized(_) | Body::Chunked(Expected::Data(_)));
            let step = match self {
                Body::Sized(left) => take_data(left, rest),
                Body::Chunked(expected) => take_chunked(expected, rest)?,
            };
            if is_content {
                keep(&rest[..step]);
            }
            if step == 0 {
                break;
            }
            taken += step;
        }
        Ok(taken)
    }
}

/// Consumes the next element of a chunked body; returns 0 if more bytes are needed.
fn take_chunked(expected: &mut Expected, bytes: &[u8]) -> Result<usize, Rejection> {
    match expected {
        Expected::Size => match httparse::parse_chunk_size(bytes) {
            Ok(Status::Complete((len, size))) if len <= CHUNK_LINE_LEN_MAX => {
                *expected = if size == 0 { Expected::Trailers(0) } else { Expected::Data(size) };
                Ok(len)
            }
            Ok(Status::Partial) if bytes.len() < CHUNK_LINE_LEN_MAX => Ok(0),
            Ok(_) | Err(_) => Err(Rejection::Malformed),
        },
        Expected::Data(left) => {
            let taken = take_data(left, bytes);
            if *left == 0 {
                *expected = Expected::DataEnd;
            }
            Ok(taken)
        }
        Expected::DataEnd => match bytes {
            [b'\r', b'\n', ..] => {
                *expected = Expected::Size;
                Ok(2)
            }
            [] | [b'\r'] => Ok(0),
            _ => Err(Rejection::Malformed),
        },
        Expected::Trailers(so_far) => {
            let Some(line_end) = bytes.iter().position(|byte| *byte == b'\n') else {
                let len = bytes.len() as u64;
                return if *so_far + len < TRAILERS_LEN_MAX {
                    Ok(0)
                } else {
                    Err(Rejection::Malformed)
                };
            };
            let len = line_end + 1;
            *so_far += len as u64;
            if TRAILERS_LEN_MAX < *so_far {
                return Err(Rejection::Malformed);
            }
            if matches!(bytes[..len], [b'\n'] | [b'\r', b'\n']) {
                *expected = Expected::Nothing;
            }
            Ok(len)
        }
        Expected::Nothing => Ok(0),
    }
}

fn take_data(left: &mut u64, bytes: &[u8]) -> usize {
    let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
    *left -= taken as u64;
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEXT: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

    /// Feeds `bytes` in pieces that end at `ends`, as a connection does; returns what remains after
    /// the body, or `None` if the body is incomplete.
    fn left_after(
        mut body: Body,
        bytes: &[u8],
        ends: &[usize],
    ) -> Result<Option<Vec<u8>>, Rejection> {
        let mut input = Vec::new();
        let mut from = 0;
        for end in ends.iter().copied().chain([bytes.len()]) {
            input.extend_from_slice(&bytes[from..end]);
            from = end;
            let taken = body.take(&input, |_| {})?;
            input.drain(..taken);
        }
        Ok(body.is_complete().then_some(input))
    }

    fn cases() -> Vec<(Body, Vec<u8>)> {
        let chunked: [&[u8]; 4] = [
            b"0\r\n\r\n",
            b"5\r\nhello\r\n0\r\n\r\n",
            b"A;name=value\r\n0123456789\r\n1\r\n\n\r\n000\r\nTrailer: x\r\nOther: y\r\n\r\n",
            b"3 \r\n\r\n\r\r\n0\r\n\r\n",
        ];
        let chunked = chunked.iter().map(|bytes| (Body::chunked(), bytes.to_vec()));
        chunked
            .chain([(Body::sized(0), vec![]), (Body::sized(7), b"0\r\n\r\nab".to_vec())])
            .collect()
    }

    #[test]
    fn a_body_ends_in_the_same_place_for_every_split() {
        for (body, bytes) in cases() {
            let stream = [&bytes, NEXT].concat();
            for first in 0..=stream.len() {
                for second in first..=stream.len() {
                    let left = left_after(body.clone(), &stream, &[first, second]);
                    assert_eq!(left, Ok(Some(NEXT.to_vec())), "split at {first} and {second}");
                }
            }
        }
    }

    #[test]
    fn a_truncated_body_is_incomplete() {
        for (body, bytes) in cases() {
            for len in 0..bytes.len() {
                assert_eq!(left_after(body.clone(), &bytes[..len], &[]), Ok(None));
            }
        }
    }

    #[test]
    fn malformed_chunks_are_rejected() {
        let long_line = format!("1;{}\r\n", "x".repeat(CHUNK_LINE_LEN_MAX));
        let long_trailer = format!("0\r\nA: {}", "x".repeat(16 << 10));
        let many_trailers = format!("0\r\n{}", "A: x\r\n".repeat(4 << 10));
        for text in [
            "x\r\n",
            "5\r\nhelloX",
            "fffffffffffffffff\r\n",
            &long_line,
            &long_trailer,
            &many_trailers,
        ] {
            assert_eq!(
                left_after(Body::chunked(), text.as_bytes(), &[]),
                Err(Rejection::Malformed)
            );
        }
    }

    proptest! {
        #[test]
        fn any_chunking_ends_in_the_same_place_for_any_split(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut bytes = Vec::new();
            for chunk in chunks {
                bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(&chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            bytes.extend_from_slice(NEXT);
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            ends.sort_unstable();
            prop_assert_eq!(left_after(Body::chunked(), &bytes, &ends), Ok(Some(NEXT.to_vec())));
        }
    }
}
