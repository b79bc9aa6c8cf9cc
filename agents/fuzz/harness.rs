//! Invariants for any bytes in any split, shared by the fuzz target and the tests.

use agents::channel::{Channel, ChannelError};
use agents::frame::{FrameReader, HEADER_BYTES};
use agents::key::Key;
use agents::message::Message;

/// The most memory a reader may hold beyond twice what has arrived of a frame, bytes.
const MEMORY_LEAST: usize = 2 * HEADER_BYTES;

/// A stream read as frames: the messages, then the error if there is one.
fn frames<'a>(authenticated: bool, pieces: impl Iterator<Item = &'a [u8]>) -> String {
    let mut reader = FrameReader::default();
    if authenticated {
        reader.authenticate();
    }
    let mut line = String::new();
    let mut of_frame = 0;
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let before = rest.len();
            let fed = reader.feed(&mut rest);
            of_frame += before - rest.len();
            assert!(reader.capacity() <= 2 * of_frame + MEMORY_LEAST, "memory is bounded");
            match fed {
                Ok(None) => assert!(rest.is_empty(), "an incomplete frame is consumed"),
                Ok(Some(frame)) => {
                    assert_eq!(frame.as_bytes().len(), of_frame);
                    of_frame = 0;
                    line.push_str(&format!("{:?}; ", frame.message()));
                }
                Err(error) => {
                    assert_eq!(reader.feed(&mut rest), Err(error.clone()), "an error is final");
                    return format!("{line}{error}");
                }
            }
        }
    }
    line + if reader.is_between_frames() { "between frames" } else { "within a frame" }
}

/// A stream as one side of a session reads it.
fn session<'a>(
    mut channel: Channel,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<Message>, ChannelError> {
    let mut messages = Vec::new();
    for piece in pieces {
        let mut rest = piece;
        while let Some(message) = channel.receive(&mut rest)? {
            assert!(channel.is_open(), "only an authenticated peer's messages are taken");
            messages.push(message);
        }
        assert!(rest.is_empty(), "everything is consumed");
    }
    channel.finish()?;
    Ok(messages)
}

/// Checks one input: its first byte selects the split, the rest is the stream.
///
/// The stream must mean the same in one piece, byte by byte and in pieces of the selected size,
/// both to a reader of frames, before and after authentication, and to either side of a session. A
/// session with a key must never open without it.
pub(crate) fn run(input: &[u8]) {
    let Some((&choice, stream)) = input.split_first() else { return };
    let piece = usize::from(choice).max(2);
    for authenticated in [false, true] {
        let whole = frames(authenticated, std::iter::once(stream));
        assert_eq!(frames(authenticated, stream.chunks(1)), whole, "byte by byte");
        assert_eq!(frames(authenticated, stream.chunks(piece)), whole, "in pieces of {piece}");
    }
    let key = Key::find(None, Some("a key that no input can be made with".as_ref()));
    let key = key.expect("a key");
    let sides: [fn(Option<&Key>) -> Channel; 2] = [Channel::controller, Channel::agent];
    for (side, key) in sides.into_iter().flat_map(|side| [(side, None), (side, key.as_ref())]) {
        let whole = session(side(key), std::iter::once(stream));
        assert!(whole.is_err() || key.is_none(), "no session opens without its key");
        assert!(session(side(key), stream.chunks(1)) == whole, "byte by byte");
        assert!(session(side(key), stream.chunks(piece)) == whole, "in pieces of {piece}");
    }
}
