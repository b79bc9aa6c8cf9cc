//! Fuzz target: any bytes, as a peer could send them.

#![no_main]

#[path = "../harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|input: &[u8]| harness::run(input));
