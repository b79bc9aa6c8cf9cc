//! Texts that come from elsewhere and are to stay as they are in a plan, where an `@` begins the
//! name of a file, and double braces are a field.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::body::DATA;
use super::braces::has_fields;

/// What a plan has for a body with exactly this text: its bytes as base64 where the text would mean
/// something else.
pub fn body(text: String) -> String {
    match text.starts_with('@') || has_fields(&text) {
        true => format!("{DATA}{}", BASE64.encode(text)),
        false => text,
    }
}

/// The URL with its double braces percent-encoded.
pub fn url(url: String) -> String {
    match has_fields(&url) {
        true => url.replace("{{", "%7B%7B").replace("}}", "%7D%7D"),
        false => url,
    }
}

/// True if a plan sends this header as it is; there is no other way to write it.
pub fn is_literal(header: &str) -> bool {
    !has_fields(header)
}

#[cfg(test)]
mod tests {
    use super::super::body::{Body, Content};
    use super::super::plan::Plan;
    use super::super::template::{Compiled, Scope};
    use super::*;

    #[test]
    fn texts_stay_as_they_are() {
        for text in
            ["{\"a\":{\"b\":1}}", "{{seq}}", "{{a}}}", "{{a", "@file", "@data:;base64,AA==", ""]
        {
            let body = body(text.to_owned());
            assert_eq!(body == text, !text.starts_with('@') && !text.starts_with("{{"), "{text}");
            let target = url(format!("http://h/{text}"));
            let plan = Plan { target, body: Some(body), ..Plan::default() };
            assert!(
                Compiled::new(&plan, Scope::default()).expect("no unknown field").is_none(),
                "{text}"
            );
            let body = Body::read(&plan).expect("a body");
            let Content::Bytes(bytes) = body.content() else { panic!("in memory") };
            assert_eq!(bytes, text.as_bytes());
        }
        assert_eq!(url("/a{b}/{{c}}?{{".to_owned()), "/a{b}/%7B%7Bc%7D%7D?%7B%7B");
        assert!(is_literal("A: {b} c}}") && !is_literal("A: {{b}}") && !is_literal("A: {{b"));
    }
}
