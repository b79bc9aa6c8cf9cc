//! The Huffman code of RFC 7541, appendix B.
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their
//! symbols, and longer codes follow shorter ones. So the lengths alone determine it, and all tables
//! are made from them when this is compiled.
//!
//! [`length`] is for the responses of a run, where most strings are of interest only for their
//! length: it steps over up to two symbols with each look into a table of 4 KiB. [`Symbols`] gives
//! one symbol at a time, and is written without that table, so that each can be tested against the
//! other.

use crate::violation::Violation;

/// The symbols, and after them EOS, which ends no string but pads it.
const SYMBOLS: usize = 257;
const EOS: u16 = 256;

/// The longest code, bits.
const CODE_BITS_MAX: usize = 30;

/// How many bits of a code each symbol has.
const BITS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, // 0
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, // 16
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, // 32
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, // 48, digits
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, // 64, capitals
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, // 80
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, // 96, small letters
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, // 112
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, // 128
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, // 144
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, // 160
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, // 176
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, // 192
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, // 208
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, // 224
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, // 240
    30, // EOS
];

/// The canonical code, by length of its codes.
struct Code {
    /// The first code of each length.
    first: [u32; CODE_BITS_MAX + 1],
    /// How many codes there are of each length.
    count: [u32; CODE_BITS_MAX + 1],
    /// Where the symbols of each length begin in `symbols`.
    start: [u32; CODE_BITS_MAX + 1],
    /// The symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
    /// The code of each symbol.
    codes: [u32; SYMBOLS],
}

const CODE: Code = code();

#[expect(clippy::cast_possible_truncation, reason = "symbols are below 257")]
const fn code() -> Code {
    let mut code = Code {
        first: [0; CODE_BITS_MAX + 1],
        count: [0; CODE_BITS_MAX + 1],
        start: [0; CODE_BITS_MAX + 1],
        symbols: [0; SYMBOLS],
        codes: [0; SYMBOLS],
    };
    let (mut next, mut placed, mut bits) = (0, 0, 1);
    while bits <= CODE_BITS_MAX {
        next *= 2;
        code.first[bits] = next;
        code.start[bits] = placed;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if BITS[symbol] as usize == bits {
                code.symbols[placed as usize] = symbol as u16;
                code.codes[symbol] = next;
                next += 1;
                placed += 1;
            }
            symbol += 1;
        }
        code.count[bits] = next - code.first[bits];
        bits += 1;
    }
    // Each sequence of bits begins with a code, and none with two.
    assert!(next == 1 << CODE_BITS_MAX && placed as usize == SYMBOLS);
    code
}

/// The first symbol of `bits`, whose highest bit is the next one, and the length of its code.
#[inline]
const fn first_symbol(bits: u32) -> (u16, usize) {
    let mut length = 5;
    loop {
        let place = (bits >> (32 - length)).wrapping_sub(CODE.first[length]);
        if place < CODE.count[length] {
            return (CODE.symbols[(CODE.start[length] + place) as usize], length);
        }
        length += 1;
    }
}

/// How many bits one look covers.
const LOOK_BITS: usize = 12;

/// For the next twelve bits: how many symbols they begin with (bits 4 and 5), and the length of
/// their codes (bits 0 to 3); 0 if the first code is longer. None of these symbols is EOS.
static LOOKS: [u8; 1 << LOOK_BITS] = looks();

#[expect(clippy::cast_possible_truncation, reason = "at most 2 symbols and 12 bits")]
const fn looks() -> [u8; 1 << LOOK_BITS] {
    let mut looks = [0; 1 << LOOK_BITS];
    let mut bits = 0;
    while bits < looks.len() {
        let (mut symbols, mut used) = (0, 0);
        loop {
            // The bits after the twelve are zeros: a code that needs them is too long anyway.
            let (_, length) = first_symbol((bits << (32 - LOOK_BITS + used)) as u32);
            if LOOK_BITS < used + length {
                break;
            }
            symbols += 1;
            used += length;
        }
        looks[bits] = ((symbols << 4) | used) as u8;
        bits += 1;
    }
    looks
}

