//! A response as its checks and captures see it.

/// The header fields of a response, in memory that is used again.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    /// Where each name ends, and where its value does.
    ends: Vec<(usize, usize)>,
}

impl Fields {
    /// Those of another response follow.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a field.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, self.bytes.len()));
    }

    /// The values of the fields of this name, without blanks around them.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let mut from = 0;
        let each = self.ends.iter().map(move |(name_end, end)| {
            let start = std::mem::replace(&mut from, *end);
            (&self.bytes[start..*name_end], &self.bytes[*name_end..*end])
        });
        let of_name = each.filter(move |(found, _)| found.eq_ignore_ascii_case(name.as_bytes()));
        of_name.map(|(_, value)| value.trim_ascii())
    }
}

/// A response as its checks see it.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// Its status.
    pub status: u16,
    /// The path of its request, without query; empty if no redirect asks for it.
    pub path: &'a [u8],
    /// True if its request isn't repeated any more.
    pub is_last: bool,
    /// Its header fields.
    pub fields: &'a Fields,
    /// Its body; `None` if it was longer than what is kept.
    pub body: Option<&'a [u8]>,
}

/// A body as the checks see it.
#[derive(Debug)]
pub struct Body<'a> {
    /// True if no encoding is left.
    pub(super) is_readable: bool,
    /// Its bytes; `None` if they are too many.
    pub(super) bytes: Option<&'a [u8]>,
}
