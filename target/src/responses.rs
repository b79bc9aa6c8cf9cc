//! The target's responses, rendered once at the start.

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
}

#[derive(Debug)]
struct Response {
    bytes: Vec<u8>,
    head_len: usize,
}

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
        let line = match status {
            200 => "200 OK".to_owned(),
            // RFC 9112, section 4: the reason may be empty, the space before it stays.
            status => format!("{status} "),
        };
        let response = |persistence| render(&line, "text/plain", persistence, &body);
        Responses {
            keep: response(Persistence::Keep),
            keep_announced: response(Persistence::KeepAnnounced),
            close: response(Persistence::Close),
        }
    }

    /// The bytes of the sample response; for HEAD, without the body but with its length.
    pub(crate) fn sample(&self, persistence: Persistence, head_only: bool) -> &[u8] {
        match persistence {
            Persistence::Keep => &self.keep,
            Persistence::KeepAnnounced => &self.keep_announced,
            Persistence::Close => &self.close,
        }
        .bytes(head_only)
    }
}

/// A response with a ledger, or with the reason for its absence.
pub(crate) fn ledger(
    document: Result<String, TargetError>,
    persistence: Persistence,
    head_only: bool,
) -> Vec<u8> {
    let response = match &document {
        Ok(json) => render("200 OK", "application/json", persistence, json.as_bytes()),
        Err(error) => {
            let reason = error.to_string();
            render("503 Service Unavailable", "text/plain", persistence, reason.as_bytes())
        }
    };
    response.bytes(head_only).to_vec()
}

fn render(status: &str, content_type: &str, persistence: Persistence, body: &[u8]) -> Response {
    let connection = match persistence {
        Persistence::Keep => "",
        Persistence::KeepAnnounced => "Connection: keep-alive\r\n",
        Persistence::Close => "Connection: close\r\n",
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         {connection}\r\n"
    );
    let head_len = head.len();
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    Response { bytes, head_len }
}

impl Response {
    fn bytes(&self, head_only: bool) -> &[u8] {
        if head_only { &self.bytes[..self.head_len] } else { &self.bytes }
    }
}
