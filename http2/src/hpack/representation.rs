//! A header block as a sequence of representations (RFC 7541, sections 5 and 6), not yet looked up.

use crate::violation::Violation;

/// The greatest integer: far above every limit, and too small for any sum to overflow.
pub(crate) const INTEGER_MAX: u32 = 1 << 28;

/// A string as it is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    pub(crate) huffman: bool,
    pub(crate) bytes: &'a [u8],
}

/// Where the name of a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameAt<'a> {
    /// In the tables.
    Index(u32),
    /// Here.
    Text(Text<'a>),
}

/// One representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation<'a> {
    /// A whole field of the tables.
    Indexed(u32),
    /// A field, which enters the dynamic table if `index` is set.
    Literal { index: bool, name: NameAt<'a>, value: Text<'a> },
    /// The dynamic table's new limit, bytes.
    TableSize(u32),
}

/// The representations of a block, in order.
pub(crate) struct Representations<'a> {
    bytes: &'a [u8],
}

impl<'a> Representations<'a> {
    pub(crate) fn new(block: &'a [u8]) -> Representations<'a> {
        Representations { bytes: block }
    }

    /// The next one; `None` at the block's end.
    ///
    /// # Errors
    /// If the block ends within it, or an integer is too great.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Representation<'a>>, Violation> {
        let Some(&first) = self.bytes.first() else { return Ok(None) };
        Ok(Some(if first & 0x80 != 0 {
            Representation::Indexed(self.integer(7)?)
        } else if first & 0x40 != 0 {
            self.literal(6, true)?
        } else if first & 0x20 != 0 {
            Representation::TableSize(self.integer(5)?)
        } else {
            // Never indexed or just not: the difference is for those who forward it.
            self.literal(4, false)?
        }))
    }

    /// A literal whose name's index has this prefix.
    #[inline]
    fn literal(&mut self, prefix: u32, index: bool) -> Result<Representation<'a>, Violation> {
        let name = match self.integer(prefix)? {
            0 => NameAt::Text(self.text()?),
            index => NameAt::Index(index),
        };
        Ok(Representation::Literal { index, name, value: self.text()? })
    }

    /// A string (section 5.2).
    #[inline]
    fn text(&mut self) -> Result<Text<'a>, Violation> {
        let first = *self.bytes.first().ok_or(Violation::HpackCut)?;
        let length = self.integer(7)? as usize;
        let (bytes, rest) = self.bytes.split_at_checked(length).ok_or(Violation::HpackCut)?;
        self.bytes = rest;
        Ok(Text { huffman: first & 0x80 != 0, bytes })
    }

    /// An integer with a prefix of so many bits (section 5.1).
    #[inline]
    fn integer(&mut self, prefix: u32) -> Result<u32, Violation> {
        let (&first, rest) = self.bytes.split_first().ok_or(Violation::HpackCut)?;
        let most = u32::from(u8::MAX) >> (8 - prefix);
        let start = u32::from(first) & most;
        self.bytes = rest;
        if start < most { Ok(start) } else { self.long_integer(most) }
    }

    /// The bytes of an integer after its prefix, which was full.
    fn long_integer(&mut self, prefix: u32) -> Result<u32, Violation> {
        let mut integer = u64::from(prefix);
        for place in 0..5 {
            let (&byte, rest) = self.bytes.split_first().ok_or(Violation::HpackCut)?;
            self.bytes = rest;
            integer += u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                let integer = u32::try_from(integer).ok().filter(|&n| n <= INTEGER_MAX);
                return integer.ok_or(Violation::HpackInteger);
            }
        }
        Err(Violation::HpackInteger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(prefix: u32, bytes: &[u8]) -> Result<(u32, usize), Violation> {
        let mut representations = Representations::new(bytes);
        let integer = representations.integer(prefix)?;
        Ok((integer, bytes.len() - representations.bytes.len()))
    }

    /// RFC 7541, appendix C.1.
    #[test]
    fn integers_are_those_of_the_rfc() {
        assert_eq!(integer(5, &[0b0000_1010]), Ok((10, 1)), "C.1.1");
        assert_eq!(integer(5, &[0b1111_1111, 0b1001_1010, 0b0000_1010]), Ok((1_337, 3)), "C.1.2");
        assert_eq!(integer(8, &[0b0010_1010]), Ok((42, 1)), "C.1.3");
    }

    #[test]
    fn integers_have_a_limit() {
        assert_eq!(integer(5, &[0x1f, 0]), Ok((31, 2)));
        assert_eq!(integer(5, &[0x1f, 0xe1, 0xff, 0xff, 0x7f]), Ok((INTEGER_MAX, 5)));
        assert_eq!(integer(5, &[0x1f, 0xe2, 0xff, 0xff, 0x7f]), Err(Violation::HpackInteger));
        assert_eq!(
            integer(5, &[0x1f, 0x80, 0x80, 0x80, 0x80, 0]),
            Ok((31, 6)),
            "zeros may follow, but not without end"
        );
        assert_eq!(
            integer(5, &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0]),
            Err(Violation::HpackInteger)
        );
        assert_eq!(integer(5, &[0x1f, 0x80]), Err(Violation::HpackCut));
    }
}
