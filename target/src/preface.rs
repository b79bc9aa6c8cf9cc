//! Which protocol a connection speaks: the one agreed on in its TLS handshake, or else the one of its
//! first bytes.

use std::pin::Pin;

use futures_io::AsyncRead as _;

use crate::certificate::ALPN_HTTP2;
use crate::executor_state::ExecutorState;
use crate::input::Input;
use crate::stream::Stream;
use crate::system;

/// The first bytes of every HTTP/2 connection, and of no HTTP/1.1 request (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// What was read to find out the protocol.
pub(crate) struct Beginning {
    /// The bytes.
    pub(crate) input: Input,
    /// When the first of them were read, ns.
    pub(crate) arrived_ns: u64,
    /// When the last of them were read, ns.
    pub(crate) read_ns: u64,
}

/// Reads as much of a new connection as shows its protocol; `None` if it fails, or the target stops.
pub(crate) async fn read(
    executor: &ExecutorState,
    stream: &mut Stream,
) -> Option<(Protocol, Beginning)> {
    let mut beginning = Beginning { input: Input::new(), arrived_ns: 0, read_ns: 0 };
    let agreed = stream.alpn().map(|protocol| match protocol {
        ALPN_HTTP2 => Protocol::Http2,
        _ => Protocol::Http1,
    });
    let mut protocol = agreed;
    while protocol.is_none() {
        let input = &mut beginning.input;
        let len = executor
            .until_stop(|context| Pin::new(&mut *stream).poll_read(context, input.unfilled()))
            .await?
            .ok()?;
        beginning.read_ns = system::now_ns();
        if input.bytes().is_empty() {
            beginning.arrived_ns = beginning.read_ns;
        }
        input.fill(len);
        // A peer that says no more is left to HTTP/1.1, which ends the connection.
        protocol = if len == 0 { Some(Protocol::Http1) } else { of(input.bytes()) };
    }
    protocol.map(|protocol| (protocol, beginning))
}

/// The protocol that begins with these bytes; `None` if both may.
fn of(bytes: &[u8]) -> Option<Protocol> {
    if bytes.starts_with(PREFACE) {
        Some(Protocol::Http2)
    } else if PREFACE.starts_with(bytes) {
        None
    } else {
        Some(Protocol::Http1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_preface_decides_and_any_other_byte_does() {
        for len in 0..PREFACE.len() {
            assert_eq!(of(&PREFACE[..len]), None, "{len}");
            let mut other = PREFACE[..=len].to_vec();
            other[len] = b'!';
            assert_eq!(of(&other), Some(Protocol::Http1), "{len}");
        }
        assert_eq!(of(PREFACE), Some(Protocol::Http2));
        assert_eq!(of(&[PREFACE, b"more"].concat()), Some(Protocol::Http2));
        assert_eq!(of(b"POST / HTTP/1.1\r\n"), Some(Protocol::Http1));
    }
}
