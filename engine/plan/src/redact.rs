//! The plan as a report may show it: potentially secret values are replaced by their hashes.
//!
//! Reports get passed on, and a request may carry a password. No list covers every name that
//! secrets go by, so only headers that can't hold one are shown. The hashes still show whether two
//! runs sent the same request. That requires them to be unsalted, so they don't hide a value that
//! can be guessed. The path is shown: without it, a report would be of little use.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Plan;
use crate::body::{self, Body};
use crate::scenario::{Scenario, Step};

/// A plan without secrets, the only kind that a report contains. A plan read from a report is
/// trusted to be one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Redacted(Plan);

/// The headers whose values are shown: they describe what is requested, and in which form.
/// `Referer` isn't among them, since it is a URL with its query.
const SHOWN: [&str; 25] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "origin",
    "pragma",
    "range",
    "te",
    "transfer-encoding",
    "upgrade-insecure-requests",
    "user-agent",
];

/// Bytes of a SHA-256 digest to show, as two hexadecimal digits each.
const HASH_SHOWN: usize = 8;

impl Redacted {
    /// [`Redacted::with_bodies`] of a plan that makes one request.
    pub fn new(plan: &Plan, body: &Body) -> Redacted {
        Redacted::with_bodies(plan, body, &[body])
    }

    /// The plan with bodies, query values and the values of all headers but those in `SHOWN`
    /// replaced by their hashes; `body` is the plan's own body, and `of_steps` has one for each
    /// request it makes. Names stay, including the name of a body's file.
    pub fn with_bodies(plan: &Plan, body: &Body, of_steps: &[&Body]) -> Redacted {
        assert_eq!(plan.step_count(), of_steps.len(), "a body for each request");
        let headers = |lines: &[String]| lines.iter().map(|line| redacted_header(line)).collect();
        let mut bodies = of_steps.iter();
        let mut step = |own: &Step| Step {
            url: own.url.as_deref().map(redacted_url),
            headers: headers(&own.headers),
            body: bodies
                .next()
                .and_then(|body| own.body.as_deref().map(|text| redacted_body(text, body))),
            ..own.clone()
        };
        let scenario = |scenario: &Scenario| {
            let step = scenario.step.iter().map(&mut step).collect();
            Scenario { step, ..scenario.clone() }
        };
        Redacted(Plan {
            target: redacted_url(&plan.target),
            // As it is once it was read from a document.
            has_tables: false,
            headers: headers(&plan.headers),
            body: plan.body.as_deref().map(|text| redacted_body(text, body)),
            scenario: plan.scenario.iter().map(scenario).collect(),
            ..plan.clone()
        })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.0
    }

    /// The plan, by value.
    pub fn into_plan(self) -> Plan {
        self.0
    }
}

fn redacted_body(text: &str, body: &Body) -> String {
    let hash = shown_hash(body.sha256());
    match body::file_name(text) {
        Some(file) => format!("@{file} {hash}"),
        None => hash,
    }
}

fn redacted_header(line: &str) -> String {
    match line.split_once(':') {
        Some((name, _)) if is_shown(name) => line.to_owned(),
        Some((name, value)) => format!("{name}: {}", hash(value.trim().as_bytes())),
        // A line without a name may contain anything.
        None => hash(line.as_bytes()),
    }
}

/// True if the values of headers of this name are shown, since they can't hold a secret.
pub fn is_shown(name: &str) -> bool {
    SHOWN.iter().any(|shown| shown.eq_ignore_ascii_case(name.trim()))
}

/// The URL with credentials, query values and fragment replaced by their hashes.
fn redacted_url(url: &str) -> String {
    let (url, fragment) = parted(url, '#');
    let (url, query) = parted(url, '?');
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut shown = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    match authority.rsplit_once('@') {
        Some((user, host)) => shown.push_str(&format!("{}@{host}", hash(user.as_bytes()))),
        None => shown.push_str(authority),
    }
    shown.push_str(path);
    if let Some(query) = query {
        let pairs: Vec<String> = query.split('&').map(redacted_pair).collect();
        shown.push_str(&format!("?{}", pairs.join("&")));
    }
    if let Some(fragment) = fragment {
        shown.push_str(&format!("#{}", hash(fragment.as_bytes())));
    }
    shown
}

/// The parts of a text before and after the first `mark`.
fn parted(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn redacted_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, value)) => format!("{name}={}", hash(value.as_bytes())),
        None if pair.is_empty() => String::new(),
        // A value without a name.
        None => hash(pair.as_bytes()),
    }
}

/// `sha256:` and the first 16 hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    shown_hash(&Sha256::digest(bytes).into())
}

