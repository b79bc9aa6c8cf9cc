//! Both decoders on the same header blocks, shared by the fuzz target, the tests and an example.

use http2::hpack::full::Full;
use http2::hpack::skeleton::Skeleton;

/// Decodes the blocks of one connection in both ways, until one can't be decoded; returns how many
/// there were.
pub(crate) fn decode<'a>(blocks: impl Iterator<Item = &'a [u8]>) -> u64 {
    let (mut skeleton, mut full) = (Skeleton::new(), Full::new());
    let mut count = 0;
    for block in blocks {
        count += 1;
        let (seen, expected) = (skeleton.decode(block), full.decode(block));
        assert_eq!(seen, expected, "{block:02x?}");
        assert!(full.table_bytes() <= 4_096, "the table has its limit");
        let Ok(section) = seen else { break };
        if section.fields as usize == full.fields().len() {
            let bytes = full.fields().iter().map(|field| field.name.len() + field.value.len());
            assert_eq!(section.field_bytes, bytes.sum::<usize>() as u64, "{block:02x?}");
        }
    }
    count
}

/// Checks one input: blocks, each behind a byte with its length.
pub(crate) fn run(input: &[u8]) {
    let mut rest = input;
    let blocks = std::iter::from_fn(|| {
        let (&length, after) = rest.split_first()?;
        let (block, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        Some(block)
    });
    decode(blocks);
}
