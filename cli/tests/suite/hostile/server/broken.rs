//! Responses that break a rule.

use super::fault::Fault;
use super::replies::{Kind, Reply, Then};

/// The response to each request, if it breaks a rule.
pub(super) fn reply(fault: Fault) -> Option<Reply> {
    let (bytes, then) = match fault {
        Fault::HugeHead => (
            [b"HTTP/1.1 200 OK\r\nX: ", "x".repeat(70 * 1024).as_bytes(), b"\r\n\r\n"].concat(),
            Then::Keep,
        ),
        Fault::ManyFields => (
            ["HTTP/1.1 200 OK\r\n", &"X: y\r\n".repeat(200), "Content-Length: 0\r\n\r\n"]
                .concat()
                .into_bytes(),
            Then::Keep,
        ),
        Fault::ChunkSizeOverflow => (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nx".to_vec(),
            Then::Keep,
        ),
        Fault::LengthsDiffer => (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc".to_vec(),
            Then::Keep,
        ),
        Fault::TwoFramings => (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n\
                  0\r\n\r\n"
                .to_vec(),
            Then::Keep,
        ),
        Fault::UnknownCoding => {
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: rot13\r\n\r\nbx".to_vec(), Then::Keep)
        }
        Fault::BareCr => {
            (b"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 0\r\n\r\n".to_vec(), Then::Keep)
        }
        Fault::NoHead => (b"<p>hello</p>\n".to_vec(), Then::FinAndRead),
        Fault::Upgrade => (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"
                .to_vec(),
            Then::Keep,
        ),
        _ => return None,
    };
    Some(Reply { bytes, kind: Kind::Broken, then })
}
