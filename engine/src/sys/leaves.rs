//! A document taken apart into its leaves: each number, truth and text with the path that leads to it.
//!
//! It works on whatever serialises itself, so a field that a document gains is among the leaves without being named here.

use std::fmt::{self, Display};

use serde::Serialize;
use serde::ser::{self, Impossible};

/// A value that holds no others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Leaf {
    /// An option that is absent.
    Nothing,
    /// Yes or no.
    Truth(bool),
    /// A whole number.
    Whole(i128),
    /// Any other number.
    Fraction(f64),
    /// A text, or a choice by its name.
    Text(String),
}

impl Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leaf::Nothing => f.write_str("n/a"),
            Leaf::Truth(truth) => truth.fmt(f),
            Leaf::Whole(number) => number.fmt(f),
            Leaf::Fraction(number) => number.fmt(f),
            Leaf::Text(text) => f.write_str(text),
        }
    }
}

/// The leaves of a document in its order. A path is the names of the fields, and the numbers of a list's elements from 0,
/// with points between them.
pub(crate) fn leaves(document: &(impl Serialize + ?Sized)) -> Vec<(String, Leaf)> {
    let mut taker = Taker::default();
    document.serialize(&mut taker).expect("a document consists of names and leaves");
    taker.leaves
}

/// Takes leaves down while a document serialises itself.
#[derive(Default)]
struct Taker {
    path: String,
    leaves: Vec<(String, Leaf)>,
}

impl Taker {
    fn leaf(&mut self, leaf: Leaf) -> Result<(), NoDocument> {
        self.leaves.push((self.path.clone(), leaf));
        Ok(())
    }

    /// Takes what stands below `name`.
    fn below(
        &mut self,
        name: impl Display,
        value: &(impl Serialize + ?Sized),
    ) -> Result<(), NoDocument> {
        let length = self.path.len();
        let point = if length == 0 { "" } else { "." };
        self.path += &format!("{point}{name}");
        value.serialize(&mut *self)?;
        self.path.truncate(length);
        Ok(())
    }
}

/// The error that serde asks for: a document that doesn't consist of names and leaves.
#[derive(Debug)]
struct NoDocument(String);

impl Display for NoDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoDocument {}

impl ser::Error for NoDocument {
    fn custom<T: Display>(message: T) -> NoDocument {
        NoDocument(message.to_string())
    }
}

macro_rules! leaf {
    ($($method:ident: $type:ty => $leaf:expr),* $(,)?) => {
        $(fn $method(self, value: $type) -> Result<(), NoDocument> {
            self.leaf($leaf(value))
        })*
    };
}

impl<'a> ser::Serializer for &'a mut Taker {
    type Ok = ();
    type Error = NoDocument;
    type SerializeSeq = Below<'a>;
    type SerializeTuple = Below<'a>;
    type SerializeTupleStruct = Below<'a>;
    type SerializeTupleVariant = Impossible<(), NoDocument>;
    type SerializeMap = Below<'a>;
    type SerializeStruct = Below<'a>;
    type SerializeStructVariant = Impossible<(), NoDocument>;

    leaf!(
        serialize_bool: bool => Leaf::Truth,
        serialize_i8: i8 => |value| Leaf::Whole(i128::from(value)),
        serialize_i16: i16 => |value| Leaf::Whole(i128::from(value)),
        serialize_i32: i32 => |value| Leaf::Whole(i128::from(value)),
        serialize_i64: i64 => |value| Leaf::Whole(i128::from(value)),
        serialize_u8: u8 => |value| Leaf::Whole(i128::from(value)),
        serialize_u16: u16 => |value| Leaf::Whole(i128::from(value)),
        serialize_u32: u32 => |value| Leaf::Whole(i128::from(value)),
        serialize_u64: u64 => |value| Leaf::Whole(i128::from(value)),
        serialize_f32: f32 => |value| Leaf::Fraction(f64::from(value)),
        serialize_f64: f64 => Leaf::Fraction,
        serialize_char: char => |value| Leaf::Text(String::from(value)),
        serialize_str: &str => |value: &str| Leaf::Text(value.to_owned()),
    );

