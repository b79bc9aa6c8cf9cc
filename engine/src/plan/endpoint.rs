//! From the plan to the wire: the URL's parts, the address behind its host, the request's bytes.
//!
//! No error shows what may be a secret: neither a URL's credentials or query, nor anything of a
//! header but its position.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use http::Uri;
use http1::request::{Request, RequestError, RequestSpec};
use socket2::{Domain, Protocol, Socket, Type};

use crate::plan::{Plan, PlanError};

/// The parts of the plan's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host and, unless it is the scheme's own, port: the value of the Host field.
    pub authority: String,
    /// The host's name or address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query.
    pub path: String,
}

/// The port of `http`.
const PORT_DEFAULT: u16 = 80;
/// Timeout of the connection that is opened once before the run.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

impl Endpoint {
    /// Parses the plan's URL.
    ///
    /// # Errors
    /// It isn't a URL, or not one that requests can be sent to.
    pub fn parse(url: &str) -> Result<Endpoint, PlanError> {
        let refuse = |problem: String, cure: &str| {
            Err(PlanError::new("--target", shown(url), problem, cure))
        };
        let example = "give http://HOST[:PORT]/PATH, e.g. http://127.0.0.1:8080/";
        if url.is_empty() {
            return refuse("the URL is missing".to_owned(), example);
        }
        match url.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => {}
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
                return refuse(
                    "https is not supported yet".to_owned(),
                    "use the server's plain HTTP port",
                );
            }
            Some(_) => return refuse("the scheme isn't http".to_owned(), example),
            None => return refuse("the scheme is missing".to_owned(), example),
        }
        // A fragment names a place in the response and is never sent (RFC 9110, section 4.2.5).
        let sent = url.split_once('#').map_or(url, |(sent, _)| sent);
        let uri: Uri = match sent.parse() {
            Ok(uri) => uri,
            Err(error) => return refuse(format!("invalid URL ({error})"), example),
        };
        let Some(authority) = uri.authority() else {
            return refuse("the host is missing".to_owned(), example);
        };
        if authority.as_str().contains('@') {
            return refuse(
                "credentials in a URL aren't sent".to_owned(),
                "omit them and add --header 'Authorization: …'",
            );
        }
        let port = match (authority.port_u16(), authority.as_str().rsplit_once(':')) {
            (Some(0), _) => return refuse("nothing listens on port 0".to_owned(), example),
            (Some(port), _) => port,
            (None, Some((before, after))) if !before.is_empty() && !after.ends_with(']') => {
                return refuse("invalid port after the host".to_owned(), example);
            }
            (None, _) => PORT_DEFAULT,
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return refuse("the host is missing".to_owned(), example);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
        let authority = if port == PORT_DEFAULT {
            authority.host().to_owned()
        } else {
            authority.as_str().to_owned()
        };
        Ok(Endpoint { authority, host, port, path })
    }

    /// Connects once to each address of the host, in the resolver's order, until one accepts, and
    /// returns that one. The connection comes from the first of `sources` of the same IP version,
    /// as those of the run will.
    ///
    /// # Errors
    /// The host has no address, or none that accepts a connection.
    pub fn reach(&self, url: &str, sources: &[IpAddr]) -> Result<SocketAddr, PlanError> {
        let addresses: Vec<SocketAddr> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map(Iterator::collect)
            .map_err(|error| {
                let problem = format!("host {} has no address ({error})", self.host);
                let cure = "check the name, or give an IP address";
                PlanError::new("--target", shown(url), problem, cure)
            })?;
        let mut problem = format!("host {} has no address", self.host);
        let mut cure = "start the server, or check host and port";
        for address in addresses {
            let source = sources.iter().find(|source| source.is_ipv6() == address.is_ipv6());
            match probe(address, source.copied()) {
                Ok(()) => return Ok(address),
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    problem = format!("no local port is free to connect to {address} ({error})");
                    cure = "wait until connections have left TIME_WAIT, connect from more \
                            addresses (--source-addresses), or widen net.ipv4.ip_local_port_range";
                }
                Err(error) => problem = format!("{address} accepts no connection ({error})"),
            }
        }
        Err(PlanError::new("--target", shown(url), problem, cure))
    }
}

