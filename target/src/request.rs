//! Request heads: where one ends, and what it means for the response. Of its path, only those of
//! the ledger, the routes and the shop matter.

use httparse::Status;

use crate::body::Body;
use crate::responses::{Persistence, Rejection};
use crate::router::Router;
use crate::shop::Asked;

/// The longest request head, bytes.
pub(crate) const HEAD_LEN_MAX: usize = 16 << 10;
/// The most header fields in a head.
const FIELDS_MAX: usize = 128;
/// The path of the ledger.
const LEDGER_PATH: &str = "/__ledger";

/// A parsed request head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its length including the blank line, bytes.
    pub(crate) len: usize,
    /// True if the response has no body because the method is HEAD.
    pub(crate) head_only: bool,
    /// What happens to the connection after the response.
    pub(crate) persistence: Persistence,
    /// The body that follows.
    pub(crate) body: Body,
    /// What it asks for.
    pub(crate) asks: Asks,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub(crate) expects_continue: bool,
    /// The step of the shop's users that it is, if it is one.
    pub(crate) shop: Option<Box<Asked>>,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// The ledger.
    Ledger,
    /// The sample response of the route of this number, see [`Router::find`].
    Sample(usize),
}

impl Asks {
    /// What a request for this path asks for.
    pub(crate) fn of(path: &str, router: &Router) -> Asks {
        match path {
            LEDGER_PATH => Asks::Ledger,
            path => Asks::Sample(router.find(path)),
        }
    }
}

/// Parses the head at the start of `bytes`, for the shop too if there is one; `None` if it is
/// incomplete.
pub(crate) fn parse(
    bytes: &[u8],
    router: &Router,
    has_shop: bool,
) -> Result<Option<Head>, Rejection> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let len = match request.parse(bytes) {
        Ok(Status::Complete(len)) if len <= HEAD_LEN_MAX => len,
        Ok(Status::Partial) if bytes.len() < HEAD_LEN_MAX => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Rejection::HeadTooLarge),
        Err(_) => return Err(Rejection::Malformed),
    };
    let version_1_1 = request.version == Some(1);
    let (path, query) = origin(request.path.unwrap_or_default());
    let shop = has_shop.then(|| {
        let fields = request.headers.iter().map(|field| (field.name, field.value));
        Asked::of(request.method.unwrap_or_default(), path, query, fields)
    });
    let fields = Fields::read(request.headers)?;

    // RFC 9112, section 3.2: exactly one Host in HTTP/1.1, at most one in HTTP/1.0.
    if 1 < fields.hosts || (version_1_1 && fields.hosts == 0) {
        return Err(Rejection::Malformed);
    }
    // RFC 9112, section 6.1: with both a length and a transfer coding, or with a transfer coding in
    // HTTP/1.0, the body's length is ambiguous.
    let body = match (fields.chunked, fields.content_length) {
        (true, None) if version_1_1 => Body::chunked(),
        (true, _) => return Err(Rejection::Malformed),
        (false, length) => Body::sized(length.unwrap_or(0)),
    };
    // RFC 9112, section 9.3.
    let persistence = match (fields.close, version_1_1, fields.keep_alive) {
        (true, _, _) | (_, false, false) => Persistence::Close,
        (_, true, _) => Persistence::Keep,
        (_, false, true) => Persistence::KeepAnnounced,
    };
    Ok(Some(Head {
        len,
        head_only: request.method == Some("HEAD"),
        persistence,
        expects_continue: fields.expects_continue && version_1_1 && body != Body::sized(0),
        body,
        asks: Asks::of(path, router),
        shop: shop.flatten().map(Box::new),
    }))
}

/// The path and the query of a request target in origin form or absolute form (RFC 9112, section
/// 3.2).
fn origin(target: &str) -> (&str, &str) {
    const SCHEME: &str = "http://";
    let is_absolute =
        target.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME));
    let origin = if is_absolute {
        let rest = &target[SCHEME.len()..];
        rest.find(['/', '?']).map_or("", |end| &rest[end..])
    } else {
        target
    };
    origin.split_once('?').unwrap_or((origin, ""))
}

