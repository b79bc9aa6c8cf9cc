//! Writes representations (RFC 7541, sections 5 and 6), and knows what the peer's decoder holds.

use super::huffman;
use super::static_table::FIELDS;
use crate::settings::TABLE_BYTES;

/// What becomes of a field in the peer's dynamic table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Indexing {
    /// It enters the table.
    Incremental,
    /// It doesn't.
    Without,
}

/// Appends a field that is in a table.
pub(crate) fn indexed(index: u32, out: &mut Vec<u8>) {
    integer(index, 7, 0x80, out);
}

/// Appends the start of a field that isn't, up to its name. A value as [`text`] has to follow.
pub(crate) fn literal(name: &str, indexing: Indexing, out: &mut Vec<u8>) {
    let (prefix, flags) = match indexing {
        Indexing::Incremental => (6, 0x40),
        Indexing::Without => (4, 0x00),
    };
    match place(|(known, _)| known == name) {
        Some(index) => integer(index, prefix, flags, out),
        None => {
            out.push(flags);
            text(name.as_bytes(), out);
        }
    }
}

/// Appends a string, in the Huffman code if that is shorter.
pub(crate) fn text(text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::encoded_bytes(text);
    if coded < text.len() {
        integer(length(coded), 7, 0x80, out);
        huffman::encode(text, out);
    } else {
        plain_text(text, out);
    }
}

/// Appends a string as it is.
pub(crate) fn plain_text(text: &[u8], out: &mut Vec<u8>) {
    integer(length(text.len()), 7, 0x00, out);
    out.extend_from_slice(text);
}

/// Appends a limit of the dynamic table, bytes. Only the start of a block may have one.
pub(crate) fn table_size(bytes: u32, out: &mut Vec<u8>) {
    integer(bytes, 5, 0x20, out);
}

/// The index of a field of the static table with this name and value.
pub(crate) fn static_index(name: &str, value: &str) -> Option<u32> {
    place(|field| field == (name, value))
}

fn place(is_it: impl Fn((&str, &str)) -> bool) -> Option<u32> {
    FIELDS.iter().position(|&field| is_it(field)).map(|place| length(place + 1))
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a field is shorter than 4 GiB")
}

/// Appends an integer with a prefix of so many bits, in a byte with these flags.
fn integer(integer: u32, prefix: u32, flags: u8, out: &mut Vec<u8>) {
    let most = (1_u32 << prefix) - 1;
    let low = |bits: u32| u8::try_from(bits & 0xff).expect("eight bits");
    if integer < most {
        out.push(flags | low(integer));
        return;
    }
    out.push(flags | low(most));
    let mut rest = integer - most;
    while 0x80 <= rest {
        out.push(0x80 | low(rest & 0x7f));
        rest >>= 7;
    }
    out.push(low(rest));
}

/// How the next block refers to fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The fields that all requests share enter the table.
    First,
    /// They are in it.
    Later,
    /// They don't fit into it: nothing refers to it.
    Plain,
}

/// What the peer's decoder holds of our fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncoderState {
    mode: Mode,
    /// The limit of the table as the peer knows it from us, bytes. It is only ever lowered: what
    /// has gone from the table is never worth a second start.
    table_max: u32,
    /// True if the peer has yet to be told of that limit.
    untold: bool,
}

impl EncoderState {
    /// The state of a new connection.
    pub(crate) fn new() -> EncoderState {
        EncoderState { mode: Mode::First, table_max: TABLE_BYTES, untold: false }
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE was this at some time since the last block.
    pub(crate) fn limit(&mut self, bytes: u32) {
        if bytes < self.table_max {
            (self.table_max, self.untold) = (bytes, true);
        }
    }

    /// How the next block is written, when the shared fields take `table_bytes` of the table.
    /// Appends what it has to begin with.
    #[inline]
    pub(crate) fn next(&mut self, table_bytes: u32, out: &mut Vec<u8>) -> Mode {
        if self.untold {
            table_size(self.table_max, out);
            self.untold = false;
        }
        if self.table_max < table_bytes {
            self.mode = Mode::Plain;
        }
        let mode = self.mode;
        if mode == Mode::First {
            self.mode = Mode::Later;
        }
        mode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_of_the_rfc() {
        let written = |number, prefix| {
            let mut out = Vec::new();
            integer(number, prefix, 0, &mut out);
            out
        };
        assert_eq!(written(10, 5), [0b0000_1010], "C.1.1");
        assert_eq!(written(1_337, 5), [0b0001_1111, 0b1001_1010, 0b0000_1010], "C.1.2");
        assert_eq!(written(42, 8), [0b0010_1010], "C.1.3");
        assert_eq!(written(31, 5), [0b0001_1111, 0]);
    }

    #[test]
    fn the_peers_limit_is_obeyed_and_told_once() {
        let mut state = EncoderState::new();
        let mut next = |limits: &[u32]| {
            let mut out = Vec::new();
            limits.iter().for_each(|&limit| state.limit(limit));
            (state.next(100, &mut out), out)
        };
        assert_eq!(next(&[8_192]), (Mode::First, vec![]), "a larger table isn't used");
        assert_eq!(next(&[]), (Mode::Later, vec![]));
        assert_eq!(next(&[100]), (Mode::Later, vec![0x3f, 69]), "all fields still fit");
        assert_eq!(next(&[]), (Mode::Later, vec![]));
        assert_eq!(next(&[10, 4_096]), (Mode::Plain, vec![0x2a]), "the smallest counts");
        assert_eq!(next(&[4_096]), (Mode::Plain, vec![]));
        assert_eq!(next(&[0]), (Mode::Plain, vec![0x20]));
    }
}
