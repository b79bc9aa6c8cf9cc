//! Redirects: which responses are one, where they lead, and the step that follows them.
//!
//! A step that follows redirects has another one behind it, which a session sends as long as it is
//! redirected: each hop is a request of its own, with results of its own. If redirects may lead to
//! other hosts of the plan, it has one for each: its hops, of which a session sends the one that it
//! is redirected to.

use std::ops::Range;

use super::endpoint::{Endpoint, origin};
use super::plan::Plan;
use super::scenario::{Redirect, Scenario, Step};
use super::status::StatusSet;
use super::when::When;

/// The most hops after a step.
pub const HOPS_MAX: u16 = 5;
/// The source of a capture that is a redirect's path, on its step's own host or followed by another
/// one: `redirect http://other.test`.
const SOURCE: &str = "redirect";
/// What isn't sent to another host: RFC 9110, section 15.4.
const SECRETS: [&str; 3] = ["authorization", "cookie", "host"];

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
    /// To this URL.
    To(Endpoint),
    /// To something that isn't requested by HTTP.
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
        Endpoint::parse(&url).map_or(Target::Unfit, Target::To)
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

/// The name of the value that has where this step was redirected to: the path on its own host, or on
/// the other one with this number. No plan's own values have a blank in their names.
fn name_of(step: usize, other: Option<usize>) -> String {
    match other {
        None => format!("{SOURCE} {step}"),
        Some(other) => format!("{SOURCE} {step} {other}"),
    }
}

/// The step whose redirect a value is, by its name.
fn step_of(name: &str) -> Option<usize> {
    let (step, other) = name.strip_prefix("redirect ").map(|rest| {
        let (step, other) = rest.split_once(' ').unwrap_or((rest, "0"));
        (step.parse().ok(), other.parse::<usize>())
    })?;
    other.ok().and(step)
}

/// What a capture of this name and text is the path on: `None` if it is no redirect's, and an empty
/// text for its step's own host.
pub(super) fn host_of<'a>(name: &str, text: &'a str) -> Option<&'a str> {
    step_of(name)?;
    let rest = text.strip_prefix(SOURCE)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(' ') }
}

/// The names of the ways in which a redirect fails.
pub(super) const WAYS: [&str; 3] = ["redirect_elsewhere", "redirect_unfit", "too_many_redirects"];
/// The index of one that can't be followed.
pub(super) const UNFIT: usize = 1;

impl Scenario {
    /// Puts steps behind each one that follows redirects, which follow them; `target` is the plan's
    /// URL, and `hosts` are all that its requests go to.
    ///
    /// # Errors
    /// One of them is repeated.
    pub(super) fn follow_redirects(
        &mut self,
        expected: &StatusSet,
        target: &str,
        hosts: &[Endpoint],
    ) -> Result<(), &'static str> {
        let mut at = 0;
        while let Some(step) = self.step.get_mut(at) {
            at += 1;
            let Some(redirect) = step.redirect.take() else { continue };
            if step.repeat.is_some_and(|times| 1 < times) {
                return Err("a step that follows redirects can't be repeated");
            }
            let own = step.expect_status.as_ref().unwrap_or(expected);
            step.expect_status = Some(own.with_redirects());
            // A path is on the plan's host, whichever that is.
            let (home, prefix) = match step.url.as_deref() {
                Some(url) if !url.starts_with('/') => (origin(url), origin(url)),
                _ => (origin(target), ""),
            };
            let home = Endpoint::parse(home).ok();
            let is_other =
                |it: &&Endpoint| !home.as_ref().is_some_and(|home| it.is_same_host(home));
            let others = hosts.iter().filter(|_| redirect == Redirect::Any).filter(is_other);
            let others = (1..).zip(others).map(|(number, it)| (Some(number), it.origin()));
            let hosts: Vec<(Option<usize>, String)> =
                std::iter::once((None, prefix.to_owned())).chain(others).collect();
            for (number, host) in &hosts {
                let source = match number {
                    None => SOURCE.to_owned(),
                    Some(_) => format!("{SOURCE} {host}"),
                };
                step.capture.insert(name_of(at, *number), source);
            }
            let first = step.clone();
            let count = hosts.len();
            let hops = hosts.into_iter().map(|(number, host)| hop(&first, at, number, &host));
            self.step.splice(at..at, hops);
            at += count;
        }
        Ok(())
    }

    /// The hops that this step is one of, by their places; empty if it is none.
    pub fn hops(&self, at: usize) -> Range<usize> {
        let redirected = |step: &Step| step.when_set().and_then(step_of);
        let Some(of) = redirected(&self.step[at]) else { return at..at };
        let is_other = |step: &Step| redirected(step) != Some(of);
        let first = self.step[..at].iter().rposition(is_other).map_or(0, |before| before + 1);
        let after = self.step[at..].iter().position(is_other);
        first..after.map_or(self.step.len(), |after| at + after)
    }
}

