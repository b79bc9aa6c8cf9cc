//! JSON pointers (RFC 6901), looked up in a text without building a tree of it: only the members on
//! the way are read, and all others are skipped.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The way to a value: the names of members, or the indices of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

impl Pointer {
    /// Parses `/a/0/b~1c`; the empty text is the whole document.
    ///
    /// # Errors
    /// It doesn't begin with `/`, or has a `~` that is neither `~0` nor `~1`.
    pub fn parse(text: &str) -> Result<Pointer, String> {
        if text.is_empty() {
            return Ok(Pointer(Vec::new()));
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("the JSON pointer {text} doesn't begin with /"));
        };
        if text.replace("~0", "").replace("~1", "").contains('~') {
            return Err(format!("the JSON pointer {text} has a ~ without 0 or 1 behind it"));
        }
        let unescaped = |name: &str| name.replace("~1", "/").replace("~0", "~");
        Ok(Pointer(rest.split('/').map(unescaped).collect()))
    }

    /// The JSON text of the value that it leads to; `None` if there is none, or the document isn't
    /// JSON. Of members with the same name the last one counts.
    pub fn find<'a>(&self, document: &'a [u8]) -> Option<&'a str> {
        let mut reader = serde_json::Deserializer::from_slice(document);
        let found = Find(&self.0).deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        found.map(RawValue::get)
    }
}

/// Finds the value at the end of this way.
struct Find<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        match self.0 {
            [] => serde::Deserialize::deserialize(reader).map(Some),
            _ => reader.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some((name, rest)) = self.0.split_first() else { return Ok(None) };
        let mut found = None;
        while let Some(is_named) = map.next_key_seed(Is(name))? {
            if is_named {
                found = map.next_value_seed(Find(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let Some((index, rest)) = self.0.split_first() else { return Ok(None) };
        let is_index = index == "0" || !index.starts_with(['0', '+']);
        let index = index.parse::<usize>().ok().filter(|_| is_index);
        for at in 0.. {
            if index == Some(at) {
                let Some(found) = elements.next_element_seed(Find(rest))? else { return Ok(None) };
                while elements.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(found);
            }
            if elements.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(None)
    }

    // Nothing is below any other value.
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Whether a member has this name.
struct Is<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<bool, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_lead_to_values() {
        let document = br#" {"a": {"b/c": [10, {"d~": "x\ny"}]}, "": null, "a2": 1, "e": 1.50,
            "deep": 7, "deep": {"x": true}} "#;
        for (pointer, found) in [
            ("/a/b~1c/0", Some("10")),
            ("/a/b~1c/1/d~0", Some(r#""x\ny""#)),
            ("/", Some("null")),
            ("/e", Some("1.50")),
            ("/deep/x", Some("true")),
            ("/a/b~1c/1", Some(r#"{"d~": "x\ny"}"#)),
            ("/a/b~1c/2", None),
            ("/a/b~1c/00", None),
            ("/a/b~1c/-", None),
            ("/e/x", None),
            ("/nothing", None),
        ] {
            let pointer = Pointer::parse(pointer).expect(pointer);
            assert_eq!(pointer.find(document), found, "{pointer:?}");
        }
        let whole = Pointer::parse("").expect("a pointer");
        assert_eq!(whole.find(b" [1, 2] "), Some("[1, 2]"));
    }

    #[test]
    fn nothing_is_found_in_what_is_no_json() {
        let pointer = Pointer::parse("/a").expect("a pointer");
        for text in [&b""[..], b"{\"a\":1", b"{\"a\":1} x", b"{\"a\":\xff}", b"{a:1}", b"null"] {
            assert_eq!(pointer.find(text), None, "{text:?}");
        }
        for levels in [1_000, 1_000_000] {
            let deep = format!(r#"{{"b":{}1{},"a":2}}"#, "[".repeat(levels), "]".repeat(levels));
            assert_eq!(pointer.find(deep.as_bytes()), Some("2"), "{levels} levels are skipped");
        }
    }

    #[test]
    fn a_text_that_is_no_pointer_is_refused() {
        for text in ["a", "a/b", "/a~", "/a~2", "#/a"] {
            assert!(Pointer::parse(text).is_err(), "{text}");
        }
    }
}
