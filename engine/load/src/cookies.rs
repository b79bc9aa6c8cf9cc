//! The cookies of one session: what `Set-Cookie` lines leave behind, and the `Cookie` header of a
//! request.
//!
//! Which cookies a request takes, and in which order, is as RFC 6265 has it. What it asks of a
//! browser beyond that isn't treated, since a target sets its cookies on purpose: public suffixes,
//! `SameSite`, `HttpOnly`, the prefixes `__Host-` and `__Secure-`, and that a request without TLS
//! must not replace a secure cookie. Nor is time: a cookie may have expired when it comes, which
//! removes it, but one that is kept is kept to the session's end.

use std::net::IpAddr;
use std::ops::Range;

use cookie::Cookie;
use plan::scenario::{COOKIES_BYTES_MAX, COOKIES_MAX};

const SEPARATOR: &[u8] = b"; ";

/// A cookie was not taken, since with it there would be more than [`COOKIES_MAX`] cookies or
/// [`COOKIES_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The cookies of a session.
#[derive(Clone, Debug, Default)]
pub struct Jar {
    /// In the order in which they are sent, so that a request takes one look at each.
    shapes: Vec<Shape>,
    /// The name, value, domain and path of each, without anything between.
    bytes: Vec<u8>,
}

/// What is known of a cookie but for its bytes.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Of name, value, domain and path.
    lengths: [u16; 4],
    host_only: bool,
    secure_only: bool,
}

/// A cookie in the jar.
struct Kept<'a> {
    name: &'a [u8],
    value: &'a [u8],
    domain: &'a [u8],
    path: &'a [u8],
    host_only: bool,
    secure_only: bool,
}

impl Jar {
    /// Removes all cookies. The memory remains, for the next session.
    pub fn clear(&mut self) {
        self.shapes.clear();
        self.bytes.clear();
    }

    /// Does what the value of a `Set-Cookie` header says: adds a cookie, replaces the one with the
    /// same name, domain and path, or removes that, if the new one has expired by `now_s` (of Unix
    /// time).
    ///
    /// Host (without port) and path (without query) are those of the request that was answered,
    /// and `secure` says whether it went through TLS. A line is ignored if
    ///
    /// - it is no cookie, or has bytes other than visible ASCII and blanks, which no header could
    ///   send back;
    /// - its domain is none of the host's;
    /// - it is for secure requests only, and came without TLS.
    ///
    /// # Errors
    /// A bound would be exceeded. All cookies are as before.
    pub fn set(
        &mut self,
        line: &[u8],
        host: &str,
        path: &[u8],
        secure: bool,
        now_s: i64,
    ) -> Result<(), Full> {
        let text = str::from_utf8(line).ok().filter(|_| line.iter().all(|it| is_sendable(*it)));
        let Some(cookie) = text.and_then(|text| Cookie::parse(text).ok()) else { return Ok(()) };
        let domain = cookie.domain().filter(|domain| !domain.is_empty()).map(str::as_bytes);
        let is_foreign = domain.is_some_and(|domain| !domain_matches(host, domain));
        let secure_only = cookie.secure() == Some(true);
        if is_foreign || (secure_only && !secure) {
            return Ok(());
        }
        let own_path = cookie.path().map(str::as_bytes).filter(|own| own.starts_with(b"/"));
        let new = Kept {
            name: cookie.name().as_bytes(),
            value: cookie.value().as_bytes(),
            domain: domain.unwrap_or(host.as_bytes()),
            path: own_path.unwrap_or_else(|| default_path(path)),
            host_only: domain.is_none(),
            secure_only,
        };
        let has_expired = match cookie.max_age() {
            Some(age) => !age.is_positive(),
            None => cookie.expires_datetime().is_some_and(|at| at.unix_timestamp() <= now_s),
        };
        if has_expired {
            self.remove(&new);
            Ok(())
        } else {
            self.put(&new)
        }
    }

