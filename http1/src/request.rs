//! Renders a request's head to bytes, once, before the run. The body follows it unchanged.
//!
//! A request is sent exactly as the user gave it, or refused with the invalid part named; nothing
//! is silently repaired. A body always has a Content-Length, because the generator decides the
//! framing.

use thiserror::Error;

use crate::syntax::{decimal, is_token, list, trim};

/// The parts of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestSpec<'a> {
    /// The method, for example `GET`; any token but CONNECT.
    pub method: &'a str,
    /// The value of the Host field: host, and port unless it is the scheme's default.
    pub authority: &'a str,
    /// The path in origin form, with its query: `/search?q=1`; `*` with OPTIONS.
    pub path: &'a str,
    /// The user's header fields, sent in this order.
    pub headers: &'a [(String, String)],
    /// The length of the body in bytes; 0 for none.
    pub body_bytes: u64,
    /// The User-Agent unless `headers` has one; empty for none.
    pub user_agent: &'a str,
    /// Whether to add `Connection: close`.
    pub close: bool,
}

/// Why a request can't be sent: the variant names the invalid part. The text doesn't repeat that
/// part, which may be a secret.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// The method isn't a token.
    #[error("not a token (RFC 9110, section 9.1)")]
    Method(String),
    /// CONNECT asks for a tunnel, which has no responses to measure.
    #[error("opens a tunnel, which can't be measured")]
    Connect,
    /// The path isn't in origin form.
    #[error("the path holds an invalid character")]
    Path(String),
    /// The authority can't be a Host value.
    #[error("the host holds an invalid character")]
    Authority(String),
    /// A header name isn't a token.
    #[error("the name isn't a token (RFC 9110, section 5.1)")]
    HeaderName(String),
    /// A header value contains a control character such as CR, LF or NUL.
    #[error("the value holds a control character (RFC 9110, section 5.5)")]
    HeaderValue(String),
    /// A header that may occur only once is repeated.
    #[error("{0} is given more than once")]
    Repeated(String),
    /// The given Content-Length isn't the length of the body.
    #[error("Content-Length doesn't match the body of {body_bytes} bytes")]
    ContentLength {
        /// The value as given.
        given: String,
        /// The length of the body in bytes.
        body_bytes: u64,
    },
    /// Transfer-Encoding was given.
    #[error("Transfer-Encoding isn't supported: requests have a Content-Length")]
    TransferEncoding,
    /// A TRACE request has a body.
    #[error("can't have a body (RFC 9110, section 9.3.8)")]
    TraceBody,
}

/// A request whose head and body can be sent any number of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    head_bytes: Vec<u8>,
    head_request: bool,
    close: bool,
}

impl Request {
    /// Renders a request.
    ///
    /// Host, User-Agent and Content-Length are added unless given; Content-Length only if there is
    /// a body or the method expects one (RFC 9110, section 8.6).
    ///
    /// # Errors
    /// If a part of the request is invalid or contradicts another.
    pub fn render(spec: &RequestSpec) -> Result<Request, RequestError> {
        check_target(spec)?;
        check_headers(spec)?;
        let given =
            |name: &str| spec.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));

        let mut bytes = Vec::new();
        bytes.extend_from_slice(format!("{} {} HTTP/1.1\r\n", spec.method, spec.path).as_bytes());
        if !given("Host") {
            push_field(&mut bytes, "Host", spec.authority);
        }
        if !given("User-Agent") && !spec.user_agent.is_empty() {
            push_field(&mut bytes, "User-Agent", spec.user_agent);
        }
        for (name, value) in spec.headers {
            push_field(&mut bytes, name, value);
        }
        let expects_body = ["POST", "PUT", "PATCH"].contains(&spec.method);
        if !given("Content-Length") && (expects_body || 0 < spec.body_bytes) {
            push_field(&mut bytes, "Content-Length", &spec.body_bytes.to_string());
        }
        let close_given = spec.headers.iter().any(|(name, value)| says_close(name, value));
        if spec.close && !close_given {
            push_field(&mut bytes, "Connection", "close");
        }
        bytes.extend_from_slice(b"\r\n");
        Ok(Request {
            head_bytes: bytes,
            head_request: spec.method == "HEAD",
            close: spec.close || close_given,
        })
    }

    /// The bytes to send before the body.
    pub fn head_bytes(&self) -> &[u8] {
        &self.head_bytes
    }

    /// True if the responses have no body because the method is HEAD (RFC 9110, section 9.3.2).
    pub fn is_head(&self) -> bool {
        self.head_request
    }

    /// True if the request asks the server to close the connection after its response, either by
    /// the user's own Connection field or by [`RequestSpec::close`].
    pub fn closes(&self) -> bool {
        self.close
    }
}

