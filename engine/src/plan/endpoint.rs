//! From the plan's words to what goes on the wire: the URL's parts, the address behind its host, the request's bytes.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use http::Uri;
use http1::request::{Request, RequestSpec};
use socket2::{Domain, Protocol, Socket, Type};

use crate::plan::{Plan, PlanError};

/// The parts of the plan's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host and, where it is not the scheme's own, port: the value of the Host field.
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
/// How long the one connection before the run may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

impl Endpoint {
    /// Reads the plan's URL.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(url: &str) -> Result<Endpoint, PlanError> {
        let refuse = |problem: String, cure: &str| {
            Err(PlanError::new("--target", without_credentials(url), problem, cure))
        };
        let example = "write it as http://HOST[:PORT]/PATH, such as http://127.0.0.1:8080/";
        if url.is_empty() {
            return refuse("no URL was given".to_owned(), example);
        }
        match url.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => {}
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
                return refuse(
                    "https is not supported yet".to_owned(),
                    "use the server's plain http port",
                );
            }
            Some(_) => return refuse("the scheme is unknown".to_owned(), example),
            None => return refuse("the scheme is missing".to_owned(), example),
        }
        // What follows `#` names a place in the answer and is never sent (RFC 9110, section 4.2.5).
        let sent = url.split_once('#').map_or(url, |(sent, _)| sent);
        let uri: Uri = match sent.parse() {
            Ok(uri) => uri,
            Err(error) => return refuse(format!("is no URL ({error})"), example),
        };
        let Some(authority) = uri.authority() else {
            return refuse("the host is missing".to_owned(), example);
        };
        if authority.as_str().contains('@') {
            return refuse(
                "a user name in the URL is not sent".to_owned(),
                "give credentials with --header 'Authorization: …'",
            );
        }
        let port = match (authority.port_u16(), authority.as_str().rsplit_once(':')) {
            (Some(0), _) => return refuse("port 0 can't be connected to".to_owned(), example),
            (Some(port), _) => port,
            (None, Some((before, after))) if !before.is_empty() && !after.ends_with(']') => {
                return refuse("what follows the host's colon is no port".to_owned(), example);
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

    /// Connects once to each address behind the host, in the resolver's order, and gives the first that answers. The
    /// connection comes from the first of `sources` that is of the address's kind, as the run's will.
    ///
    /// # Errors
    /// The host has no address, or none of them takes a connection.
    pub fn reach(&self, url: &str, sources: &[IpAddr]) -> Result<SocketAddr, PlanError> {
        let addresses: Vec<SocketAddr> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map(Iterator::collect)
            .map_err(|error| {
                let problem = format!("the host {} has no address ({error})", self.host);
                PlanError::new("--target", url, problem, "check the name, or give its IP address")
            })?;
        let mut problem = format!("the host {} has no address", self.host);
        let mut cure = "start the server, or check host and port";
        for address in addresses {
            let source = sources.iter().find(|source| source.is_ipv6() == address.is_ipv6());
            match probe(address, source.copied()) {
                Ok(()) => return Ok(address),
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    problem =
                        format!("no local port is left to connect to {address} from ({error})");
                    cure = "wait until connections in TIME_WAIT are gone, connect from other addresses \
                            (--source-addresses), or widen net.ipv4.ip_local_port_range";
                }
                Err(error) => problem = format!("{address} takes no connection ({error})"),
            }
        }
        Err(PlanError::new("--target", url, problem, cure))
    }
}

/// A refused URL as it may be shown: what stands before the last `@` may be a user's name and password. Nothing can be said of the
/// parts of what is no URL, so a path with an `@` loses its begin as well.
fn without_credentials(url: &str) -> String {
    match (url.rsplit_once('@'), url.split_once("://")) {
        _ if url.is_empty() => "''".to_owned(),
        (None, _) => url.to_owned(),
        (Some((_, rest)), Some((scheme, _))) if !scheme.contains('@') => {
            format!("{scheme}://…@{rest}")
        }
        (Some((_, rest)), _) => format!("…@{rest}"),
    }
}

/// Connects to an address and closes the connection again.
fn probe(address: SocketAddr, source: Option<IpAddr>) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect_timeout(&address.into(), PROBE_TIMEOUT)
}

/// The bytes that the plan's body stands for: the text itself, or what is in the file.
///
/// # Errors
/// The file can't be read.
pub fn read_body(plan: &Plan) -> Result<Vec<u8>, PlanError> {
    match plan.body.as_deref() {
        None => Ok(Vec::new()),
        Some(text) => match text.strip_prefix('@') {
            None => Ok(text.as_bytes().to_vec()),
            Some(file) => std::fs::read(Path::new(file)).map_err(|error| {
                let problem = format!("the file can't be read ({error})");
                PlanError::new("--body", text, problem, "name a readable file after @")
            }),
        },
    }
}

/// Renders the plan's request with the bytes of its body.
///
/// # Errors
/// The flag whose value can't be sent: a bad header by its name.
pub fn render_request(plan: &Plan, endpoint: &Endpoint, body: &[u8]) -> Result<Request, PlanError> {
    let mut headers = Vec::new();
    for line in &plan.headers {
        let Some((name, value)) = line.split_once(':') else {
            // The first word alone: the others may be a secret.
            return Err(PlanError::new(
                "--header",
                line.split_whitespace().next().unwrap_or("''"),
                "has no colon",
                "write it as 'Name: value'",
            ));
        };
        headers.push((name.trim_end().to_owned(), value.trim().to_owned()));
    }
    let spec = RequestSpec {
        method: &plan.method,
        authority: &endpoint.authority,
        path: &endpoint.path,
        headers: &headers,
        body,
        user_agent: concat!("truetail/", env!("CARGO_PKG_VERSION")),
        close: plan.keepalive.is_off(),
    };
    Request::render(&spec).map_err(|error| {
        use http1::request::RequestError as E;
        let (flag, value, cure) = match &error {
            E::Method(method) => ("--method", method.clone(), "use a method such as GET or POST"),
            E::Connect => ("--method", plan.method.clone(), "use a method such as GET or POST"),
            E::Path(_) | E::Authority(_) => {
                ("--target", plan.target.clone(), "percent-encode what a URL can't hold")
            }
            // Names alone: the value of another header may be a secret.
            _ => {
                let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
                ("--header", names.join(", "), "correct or leave out that header")
            }
        };
        PlanError::new(flag, value, error.to_string(), cure)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
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
        ] {
            let error = Endpoint::parse(url).expect_err(url);
            assert_eq!(error.value, shown);
            let text = error.to_string();
            assert!(!text.contains("pa55") && !text.contains("w0rd"), "{text}");
        }
        let endpoint = Endpoint::parse("http://h/").expect("a URL");
        for (header, shown) in [("Authorization Bearer pa55", "Authorization"), ("", "''")] {
            let plan = Plan { headers: vec![header.to_owned()], ..Plan::default() };
            let error = render_request(&plan, &endpoint, b"").expect_err(shown);
            assert_eq!(error.value, shown);
        }
    }

    #[test]
    fn a_bad_header_is_named() {
        let endpoint = Endpoint::parse("http://h/").expect("a URL");
        for (headers, word) in [
            (vec!["NoColon"], "NoColon"),
            (vec!["Bad Name: x"], "Bad Name"),
            (vec!["A: b\nc"], "A"),
        ] {
            let headers = headers.into_iter().map(str::to_owned).collect();
            let plan = Plan { headers, ..Plan::default() };
            let error = render_request(&plan, &endpoint, b"").expect_err(word);
            assert_eq!(error.flag, "--header");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
