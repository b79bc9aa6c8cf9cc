//! The dynamic table as the skeleton decoder keeps it: of each field its size and its meaning.

use super::field::{Meaning, Name};
use super::section::FIELD_OVERHEAD;
use crate::settings::TABLE_BYTES;

/// The most fields that a table holds: those without name and value.
const ENTRIES_MAX: usize = (TABLE_BYTES / FIELD_OVERHEAD) as usize;

const _: () = assert!(ENTRIES_MAX.is_power_of_two());

/// A field of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) meaning: Meaning,
    pub(crate) name: Name,
    /// The length of the name, bytes.
    pub(crate) name_bytes: u32,
    /// The length of name and value, bytes.
    pub(crate) bytes: u32,
}

impl Entry {
    /// Its size, bytes (RFC 7541, section 4.1).
    fn size(&self) -> u32 {
        self.bytes + FIELD_OVERHEAD
    }
}

/// A ring of fields, allocated once.
#[derive(Debug)]
pub(crate) struct Table {
    entries: Box<[Entry; ENTRIES_MAX]>,
    /// The number of fields ever added; the newest is at this place less one.
    added: usize,
    /// The number of fields.
    count: usize,
    /// The sum of their sizes, bytes.
    size: u32,
    /// The greatest size, as the peer set it, bytes.
    size_max: u32,
}

impl Table {
    pub(crate) fn new() -> Table {
        let none = Entry { meaning: Meaning::Other, name: Name::Other, name_bytes: 0, bytes: 0 };
        Table {
            entries: Box::new([none; ENTRIES_MAX]),
            added: 0,
            count: 0,
            size: 0,
            size_max: TABLE_BYTES,
        }
    }

    /// Starts over for a new connection.
    pub(crate) fn reset(&mut self) {
        (self.count, self.size, self.size_max) = (0, 0, TABLE_BYTES);
    }

    /// The field at a place, counted from the newest, which has 0.
    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<&Entry> {
        (place < self.count).then(|| &self.entries[self.slot(place)])
    }

    /// Adds a field, for which the oldest give way. One that is larger than the table empties it
    /// (RFC 7541, section 4.4).
    #[inline]
    pub(crate) fn add(&mut self, entry: Entry) {
        let size = entry.size();
        self.evict_to(self.size_max.saturating_sub(size));
        if size <= self.size_max {
            self.added = self.added.wrapping_add(1);
            self.count += 1;
            self.size += size;
            let slot = self.slot(0);
            self.entries[slot] = entry;
        }
    }

    /// Changes the greatest size.
    pub(crate) fn resize(&mut self, size_max: u32) {
        self.size_max = size_max;
        self.evict_to(size_max);
    }

    /// Removes the oldest fields until the others fit.
    #[inline]
    fn evict_to(&mut self, size: u32) {
        while size < self.size {
            self.count -= 1;
            let oldest = self.slot(self.count);
            self.size -= self.entries[oldest].size();
        }
    }

    #[inline]
    fn slot(&self, place: usize) -> usize {
        self.added.wrapping_sub(place + 1) % ENTRIES_MAX
    }
}
