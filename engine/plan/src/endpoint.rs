//! The parts of the plan's URL, and where to connect to.
//!
//! Errors don't show potential secrets: a URL's credentials or its query.

use std::net::IpAddr;

use http::Uri;
use http::uri::Authority;

use crate::braces::{has_fields, masked};
use crate::{Plan, PlanError};

/// The parts of the plan's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host and, unless it is the scheme's own, port: the value of the Host field.
    pub authority: String,
    /// The URL's host without brackets: the name that the certificate must match.
    pub name: String,
    /// The name or the address of the host to connect to, without brackets.
    pub host: String,
    /// The port to connect to.
    pub port: u16,
    /// Path and query.
    pub path: String,
}

/// The port of `http`.
const PORT_DEFAULT: u16 = 80;
/// The port of `https`.
const TLS_PORT_DEFAULT: u16 = 443;

impl Endpoint {
    /// The parts of the plan's URL, with the host and port that the plan connects to.
    ///
    /// # Errors
    /// Those of [`Endpoint::parse`], and a malformed `connect_to` or `resolve`, or a `resolve` for
    /// another host than the URL's.
    pub fn of(plan: &Plan) -> Result<Endpoint, PlanError> {
        let endpoint = Endpoint::parse(&plan.target)?;
        let others = [("--connect-to", &plan.connect_to), ("--resolve", &plan.resolve)];
        if let (Some(_), Some((flag, place))) =
            (&plan.unix, others.into_iter().find_map(|(flag, place)| Some((flag, place.as_ref()?))))
        {
            let problem = "--unix already sets where to connect to";
            return Err(PlanError::new(flag, shown(place), problem, "omit one of them"));
        }
        match (&plan.connect_to, &plan.resolve) {
            (None, None) => Ok(endpoint),
            (Some(_), Some(resolve)) => {
                let problem = "--connect-to already sets where to connect to";
                Err(PlanError::new("--resolve", shown(resolve), problem, "omit one of them"))
            }
            (Some(place), None) => match parse_place(place) {
                Some((host, port)) => Ok(Endpoint { host, port, ..endpoint }),
                None => {
                    let cure = "give HOST:PORT, e.g. 10.0.0.2:8080 or [::1]:8080";
                    let problem = "not a host and a port";
                    Err(PlanError::new("--connect-to", shown(place), problem, cure))
                }
            },
            (None, Some(resolve)) => endpoint.resolved(resolve),
        }
    }

    /// The endpoint at the address that `host:port:address` gives for its host and port.
    fn resolved(self, resolve: &str) -> Result<Endpoint, PlanError> {
        let refuse = |problem: String, cure: &str| {
            Err(PlanError::new("--resolve", shown(resolve), problem, cure))
        };
        // An IPv6 address has colons, and so may the host.
        let parts = resolve.match_indices(':').find_map(|(at, _)| {
            let address = resolve[at + 1..].trim_start_matches('[').trim_end_matches(']');
            Some((parse_place(&resolve[..at])?, address.parse::<IpAddr>().ok()?))
        });
        match parts {
            None => {
                let problem = "not a host, a port and an IP address".to_owned();
                refuse(problem, "give HOST:PORT:ADDRESS, e.g. api.test:80:10.0.0.2")
            }
            Some(((host, port), _))
                if port != self.port || !host.eq_ignore_ascii_case(&self.host) =>
            {
                let problem = format!("the URL is at {}:{}", self.host, self.port);
                refuse(problem, "give the URL's own host and port, or use --connect-to")
            }
            Some((_, address)) => Ok(Endpoint { host: address.to_string(), ..self }),
        }
    }

