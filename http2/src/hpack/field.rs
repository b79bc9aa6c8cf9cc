//! What a field means to a client: the few names that matter, and what their values say.

use crate::violation::Violation;

/// What a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// `:status`.
    Status,
    /// `content-length`.
    Length,
    /// Another pseudo-field, which no response has.
    Pseudo,
    /// A field of an HTTP/1.1 connection, which no message has (RFC 9113, section 8.2.2).
    Connection,
    /// A name with a forbidden byte, or none.
    Invalid,
    /// Any other.
    Other,
}

/// What a whole field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The status code.
    Status(u16),
    /// The length of the body, bytes.
    Length(u64),
    /// The rule that it breaks.
    Broken(Violation),
    /// Nothing of interest.
    Other,
}

impl Meaning {
    /// What a field of this name says, whose value is given by its bytes, one after the other.
    #[inline]
    pub(crate) fn new(
        name: Name,
        value: impl Iterator<Item = Result<u8, Violation>>,
    ) -> Result<Meaning, Violation> {
        Ok(match name {
            Name::Status => {
                status(value)?.map_or(Meaning::Broken(Violation::StatusInvalid), Meaning::Status)
            }
            Name::Length => {
                decimal(value)?.map_or(Meaning::Broken(Violation::ContentLength), Meaning::Length)
            }
            Name::Pseudo => Meaning::Broken(Violation::PseudoUnknown),
            Name::Connection => Meaning::Broken(Violation::ConnectionField),
            Name::Invalid => Meaning::Broken(Violation::FieldName),
            Name::Other => Meaning::Other,
        })
    }
}

/// A status code: three digits, from 100 up; `None` for anything else, which is read to its end.
fn status(value: impl Iterator<Item = Result<u8, Violation>>) -> Result<Option<u16>, Violation> {
    let mut length = 0_usize;
    let counted = value.inspect(|_| length += 1);
    let code = decimal(counted)?.filter(|code| (100..1_000).contains(code));
    Ok(code.filter(|_| length == 3).and_then(|code| u16::try_from(code).ok()))
}

/// A number of digits only, which fits 64 bits; `None` for anything else, which is read to its end.
fn decimal(value: impl Iterator<Item = Result<u8, Violation>>) -> Result<Option<u64>, Violation> {
    let (mut number, mut any) = (Some(0_u64), false);
    for byte in value {
        let byte = byte?;
        let digit = byte.is_ascii_digit().then(|| u64::from(byte.wrapping_sub(b'0')));
        number = number.and_then(|number| number.checked_mul(10)?.checked_add(digit?));
        any = true;
    }
    Ok(number.filter(|_| any))
}

/// The longest name with a meaning, bytes.
const KNOWN_MAX: usize = 17;

/// Finds out what a name is, from its bytes one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameReader {
    start: [u8; KNOWN_MAX],
    length: usize,
    valid: bool,
}

impl NameReader {
    pub(crate) const fn new() -> NameReader {
        NameReader { start: [0; KNOWN_MAX], length: 0, valid: true }
    }

    /// The next byte.
    #[inline]
    pub(crate) const fn push(&mut self, byte: u8) {
        if self.length < KNOWN_MAX {
            self.start[self.length] = byte;
        }
        // A colon begins a pseudo-field and is forbidden elsewhere.
        let colon_first = byte == b':' && self.length == 0;
        self.valid &= is_name_byte(byte) || colon_first;
        self.length += 1;
    }

    /// The number of bytes so far.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// What the name is.
    pub(crate) const fn name(&self) -> Name {
        if !self.valid || self.length == 0 {
            return Name::Invalid;
        }
        if self.is(b":status") {
            return Name::Status;
        }
        if self.start[0] == b':' {
            return Name::Pseudo;
        }
        if self.is(b"content-length") {
            return Name::Length;
        }
        let of_connection = self.is(b"connection")
            || self.is(b"keep-alive")
            || self.is(b"proxy-connection")
            || self.is(b"transfer-encoding")
            || self.is(b"upgrade");
        if of_connection { Name::Connection } else { Name::Other }
    }

    const fn is(&self, name: &[u8]) -> bool {
        if self.length != name.len() {
            return false;
        }
        let mut place = 0;
        while place < name.len() {
            if self.start[place] != name[place] {
                return false;
            }
            place += 1;
        }
        true
    }
}

/// True if a name may have this byte: that of a token (RFC 9110, section 5.6.2), but no capital
/// (RFC 9113, section 8.2).
const fn is_name_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'!' | b'#' | b'$' | b'%'
        | b'&' | b'\'' | b'*' | b'+' | b'^' | b'`' | b'|' | b'~')
}

/// True if a value has no byte that is forbidden, and no blank around it (RFC 9113, section 8.2.1).
pub(crate) fn is_value(value: &[u8]) -> bool {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !blank(value.first())
        && !blank(value.last())
        && !value.iter().any(|byte| matches!(byte, b'\0' | b'\r' | b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        let mut reader = NameReader::new();
        text.bytes().for_each(|byte| reader.push(byte));
        assert_eq!(reader.length(), text.len());
        reader.name()
    }

    #[test]
    fn names_are_known_by_their_bytes() {
        for (text, expected) in [
            (":status", Name::Status),
            (":statu", Name::Pseudo),
            (":statuses", Name::Pseudo),
            (":path", Name::Pseudo),
            (":", Name::Pseudo),
            ("content-length", Name::Length),
            ("content-lengths", Name::Other),
            ("connection", Name::Connection),
            ("keep-alive", Name::Connection),
            ("proxy-connection", Name::Connection),
            ("transfer-encoding", Name::Connection),
            ("transfer-encoding2", Name::Other),
            ("upgrade", Name::Connection),
            ("te", Name::Other),
            ("Date", Name::Invalid),
            ("date:", Name::Invalid),
            ("da te", Name::Invalid),
            ("d\u{e4}te", Name::Invalid),
            ("", Name::Invalid),
            ("a-name-that-is-longer-than-any-known_one", Name::Other),
            ("a-name-that-is-longer-than-any-known oNe", Name::Invalid),
        ] {
            assert_eq!(name(text), expected, "{text:?}");
        }
    }

    #[test]
    fn statuses_and_lengths_are_numbers() {
        let of = |name, value: &'static str| Meaning::new(name, value.bytes().map(Ok)).expect("ok");
        assert_eq!(of(Name::Status, "200"), Meaning::Status(200));
        assert_eq!(of(Name::Status, "999"), Meaning::Status(999));
        for value in ["", "20", "0200", "099", "2000", "20x", "+20", " 20"] {
            let expected = Meaning::Broken(Violation::StatusInvalid);
            assert_eq!(of(Name::Status, value), expected, "{value:?}");
        }
        assert_eq!(of(Name::Length, "0"), Meaning::Length(0));
        assert_eq!(of(Name::Length, "18446744073709551615"), Meaning::Length(u64::MAX));
        for value in ["", "-1", "+1", "1 ", "3,3", "18446744073709551616", "x"] {
            let expected = Meaning::Broken(Violation::ContentLength);
            assert_eq!(of(Name::Length, value), expected, "{value:?}");
        }
    }
}