    /// Appends the value of the `Cookie` header of a request to this host (without port), and
    /// returns whether there is any; `path` is where its path (without query) stands in `out`. The
    /// cookies with longer paths come first, and of those with equally long ones the older.
    pub fn write(&self, host: &str, path: Range<usize>, secure: bool, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        for kept in self.kept() {
            if !kept.is_for(host, &out[path.clone()], secure) {
                continue;
            }
            if before < out.len() {
                out.extend_from_slice(SEPARATOR);
            }
            out.extend_from_slice(kept.name);
            out.push(b'=');
            out.extend_from_slice(kept.value);
        }
        before < out.len()
    }

    fn remove(&mut self, like: &Kept) {
        if let Some(at) = self.position(like) {
            self.bytes.drain(self.range(at));
            self.shapes.remove(at);
        }
    }

    fn put(&mut self, new: &Kept) -> Result<(), Full> {
        let parts = [new.name, new.value, new.domain, new.path];
        let known = self.position(new);
        let (at, old) = match known {
            Some(at) => (at, self.range(at)),
            None => {
                let is_after = |kept: Kept| kept.path.len() < new.path.len();
                let at = self.kept().position(is_after).unwrap_or(self.shapes.len());
                let start = self.start(at);
                (at, start..start)
            }
        };
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        let is_one_more = known.is_none() && self.shapes.len() == COOKIES_MAX;
        if is_one_more || COOKIES_BYTES_MAX < self.bytes.len() - old.len() + length {
            return Err(Full);
        }
        // Chained, they know their length, so that the bytes after them move once.
        let bytes = new.name.iter().chain(new.value).chain(new.domain).chain(new.path);
        self.bytes.splice(old, bytes.copied());
        let shape = Shape {
            lengths: parts
                .map(|part| u16::try_from(part.len()).expect("at most COOKIES_BYTES_MAX")),
            host_only: new.host_only,
            secure_only: new.secure_only,
        };
        match known {
            Some(at) => self.shapes[at] = shape,
            None => self.shapes.insert(at, shape),
        }
        Ok(())
    }

    fn kept(&self) -> impl Iterator<Item = Kept<'_>> {
        let mut rest = self.bytes.as_slice();
        self.shapes.iter().map(move |shape| {
            let [name, value, domain, path] = shape.lengths.map(|length| {
                let (part, after) = rest.split_at(usize::from(length));
                rest = after;
                part
            });
            let Shape { host_only, secure_only, .. } = *shape;
            Kept { name, value, domain, path, host_only, secure_only }
        })
    }

    /// Where the cookie is that another one replaces.
    fn position(&self, like: &Kept) -> Option<usize> {
        self.kept().position(|kept| kept.is_same(like))
    }

    /// Where the bytes of a cookie start.
    fn start(&self, at: usize) -> usize {
        self.shapes[..at].iter().flat_map(|shape| shape.lengths).map(usize::from).sum()
    }

    /// Where the bytes of a cookie are.
    fn range(&self, at: usize) -> Range<usize> {
        self.start(at)..self.start(at + 1)
    }
}

impl Kept<'_> {
    /// Whether one replaces the other.
    fn is_same(&self, other: &Kept) -> bool {
        self.name == other.name
            && self.domain.eq_ignore_ascii_case(other.domain)
            && self.path == other.path
    }

    fn is_for(&self, host: &str, path: &[u8], secure: bool) -> bool {
        let is_of_host = if self.host_only {
            self.domain.eq_ignore_ascii_case(host.as_bytes())
        } else {
            domain_matches(host, self.domain)
        };
        is_of_host && path_matches(path, self.path) && (secure || !self.secure_only)
    }
}

fn is_sendable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// Whether a host is a domain or below it: RFC 6265, 5.1.3.
fn domain_matches(host: &str, domain: &[u8]) -> bool {
    let front = host.len().checked_sub(domain.len());
    let Some((front, end)) = front.map(|front| host.as_bytes().split_at(front)) else {
        return false;
    };
    end.eq_ignore_ascii_case(domain)
        && (front.is_empty() || (front.ends_with(b".") && !is_address(host)))
}

