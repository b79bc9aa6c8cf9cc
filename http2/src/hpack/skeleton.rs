//! The decoder for every response: status, body length, sizes, and nothing else.
//!
//! Of a field of the dynamic table it keeps the size and the meaning, of a Huffman string it finds
//! out only the length, unless the value is a status or a length. Names that are sent as text are
//! read, because any name can be one of those. Values aren't, so a forbidden byte in a value is
//! found only by the full decoder.

use super::field::{Meaning, Name, NameReader};
use super::huffman::{self, Symbols};
use super::known::Known;
use super::representation::{NameAt, Representation, Representations, Text};
use super::section::Section;
use super::static_table::{DYNAMIC_FIRST, FIELDS};
use super::table::{Entry, Table};
use crate::settings::TABLE_BYTES;
use crate::violation::Violation;

/// The decoder of one connection.
#[derive(Debug)]
pub struct Skeleton {
    table: Table,
    known: Known,
}

/// The static table, as the dynamic one keeps its fields.
static STATIC: [Entry; FIELDS.len()] = static_entries();

impl Default for Skeleton {
    fn default() -> Skeleton {
        Skeleton::new()
    }
}

impl Skeleton {
    /// A decoder for a new connection.
    pub fn new() -> Skeleton {
        Skeleton { table: Table::new(), known: Known::new() }
    }

    /// Starts over for a new connection.
    pub fn reset(&mut self) {
        self.table.reset();
    }

    /// Decodes the next block of the connection, which must be whole.
    ///
    /// # Errors
    /// If it can't be decoded, which ends the connection: the tables of both sides may differ from
    /// then on. A message that breaks a rule is no such error: see [`Section::broken`].
    #[inline]
    pub fn decode(&mut self, block: &[u8]) -> Result<Section, Violation> {
        if let Some(section) = self.known.repeat(block, &mut self.table) {
            return Ok(section);
        }
        let mut section = Section::default();
        let mut representations = Representations::new(block);
        self.known.begin(block);
        while let Some(representation) = representations.next()? {
            match representation {
                Representation::Indexed(index) => {
                    if DYNAMIC_FIRST <= index {
                        self.known.depends();
                    }
                    let entry = self.entry(index)?;
                    add(&mut section, entry);
                }
                Representation::Literal { index, name, value } => {
                    if matches!(name, NameAt::Index(index) if DYNAMIC_FIRST <= index) {
                        self.known.depends();
                    }
                    let entry = self.literal(name, value)?;
                    add(&mut section, &entry);
                    if index {
                        self.table.add(entry);
                        self.known.enters(entry);
                    }
                }
                Representation::TableSize(_) if 0 < section.fields => {
                    return Err(Violation::HpackTableLate);
                }
                Representation::TableSize(size) if TABLE_BYTES < size => {
                    return Err(Violation::HpackTableSize);
                }
                Representation::TableSize(size) => {
                    self.table.resize(size);
                    self.known.depends();
                }
            }
        }
        self.known.end(block, section);
        Ok(section)
    }

    /// The field of an index.
    #[inline]
    fn entry(&self, index: u32) -> Result<&Entry, Violation> {
        let entry = if index < DYNAMIC_FIRST {
            STATIC.get((index as usize).wrapping_sub(1))
        } else {
            self.table.get((index - DYNAMIC_FIRST) as usize)
        };
        entry.ok_or(Violation::HpackIndex)
    }

    /// A field with a value that is sent as text.
    #[inline]
    fn literal(&self, name: NameAt, value: Text) -> Result<Entry, Violation> {
        let (name, name_bytes) = match name {
            NameAt::Index(index) => {
                let entry = self.entry(index)?;
                (entry.name, entry.name_bytes)
            }
            NameAt::Text(text) => read_name(text)?,
        };
        let value_bytes =
            if value.huffman { huffman::length(value.bytes)? } else { value.bytes.len() };
        let meaning = match name {
            Name::Status | Name::Length if value.huffman => {
                let mut symbols = Symbols::new(value.bytes);
                let bytes = std::iter::from_fn(|| symbols.next_symbol().transpose());
                Meaning::new(name, bytes)?
            }
            _ => Meaning::new(name, value.bytes.iter().copied().map(Ok))?,
        };
        // Both are at most eight times the block's 64 KiB, which u32 holds.
        let value_bytes = u32::try_from(value_bytes).expect("blocks are limited");
        Ok(Entry { meaning, name, name_bytes, bytes: name_bytes + value_bytes })
    }
}

/// Adds a field to what is known of the section.
#[inline]
fn add(section: &mut Section, entry: &Entry) {
    let is_pseudo = matches!(entry.name, Name::Status | Name::Pseudo);
    section.add(entry.meaning, is_pseudo, entry.bytes);
}

/// What a name is that is sent as text, and its length.
fn read_name(text: Text) -> Result<(Name, u32), Violation> {
    let mut reader = NameReader::new();
    if text.huffman {
        let mut symbols = Symbols::new(text.bytes);
        while let Some(byte) = symbols.next_symbol()? {
            reader.push(byte);
        }
    } else {
        text.bytes.iter().for_each(|&byte| reader.push(byte));
    }
    let length = u32::try_from(reader.length()).expect("blocks are limited");
    Ok((reader.name(), length))
}

#[expect(clippy::cast_possible_truncation, reason = "the fields are short")]
const fn static_entries() -> [Entry; FIELDS.len()] {
    let none = Entry { meaning: Meaning::Other, name: Name::Other, name_bytes: 0, bytes: 0 };
    let mut entries = [none; FIELDS.len()];
    let mut place = 0;
    while place < FIELDS.len() {
        let (name, value) = (FIELDS[place].0.as_bytes(), FIELDS[place].1.as_bytes());
        let mut reader = NameReader::new();
        let mut at = 0;
        while at < name.len() {
            reader.push(name[at]);
            at += 1;
        }
        let name_bytes = name.len() as u32;
        let kind = reader.name();
        let meaning = match kind {
            Name::Status => {
                let [a, b, c] = [value[0] - b'0', value[1] - b'0', value[2] - b'0'];
                Meaning::Status(a as u16 * 100 + b as u16 * 10 + c as u16)
            }
            // It has no value in the table.
            Name::Length => Meaning::Broken(Violation::ContentLength),
            Name::Pseudo => Meaning::Broken(Violation::PseudoUnknown),
            Name::Connection => Meaning::Broken(Violation::ConnectionField),
            Name::Invalid => panic!("the table has valid names"),
            Name::Other => Meaning::Other,
        };
        entries[place] =
            Entry { meaning, name: kind, name_bytes, bytes: name_bytes + value.len() as u32 };
        place += 1;
    }
    entries
}
