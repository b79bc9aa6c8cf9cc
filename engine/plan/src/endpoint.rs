//! The parts of a URL.
//!
//! Errors don't show potential secrets: a URL's credentials or its query.

use http::Uri;

use crate::PlanError;
use crate::braces::{has_fields, masked};

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// True for `https`.
    pub secure: bool,
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

/// The most characters of a URL that an error shows.
const SHOWN_MAX: usize = 120;
/// The port of `http`.
const PORT_DEFAULT: u16 = 80;
/// The port of `https`.
const TLS_PORT_DEFAULT: u16 = 443;

impl Endpoint {
    /// Scheme, host and, unless it is the scheme's own, port.
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }

    /// True if it has the scheme, host and port of this one.
    pub fn is_same_host(&self, other: &Endpoint) -> bool {
        self.secure == other.secure && self.authority.eq_ignore_ascii_case(&other.authority)
    }

    /// Parses a URL.
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
        let (secure, default_port) = match url.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => (false, PORT_DEFAULT),
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => (true, TLS_PORT_DEFAULT),
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
        Ok(Endpoint { secure, authority, name: host.clone(), host, port, path })
    }
}

/// Scheme, host and port of a URL, as written.
pub(crate) fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[..end]
}

/// A text that stands in a line of an error, which is cut if it is long.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
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
        None => format!("{}{cut}", short(before)),
        Some((_, rest)) => format!("{scheme}…@{}{cut}", short(rest)),
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
    fn a_long_url_is_cut_where_an_error_shows_it() {
        let url = format!("http://h/{}", "é".repeat(70_000));
        let error = Endpoint::parse(&url).expect_err("too long").to_string();
        assert!(error.contains("é…: invalid URL (uri too long)") && error.len() < 500, "{error}");
        assert_eq!(shown("http://me:pa55@h/a?b"), "http://…@h/a?…");
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
                secure: url.starts_with("https"),
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