/// What an error may show of a text that may not even be a URL: whatever stands before the last `@`
/// may be credentials, and whatever follows the first `?` or `#` may be a secret.
fn shown(url: &str) -> String {
    let (before, query) = url.find(['?', '#']).map_or((url, ""), |at| url.split_at(at));
    let cut = if query.is_empty() { "" } else { "?…" };
    let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
    let scheme =
        if scheme.is_empty() || scheme.contains('@') { "" } else { &url[..scheme.len() + 3] };
    match before.rsplit_once('@') {
        _ if query.contains('@') => format!("{scheme}…"),
        None => format!("{before}{cut}"),
        Some((_, rest)) => format!("{scheme}…@{rest}{cut}"),
    }
}

/// Connects to an address and closes the connection.
fn probe(address: SocketAddr, source: Option<IpAddr>) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect_timeout(&address.into(), PROBE_TIMEOUT)
}

/// Renders the head of the plan's request, which has a body of `body_bytes` bytes.
///
/// # Errors
/// The flag whose value can't be sent; for a header, its position.
pub fn render_request(
    plan: &Plan,
    endpoint: &Endpoint,
    body_bytes: u64,
) -> Result<Request, PlanError> {
    let bad_header = |position: usize, problem: String, cure: &str| {
        PlanError::new("--header", format!("#{position}"), problem, cure)
    };
    let mut headers = Vec::new();
    for (at, line) in plan.headers.iter().enumerate() {
        let Some((name, value)) = line.split_once(':') else {
            let problem = "no colon after the name".to_owned();
            return Err(bad_header(at + 1, problem, "write it as 'Name: value'"));
        };
        headers.push((name.trim_end().to_owned(), value.trim().to_owned()));
    }
    let render = |headers: &[(String, String)]| {
        Request::render(&RequestSpec {
            method: &plan.method,
            authority: &endpoint.authority,
            path: &endpoint.path,
            headers,
            body_bytes,
            user_agent: concat!("truetail/", env!("CARGO_PKG_VERSION")),
            close: plan.keepalive.is_off(),
        })
    };
    render(&headers).map_err(|error| {
        let bad_method =
            |problem: &str, cure: &str| PlanError::new("--method", &plan.method, problem, cure);
        let bad_target = |problem: &str| {
            let cure = "percent-encode the characters that a URL can't hold";
            PlanError::new("--target", shown(&plan.target), problem, cure)
        };
        let problem = match &error {
            RequestError::Method(_) => {
                return bad_method("not a token (RFC 9110, section 9.1)", "use e.g. GET or POST");
            }
            RequestError::Connect => {
                return bad_method(
                    "opens a tunnel, which can't be measured",
                    "use e.g. GET or POST",
                );
            }
            RequestError::TraceBody => {
                return bad_method("can't have a body (RFC 9110, section 9.3.8)", "omit --body");
            }
            RequestError::Path(_) => return bad_target("the path holds an invalid character"),
            RequestError::Authority(_) => return bad_target("the host holds an invalid character"),
            RequestError::HeaderName(_) => {
                "the name isn't a token (RFC 9110, section 5.1)".to_owned()
            }
            RequestError::HeaderValue(_) => {
                "the value holds a control character (RFC 9110, section 5.5)".to_owned()
            }
            RequestError::Repeated(name) => format!("{name} is given more than once"),
            RequestError::ContentLength { body_bytes, .. } => {
                format!("Content-Length doesn't match the body of {body_bytes} bytes")
            }
            RequestError::TransferEncoding => {
                "Transfer-Encoding isn't supported: requests have a Content-Length".to_owned()
            }
        };
        let mut positions = 1..headers.len();
        let position = positions.find(|&count| render(&headers[..count]).is_err());
        bad_header(position.unwrap_or(headers.len()), problem, "correct or omit it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_into_their_parts() {
        for (url, authority, host, port, path) in [
            ("http://127.0.0.1:8080/", "127.0.0.1:8080", "127.0.0.1", 8080, "/"),
            ("http://example.test", "example.test", "example.test", 80, "/"),
            ("http://example.test:80/a?b=c#d", "example.test", "example.test", 80, "/a?b=c"),
            ("http://[::1]:8080/x", "[::1]:8080", "::1", 8080, "/x"),
            ("http://[::1]/", "[::1]", "::1", 80, "/"),
            ("HTTP://h:1?q", "h:1", "h", 1, "/?q"),
        ] {
            let want = Endpoint {
                authority: authority.to_owned(),
                host: host.to_owned(),
                port,
                path: path.to_owned(),
            };
            assert_eq!(Endpoint::parse(url), Ok(want), "{url}");
        }
    }

    #[test]
    fn bad_urls_are_refused_with_the_flag() {
        let bad = [
            "",
            "127.0.0.1:8080",
            "https://h/",
            "ftp://h/",
            "http://",
            "http:///x",
            "http://h:99999/",
            "http://h:x/",
            "http://u:p@h/",
            "http://h:0/",
            "http://a b/",
            "http://h/a b",
        ];
        for url in bad {
            let error = Endpoint::parse(url).expect_err(url);
            assert_eq!(error.flag, "--target", "{url}");
            assert!(!error.cure.is_empty(), "{url}");
        }
    }

    #[test]
    fn no_refusal_shows_a_secret() {
        for (url, shown) in [
            ("http://user:pa55@h/", "http://…@h/"),
            ("https://user:pa55@h/x", "https://…@h/x"),
            ("http://user:pa55/w0rd@h/", "http://…@h/"),
            ("http://user:pa55@h/a@b c", "http://…@b c"),
            ("user:pa55@h", "…@h"),
            ("user@pa55://w0rd@h", "…@h"),
            ("", "''"),
            ("http://h:0/", "http://h:0/"),
            ("https://h/x?token=pa55", "https://h/x?…"),
            ("https://h/x#pa55", "https://h/x?…"),
            ("https://user@h/?token=pa55", "https://…@h/?…"),
            ("https://user:pa55?w0rd@h/", "https://…"),
            ("https://h/?user=a@pa55", "https://…"),
            ("h?pa55", "h?…"),
        ] {
            let error = Endpoint::parse(url).expect_err(url);
            assert_eq!(error.value, shown);
            let text = error.to_string();
            assert!(!text.contains("pa55") && !text.contains("w0rd"), "{text}");
        }
        // The URL parser lets non-ASCII paths pass.
        let endpoint = Endpoint { path: "/é?pa55".to_owned(), ..endpoint() };
        let plan = Plan { target: "http://h/é?pa55".to_owned(), ..Plan::default() };
        let error = render_request(&plan, &endpoint, 0).expect_err("a bad path").to_string();
        assert!(error.starts_with("--target http://h/é?…: the path"), "{error}");
    }

    fn endpoint() -> Endpoint {
        Endpoint::parse("http://h/").expect("a URL")
    }

    #[test]
    fn a_bad_header_is_told_by_its_position_alone() {
        for (headers, position, problem) in [
            (vec!["pa55"], "#1", "no colon"),
            (vec![""], "#1", "no colon"),
            (vec!["A: pa55", "Authorization Bearer pa55"], "#2", "no colon"),
            (vec!["pa55 word: x"], "#1", "the name isn't a token"),
            (vec!["A: b", "C: pa55\nd", "E: f"], "#2", "a control character"),
            (vec!["Host: a", "B: c", "Host: pa55"], "#3", "Host is given more than once"),
            (vec!["A: b", "Content-Length: pa55"], "#2", "the body of 0 bytes"),
            (vec!["Transfer-Encoding: pa55"], "#1", "isn't supported"),
        ] {
            let headers = headers.into_iter().map(str::to_owned).collect();
            let plan = Plan { headers, ..Plan::default() };
            let error = render_request(&plan, &endpoint(), 0).expect_err(problem);
            assert_eq!((error.flag, error.value.as_str()), ("--header", position));
            let text = error.to_string();
            assert!(text.contains(problem) && !text.contains("pa55"), "{text}");
        }
    }

    #[test]
    fn a_method_that_cannot_be_sent_is_told() {
        for (method, body_bytes, shown) in [
            ("CONNECT", 0, "CONNECT"),
            ("TRACE", 1, "TRACE"),
            ("NO TOKEN", 0, "NO TOKEN"),
            ("", 0, "''"),
        ] {
            let plan = Plan { method: method.to_owned(), ..Plan::default() };
            let error = render_request(&plan, &endpoint(), body_bytes).expect_err(method);
            assert_eq!((error.flag, error.value.as_str()), ("--method", shown));
        }
    }
}