/// Checks the request line, the host and the user agent.
fn check_target(spec: &RequestSpec) -> Result<(), RequestError> {
    if !is_token(spec.method.as_bytes()) {
        return Err(RequestError::Method(spec.method.to_owned()));
    }
    if spec.method == "CONNECT" {
        return Err(RequestError::Connect);
    }
    if spec.method == "TRACE" && 0 < spec.body_bytes {
        return Err(RequestError::TraceBody);
    }
    let origin_form = spec.path.starts_with('/') || (spec.path == "*" && spec.method == "OPTIONS");
    // Bytes such as | or " aren't in the grammar of a URI, but browsers send them all the time;
    // only what would break the request line, or would never be sent, is refused.
    if !origin_form || !spec.path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(RequestError::Path(spec.path.to_owned()));
    }
    let in_host = |byte: u8| byte.is_ascii_graphic() && !b"/?#@\\\"<>^`{|}".contains(&byte);
    if spec.authority.is_empty() || !spec.authority.bytes().all(in_host) {
        return Err(RequestError::Authority(spec.authority.to_owned()));
    }
    if !is_field_value(spec.user_agent) {
        return Err(RequestError::HeaderValue("User-Agent".to_owned()));
    }
    Ok(())
}

/// Checks the user's header fields, and the length against the body.
fn check_headers(spec: &RequestSpec) -> Result<(), RequestError> {
    for (position, (name, value)) in spec.headers.iter().enumerate() {
        if !is_token(name.as_bytes()) {
            return Err(RequestError::HeaderName(name.clone()));
        }
        if !is_field_value(value) {
            return Err(RequestError::HeaderValue(name.clone()));
        }
        if name.eq_ignore_ascii_case("Transfer-Encoding") {
            return Err(RequestError::TransferEncoding);
        }
        let is_length = name.eq_ignore_ascii_case("Content-Length");
        let mut once = ["Host", "Authorization"].iter();
        if is_length || once.any(|once| name.eq_ignore_ascii_case(once)) {
            let before = &spec.headers[..position];
            if before.iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name)) {
                return Err(RequestError::Repeated(name.clone()));
            }
        }
        if is_length && decimal(trim(value.as_bytes())) != Some(spec.body_bytes) {
            let given = value.clone();
            return Err(RequestError::ContentLength { given, body_bytes: spec.body_bytes });
        }
    }
    Ok(())
}

/// True if a value contains no control character except HTAB (RFC 9110, section 5.5).
fn is_field_value(value: &str) -> bool {
    value.bytes().all(|byte| byte == b'\t' || !byte.is_ascii_control())
}

/// True if a header field asks for the connection to be closed (RFC 9112, section 9.6).
fn says_close(name: &str, value: &str) -> bool {
    name.eq_ignore_ascii_case("Connection")
        && list(value.as_bytes()).any(|option| option.eq_ignore_ascii_case(b"close"))
}

/// Appends a header field with its value trimmed.
fn push_field(bytes: &mut Vec<u8>, name: &str, value: &str) {
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(b": ");
    bytes.extend_from_slice(value.trim_matches([' ', '\t']).as_bytes());
    bytes.extend_from_slice(b"\r\n");
}
