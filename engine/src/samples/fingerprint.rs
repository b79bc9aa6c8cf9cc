//! The digest of a plan: says whether samples and a report belong to the same plan.
//!
//! The plan is written out through serde, so that every field is in it without being named here, and hashed with
//! FNV-1a of 64 bits. It tells plans apart; it is no protection against a forger.

use std::fmt::{self, Display};

use serde::ser::{self, Serialize};

use crate::plan::Plan;

/// The digest of a plan as a report shows it: FNV-1a (64 bits) of its fields in order as text. A structure is
/// `{name=value,…}`, a list `[value,…]`, a text its length in bytes, a colon and itself, a number decimal.
pub fn plan_digest(plan: &Plan) -> u64 {
    let mut text = Text(String::new());
    // Where the samples go says nothing about the load.
    let plan = Plan { raw: None, ..plan.clone() };
    plan.serialize(&mut text).expect("a plan holds nothing that text can't say");
    text.0.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The written plan.
struct Text(String);

impl Text {
    fn put(&mut self, value: impl Display) -> Result<(), Never> {
        self.0.push_str(&value.to_string());
        Ok(())
    }

    fn open(&mut self, bracket: char) -> Result<&mut Text, Never> {
        self.0.push(bracket);
        Ok(self)
    }

    fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), Never> {
        self.put(format_args!("{name}="))?;
        value.serialize(&mut *self)?;
        self.put(',')
    }

    fn element(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Never> {
        value.serialize(&mut *self)?;
        self.put(',')
    }
}

/// The error that serde asks for; writing text has none.
#[derive(Debug)]
struct Never(String);

impl Display for Never {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Never {}

impl ser::Error for Never {
    fn custom<T: Display>(message: T) -> Never {
        Never(message.to_string())
    }
}

macro_rules! plain {
    ($($method:ident: $type:ty),*) => {
        $(fn $method(self, value: $type) -> Result<(), Never> { self.put(value) })*
    };
}

impl ser::Serializer for &mut Text {
    type Ok = ();
    type Error = Never;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    plain!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
        serialize_f32: f32, serialize_f64: f64, serialize_char: char
    );

    fn serialize_str(self, value: &str) -> Result<(), Never> {
        self.put(format_args!("{}:{value}", value.len()))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Never> {
        value.serialize(self)
    }

    fn serialize_none(self) -> Result<(), Never> {
        self.put('-')
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Never> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Never> {
        self.put('-')
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<(), Never> {
        self.put(name)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Never> {
        self.put(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Never> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Never> {
        self.field(variant, value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Never> {
        self.open('[')
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Never> {
        self.open('[')
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Never> {
        self.open('[')
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self, Never> {
        self.put(variant)?;
        self.open('[')
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Never> {
        self.open('{')
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Never> {
        self.open('{')
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self, Never> {
        self.put(variant)?;
        self.open('{')
    }
}

macro_rules! list {
    ($($trait:ident $method:ident),*) => {
        $(impl ser::$trait for &mut Text {
            type Ok = ();
            type Error = Never;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Never> {
                self.element(value)
            }
            fn end(self) -> Result<(), Never> {
                self.put(']')
            }
        })*
    };
}

list!(SerializeSeq serialize_element, SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field, SerializeTupleVariant serialize_field);

macro_rules! fields {
    ($($trait:ident),*) => {
        $(impl ser::$trait for &mut Text {
            type Ok = ();
            type Error = Never;
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Never> {
                self.field(name, value)
            }
            fn end(self) -> Result<(), Never> {
                self.put('}')
            }
        })*
    };
}

fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for &mut Text {
    type Ok = ();
    type Error = Never;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Never> {
        key.serialize(&mut **self)?;
        self.put('=')
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Never> {
        self.element(value)
    }

    fn end(self) -> Result<(), Never> {
        self.put('}')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    fn plan() -> Plan {
        Plan { target: "http://127.0.0.1:1/".to_owned(), ..Plan::default() }
    }

    #[test]
    fn a_changed_field_changes_the_digest() {
        let digest = plan_digest(&plan());
        for (what, other) in [
            ("seed", Plan { seed: 2, ..plan() }),
            ("the highest seed", Plan { seed: u64::MAX, ..plan() }),
            ("rate", Plan { rate: Some("5k".parse().expect("a rate")), ..plan() }),
            ("duration", Plan { duration: Nanos(1), ..plan() }),
            ("header", Plan { headers: vec!["a: b".to_owned()], ..plan() }),
            ("conns", Plan { conns: Some(1), ..plan() }),
        ] {
            assert_ne!(plan_digest(&other), digest, "{what}");
        }
    }

    #[test]
    fn texts_do_not_run_together() {
        let digest = |headers: &[&str]| {
            let headers = headers.iter().map(|&header| header.to_owned()).collect();
            plan_digest(&Plan { headers, ..plan() })
        };
        assert_ne!(digest(&["a", "b"]), digest(&["a,b"]));
        assert_ne!(digest(&["a,1:b"]), digest(&["a", "b"]));
    }

    #[test]
    fn the_digest_survives_the_document() {
        let json = serde_json::to_string(&plan()).expect("a document");
        let back: Plan = serde_json::from_str(&json).expect("a plan");
        assert_eq!(plan_digest(&back), plan_digest(&plan()));
    }
}
