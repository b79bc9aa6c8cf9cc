//! The decoder that gives all fields, and allocates them: for tests, and for connections whose
//! responses are read.
//!
//! It shares no table with the skeleton decoder, and decodes strings in another way, so that each
//! can be tested against the other.

use std::collections::VecDeque;

use super::field::{Meaning, Name, NameReader, is_value};
use super::huffman::Symbols;
use super::representation::{NameAt, Representation, Representations, Text};
use super::section::{FIELD_OVERHEAD, Section};
use super::static_table::{self, DYNAMIC_FIRST};
use crate::settings::TABLE_BYTES;
use crate::violation::Violation;

/// A field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

impl Field {
    /// Its size, bytes (RFC 7541, section 4.1).
    fn size(&self) -> usize {
        self.name.len() + self.value.len() + FIELD_OVERHEAD as usize
    }
}

/// The decoder of one connection.
#[derive(Debug)]
pub struct Full {
    /// The dynamic table, newest first.
    table: VecDeque<Field>,
    /// Its greatest size, as the peer set it, bytes.
    size_max: usize,
    /// The fields of the last block.
    fields: Vec<Field>,
}

impl Default for Full {
    fn default() -> Full {
        Full::new()
    }
}

impl Full {
    /// A decoder for a new connection.
    pub fn new() -> Full {
        Full { table: VecDeque::new(), size_max: TABLE_BYTES as usize, fields: Vec::new() }
    }

    /// Starts over for a new connection.
    pub fn reset(&mut self) {
        *self = Full::new();
    }

    /// The fields of the last block, in their order, up to the limit of a list.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The size of the dynamic table, bytes.
    pub fn table_bytes(&self) -> usize {
        self.table.iter().map(Field::size).sum()
    }

    /// The dynamic table, newest first.
    pub fn table(&self) -> impl Iterator<Item = &Field> {
        self.table.iter()
    }

    /// [`Violation::FieldValue`] if a value of the last block has a forbidden byte.
    ///
    /// # Errors
    /// That one.
    pub fn check_values(&self) -> Result<(), Violation> {
        match self.fields.iter().all(|field| is_value(&field.value)) {
            true => Ok(()),
            false => Err(Violation::FieldValue),
        }
    }

    /// Decodes the next block of the connection, which must be whole.
    ///
    /// # Errors
    /// If it can't be decoded, which ends the connection, as with the skeleton decoder.
    pub fn decode(&mut self, block: &[u8]) -> Result<Section, Violation> {
        let mut section = Section::default();
        self.fields.clear();
        let mut representations = Representations::new(block);
        while let Some(representation) = representations.next()? {
            let (field, index) = match representation {
                Representation::Indexed(index) => (self.lookup(index)?, false),
                Representation::Literal { index, name, value } => {
                    let name = match name {
                        NameAt::Index(index) => self.lookup(index)?.name,
                        NameAt::Text(text) => decode_text(text)?,
                    };
                    (Field { name, value: decode_text(value)? }, index)
                }
                Representation::TableSize(size) => {
                    if 0 < section.fields {
                        return Err(Violation::HpackTableLate);
                    }
                    if TABLE_BYTES < size {
                        return Err(Violation::HpackTableSize);
                    }
                    self.size_max = size as usize;
                    self.evict(0);
                    continue;
                }
            };
            self.add(&mut section, field, index)?;
        }
        Ok(section)
    }

    /// Adds a field to the section, and to the table if it is to be indexed.
    fn add(&mut self, section: &mut Section, field: Field, index: bool) -> Result<(), Violation> {
        let mut reader = NameReader::new();
        field.name.iter().for_each(|&byte| reader.push(byte));
        let name = reader.name();
        let is_pseudo = field.name.first() == Some(&b':') && name != Name::Invalid;
        let meaning = Meaning::new(name, field.value.iter().copied().map(Ok))?;
        let length = field.size() - FIELD_OVERHEAD as usize;
        section.add(meaning, is_pseudo, u32::try_from(length).expect("blocks are limited"));
        if index {
            self.evict(field.size());
            if field.size() <= self.size_max {
                self.table.push_front(field.clone());
            }
        }
        // A short block can stand for an endless list.
        if !section.too_large() {
            self.fields.push(field);
        }
        Ok(())
    }

    /// The field of an index.
    fn lookup(&self, index: u32) -> Result<Field, Violation> {
        if let Some((name, value)) = static_table::field(index) {
            return Ok(Field { name: name.into(), value: value.into() });
        }
        let place = index.checked_sub(DYNAMIC_FIRST).ok_or(Violation::HpackIndex)?;
        self.table.get(place as usize).cloned().ok_or(Violation::HpackIndex)
    }

    /// Removes the oldest fields until one of this size fits, or none are left.
    fn evict(&mut self, size: usize) {
        while self.size_max < self.table_bytes() + size && self.table.pop_back().is_some() {}
    }
}

/// A string as it was before it was encoded.
fn decode_text(text: Text) -> Result<Vec<u8>, Violation> {
    if !text.huffman {
        return Ok(text.bytes.to_vec());
    }
    let (mut symbols, mut decoded) = (Symbols::new(text.bytes), Vec::new());
    while let Some(byte) = symbols.next_symbol()? {
        decoded.push(byte);
    }
    Ok(decoded)
}
