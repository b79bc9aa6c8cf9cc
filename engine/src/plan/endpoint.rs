//! The parts of the plan's URL.
//!
//! No error shows what may be a secret: a URL's credentials or its query.

use http::Uri;

use crate::plan::PlanError;

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
}

/// What an error may show of a text that may not even be a URL: whatever stands before the last `@`
/// may be credentials, and whatever follows the first `?` or `#` may be a secret.
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
    }
}