/// How many bytes a string has after decoding.
///
/// # Errors
/// If it holds EOS, or its padding is too long or isn't all ones.
#[inline]
pub fn length(bytes: &[u8]) -> Result<usize, Violation> {
    let (mut at, mut symbols) = (0, 0);
    // Eight bytes at a time, of which at least 57 bits are ahead of the current one.
    while let Some(word) = bytes[at / 8..].first_chunk() {
        let mut word = u64::from_be_bytes(*word) << (at % 8);
        for _ in 0..4 {
            let look = LOOKS[(word >> (64 - LOOK_BITS)) as usize];
            if look == 0 {
                // A code of more than twelve bits. At least 21 are left, too many for padding.
                let (symbol, length) = first_symbol(Symbols { bytes, at }.ahead());
                if symbol == EOS || bytes.len() * 8 < at + length {
                    return Err(Violation::HpackHuffman);
                }
                symbols += 1;
                at += length;
                break;
            }
            symbols += usize::from(look >> 4);
            at += usize::from(look & 0xf);
            word <<= look & 0xf;
        }
    }
    // The last bytes, inverted, so that what is shifted in behind them are ones.
    let mut left = bytes.len() * 8 - at;
    let mut last = [0; 8];
    last.iter_mut().zip(&bytes[at / 8..]).for_each(|(last, byte)| *last = !byte);
    let mut inverted = u64::from_be_bytes(last) << (at % 8);
    loop {
        if left < 8 && inverted == 0 {
            return Ok(symbols);
        }
        let look = LOOKS[(!inverted >> (64 - LOOK_BITS)) as usize];
        let used = usize::from(look & 0xf);
        if look == 0 || left < used {
            break;
        }
        symbols += usize::from(look >> 4);
        left -= used;
        inverted <<= used;
    }
    // A code of more than twelve bits, or a padding that is none.
    let mut rest = Symbols { bytes, at: bytes.len() * 8 - left };
    while rest.next_symbol()?.is_some() {
        symbols += 1;
    }
    Ok(symbols)
}

/// The bytes of a string, one after the other.
#[derive(Clone, Debug)]
pub struct Symbols<'a> {
    bytes: &'a [u8],
    /// The place of the next bit.
    at: usize,
}

