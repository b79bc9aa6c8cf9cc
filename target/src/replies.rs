//! The responses, rendered once before the run.

/// What becomes of the connection after a response, and how the response says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// HTTP/1.1 keeps it open without a word.
    Keep,
    /// HTTP/1.0 asked to keep it open and is told that it is (RFC 9112, section 9.3).
    KeepTold,
    /// It is closed after the response.
    Close,
}

/// All responses of fixed content.
#[derive(Debug)]
pub(crate) struct Replies {
    keep: Reply,
    keep_told: Reply,
    close: Reply,
}

#[derive(Debug)]
struct Reply {
    bytes: Vec<u8>,
    head_len: usize,
}

/// Answers `Expect: 100-continue`.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Answers what is no request.
pub(crate) const BAD_REQUEST: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
/// Answers a head beyond the limit.
pub(crate) const HEAD_TOO_LARGE: &[u8] =
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

impl Replies {
    /// Responses with a body of `body_size` bytes.
    pub(crate) fn new(body_size: usize) -> Replies {
        let body: Vec<u8> = b"truetail\n".iter().copied().cycle().take(body_size).collect();
        let reply = |persistence| render("200 OK", "text/plain", persistence, &body);
        Replies {
            keep: reply(Persistence::Keep),
            keep_told: reply(Persistence::KeepTold),
            close: reply(Persistence::Close),
        }
    }

    /// The bytes of the sample response; for HEAD without the body, whose length it tells all the same.
    pub(crate) fn sample(&self, persistence: Persistence, head_only: bool) -> &[u8] {
        match persistence {
            Persistence::Keep => &self.keep,
            Persistence::KeepTold => &self.keep_told,
            Persistence::Close => &self.close,
        }
        .bytes(head_only)
    }
}

/// A response that carries a ledger, or the reason why there is none.
pub(crate) fn ledger(
    document: Result<String, String>,
    persistence: Persistence,
    head_only: bool,
) -> Vec<u8> {
    let reply = match &document {
        Ok(json) => render("200 OK", "application/json", persistence, json.as_bytes()),
        Err(reason) => {
            render("503 Service Unavailable", "text/plain", persistence, reason.as_bytes())
        }
    };
    reply.bytes(head_only).to_vec()
}

fn render(status: &str, content_type: &str, persistence: Persistence, body: &[u8]) -> Reply {
    let connection = match persistence {
        Persistence::Keep => "",
        Persistence::KeepTold => "Connection: keep-alive\r\n",
        Persistence::Close => "Connection: close\r\n",
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{connection}\r\n"
    );
    let head_len = head.len();
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    Reply { bytes, head_len }
}

impl Reply {
    fn bytes(&self, head_only: bool) -> &[u8] {
        if head_only { &self.bytes[..self.head_len] } else { &self.bytes }
    }
}