/// The header fields that decide framing and persistence.
#[derive(Default)]
struct Fields {
    hosts: usize,
    content_length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl Fields {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Fields, Rejection> {
        let mut fields = Fields::default();
        for header in headers {
            let name = header.name;
            if name.eq_ignore_ascii_case("host") {
                fields.hosts += 1;
            } else if name.eq_ignore_ascii_case("content-length") {
                fields.read_length(header.value)?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                // This server supports only `chunked`, and only once.
                if fields.chunked || !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(Rejection::Malformed);
                }
                fields.chunked = true;
            } else if name.eq_ignore_ascii_case("connection") {
                for option in elements(header.value) {
                    fields.close |= option.eq_ignore_ascii_case(b"close");
                    fields.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            } else if name.eq_ignore_ascii_case("expect") {
                fields.expects_continue |= expects_continue(header.value);
            }
        }
        Ok(fields)
    }

    /// RFC 9112, section 6.3: digits only; a repeated length must be the same each time.
    fn read_length(&mut self, value: &[u8]) -> Result<(), Rejection> {
        for element in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let digits = !element.is_empty() && element.iter().all(u8::is_ascii_digit);
            let text = str::from_utf8(element).ok().filter(|_| digits);
            let length = text.and_then(|text| text.parse().ok()).ok_or(Rejection::Malformed)?;
            if self.content_length.is_some_and(|before| before != length) {
                return Err(Rejection::Malformed);
            }
            self.content_length = Some(length);
        }
        Ok(())
    }
}

/// Whether this value of the field Expect asks for `100 Continue`.
pub(crate) fn expects_continue(value: &[u8]) -> bool {
    elements(value).any(|element| element.eq_ignore_ascii_case(b"100-continue"))
}

fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TargetConfig;

    /// Parses for a target without routes.
    fn parse(bytes: &[u8]) -> Result<Option<Head>, Rejection> {
        let config = TargetConfig::new("127.0.0.1:0".parse().expect("an address"));
        super::parse(bytes, &Router::new(&config), false)
    }

    fn parsed(text: &str) -> Head {
        parse(text.as_bytes()).expect("a request").expect("a whole head")
    }

    #[test]
    fn persistence_follows_version_and_connection() {
        let check = |line: &str, field: &str, expected: Persistence| {
            let text = format!("GET / HTTP/{line}\r\nHost: a\r\n{field}\r\n");
            assert_eq!(parsed(&text).persistence, expected, "{text}");
        };
        check("1.1", "", Persistence::Keep);
        check("1.1", "Connection: close\r\n", Persistence::Close);
        check("1.1", "connection: upgrade, CLOSE\r\n", Persistence::Close);
        check("1.0", "", Persistence::Close);
        check("1.0", "Connection: Keep-Alive\r\n", Persistence::KeepAnnounced);
        check("1.0", "Connection: keep-alive, close\r\n", Persistence::Close);
    }

    #[test]
    fn the_body_framing_follows_the_header_fields() {
        let body =
            |fields: &str| parsed(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).body;
        assert_eq!(body(""), Body::sized(0));
        assert_eq!(body("Content-Length: 12\r\n"), Body::sized(12));
        assert_eq!(body("Content-Length: 12\r\ncontent-length: 12, 12\r\n"), Body::sized(12));
        assert_eq!(body("Transfer-Encoding: Chunked\r\n"), Body::chunked());
    }

    #[test]
    fn the_ledger_is_recognised_by_its_path() {
        let asks = |path: &str| {
            parsed(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).asks == Asks::Ledger
        };
        assert!(asks("/__ledger") && asks("/__ledger?now"));
        assert!(!asks("/__ledgers") && !asks("/"));
        // RFC 9112, section 3.2.2: a server accepts the absolute form from every client.
        assert!(asks("http://127.0.0.1:21007/__ledger") && asks("HTTP://a/__ledger?now"));
        assert!(!asks("http://a/") && !asks("http://a") && !asks("http://a?/__ledger"));
        assert!(!asks("http://__ledger") && !asks("/http://a/__ledger"));
    }

    #[test]
    fn malformed_requests_are_rejected() {
        let rejected = |text: &str| {
            assert_eq!(parse(text.as_bytes()), Err(Rejection::Malformed), "{text}");
        };
        rejected("GET /\r\n\r\n");
        rejected("\u{1}\r\n\r\n");
        rejected("GET / HTTP/1.1\r\n\r\n");
        rejected("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
        rejected("GET / HTTP/2.0\r\nHost: a\r\n\r\n");
        for fields in [
            "Content-Length: x",
            "Content-Length: +1",
            "Content-Length:",
            "Content-Length: 18446744073709551616",
            "Content-Length: 1\r\nContent-Length: 2",
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "No colon",
        ] {
            rejected(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"));
        }
        rejected("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
    }

    #[test]
    fn a_head_has_limits() {
        let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(HEAD_LEN_MAX));
        assert_eq!(parse(long.as_bytes()), Err(Rejection::HeadTooLarge));
        assert_eq!(parse(&long.as_bytes()[..HEAD_LEN_MAX]), Err(Rejection::HeadTooLarge));
        assert_eq!(parse(&long.as_bytes()[..HEAD_LEN_MAX - 1]), Ok(None));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(parse(many.as_bytes()), Err(Rejection::HeadTooLarge));
    }
}