impl<'a> Symbols<'a> {
    /// The bytes of an encoded string.
    pub fn new(bytes: &'a [u8]) -> Symbols<'a> {
        Symbols { bytes, at: 0 }
    }

    /// The next 32 bits, with ones after the end.
    #[inline]
    fn ahead(&self) -> u32 {
        let byte = |place: usize| u64::from(self.bytes.get(place).copied().unwrap_or(u8::MAX));
        let first = self.at / 8;
        let five = (0..5).fold(0, |bits, place| bits << 8 | byte(first + place));
        u32::try_from((five >> (8 - self.at % 8)) & u64::from(u32::MAX)).expect("32 bits")
    }

    /// The next byte; `None` at the end.
    ///
    /// # Errors
    /// If EOS comes next, or a padding that is too long or isn't all ones.
    #[inline]
    pub fn next_symbol(&mut self) -> Result<Option<u8>, Violation> {
        let left = self.bytes.len() * 8 - self.at;
        let bits = self.ahead();
        if left < 8 && bits == u32::MAX {
            return Ok(None);
        }
        let (symbol, length) = first_symbol(bits);
        if left < length {
            return Err(Violation::HpackHuffman);
        }
        self.at += length;
        u8::try_from(symbol).map(Some).map_err(|_| Violation::HpackHuffman)
    }
}

/// How many bytes a string takes in this code.
pub fn encoded_bytes(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(BITS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends a string in this code.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u64, 0);
    for &byte in text {
        let length = u32::from(BITS[usize::from(byte)]);
        bits = bits << length | u64::from(CODE.codes[usize::from(byte)]);
        count += length;
        while 8 <= count {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff).expect("eight bits"));
        }
    }
    if 0 < count {
        let padding = 8 - count;
        let last = bits << padding & 0xff | ((1 << padding) - 1);
        out.push(u8::try_from(last).expect("eight bits"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Result<Vec<u8>, Violation> {
        let (mut symbols, mut text) = (Symbols::new(bytes), Vec::new());
        while let Some(byte) = symbols.next_symbol()? {
            text.push(byte);
        }
        Ok(text)
    }

    #[test]
    fn each_symbol_has_the_code_of_the_rfc() {
        let code = |byte: u8| CODE.codes[usize::from(byte)];
        for (byte, expected, bits) in [
            (b'0', 0x0, 5),
            (b't', 0x9, 5),
            (b' ', 0x14, 6),
            (b'u', 0x2d, 6),
            (b':', 0x5c, 7),
            (b'z', 0x7b, 7),
            (b'&', 0xf8, 8),
            (b'Z', 0xfd, 8),
            (b'!', 0x3f8, 10),
            (b'|', 0x7fc, 11),
            (b'>', 0xffb, 12),
            (0, 0x1ff8, 13),
            (b'~', 0x1ffd, 13),
            (b'}', 0x3ffd, 14),
            (b'{', 0x7ffe, 15),
            (b'\\', 0x7fff0, 19),
            (128, 0xfffe6, 20),
            (231, 0x7ffff3, 23),
            (255, 0x3ffffee, 26),
            (249, 0xffffffe, 28),
            (10, 0x3ffffffc, 30),
            (22, 0x3ffffffe, 30),
        ] {
            assert_eq!((code(byte), BITS[usize::from(byte)]), (expected, bits), "{byte}");
        }
        assert_eq!(CODE.codes[256], 0x3fff_ffff, "EOS");
    }

    #[test]
    fn strings_of_one_two_and_three_symbols_decode_to_themselves() {
        let mut texts: Vec<Vec<u8>> = vec![Vec::new()];
        for a in 0..=u8::MAX {
            texts.push(vec![a]);
            texts.push(vec![a; 9]);
            for b in 0..=u8::MAX {
                texts.push(vec![a, b]);
                texts.push(vec![b'e', a, b, b'0', b'~', a, b, b'z', b, b'1']);
            }
        }
        for text in texts {
            let mut bytes = Vec::new();
            encode(&text, &mut bytes);
            assert_eq!(bytes.len(), encoded_bytes(&text));
            assert_eq!(length(&bytes), Ok(text.len()), "{text:?}");
            assert_eq!(decode(&bytes), Ok(text));
        }
    }

    #[test]
    fn both_decoders_agree_on_any_three_bytes() {
        for bits in 0..1_u32 << 24 {
            // Each at the end of a string, and every eighth where whole words are read.
            let [_, tail @ ..] = bits.to_be_bytes();
            let long = [&tail[..], b"\x1c\x64\x1c\x64\x1c\x64\x1c\x64\x1c\x7f"].concat();
            let counted = |bytes: &[u8]| decode(bytes).map(|text| text.len());
            if bits % 7 == 0 {
                assert_eq!(length(&tail), counted(&tail), "{tail:x?}");
            }
            if bits % 61 == 0 {
                assert_eq!(length(&long), counted(&long), "{long:x?}");
            }
        }
    }

    #[test]
    fn padding_is_short_and_all_ones() {
        let bad = |bytes: &[u8]| {
            assert_eq!(length(bytes), Err(Violation::HpackHuffman), "{bytes:x?}");
            assert_eq!(decode(bytes), Err(Violation::HpackHuffman), "{bytes:x?}");
        };
        // 'a' is 00011, so three bits of padding follow.
        assert_eq!(decode(&[0b0001_1111]), Ok(b"a".to_vec()));
        bad(&[0b0001_1110]);
        bad(&[0b0001_1011]);
        bad(&[0b0001_1111, 0xff]);
        bad(&[0xff]);
        bad(&[0xff, 0xff, 0xff, 0xff]);
        bad(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        bad(&[0x1c, 0x7f, 0xff, 0xff, 0xff, 0xff, 0x1c, 0x64, 0x1c, 0x64, 0x1c, 0x64, 0x1c, 0x64]);
    }
}