/// The step that follows redirects of step number `at`, `first`, to this host: its own, or the
/// other one with this number.
fn hop(first: &Step, at: usize, number: Option<usize>, host: &str) -> Step {
    let name = name_of(at, number);
    let to = number.map_or(String::new(), |_| format!(" to {host}"));
    // Those that were about the body, or are for the first host.
    let is_kept = |line: &&String| {
        let line = line.to_ascii_lowercase();
        let field = line.split(':').next().unwrap_or_default();
        !field.starts_with("content-") && (number.is_none() || !SECRETS.contains(&field))
    };
    Step {
        name: match first.name.as_str() {
            "" => format!("redirect {at}{to}"),
            name => format!("{name} redirect{to}"),
        },
        url: Some(format!("{host}/{{{{raw:{name}}}}}")),
        method: Some("GET".to_owned()),
        body: Some(String::new()),
        repeat: Some(HOPS_MAX),
        when: Some(When(name)),
        think: Some("0s".parse().expect("a think time")),
        headers: first.headers.iter().filter(is_kept).cloned().collect(),
        slo: None,
        ..first.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_followed_on_its_own_host_and_on_the_plans_others() {
        let any = |url: &str| Step {
            url: Some(url.to_owned()),
            redirect: Some(Redirect::Any),
            ..Step::default()
        };
        let step = vec![any("/a/longer/path"), any("http://o.test:80")];
        let mut scenario = Scenario { step, ..Scenario::default() };
        let hosts = ["http://h.test", "http://o.test"];
        let hosts = hosts.map(|host| Endpoint::parse(host).expect("a host"));
        let expected = StatusSet::default();
        scenario.follow_redirects(&expected, "http://h.test/p", &hosts).expect("none is repeated");
        let urls: Vec<&str> = scenario.step.iter().filter_map(|step| step.url.as_deref()).collect();
        let expected = [
            "/a/longer/path",
            "/{{raw:redirect 1}}",
            "http://o.test/{{raw:redirect 1 1}}",
            "http://o.test:80",
            "http://o.test:80/{{raw:redirect 4}}",
            "http://h.test/{{raw:redirect 4 1}}",
        ];
        assert_eq!(urls, expected);
        let hops: Vec<_> = (0..6).map(|at| scenario.hops(at)).collect();
        assert_eq!(hops, [0..0, 1..3, 1..3, 3..3, 4..6, 4..6]);
    }

    #[test]
    fn a_redirect_leads_to_a_url_relative_to_its_request() {
        let request = |target: &str, method: &str| Plan {
            target: target.to_owned(),
            method: method.to_owned(),
            ..Plan::default()
        };
        let get = Origin::of(&request("http://h:81/a/b?c", "GET"));
        let to = |url: &str| Target::To(Endpoint::parse(url).expect("a URL"));
        let path = |text: &str| to(&format!("http://h:81{text}"));
        for (location, target) in [
            ("/x?y=z", path("/x?y=z")),
            ("http://h:81/x#part", path("/x")),
            ("HTTP://H:81/x", to("http://H:81/x")),
            ("ok?u=http://other/", path("/a/ok?u=http://other/")),
            ("?next=http://other/x", path("/a/b?next=http://other/x")),
            ("mailto:x@y", Target::Elsewhere),
            ("http:/x", Target::Unfit),
            ("#top", Target::Unfit),
            ("//h:81/x", path("/x")),
            ("x/y", path("/a/x/y")),
            ("?d", path("/a/b?d")),
            ("http://h:81", path("/")),
            ("https://h:81/x", to("https://h:81/x")),
            ("http://h/x", to("http://h/x")),
            ("//other/x", to("http://other/x")),
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
