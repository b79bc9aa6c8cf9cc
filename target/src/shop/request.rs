//! Requests of the shop: which step one is, and what it brings along.

use std::borrow::Cow;

/// The most of a body that is kept, bytes; a step's body is shorter, so the rest would be wrong
/// anyway.
const BODY_LEN_MAX: usize = 4 << 10;

/// A step of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Login,
    Search,
    Items,
    Basket,
    View,
    Pay,
}

/// All steps, in the order of their numbers.
pub(crate) const STEPS: [Step; 6] =
    [Step::Login, Step::Search, Step::Items, Step::Basket, Step::View, Step::Pay];

impl Step {
    /// Its name in the ledger.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Step::Login => "login",
            Step::Search => "search",
            Step::Items => "items",
            Step::Basket => "basket",
            Step::View => "view",
            Step::Pay => "pay",
        }
    }
}

/// A request of the shop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The step.
    pub(crate) step: Step,
    /// The bearer token, if it has the form of one.
    pub(crate) token: Option<u128>,
    /// The cookie, if it has the form of one.
    pub(crate) basket: Option<u64>,
    /// The id in the path of an item; else the query.
    pub(crate) detail: String,
    body: Vec<u8>,
}

impl Asked {
    /// The step that this head asks for, if it is one.
    pub(crate) fn of<'a>(
        method: &str,
        path: &str,
        query: &str,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Option<Asked> {
        let (step, detail) = match (method, path) {
            ("POST", "/login") => (Step::Login, query),
            ("GET", "/search") => (Step::Search, query),
            ("POST", "/basket") => (Step::Basket, query),
            ("GET", "/basket") => (Step::View, query),
            ("POST", "/pay") => (Step::Pay, query),
            ("GET", path) => (Step::Items, path.strip_prefix("/items/")?),
            _ => return None,
        };
        let (mut tokens, mut baskets) = (Vec::new(), Vec::new());
        for (name, value) in fields {
            let Ok(value) = str::from_utf8(value) else { continue };
            if name.eq_ignore_ascii_case("authorization") {
                let words = value.split_once(' ');
                let bearer = words.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
                tokens.extend(bearer.map(|(_, token)| token));
            } else if name.eq_ignore_ascii_case("cookie") {
                // HTTP/2 may send each cookie in a field of its own (RFC 9113, section 8.2.3).
                let cookies = value.split(';').map(str::trim);
                baskets.extend(cookies.filter_map(|cookie| cookie.strip_prefix("basket=")));
            }
        }
        let token = only(&tokens, 32).and_then(|text| u128::from_str_radix(text, 16).ok());
        let basket = only(&baskets, 16).and_then(|text| u64::from_str_radix(text, 16).ok());
        Some(Asked { step, token, basket, detail: detail.to_owned(), body: Vec::new() })
    }

    /// Adds the next bytes of the body.
    pub(crate) fn add_body(&mut self, bytes: &[u8]) {
        let room = BODY_LEN_MAX - self.body.len();
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The body.
    pub(crate) fn body(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

/// The only value, if it is a number as the shop writes it, with all its digits; of several, it is
/// unclear which one counts.
fn only<'a>(values: &[&'a str], digits: usize) -> Option<&'a str> {
    let [value] = values else { return None };
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (value.len() == digits && value.bytes().all(is_digit)).then_some(value)
}

/// The value of a form's field, if it has it.
pub(crate) fn form_value(form: &str, name: &str) -> Option<String> {
    let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| decode(value)).next()
}

/// Undoes the encoding of a form's value; what isn't encoded properly stays as it is.
fn decode(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |digits: &[u8]| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
        let code = after.get(..2).filter(|_| *first == b'%').and_then(hex);
        bytes.push(match (code, *first) {
            (Some(code), _) => code,
            (None, b'+') => b' ',
            (None, byte) => byte,
        });
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forms_values_are_decoded() {
        let form = "id=7&user=J%c3%BCrgen+M&rate=5%&empty=&user=other";
        let value = |name: &str| form_value(form, name);
        assert_eq!(value("user").as_deref(), Some("Jürgen M"));
        assert_eq!(value("rate").as_deref(), Some("5%"));
        assert_eq!((value("empty").as_deref(), value("use")), (Some(""), None));
    }

    #[test]
    fn token_and_cookie_are_unambiguous_and_whole() {
        let asked = |fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
            let asked = Asked::of("POST", "/pay", "", fields).expect("a step");
            (asked.token, asked.basket)
        };
        let token = format!("Bearer {:032x}", 7);
        let basket = "a=b; basket=0000000000000009; c=d";
        let fields = [("authorization", token.as_str()), ("Cookie", basket)];
        assert_eq!(asked(&fields), (Some(7), Some(9)));
        // As HTTP/2 may send them.
        let split = [("cookie", "a=b"), ("cookie", "basket=0000000000000009")];
        assert_eq!(asked(&split), (None, Some(9)));
        assert_eq!(asked(&[fields, fields].concat()), (None, None), "twice");
        for (token, basket) in [
            ("Bearer 7", "basket=9"),
            (&token[7..], "xbasket=0000000000000009"),
            (&token.replace('7', "G"), "basket=000000000000000A"),
            (&token.replace('7', ""), ""),
        ] {
            assert_eq!(asked(&[("Authorization", token), ("Cookie", basket)]), (None, None));
        }
    }

    #[test]
    fn a_long_body_is_cut() {
        let none: [(&str, &[u8]); 0] = [];
        let mut asked = Asked::of("POST", "/login", "", none.into_iter()).expect("a step");
        for _ in 0..3 {
            asked.add_body(&[b'a'; 3_000]);
        }
        assert_eq!(asked.body().len(), BODY_LEN_MAX);
    }
}