/// Whether a host is an IP address, which is below no domain.
fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<IpAddr>().is_ok()
}

/// Whether a request's path is a cookie's or below it: RFC 6265, 5.1.4.
fn path_matches(path: &[u8], own: &[u8]) -> bool {
    path.strip_prefix(own)
        .is_some_and(|rest| rest.is_empty() || own.ends_with(b"/") || rest.starts_with(b"/"))
}

/// The path of a cookie that has none, from that of the request: RFC 6265, 5.1.4.
fn default_path(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(last) if 0 < last && path.starts_with(b"/") => &path[..last],
        _ => b"/",
    }
}

#[cfg(test)]
mod tests {
    use plan::scenario::COOKIES_LONGEST;

    use super::*;

    /// 2026-01-01.
    const NOW_S: i64 = 1_767_225_600;

    /// Takes a line that a request for this host and path, with TLS, was answered with.
    fn set(jar: &mut Jar, line: &[u8], host: &str, path: &str) -> Result<(), Full> {
        jar.set(line, host, path.as_bytes(), true, NOW_S)
    }

    /// What a request sends.
    fn sent(jar: &Jar, host: &str, path: &str, secure: bool) -> String {
        let mut out = path.as_bytes().to_vec();
        let any = jar.write(host, 0..path.len(), secure, &mut out);
        let text = String::from_utf8(out).expect("ASCII");
        let text = text.strip_prefix(path).expect("appended").to_owned();
        assert_eq!(any, !text.is_empty());
        text
    }

    /// What `https://h.test/` is sent after it has set these.
    fn after(lines: &[&str]) -> String {
        let mut jar = Jar::default();
        for line in lines {
            assert_eq!(set(&mut jar, line.as_bytes(), "h.test", "/"), Ok(()), "{line}");
        }
        sent(&jar, "h.test", "/", true)
    }

