//! What a field section says to a client: its status, its body's length, and the first rule that it
//! breaks.
//!
//! A broken rule of a section ends only its stream. The block is decoded to its end nevertheless,
//! since later blocks refer to its fields.

use super::field::Meaning;
use crate::settings::HEADER_LIST_MAX;
use crate::violation::Violation;

/// What each field adds to the size of a list or table besides name and value, bytes (RFC 7541,
/// section 4.1).
pub(crate) const FIELD_OVERHEAD: u32 = 32;

/// What a section says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The value of `:status`.
    pub status: Option<u16>,
    /// The value of `content-length`.
    pub content_length: Option<u64>,
    /// True if it has a pseudo-field.
    pub has_pseudo: bool,
    /// The number of fields.
    pub fields: u32,
    /// The length of all names and values, bytes.
    pub field_bytes: u64,
    /// The first rule that it breaks.
    pub broken: Option<Violation>,
    /// True if it has a field that isn't a pseudo-field.
    has_regular: bool,
}

impl Section {
    /// The next field, whose name and value together have this length.
    #[inline]
    pub(crate) fn add(&mut self, meaning: Meaning, is_pseudo: bool, length: u32) {
        self.fields += 1;
        self.field_bytes += u64::from(length);
        let broken = self.take(meaning, is_pseudo);
        self.has_pseudo |= is_pseudo;
        self.has_regular |= !is_pseudo;
        if self.broken.is_none() {
            self.broken = broken.or(self.too_large().then_some(Violation::HeaderListTooLarge));
        }
    }

    /// True if the list is longer than we accept.
    #[inline]
    pub(crate) fn too_large(&self) -> bool {
        let overhead = u64::from(self.fields) * u64::from(FIELD_OVERHEAD);
        u64::from(HEADER_LIST_MAX) < self.field_bytes + overhead
    }

    /// Takes what a field says; returns the rule that it breaks.
    #[inline]
    fn take(&mut self, meaning: Meaning, is_pseudo: bool) -> Option<Violation> {
        if is_pseudo && self.has_regular {
            return Some(Violation::PseudoLate);
        }
        match meaning {
            Meaning::Status(_) if self.status.is_some() => Some(Violation::StatusRepeated),
            Meaning::Status(code) => {
                self.status = Some(code);
                None
            }
            Meaning::Length(length) => match self.content_length.replace(length) {
                Some(before) if before != length => Some(Violation::ContentLengthsDiffer),
                _ => None,
            },
            Meaning::Broken(violation) => Some(violation),
            Meaning::Other => None,
        }
    }
}
