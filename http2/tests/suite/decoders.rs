//! The skeleton decoder against the full one.

use http2::hpack::full::Full;
use http2::hpack::skeleton::Skeleton;
use http2::violation::Violation;

use crate::blocks;
use crate::random_blocks::{self, Random};

#[test]
fn both_decoders_agree_on_random_blocks() {
    let mut random = Random(1);
    let (mut decoded, mut valid, mut broken) = (0, 0_u64, 0_u64);
    while decoded < 100_000 {
        let blocks = random_blocks::random(&mut random);
        decoded += blocks::decode(blocks.iter().map(Vec::as_slice));
        let mut skeleton = Skeleton::new();
        let sections = blocks.iter().map_while(|block| skeleton.decode(block).ok());
        for section in sections {
            valid += u64::from(section.broken.is_none() && section.status.is_some());
            broken += u64::from(section.broken.is_some());
        }
    }
    // Blocks of all kinds are common enough to mean something.
    assert!(2_000 < valid && 2_000 < broken, "{valid} of {decoded} are valid, {broken} broken");
}

#[test]
fn both_decoders_agree_on_any_bytes() {
    let mut random = Random(2);
    for _ in 0..20_000 {
        let length = random.below(80);
        let input: Vec<u8> =
            (0..length).map(|_| u8::try_from(random.below(256)).expect("a byte")).collect();
        blocks::run(&input);
    }
}

/// `x: ` and a value of 4,000 bytes, which enters the table.
fn large_field() -> Vec<u8> {
    // 4,000 is 127, and 3,873 in two bytes.
    [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'v'; 4_000]].concat()
}

#[test]
fn a_short_block_can_stand_for_a_list_that_is_too_long() {
    let mut block = [&[0x88][..], &large_field()].concat();
    block.extend([0xbe; 60_000]);
    let (mut skeleton, mut full) = (Skeleton::new(), Full::new());
    let section = skeleton.decode(&block).expect("it can be decoded");
    assert_eq!(section.broken, Some(Violation::HeaderListTooLarge));
    assert_eq!(full.decode(&block), Ok(section));
    assert!(full.fields().len() < 20, "the list isn't kept");
    assert_eq!(skeleton.decode(&[0x88, 0xbe]).map(|section| section.broken), Ok(None));
}

#[test]
fn a_field_larger_than_the_table_empties_it() {
    let (mut skeleton, mut full) = (Skeleton::new(), Full::new());
    // 5,000 is 127, and 4,873 in two bytes.
    let too_large = [&[0x40, 1, b'y', 0x7f, 0x89, 0x26][..], &[b'v'; 5_000]].concat();
    for (block, expected) in
        [(large_field(), Ok(())), (vec![0xbe], Ok(())), (vec![0xbf], Err(Violation::HpackIndex))]
    {
        assert_eq!(skeleton.decode(&block).map(|_| ()), expected);
        assert_eq!(full.decode(&block).map(|_| ()), expected);
    }
    assert_eq!(full.table_bytes(), 4_033);
    assert!(skeleton.decode(&too_large).is_ok() && full.decode(&too_large).is_ok());
    assert_eq!(full.table_bytes(), 0);
    assert_eq!(skeleton.decode(&[0xbe]), Err(Violation::HpackIndex));
}

#[test]
fn the_peer_may_shrink_the_table() {
    let (mut skeleton, mut full) = (Skeleton::new(), Full::new());
    let field = [0x40, 1, b'x', 1, b'y'];
    for (block, expected, table_bytes) in [
        (&field[..], Ok(()), 34),
        (&[0xbe], Ok(()), 34),
        (&[0x3f, 3, 0xbe], Ok(()), 34),
        (&[0x3f, 2, 0x3f, 0xe1, 0x1f], Ok(()), 0),
        (&[0xbe], Err(Violation::HpackIndex), 0),
        (&field, Ok(()), 34),
        (&[0x20, 0x3f, 3, 0x40, 1, b'x', 1, b'y'], Ok(()), 34),
        (&[0x40, 1, b'x', 2, b'y', b'z'], Ok(()), 0),
    ] {
        assert_eq!(skeleton.decode(block).map(|_| ()), expected, "{block:x?}");
        assert_eq!(full.decode(block).map(|_| ()), expected, "{block:x?}");
        assert_eq!(full.table_bytes(), table_bytes, "{block:x?}");
    }
}