    /// Parses the plan's URL.
    ///
    /// # Errors
    /// It isn't a URL, or no requests can be sent to it.
    pub fn parse(url: &str) -> Result<Endpoint, PlanError> {
        let refuse = |problem: String, cure: &str| {
            Err(PlanError::new("--target", shown(url), problem, cure))
        };
        let example = "give http://HOST[:PORT]/PATH, e.g. http://127.0.0.1:8080/";
        if url.is_empty() {
            return refuse("the URL is missing".to_owned(), example);
        }
        let default_port = match url.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => PORT_DEFAULT,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => TLS_PORT_DEFAULT,
            Some(_) => return refuse("the scheme is neither http nor https".to_owned(), example),
            None => return refuse("the scheme is missing".to_owned(), example),
        };
        // A fragment names a place in the response and is never sent (RFC 9110, section 4.2.5).
        let sent = url.split_once('#').map_or(url, |(sent, _)| sent);
        let masked = masked(sent);
        let uri: Uri = match masked.parse() {
            Ok(uri) => uri,
            Err(error) => return refuse(format!("invalid URL ({error})"), example),
        };
        let Some(authority) = uri.authority() else {
            return refuse("the host is missing".to_owned(), example);
        };
        let host_at = sent.find("://").map_or(0, |at| at + 3);
        let path_at = masked[host_at..].find(['/', '?']).map_or(sent.len(), |at| host_at + at);
        if has_fields(&sent[..path_at]) {
            let problem = "the host can't differ between requests".to_owned();
            return refuse(problem, "give fields in path and query alone");
        }
        if authority.as_str().contains('@') {
            return refuse(
                "credentials in a URL aren't sent".to_owned(),
                "give them as --user USER:PASSWORD",
            );
        }
        let port = match (authority.port_u16(), authority.as_str().rsplit_once(':')) {
            (Some(0), _) => return refuse("nothing listens on port 0".to_owned(), example),
            (Some(port), _) => port,
            (None, Some((before, after))) if !before.is_empty() && !after.ends_with(']') => {
                return refuse("invalid port after the host".to_owned(), example);
            }
            (None, _) => default_port,
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return refuse("the host is missing".to_owned(), example);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = if has_fields(sent) { &sent[path_at..] } else { path };
        let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
        let authority = if port == default_port {
            authority.host().to_owned()
        } else {
            authority.as_str().to_owned()
        };
        Ok(Endpoint { authority, name: host.clone(), host, port, path })
    }
}

/// Parses a host and its port; the host loses its brackets.
fn parse_place(text: &str) -> Option<(String, u16)> {
    let authority: Authority = text.parse().ok()?;
    let port = authority.port_u16().filter(|port| *port != 0)?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_place = !host.is_empty() && !text.contains('@');
    is_place.then(|| (host.to_owned(), port))
}

/// The flag that sets where a plan connects to, and the part of its value that an error may show.
pub fn named(plan: &Plan) -> (&'static str, String) {
    match (&plan.unix, &plan.connect_to, &plan.resolve) {
        (Some(path), ..) => ("--unix", path.display().to_string()),
        (None, Some(place), _) => ("--connect-to", shown(place)),
        (None, None, Some(resolve)) => ("--resolve", shown(resolve)),
        (None, None, None) => ("--target", shown(&plan.target)),
    }
}

