//! Invariants for any bytes in any split, shared by the fuzz target and the tests.

use http1::response::{KnownHead, Progress, Response, ResponseParser, Violation};

/// The most memory that a parser may hold, bytes.
const MEMORY_MAX: usize = 64 * 1024;

/// One line that describes the parse of a stream cut into pieces.
///
/// Each response is written as `STATUS keep|close BODY_BYTES @END`, where END is its offset in the
/// stream. Then comes the code of the broken rule or, if there is none, the effect of the end of
/// the stream on the rest: `idle` between responses, `by close STATUS BODY_BYTES` or `cut_short`.
/// So the line also shows what is known while the connection stays open.
pub(crate) fn transcript<'a>(head_request: bool, pieces: impl Iterator<Item = &'a [u8]>) -> String {
    transcript_with(None, head_request, pieces)
}

/// [`transcript`] of a parser that may know the head of another response.
fn transcript_with<'a>(
    mut known: Option<&mut KnownHead>,
    head_request: bool,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> String {
    let mut parser = ResponseParser::new();
    let mut line = String::new();
    let mut place = 0;
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let progress = match known.as_deref_mut() {
                Some(known) => parser.feed_with(known, head_request, rest),
                None => parser.feed(head_request, rest),
            };
            match progress {
                Ok(Progress::NeedMore) => {
                    place += rest.len();
                    rest = &[];
                }
                Ok(Progress::Done(response)) => {
                    assert!(parser.is_idle(), "a parser is idle after a response");
                    assert!(0 < response.consumed, "a response consumes bytes");
                    place += response.consumed;
                    rest = &rest[response.consumed..];
                    line.push_str(&written(&response, place));
                }
                Err(violation) => {
                    let again = parser.feed(head_request, rest);
                    assert_eq!(again, Err(violation), "an error is final");
                    assert_eq!(parser.finish(), Err(violation), "an error is final");
                    return line + violation.code();
                }
            }
            assert!(parser.buffer_capacity() <= MEMORY_MAX, "memory is bounded");
        }
    }
    if parser.is_idle() {
        return line + "idle";
    }
    match parser.finish() {
        Ok(Response { status, keep_alive, body_bytes, consumed }) => {
            assert!(!keep_alive && consumed == 0, "a closed connection carries no more responses");
            format!("{line}by close {status} {body_bytes}")
        }
        Err(violation) => {
            let expected = Violation::CutShort;
            assert_eq!(violation, expected, "a broken rule is found before the stream ends");
            line + violation.code()
        }
    }
}

/// One response in the form of the transcript.
fn written(response: &Response, place: usize) -> String {
    let Response { status, keep_alive, body_bytes, .. } = response;
    let persistence = if *keep_alive { "keep" } else { "close" };
    format!("{status} {persistence} {body_bytes} @{place}; ")
}

/// Checks one input: its first byte selects the method and the split, the rest is the stream.
///
/// The stream must give the same transcript in one piece, byte by byte and in pieces of the
/// selected size, and with a parser that knows its heads, or those of the other method; so must a
/// prefix of it.
pub(crate) fn run(input: &[u8]) {
    let Some((&choice, stream)) = input.split_first() else { return };
    let head_request = choice & 1 == 1;
    let piece = usize::from(choice >> 1).max(2);
    let part = &stream[..stream.len() * usize::from(choice) / 256];
    let mut known = KnownHead::default();
    for bytes in [stream, part] {
        let whole = transcript(head_request, std::iter::once(bytes));
        for head_request in [!head_request, head_request, head_request] {
            let again = transcript_with(Some(&mut known), head_request, std::iter::once(bytes));
            let fresh = transcript(head_request, std::iter::once(bytes));
            assert_eq!(again, fresh, "with a known head");
        }
        assert_eq!(transcript(head_request, bytes.chunks(1)), whole, "byte by byte");
        assert_eq!(transcript(head_request, bytes.chunks(piece)), whole, "in pieces of {piece}");
    }
}
