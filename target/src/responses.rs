//! The target's responses: the sample ones rendered once at the start, the others as they leave.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response as Head, StatusCode};

use crate::shop::Reply;
use crate::{TargetConfig, TargetError};

/// What happens to the connection after a response, and how the response announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// It stays open, which is the default of HTTP/1.1 and needs no header.
    Keep,
    /// It stays open because an HTTP/1.0 client asked for it, and a header confirms that (RFC 9112,
    /// section 9.3).
    KeepAnnounced,
    /// It is closed after the response.
    Close,
}

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// It isn't valid HTTP/1.x: 400.
    Malformed,
    /// Its head exceeds the limits: 431.
    HeadTooLarge,
}

/// A route's sample response, in each form.
#[derive(Debug)]
pub(crate) struct Responses {
    keep: Response,
    keep_announced: Response,
    close: Response,
    /// As HTTP/2 sends it.
    parts: (Head<()>, Bytes),
}

#[derive(Debug)]
struct Response {
    bytes: Vec<u8>,
    head_len: usize,
}

/// The type of all responses but the ledger and the shop's.
const TEXT: &str = "text/plain";

/// The interim response to `Expect: 100-continue`.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl Rejection {
    /// The bytes of the error response.
    pub(crate) fn response(self) -> &'static [u8] {
        match self {
            Rejection::Malformed => {
                b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            }
            Rejection::HeadTooLarge => {
                b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\
                  Content-Length: 0\r\n\r\n"
            }
        }
    }
}

impl Responses {
    /// Renders the responses of the paths without a route, then those of each route.
    pub(crate) fn all(config: &TargetConfig) -> Vec<Responses> {
        let routes = config.routes.iter().map(|route| (route.status, route.body_size));
        let all = [(200, config.body_size)].into_iter().chain(routes);
        all.map(|(status, body_size)| Responses::new(status, body_size)).collect()
    }

    fn new(status: u16, body_size: usize) -> Responses {
        let body: Vec<u8> = b"truetail\n".iter().copied().cycle().take(body_size).collect();
        let response = |persistence| render(status, TEXT, None, persistence, &body);
        Responses {
            keep: response(Persistence::Keep),
            keep_announced: response(Persistence::KeepAnnounced),
            close: response(Persistence::Close),
            parts: parts(status, TEXT, body),
        }
    }

    /// Head and body of the sample response; for HEAD, without the body but with its length.
    pub(crate) fn parts(&self, head_only: bool) -> (Head<()>, Bytes) {
        let (head, body) = &self.parts;
        (head.clone(), if head_only { Bytes::new() } else { body.clone() })
    }

    /// The bytes of the sample response; for HEAD, without the body but with its length.
    pub(crate) fn sample(&self, persistence: Persistence, head_only: bool) -> &[u8] {
        self.of(persistence).bytes(head_only)
    }

    /// The bytes of the sample response with half of its body, but with the length of all of it.
    pub(crate) fn half(&self, persistence: Persistence) -> &[u8] {
        let Response { bytes, head_len } = self.of(persistence);
        &bytes[..usize::midpoint(*head_len, bytes.len())]
    }

    fn of(&self, persistence: Persistence) -> &Response {
        match persistence {
            Persistence::Keep => &self.keep,
            Persistence::KeepAnnounced => &self.keep_announced,
            Persistence::Close => &self.close,
        }
    }
}

/// A response with a ledger, or with the reason for its absence, as HTTP/1.1 sends it.
pub(crate) fn ledger(
    document: Result<String, TargetError>,
    persistence: Persistence,
    head_only: bool,
) -> Vec<u8> {
    let (status, content_type, body) = describe(document);
    render(status, content_type, None, persistence, body.as_bytes()).bytes(head_only).to_vec()
}

/// A response of the shop as HTTP/1.1 sends it.
pub(crate) fn shop(reply: &Reply, persistence: Persistence) -> Vec<u8> {
    let Reply { status, content_type, field, body, .. } = reply;
    render(*status, content_type, field.as_ref(), persistence, body.as_bytes()).bytes
}

/// The same as HTTP/2 sends it: head and body.
pub(crate) fn shop_parts(reply: &Reply) -> (Head<()>, Bytes) {
    let (mut head, body) = parts(reply.status, reply.content_type, reply.body.clone().into_bytes());
    if let Some((name, value)) = &reply.field {
        let name = HeaderName::try_from(*name).expect("the shop's fields have valid names");
        let value = HeaderValue::try_from(value).expect("the shop makes up their values");
        head.headers_mut().insert(name, value);
    }
    (head, body)
}

/// The same as HTTP/2 sends it: head and body.
pub(crate) fn ledger_parts(
    document: Result<String, TargetError>,
    head_only: bool,
) -> (Head<()>, Bytes) {
    let (status, content_type, body) = describe(document);
    let (head, body) = parts(status, content_type, body.into_bytes());
    (head, if head_only { Bytes::new() } else { body })
}

/// Status, type and body of the response with a ledger.
fn describe(document: Result<String, TargetError>) -> (u16, &'static str, String) {
    match document {
        Ok(json) => (200, "application/json", json),
        Err(error) => (503, TEXT, error.to_string()),
    }
}

fn render(
    status: u16,
    content_type: &str,
    field: Option<&(&str, String)>,
    persistence: Persistence,
    body: &[u8],
) -> Response {
    let reason = match status {
        200 => "OK",
        503 => "Service Unavailable",
        // RFC 9112, section 4: the reason may be empty, the space before it stays.
        _ => "",
    };
    let connection = match persistence {
        Persistence::Keep => "",
        Persistence::KeepAnnounced => "Connection: keep-alive\r\n",
        Persistence::Close => "Connection: close\r\n",
    };
    let field = field.map_or_else(String::new, |(name, value)| format!("{name}: {value}\r\n"));
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\n\
         Content-Length: {length}\r\n{field}{connection}\r\n"
    );
    let head_len = head.len();
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    Response { bytes, head_len }
}

fn parts(status: u16, content_type: &'static str, body: Vec<u8>) -> (Head<()>, Bytes) {
    let mut head = Head::new(());
    *head.status_mut() = StatusCode::from_u16(status).expect("validation limits it to 200 to 599");
    head.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    head.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    (head, Bytes::from(body))
}

impl Response {
    fn bytes(&self, head_only: bool) -> &[u8] {
        if head_only { &self.bytes[..self.head_len] } else { &self.bytes }
    }
}
