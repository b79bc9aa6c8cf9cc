//! Redirects: which responses are one, where they lead, and the step that follows them.
//!
//! A step that follows redirects has another one behind it, which a session sends as long as it is
//! redirected: each hop is a request of its own, with results of its own.

use super::endpoint::Endpoint;
use super::plan::Plan;
use super::scenario::{Scenario, Step};
use super::status::StatusSet;
use super::when::When;

/// The most hops after a step.
pub const HOPS_MAX: u16 = 5;
/// The source of a capture that is a redirect's path.
pub(super) const SOURCE: &str = "redirect";

/// Where a request went, for its redirects.
#[derive(Clone, Debug)]
pub struct Origin {
    secure: bool,
    authority: String,
    /// The path of its request, without query, if that is known before the run.
    path: String,
    /// True if it is sent again by GET, whatever the status.
    is_get: bool,
}

/// Where a response leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// To this path and query.
    Path(String),
    /// To another scheme, host or port.
    Elsewhere,
    /// It has no location, or the request can't be sent there as the status demands.
    Unfit,
}

/// True if a response of this status redirects.
pub(super) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

impl Origin {
    /// That of a plan's one request.
    pub(super) fn of(request: &Plan) -> Origin {
        let endpoint = Endpoint::parse(&request.target).ok();
        let (secure, authority, path) = endpoint.map_or_else(Default::default, |it| {
            let path = it.path.split('?').next().unwrap_or_default().to_owned();
            (it.secure, it.authority, path)
        });
        Origin {
            secure,
            authority,
            path,
            is_get: ["GET", "HEAD"].contains(&request.method.as_str()),
        }
    }

    /// Where a response leads; `path` is its request's, without query. If it is empty, the one that
    /// was known before the run is.
    pub(super) fn target(&self, status: u16, location: Option<&[u8]>, path: &[u8]) -> Target {
        let texts = (location.map(str::from_utf8), str::from_utf8(path));
        let (Some(Ok(location)), Ok(path)) = texts else { return Target::Unfit };
        if location.is_empty() || matches!(status, 307 | 308) && !self.is_get {
            return Target::Unfit;
        }
        let scheme = if self.secure { "https:" } else { "http:" };
        let own = format!("{scheme}//{}", self.authority);
        // RFC 3986, section 5.2; the target itself takes out segments like `..`.
        let path = if path.is_empty() { &self.path } else { path };
        let (folder, _) = path.rsplit_once('/').unwrap_or_default();
        let url = match scheme_of(location) {
            Some(scheme) if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) => {
                return Target::Elsewhere;
            }
            Some(_) => location.to_owned(),
            // Another part of the same page.
            None if location.starts_with('#') => return Target::Unfit,
            None if location.starts_with("//") => format!("{scheme}{location}"),
            None if location.starts_with('/') => format!("{own}{location}"),
            None if location.starts_with('?') => format!("{own}{path}{location}"),
            None => format!("{own}{folder}/{location}"),
        };
        let is_own = |it: &Endpoint| {
            it.secure == self.secure && it.authority.eq_ignore_ascii_case(&self.authority)
        };
        match Endpoint::parse(&url) {
            Err(_) => Target::Unfit,
            Ok(it) if is_own(&it) => Target::Path(it.path),
            Ok(_) => Target::Elsewhere,
        }
    }
}

/// The scheme that a URL begins with, if it isn't relative (RFC 3986, section 3.1).
fn scheme_of(url: &str) -> Option<&str> {
    let (scheme, _) = url.split_once(':')?;
    let in_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(in_scheme);
    is_scheme.then_some(scheme)
}

/// The name of the value that has where this step was redirected to. No plan's own values have a
/// blank in their names.
fn name_of(step: usize) -> String {
    format!("redirect {step}")
}

/// True for such a name.
pub(super) fn is_name(name: &str) -> bool {
    name.strip_prefix("redirect ").is_some_and(|step| step.parse::<usize>().is_ok())
}

/// The names of the ways in which a redirect fails.
pub(super) const WAYS: [&str; 3] = ["redirect_elsewhere", "redirect_unfit", "too_many_redirects"];
/// The index of one that can't be followed.
pub(super) const UNFIT: usize = 1;

impl Scenario {
    /// Puts a step behind each one that follows redirects, which follows them.
    ///
    /// # Errors
    /// One of them is repeated.
    pub(super) fn follow_redirects(&mut self, expected: &StatusSet) -> Result<(), &'static str> {
        let mut at = 0;
        while let Some(step) = self.step.get_mut(at) {
            at += 1;
            if step.redirect.take().is_none() {
                continue;
            }
            if step.repeat.is_some_and(|times| 1 < times) {
                return Err("a step that follows redirects can't be repeated");
            }
            let name = name_of(at);
            let own = step.expect_status.as_ref().unwrap_or(expected);
            step.expect_status = Some(own.with_redirects());
            step.capture.insert(name.clone(), SOURCE.to_owned());
            let hop = Step {
                name: match step.name.as_str() {
                    "" => format!("redirect {at}"),
                    name => format!("{name} redirect"),
                },
                url: Some(format!("/{{{{raw:{name}}}}}")),
                method: Some("GET".to_owned()),
                body: Some(String::new()),
                repeat: Some(HOPS_MAX),
                when: Some(When(name)),
                think: Some("0s".parse().expect("a think time")),
                // They were about the body.
                headers: step
                    .headers
                    .iter()
                    .filter(|line| !line.to_ascii_lowercase().starts_with("content-"))
                    .cloned()
                    .collect(),
                slo: None,
                ..step.clone()
            };
            self.step.insert(at, hop);
            at += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_leads_to_a_path_of_the_same_origin() {
        let request = |target: &str, method: &str| Plan {
            target: target.to_owned(),
            method: method.to_owned(),
            ..Plan::default()
        };
        let get = Origin::of(&request("http://h:81/a/b?c", "GET"));
        let path = |text: &str| Target::Path(text.to_owned());
        for (location, target) in [
            ("/x?y=z", path("/x?y=z")),
            ("http://h:81/x#part", path("/x")),
            ("HTTP://H:81/x", path("/x")),
            ("ok?u=http://other/", path("/a/ok?u=http://other/")),
            ("?next=http://other/x", path("/a/b?next=http://other/x")),
            ("mailto:x@y", Target::Elsewhere),
            ("http:/x", Target::Unfit),
            ("#top", Target::Unfit),
            ("//h:81/x", path("/x")),
            ("x/y", path("/a/x/y")),
            ("?d", path("/a/b?d")),
            ("http://h:81", path("/")),
            ("https://h:81/x", Target::Elsewhere),
            ("http://h/x", Target::Elsewhere),
            ("//other/x", Target::Elsewhere),
            ("ftp://h/x", Target::Elsewhere),
            ("", Target::Unfit),
        ] {
            assert_eq!(get.target(302, Some(location.as_bytes()), b"/a/b"), target, "{location}");
        }
        assert_eq!(get.target(302, Some(b"x"), b""), path("/a/x"));
        assert_eq!(get.target(302, None, b"/"), Target::Unfit);
        let post = Origin::of(&request("http://h:81/a", "POST"));
        assert_eq!(post.target(303, Some(b"/x"), b"/a"), path("/x"));
        assert_eq!(post.target(307, Some(b"/x"), b"/a"), Target::Unfit, "it would be sent again");
    }
}