/// The part of a text, which may not even be a URL, that an error may show: anything before the
/// last `@` may be credentials, and anything after the first `?` or `#` may be a secret.
pub(crate) fn shown(url: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_in_the_path_and_the_query_as_they_are_written() {
        for (url, path) in [
            ("http://h/{{rand 1 5}}/{{seq}}?q={{users.first name}}#x", None),
            ("http://h:1?{{ seq }}", Some("/?{{ seq }}")),
            ("http://h/a?b", Some("/a?b")),
        ] {
            let endpoint = Endpoint::parse(url).expect(url);
            let path = path.unwrap_or("/{{rand 1 5}}/{{seq}}?q={{users.first name}}");
            assert_eq!((endpoint.host.as_str(), endpoint.path.as_str()), ("h", path));
        }
        for url in ["http://{{users.host}}/", "http://h{{seq}}:1?a", "http://h:{{seq}}/"] {
            assert!(Endpoint::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn urls_are_split_into_their_parts() {
        for (url, authority, host, port, path) in [
            ("http://127.0.0.1:8080/", "127.0.0.1:8080", "127.0.0.1", 8080, "/"),
            ("http://example.test", "example.test", "example.test", 80, "/"),
            ("http://example.test:80/a?b=c#d", "example.test", "example.test", 80, "/a?b=c"),
            ("http://[::1]:8080/x", "[::1]:8080", "::1", 8080, "/x"),
            ("http://[::1]/", "[::1]", "::1", 80, "/"),
            ("HTTP://h:1?q", "h:1", "h", 1, "/?q"),
            ("https://example.test/", "example.test", "example.test", 443, "/"),
            ("https://example.test:443/a", "example.test", "example.test", 443, "/a"),
            ("https://h:80/", "h:80", "h", 80, "/"),
        ] {
            let want = Endpoint {
                authority: authority.to_owned(),
                name: host.to_owned(),
                host: host.to_owned(),
                port,
                path: path.to_owned(),
            };
            assert_eq!(Endpoint::parse(url), Ok(want), "{url}");
        }
    }

    #[test]
    fn a_plan_may_connect_elsewhere_and_still_requests_its_url() {
        let of = |connect_to: Option<&str>, resolve: Option<&str>| {
            Endpoint::of(&Plan {
                target: "http://api.test:81/x".to_owned(),
                connect_to: connect_to.map(str::to_owned),
                resolve: resolve.map(str::to_owned),
                ..Plan::default()
            })
        };
        for (connect_to, resolve, host, port) in [
            (None, None, "api.test", 81),
            (Some("10.0.0.2:8080"), None, "10.0.0.2", 8080),
            (Some("[::1]:8080"), None, "::1", 8080),
            (Some("other.test:80"), None, "other.test", 80),
            (None, Some("api.test:81:10.0.0.2"), "10.0.0.2", 81),
            (None, Some("API.test:81:[::1]"), "::1", 81),
            (None, Some("api.test:81:::1"), "::1", 81),
        ] {
            let endpoint = of(connect_to, resolve).expect("a place");
            assert_eq!((endpoint.host.as_str(), endpoint.port), (host, port));
            let Endpoint { authority, name, path, .. } = endpoint;
            assert_eq!([authority, name, path], ["api.test:81", "api.test", "/x"]);
        }
        for (connect_to, resolve, start) in [
            (Some("10.0.0.2"), None, "--connect-to 10.0.0.2: not a host and a port"),
            (Some("a:b@h:80"), None, "--connect-to …@h:80: not a host"),
            (Some("h:0"), None, "--connect-to h:0: "),
            (None, Some("api.test:81"), "--resolve api.test:81: not a host, a port and an IP"),
            (None, Some("api.test:80:10.0.0.2"), "--resolve api.test:80:10.0.0.2: the URL is at"),
            (None, Some("h:81:10.0.0.2"), "--resolve h:81:10.0.0.2: the URL is at api.test:81"),
            (Some("h:80"), Some("api.test:81:10.0.0.2"), "--resolve api.test:81:10.0.0.2: --conn"),
        ] {
            let error = of(connect_to, resolve).expect_err(start).to_string();
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn bad_urls_are_refused_with_the_flag() {
        let bad = [
            "",
            "127.0.0.1:8080",
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
            ("https://h:0/x?token=pa55", "https://h:0/x?…"),
            ("https://h:0/x#pa55", "https://h:0/x?…"),
            ("https://user@h/?token=pa55", "https://…@h/?…"),
            ("https://user:pa55?w0rd@h/", "https://…"),
            ("https://h:0/?user=a@pa55", "https://…"),
            ("h?pa55", "h?…"),
        ] {
            let error = Endpoint::parse(url).expect_err(url);
            assert_eq!(error.value, shown);
            let text = error.to_string();
            assert!(!text.contains("pa55") && !text.contains("w0rd"), "{text}");
        }
    }
}
