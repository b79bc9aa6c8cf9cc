//! The block decoded last: some servers send the same bytes for most responses.
//!
//! nginx sends all fields as text every time, and puts them into a table that it never refers to.
//! What such a block does is independent of what came before, so it is kept: that it says the same
//! again takes one comparison. A block that refers to the dynamic table is short anyway.

use super::section::Section;
use super::table::{Entry, Table};

/// The longest block to keep, bytes.
const BLOCK_MAX: usize = 512;

/// The most fields that it may put into the table.
const ENTRIES_MAX: usize = 16;

/// The last block that depends on no other, with what it does.
#[derive(Debug)]
pub(crate) struct Known {
    block: Vec<u8>,
    section: Section,
    /// The fields that it puts into the table, in order.
    entries: Vec<Entry>,
    /// Those of a block that is being decoded.
    next: Vec<Entry>,
    /// True if that one can be kept.
    keeps: bool,
}

impl Known {
    pub(crate) fn new() -> Known {
        let entries = || Vec::with_capacity(ENTRIES_MAX);
        Known {
            block: Vec::with_capacity(BLOCK_MAX),
            section: Section::default(),
            entries: entries(),
            next: entries(),
            keeps: false,
        }
    }

    /// Does what a block does, if it is the one kept.
    #[inline]
    pub(crate) fn repeat(&self, block: &[u8], table: &mut Table) -> Option<Section> {
        if self.block != block {
            return None;
        }
        self.entries.iter().for_each(|entry| table.add(*entry));
        Some(self.section)
    }

    /// Another block is about to be decoded.
    #[inline]
    pub(crate) fn begin(&mut self, block: &[u8]) {
        self.next.clear();
        self.keeps = block.len() <= BLOCK_MAX;
    }

    /// That block depends on earlier ones.
    #[inline]
    pub(crate) fn depends(&mut self) {
        self.keeps = false;
    }

    /// It puts this field into the table.
    #[inline]
    pub(crate) fn enters(&mut self, entry: Entry) {
        if self.next.len() < ENTRIES_MAX {
            self.next.push(entry);
        } else {
            self.keeps = false;
        }
    }

    /// It has been decoded.
    #[inline]
    pub(crate) fn end(&mut self, block: &[u8], section: Section) {
        if self.keeps {
            self.block.clear();
            self.block.extend_from_slice(block);
            self.section = section;
            std::mem::swap(&mut self.entries, &mut self.next);
        }
    }
}