    #[test]
    fn lines_leave_cookies_behind() {
        for (lines, expected) in [
            (&["a=b"][..], "a=b"),
            (&[" a = b ;Path=/"], "a=b"),
            (&["a="], "a="),
            (&["a= ; Path= ; Domain= ; Max-Age= ; Expires= ; =; ;"], "a="),
            (&["a=b=c"], "a=b=c"),
            (&["a=\"b c\", %3b\\"], "a=\"b c\", %3b\\"),
            (&["a=b;"], "a=b"),
            (&["a=b; no attribute; SameSite=Strict; HttpOnly; Priority=High"], "a=b"),
            (&["__Host-a=b; Domain=test; Path=/x", "__Secure-a=b"], "__Secure-a=b"),
            (&["a=1", "b=2", "A=3"], "a=1; b=2; A=3"),
            // The last attribute of a name holds.
            (&["a=b; Path=/x; Path=/"], "a=b"),
            // Replaced where they were, with shorter and longer values.
            (&["a=1", "b=2", "c=3", "b=22", "a="], "a=; b=22; c=3"),
            (&["a=1", "b=2", "a=3; HttpOnly; Path=/; Domain="], "a=3; b=2"),
            // Of another domain or path, so no replacement.
            (&["a=1", "a=2; Domain=test", "a=3; Path=/x", "a=4; Domain=TEST"], "a=1; a=4"),
            // With the same domain, so one, whether or not for the host alone.
            (&["a=1", "a=2; Domain=H.test"], "a=2"),
        ] {
            assert_eq!(after(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn cookies_that_have_expired_are_removed() {
        for (line, remains) in [
            ("b=; Max-Age=0", false),
            ("b=; max-age = -1", false),
            ("b=; Max-Age=-99999999999999999999", false),
            ("b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT", false),
            ("b=; Expires=Thu, 01-Jan-1970 00:00:00 GMT", false),
            ("b=; Expires=Thursday, 01-Jan-70 00:00:00 GMT", false),
            ("b=; Expires=Thu Jan  1 00:00:00 1970", false),
            ("b=; Expires=Mon, 01 Jan 1601 00:00:00 GMT", false),
            ("b=; Expires=Thu, 01 Jan 2026 00:00:00 GMT", false),
            ("b=; Max-Age=0; Expires=Fri, 01 Jan 2027 00:00:00 GMT", false),
            ("b=; Max-Age=0; Domain=h.test", false),
            // One that lasts.
            ("b=2; Expires=Thu, 01 Jan 2026 00:00:01 GMT", true),
            ("b=2; Expires=Fri, 31 Dec 9999 23:59:59 GMT", true),
            ("b=2; Max-Age=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT", true),
            ("b=2; Max-Age=99999999999999999999", true),
            // No times.
            ("b=2; Expires=0", true),
            ("b=2; Expires=Thu, 99 Jan 1970 00:00:00 GMT", true),
            ("b=2; Max-Age=0.0", true),
            ("b=2; Max-Age", true),
            // Others.
            ("B=; Max-Age=0", true),
            ("b=; Max-Age=0; Path=/x", true),
            ("b=; Max-Age=0; Domain=test", true),
        ] {
            let expected = if remains { "a=1; b=2; c=3" } else { "a=1; c=3" };
            assert_eq!(after(&["a=1", "b=2", "c=3", line]), expected, "{line}");
        }
        assert_eq!(after(&["a=1", "b=2", "a=; Max-Age=0", "a=3"]), "b=2; a=3");
    }

    #[test]
    fn a_cookie_is_for_its_domain() {
        for (from, domain, to, expected) in [
            // For the host alone.
            ("h.test", "", "h.test", true),
            ("h.test", "", "H.Test", true),
            ("H.Test", "", "h.test", true),
            ("h.test", "", "a.h.test", false),
            ("h.test", "", "test", false),
            ("h.test", "; Domain=", "a.h.test", false),
            ("h.test", "; Domain=.", "a.h.test", false),
            ("h.test", "; Domain", "a.h.test", false),
            // For the domain.
            ("h.test", "; Domain=h.test", "h.test", true),
            ("h.test", "; Domain=h.test", "a.h.test", true),
            ("h.test", "; Domain=h.test", "A.B.H.TEST", true),
            ("h.test", "; domain=.H.Test", "a.h.test", true),
            ("h.test", "; Domain=h.test", "ah.test", false),
            ("h.test", "; Domain=h.test", "test", false),
            ("h.test", "; Domain=h.test", "h.test.", false),
            ("a.h.test", "; Domain=h.test", "b.h.test", true),
            ("h.test", "; Domain=test", "other.test", true),
            // Not for it.
            ("h.test", "; Domain=a.h.test", "a.h.test", false),
            ("h.test", "; Domain=other.test", "other.test", false),
            ("ah.test", "; Domain=h.test", "h.test", false),
            ("h.test", "; Domain=..h.test", "h.test", false),
            ("h.test", "; Domain=est", "h.test", false),
            ("h.test", "; Domain=h.test:80", "h.test", false),
            // Addresses.
            ("10.0.0.1", "", "10.0.0.1", true),
            ("10.0.0.1", "; Domain=10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "; Domain=0.0.1", "10.0.0.1", false),
            ("10.0.0.1", "; Domain=10.0.0.1", "a.10.0.0.1", true),
            ("a.0.0.1", "; Domain=0.0.1", "10.0.0.1", false),
            ("[::1]", "", "[::1]", true),
            ("::1", "; Domain=::1", "::1", true),
            ("[::ffff:1.2.3.4]", "; Domain=4]", "[::ffff:1.2.3.4]", false),
            ("::ffff:1.2.3.4", "; Domain=3.4", "::ffff:1.2.3.4", false),
        ] {
            let mut jar = Jar::default();
            assert_eq!(set(&mut jar, format!("a=b{domain}").as_bytes(), from, "/"), Ok(()));
            let expected = if expected { "a=b" } else { "" };
            assert_eq!(sent(&jar, to, "/", true), expected, "{from}{domain}, {to}");
        }
    }

    #[test]
    fn a_cookie_is_for_its_path() {
        for (from, own, to, expected) in [
            ("/", "", "/", true),
            ("/", "", "/x/y", true),
            ("/x", "", "/", true),
            ("/x/y", "", "/x", true),
            ("/x/y", "", "/x/", true),
            ("/x/y", "", "/x/z", true),
            ("/x/y", "", "/", false),
            ("/x/y", "", "/xy", false),
            ("/x/", "", "/x", true),
            ("/x//", "", "/x", false),
            ("/x//", "", "/x/", true),
            ("/x/y", "; Path", "/x", true),
            ("/x/y", "; Path=", "/", false),
            ("/x/y", "; Path=z", "/", false),
            ("/x/y", "; Path=z", "/x", true),
            ("", "", "/", true),
            ("x/y", "", "/", true),
            ("*", "", "/", true),
            ("/x/y", "; Path=/", "/z", true),
            ("/x", "; Path=/y", "/y", true),
            ("/x", "; Path=/y", "/y/z", true),
            ("/x", "; Path=/y", "/yz", false),
            ("/x", "; Path=/y", "/Y", false),
            ("/x", "; Path=/y", "/x", false),
            ("/x", "; path=/y/", "/y", false),
            ("/x", "; path=/y/", "/y/", true),
            ("/x", "; path=/y/", "/y/z", true),
            ("/x", "; Path=/y z", "/y z", true),
        ] {
            let mut jar = Jar::default();
            assert_eq!(set(&mut jar, format!("a=b{own}").as_bytes(), "h", from), Ok(()));
            let expected = if expected { "a=b" } else { "" };
            assert_eq!(sent(&jar, "h", to, true), expected, "{from}{own}, {to}");
        }
    }

    #[test]
    fn longer_paths_come_first_and_then_older_cookies() {
        let mut jar = Jar::default();
        for line in [
            "a=1; Path=/",
            "b=2; Path=/x/y",
            "c=3; Path=/x",
            "d=4; Path=/x/y",
            "e=5; Path=/",
            "f=6; Path=/other",
            "g=7; Path=/x/",
            "a=8; Path=/x",
        ] {
            assert_eq!(set(&mut jar, line.as_bytes(), "h", "/"), Ok(()));
        }
        assert_eq!(sent(&jar, "h", "/x/y", true), "b=2; d=4; g=7; c=3; a=8; a=1; e=5");
        assert_eq!(set(&mut jar, b"b=9; Path=/x/y", "h", "/"), Ok(()));
        assert_eq!(set(&mut jar, b"c=; Path=/x; Max-Age=0", "h", "/"), Ok(()));
        assert_eq!(set(&mut jar, b"c=10", "h", "/x/z"), Ok(()));
        assert_eq!(sent(&jar, "h", "/x/y", true), "b=9; d=4; g=7; a=8; c=10; a=1; e=5");
        assert_eq!(sent(&jar, "h", "/x", true), "a=8; c=10; a=1; e=5");
    }

    #[test]
    fn secure_cookies_come_and_go_through_tls_alone() {
        let mut jar = Jar::default();
        for (line, secure, with, without) in [
            ("a=1; Secure", false, "", ""),
            ("a=1; Secure", true, "a=1", ""),
            ("b=2", true, "a=1; b=2", "b=2"),
            ("b=3", false, "a=1; b=3", "b=3"),
            ("b=; secure; Max-Age=0", false, "a=1; b=3", "b=3"),
            ("b=4; secure=no", true, "a=1; b=4", ""),
            ("b=5", true, "a=1; b=5", "b=5"),
        ] {
            assert_eq!(jar.set(line.as_bytes(), "h", b"/", secure, NOW_S), Ok(()));
            assert_eq!(sent(&jar, "h", "/", true), with, "{line}");
            assert_eq!(sent(&jar, "h", "/", false), without, "{line}");
        }
    }

    #[test]
    fn there_are_only_so_many_cookies() {
        let mut jar = Jar::default();
        for at in 0..COOKIES_MAX {
            assert_eq!(set(&mut jar, format!("c{at}=x").as_bytes(), "h", "/"), Ok(()));
        }
        let before = sent(&jar, "h", "/", true);
        assert_eq!(before.matches("=x").count(), COOKIES_MAX);
        assert_eq!(set(&mut jar, b"more=x", "h", "/"), Err(Full));
        assert_eq!(set(&mut jar, b"c0=x; Path=/x", "h", "/"), Err(Full));
        assert_eq!(sent(&jar, "h", "/", true), before);
        // Ignored, removed or replaced: not one more.
        for line in ["more=x; Domain=other", "more=x; Max-Age=0", "=x", "c7=y"] {
            assert_eq!(set(&mut jar, line.as_bytes(), "h", "/"), Ok(()), "{line}");
        }
        assert_eq!(sent(&jar, "h", "/", true), before.replace("c7=x", "c7=y"));
        assert_eq!(set(&mut jar, b"c7=; Max-Age=0", "h", "/"), Ok(()));
        assert_eq!(set(&mut jar, b"more=x", "h", "/"), Ok(()));
        assert_eq!(set(&mut jar, b"c7=x", "h", "/"), Err(Full));
    }

    #[test]
    fn they_have_only_so_many_bytes() {
        // A cookie has one byte of name and of path.
        for (host, domain) in [("", ""), ("h.test", ""), ("h.test", "; Domain=test")] {
            let domain_length = if domain.is_empty() { host.len() } else { "test".len() };
            let most = COOKIES_BYTES_MAX - 2 - domain_length;
            let line = |name: char, length| format!("{name}={}{domain}", "x".repeat(length));
            let mut jar = Jar::default();
            let mut take = |name, length| set(&mut jar, line(name, length).as_bytes(), host, "/");
            assert_eq!(take('a', most + 1), Err(Full));
            assert_eq!(take('a', most), Ok(()));
            assert_eq!(take('b', 0), Err(Full));
            assert_eq!(take('a', most + 1), Err(Full));
            assert_eq!(take('a', most), Ok(()));
            assert_eq!(take('a', most - 2 - domain_length), Ok(()));
            assert_eq!(take('b', 1), Err(Full));
            assert_eq!(take('b', 0), Ok(()));
            assert_eq!(take('c', 0), Err(Full));
            assert_eq!(jar.bytes.len(), COOKIES_BYTES_MAX);
            let a = format!("a={}", "x".repeat(most - 2 - domain_length));
            assert_eq!(sent(&jar, host, "/", true), format!("{a}; b="));
        }
        // Long paths and hosts count as well.
        let (long, most) = ("x".repeat(COOKIES_BYTES_MAX), "x".repeat(COOKIES_BYTES_MAX - 3));
        let mut jar = Jar::default();
        assert_eq!(set(&mut jar, b"a=b", &long, "/"), Err(Full));
        assert_eq!(set(&mut jar, b"a=b", "", &format!("/{long}/")), Err(Full));
        assert_eq!(set(&mut jar, format!("a=b; Path=/{long}").as_bytes(), "", "/"), Err(Full));
        assert_eq!(set(&mut jar, b"a=b", &most, "/"), Ok(()));
        assert_eq!(sent(&jar, &most, "/", true), "a=b".to_owned());
    }

    #[test]
    fn the_longest_header_is_as_long_as_said() {
        let mut jar = Jar::default();
        // No host is this short; then the bound is exact.
        for at in 0..COOKIES_MAX {
            let name = char::from(b'a' + u8::try_from(at).expect("few"));
            let length = if at == 0 { COOKIES_BYTES_MAX - 2 * COOKIES_MAX } else { 0 };
            let line = format!("{name}={}", "x".repeat(length));
            assert_eq!(set(&mut jar, line.as_bytes(), "", "/"), Ok(()));
        }
        let mut out = Vec::with_capacity(1 + COOKIES_LONGEST);
        out.push(b'/');
        let (place, capacity) = (out.as_ptr(), out.capacity());
        assert!(jar.write("", 0..1, false, &mut out));
        // The `=` of each takes no more than its path, which isn't sent.
        assert!(out.len() <= 1 + COOKIES_LONGEST, "{}", out.len());
        assert_eq!((out.as_ptr(), out.capacity()), (place, capacity));
    }

    #[test]
    fn hostile_lines_are_ignored() {
        let long = |part: &str| part.repeat(5_000).into_bytes();
        let mut jar = Jar::default();
        assert_eq!(set(&mut jar, b"a=b", "h", "/"), Ok(()));
        for line in [
            b"".to_vec(),
            b" ".to_vec(),
            b"a".to_vec(),
            b"=".to_vec(),
            b"=c".to_vec(),
            b" =c".to_vec(),
            b";".to_vec(),
            b"; a=c".to_vec(),
            b"a; =c".to_vec(),
            long(";"),
            long("; "),
            long("=;"),
            [&b"a=c; Domain="[..], &long(".")].concat(),
            // Not to be sent back.
            b"a=c\r\nX: y".to_vec(),
            b"a=c\r".to_vec(),
            b"a\n=c".to_vec(),
            b"a=c; Path=/\r\n".to_vec(),
            b"a=\0".to_vec(),
            b"a=c\x7f".to_vec(),
            b"a=c\td".to_vec(),
            b"a=\xff\xfe".to_vec(),
            b"a=c; Path=/\xff".to_vec(),
            "a=é".into(),
            "a=c\u{a0}".into(),
            "é=c".into(),
        ] {
            let shown = String::from_utf8_lossy(&line);
            assert_eq!(set(&mut jar, &line, "h", "/"), Ok(()), "{shown}");
            assert_eq!(sent(&jar, "h", "/", true), "a=b", "{shown}");
        }
        assert_eq!(set(&mut jar, &[&b"a="[..], &[b'x'; 5 << 10]].concat(), "h", "/"), Err(Full));
        assert_eq!(sent(&jar, "h", "/", true), "a=b");
        // Too long, but only to be removed.
        let line = [&b"a="[..], &[b'x'; 5 << 10], b"; Max-Age=0"].concat();
        assert_eq!(set(&mut jar, &line, "h", "/"), Ok(()));
        assert_eq!(sent(&jar, "h", "/", true), "");
        // However much is around it.
        let line = [&b"a=c"[..], &long(";"), &long("; Path=/x"), b"; Path=/"].concat();
        assert_eq!(set(&mut jar, &line, "h", "/"), Ok(()));
        assert_eq!(sent(&jar, "h", "/", true), "a=c");
    }

    #[test]
    fn a_cleared_jar_is_empty_and_keeps_its_memory() {
        let mut jar = Jar::default();
        assert_eq!(sent(&jar, "h", "/", true), "");
        for at in 0..COOKIES_MAX {
            assert_eq!(set(&mut jar, format!("c{at}=x").as_bytes(), "h", "/"), Ok(()));
        }
        let room = (jar.shapes.capacity(), jar.bytes.capacity());
        jar.clear();
        assert_eq!(sent(&jar, "h", "/", true), "");
        for at in 0..COOKIES_MAX {
            assert_eq!(set(&mut jar, format!("d{at}=y").as_bytes(), "h", "/"), Ok(()));
        }
        assert_eq!((jar.shapes.capacity(), jar.bytes.capacity()), room);
        assert!(sent(&jar, "h", "/", true).starts_with("d0=y; d1=y; "));
    }
}
