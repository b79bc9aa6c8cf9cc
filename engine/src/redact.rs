//! The plan as a report may show it: secrets are replaced by their hash. It writes no report itself.
//!
//! A report is passed on, and what a request carries may be a password. The hash still tells whether two runs sent the
//! same. It is unsalted, for that very reason, so it doesn't hide a value that can be guessed.

use sha2::{Digest as _, Sha256};

use crate::plan::Plan;

/// A plan without secrets. Only such a plan gets into a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Redacted(Plan);

/// A header whose name contains one of these, in any case, has a secret value: `Authorization`, `Proxy-Authorization`,
/// `Cookie` and `X-Api-Key` among them.
const SENSITIVE: [&str; 7] = ["auth", "cookie", "key", "password", "secret", "session", "token"];

/// Bytes of SHA-256 that are shown, two hexadecimal digits each.
const HASH_SHOWN: usize = 8;

impl Redacted {
    /// The plan with the values of sensitive headers and the body replaced by their hash; `body` is what the plan's
    /// body stands for. The name of a body's file stays.
    pub fn new(plan: &Plan, body: &[u8]) -> Redacted {
        let shown_body = |text: &String| match text.strip_prefix('@') {
            Some(file) => format!("@{file} {}", hash(body)),
            None => hash(body),
        };
        Redacted(Plan {
            headers: plan.headers.iter().map(|line| redacted_header(line)).collect(),
            body: plan.body.as_ref().map(shown_body),
            ..plan.clone()
        })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.0
    }

    /// The plan itself.
    pub fn into_plan(self) -> Plan {
        self.0
    }
}

fn redacted_header(line: &str) -> String {
    match line.split_once(':') {
        Some((name, _)) if !is_sensitive(name) => line.to_owned(),
        Some((name, value)) => format!("{name}: {}", hash(value.trim().as_bytes())),
        // What is no header may be anything.
        None => hash(line.as_bytes()),
    }
}

fn is_sensitive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SENSITIVE.iter().any(|part| name.contains(part))
}

/// `sha256:` and the first 16 hexadecimal digits.
fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits: String = digest[..HASH_SHOWN].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // First digits of the test vectors for "abc" and for nothing (FIPS 180-4 examples).
    const ABC: &str = "sha256:ba7816bf8f01cfea";
    const EMPTY: &str = "sha256:e3b0c44298fc1c14";

    #[test]
    fn secret_headers_show_their_hash_and_others_their_value() {
        for (line, shown) in [
            ("Authorization: abc", format!("Authorization: {ABC}")),
            ("authorization:abc", format!("authorization: {ABC}")),
            ("Proxy-Authorization:  abc ", format!("Proxy-Authorization: {ABC}")),
            ("Cookie: abc", format!("Cookie: {ABC}")),
            ("X-Api-Key: abc", format!("X-Api-Key: {ABC}")),
            ("X-CSRF-Token: abc", format!("X-CSRF-Token: {ABC}")),
            ("Client-SECRET: abc", format!("Client-SECRET: {ABC}")),
            ("X-Password: abc", format!("X-Password: {ABC}")),
            ("X-Session-Id: abc", format!("X-Session-Id: {ABC}")),
            ("Cookie:", format!("Cookie: {EMPTY}")),
            ("abc", ABC.to_owned()),
            ("Accept: text/html", "Accept: text/html".to_owned()),
            ("X-Note: token: abc", "X-Note: token: abc".to_owned()),
            ("Connection: keep-alive", "Connection: keep-alive".to_owned()),
        ] {
            assert_eq!(redacted_header(line), shown);
        }
    }

    #[test]
    fn a_body_shows_its_hash_and_a_file_its_name_as_well() {
        for (body, content, shown) in [
            (None, "", None),
            (Some("abc"), "abc", Some(ABC.to_owned())),
            (Some(""), "", Some(EMPTY.to_owned())),
            (Some("@order.json"), "abc", Some(format!("@order.json {ABC}"))),
        ] {
            let plan = Plan { body: body.map(str::to_owned), ..Plan::default() };
            assert_eq!(Redacted::new(&plan, content.as_bytes()).plan().body, shown);
        }
    }

    #[test]
    fn all_else_stays() {
        let plan = Plan {
            target: "http://h/?token=1".to_owned(),
            headers: vec!["A: b".to_owned()],
            ..Plan::default()
        };
        assert_eq!(Redacted::new(&plan, b"").into_plan(), plan);
    }
}