    fn serialize_bytes(self, value: &[u8]) -> Result<(), NoDocument> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), NoDocument> {
        self.leaf(Leaf::Nothing)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), NoDocument> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), NoDocument> {
        self.leaf(Leaf::Nothing)
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<(), NoDocument> {
        self.serialize_str(name)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), NoDocument> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), NoDocument> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), NoDocument> {
        self.below(variant, value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Below<'a>, NoDocument> {
        Ok(Below::new(self))
    }

    fn serialize_tuple(self, _: usize) -> Result<Below<'a>, NoDocument> {
        Ok(Below::new(self))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Below<'a>, NoDocument> {
        Ok(Below::new(self))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Impossible<(), NoDocument>, NoDocument> {
        Err(NoDocument(format!("{name}::{variant} holds several values")))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Below<'a>, NoDocument> {
        Ok(Below::new(self))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Below<'a>, NoDocument> {
        Ok(Below::new(self))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Impossible<(), NoDocument>, NoDocument> {
        Err(NoDocument(format!("{name}::{variant} holds several values")))
    }
}

/// A value that holds others, while it is taken apart.
struct Below<'a> {
    taker: &'a mut Taker,
    /// The next element of a list.
    next: usize,
    /// The next value's name in a map.
    key: String,
}

impl Below<'_> {
    fn new(taker: &mut Taker) -> Below<'_> {
        Below { taker, next: 0, key: String::new() }
    }

    fn element(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), NoDocument> {
        self.next += 1;
        self.taker.below(self.next - 1, value)
    }
}

macro_rules! list {
    ($($trait:ident $method:ident),*) => {
        $(impl ser::$trait for Below<'_> {
            type Ok = ();
            type Error = NoDocument;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NoDocument> {
                self.element(value)
            }
            fn end(self) -> Result<(), NoDocument> {
                Ok(())
            }
        })*
    };
}

list!(SerializeSeq serialize_element, SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field);

impl ser::SerializeStruct for Below<'_> {
    type Ok = ();
    type Error = NoDocument;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), NoDocument> {
        self.taker.below(name, value)
    }

    fn end(self) -> Result<(), NoDocument> {
        Ok(())
    }
}

impl ser::SerializeMap for Below<'_> {
    type Ok = ();
    type Error = NoDocument;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NoDocument> {
        self.key = leaves(key).iter().map(|(_, name)| name.to_string()).collect();
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NoDocument> {
        let key = std::mem::take(&mut self.key);
        self.taker.below(key, value)
    }

    fn end(self) -> Result<(), NoDocument> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Serialize)]
    struct Document {
        truth: bool,
        none: Option<u64>,
        some: Option<u64>,
        choice: Choice,
        share: f64,
        list: Vec<Pair>,
        map: BTreeMap<u16, i64>,
        #[serde(flatten)]
        flat: Pair,
    }

    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Choice {
        OneOfMany,
    }

    #[derive(Serialize)]
    struct Pair {
        one: [f64; 2],
        other: &'static str,
    }

    #[test]
    fn every_leaf_has_its_path() {
        let pair = || Pair { one: [0.1, 2.0], other: "text" };
        let document = Document {
            truth: true,
            none: None,
            some: Some(u64::MAX),
            choice: Choice::OneOfMany,
            share: 0.9499999999999991,
            list: vec![pair()],
            map: BTreeMap::from([(200, -3)]),
            flat: pair(),
        };
        let lines: Vec<String> =
            leaves(&document).iter().map(|(path, leaf)| format!("{path} {leaf}")).collect();
        assert_eq!(
            lines,
            [
                "truth true",
                "none n/a",
                "some 18446744073709551615",
                "choice one_of_many",
                "share 0.9499999999999991",
                "list.0.one.0 0.1",
                "list.0.one.1 2",
                "list.0.other text",
                "map.200 -3",
                "one.0 0.1",
                "one.1 2",
                "other text",
            ]
        );
    }
}