fn shown_hash(sha256: &[u8; 32]) -> String {
    let digits: String = sha256[..HASH_SHOWN].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // The first digits of the test vectors for "abc" and for the empty text (FIPS 180-4 examples).
    const ABC: &str = "sha256:ba7816bf8f01cfea";
    const EMPTY: &str = "sha256:e3b0c44298fc1c14";

    #[test]
    fn headers_that_can_hold_no_secret_show_their_value_and_all_others_their_hash() {
        for (line, shown) in [
            ("Authorization: abc", format!("Authorization: {ABC}")),
            ("authorization:abc", format!("authorization: {ABC}")),
            ("Proxy-Authorization:  abc ", format!("Proxy-Authorization: {ABC}")),
            ("Cookie: abc", format!("Cookie: {ABC}")),
            ("X-Passwd: abc", format!("X-Passwd: {ABC}")),
            ("X-Signature: abc", format!("X-Signature: {ABC}")),
            ("X-Credential: abc", format!("X-Credential: {ABC}")),
            ("X-JWT: abc", format!("X-JWT: {ABC}")),
            ("X-Accept: abc", format!("X-Accept: {ABC}")),
            ("Accept-Key: abc", format!("Accept-Key: {ABC}")),
            ("Referer: abc", format!("Referer: {ABC}")),
            ("Cookie:", format!("Cookie: {EMPTY}")),
            ("abc", ABC.to_owned()),
            ("Accept: text/html", "Accept: text/html".to_owned()),
            ("ACCEPT-encoding : gzip", "ACCEPT-encoding : gzip".to_owned()),
            ("User-Agent: abc", "User-Agent: abc".to_owned()),
            ("Connection: keep-alive", "Connection: keep-alive".to_owned()),
        ] {
            assert_eq!(redacted_header(line), shown);
        }
    }

    #[test]
    fn a_url_shows_names_and_no_values() {
        for (url, shown) in [
            ("http://h:1/a/b", "http://h:1/a/b".to_owned()),
            ("http://[::1]:1", "http://[::1]:1".to_owned()),
            ("http://h/?token=abc&api_key=", format!("http://h/?token={ABC}&api_key={EMPTY}")),
            ("http://h?a=abc&&abc", format!("http://h?a={ABC}&&{ABC}")),
            ("http://h/?", "http://h/?".to_owned()),
            ("http://h/#abc", format!("http://h/#{ABC}")),
            ("http://h/?a=abc#abc", format!("http://h/?a={ABC}#{ABC}")),
            ("http://h/#abc?abc", format!("http://h/#{}", hash(b"abc?abc"))),
            ("http://abc@h:1/x@y", format!("http://{ABC}@h:1/x@y")),
            ("http://abc@h", format!("http://{ABC}@h")),
            ("abc@h/", format!("{ABC}@h/")),
        ] {
            assert_eq!(redacted_url(url), shown, "{url}");
        }
    }

    #[test]
    fn a_body_shows_its_hash_and_a_file_its_name_as_well() {
        for (body, content, shown) in [
            (None, "", None),
            (Some("abc"), "abc", Some(ABC.to_owned())),
            (Some(""), "", Some(EMPTY.to_owned())),
            (Some("@order.json"), "abc", Some(format!("@order.json {ABC}"))),
            (Some("@data:;base64,YWJj"), "abc", Some(ABC.to_owned())),
        ] {
            let plan = Plan { body: body.map(str::to_owned), ..Plan::default() };
            assert_eq!(
                Redacted::new(&plan, &Body::of_bytes(content.as_bytes().to_vec())).plan().body,
                shown
            );
        }
    }

    #[test]
    fn a_step_is_redacted_like_the_plan() {
        let step = Step {
            url: Some("/a?token=abc".to_owned()),
            headers: vec!["Cookie: abc".to_owned()],
            body: Some("abc".to_owned()),
            ..Step::default()
        };
        let scenario = Scenario {
            name: "GET /a".to_owned(),
            weight: 2,
            step: vec![step],
            ..Scenario::default()
        };
        let plan = Plan { scenario: vec![scenario], ..Plan::default() };
        let [none, abc] = [b"", &b"abc"[..]].map(|bytes| Body::of_bytes(bytes.to_vec()));
        let redacted = Redacted::with_bodies(&plan, &none, &[&abc]).into_plan();
        let Scenario { name, weight, step, .. } = &redacted.scenario[0];
        assert_eq!((name.as_str(), *weight), ("GET /a", 2));
        let shown = &step[0];
        assert_eq!(shown.url, Some(format!("/a?token={ABC}")));
        assert_eq!(shown.headers, [format!("Cookie: {ABC}")]);
        assert_eq!(shown.body.as_deref(), Some(ABC));
    }

    #[test]
    fn everything_else_stays() {
        let plan = Plan {
            target: "http://h/a?".to_owned(),
            headers: vec!["Accept: b".to_owned()],
            ..Plan::default()
        };
        assert_eq!(Redacted::new(&plan, &Body::of_bytes(Vec::new())).into_plan(), plan);
    }
}
