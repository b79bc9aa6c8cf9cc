//! Fuzz target: any bytes, decoded as header blocks in both ways.

#![no_main]

#[path = "../blocks.rs"]
mod blocks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| blocks::run(input));
