//! Seeded random header blocks, for the tests and an example.

use http2::hpack::full::Full;
use http2::hpack::huffman;

/// A seeded sequence of numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a limit.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }

    /// True once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// Names that matter, and some that don't.
const NAMES: [&str; 14] = [
    ":status",
    ":status",
    "content-length",
    "content-length",
    "date",
    "etag",
    "x-request-id",
    "server",
    ":path",
    ":unknown",
    "connection",
    "transfer-encoding",
    "Upper",
    "",
];

/// Values that matter, and some that don't.
const VALUES: [&str; 12] = [
    "200",
    "200",
    "404",
    "100",
    "0",
    "12",
    "18446744073709551616",
    "",
    "20",
    "Wed, 25 Nov 2026 12:00:00 GMT",
    "a value \r with \0 bytes",
    "3f80f-1b6-3e1cb03b",
];

/// The blocks of one random connection: mostly valid, some cut or changed, up to the first that
/// can't be decoded.
pub(crate) fn random(random: &mut Random) -> Vec<Vec<u8>> {
    let mut full = Full::new();
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let mut goes_on = true;
    while goes_on && !random.once_in(40) {
        // How many fields the table has decides which indices exist.
        let count = full.table().count();
        let block = if random.once_in(4) && !blocks.is_empty() {
            // The same again, as it is or nearly.
            let mut block = blocks[blocks.len() - 1].clone();
            if random.once_in(4) {
                block.push(0x88);
            }
            block
        } else if random.once_in(2) {
            usual_block(random, count)
        } else {
            unusual_block(random, count)
        };
        goes_on = full.decode(&block).is_ok();
        blocks.push(block);
    }
    blocks
}

/// A block as a server sends it.
fn usual_block(random: &mut Random, count: usize) -> Vec<u8> {
    let mut block = Vec::new();
    integer(8 + random.below(7), 7, 0x80, &mut block);
    for _ in 0..random.below(8) {
        if random.once_in(3) && 0 < count {
            integer(62 + random.below(count.min(6)), 7, 0x80, &mut block);
            continue;
        }
        let (prefix, flags) = if random.once_in(2) { (6, 0x40) } else { (4, 0) };
        // From `accept-charset` to `content-encoding`: none has a meaning.
        integer(15 + random.below(12), prefix, flags, &mut block);
        random_text(random, &VALUES, &mut block);
    }
    block
}

/// A block of fields that have a meaning or break a rule, sometimes damaged.
fn unusual_block(random: &mut Random, count: usize) -> Vec<u8> {
    let mut block = Vec::new();
    if random.once_in(8) {
        let limit = if random.once_in(20) { 6_000 } else { 4_000 };
        integer(random.below(limit), 5, 0x20, &mut block);
    }
    for _ in 0..random.below(10) {
        random_field(random, count, &mut block);
    }
    if random.once_in(100) {
        integer(random.below(4_000), 5, 0x20, &mut block);
    }
    if random.once_in(60) {
        let length = random.below(block.len() + 1);
        block.truncate(length);
    }
    if random.once_in(40) && !block.is_empty() {
        let place = random.below(block.len());
        block[place] ^= 1 << random.below(8);
    }
    block
}

fn random_field(random: &mut Random, count: usize, block: &mut Vec<u8>) {
    let index = if random.once_in(500) {
        random.below(200)
    } else if random.once_in(3) && 0 < count {
        62 + random.below(count)
    } else {
        1 + random.below(61)
    };
    let (prefix, flags) = match random.below(4) {
        0 => return integer(index, 7, 0x80, block),
        1 | 2 => (6, 0x40),
        _ => (4, if random.once_in(2) { 0x10 } else { 0 }),
    };
    if random.once_in(2) {
        integer(index, prefix, flags, block);
    } else {
        integer(0, prefix, flags, block);
        random_text(random, &NAMES, block);
    }
    random_text(random, &VALUES, block);
}

/// One of these texts or a random one, as it is or in the Huffman code.
fn random_text(random: &mut Random, texts: &[&str], block: &mut Vec<u8>) {
    let text = if random.once_in(6) {
        let length = if random.once_in(10) { random.below(3_000) } else { random.below(40) };
        (0..length).map(|_| u8::try_from(random.below(256)).expect("a byte")).collect()
    } else {
        texts[random.below(texts.len())].as_bytes().to_vec()
    };
    let mut coded = Vec::new();
    if random.once_in(2) {
        huffman::encode(&text, &mut coded);
        if random.once_in(500) {
            coded.push(u8::MAX);
        }
        integer(coded.len(), 7, 0x80, block);
    } else {
        coded = text;
        integer(coded.len(), 7, 0, block);
    }
    block.extend(coded);
}

/// Appends an integer with a prefix of so many bits (RFC 7541, section 5.1).
fn integer(integer: usize, prefix: u32, flags: u8, block: &mut Vec<u8>) {
    let most = (1 << prefix) - 1;
    let low = |bits: usize| u8::try_from(bits & 0xff).expect("eight bits");
    if integer < most {
        block.push(flags | low(integer));
        return;
    }
    block.push(flags | low(most));
    let mut rest = integer - most;
    while 0x80 <= rest {
        block.push(low(rest) | 0x80);
        rest >>= 7;
    }
    block.push(low(rest));
}
