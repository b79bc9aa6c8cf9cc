//! Both decoders of header blocks on random ones: how many blocks, and from which seed.
//!
//! `cargo run -p http2 --example agree -- 10000000 1`

#![forbid(unsafe_code)]

#[path = "../fuzz/blocks.rs"]
#[expect(dead_code, reason = "the fuzz target uses the rest")]
mod blocks;
#[path = "../fuzz/random_blocks.rs"]
mod random_blocks;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Some(Ok(least)), Some(Ok(seed)), None) = (numbers.next(), numbers.next(), numbers.next())
    else {
        eprintln!("usage: agree BLOCKS SEED");
        return ExitCode::from(2);
    };
    let mut random = random_blocks::Random(seed);
    let (mut decoded, mut connections, mut bytes) = (0, 0_u64, 0);
    while decoded < least {
        let blocks = random_blocks::random(&mut random);
        decoded += blocks::decode(blocks.iter().map(|block| {
            bytes += block.len();
            block.as_slice()
        }));
        connections += 1;
    }
    println!(
        "{decoded} header blocks of {bytes} bytes on {connections} connections, seed {seed}: \
         both decoders agree on each"
    );
    ExitCode::SUCCESS
}
