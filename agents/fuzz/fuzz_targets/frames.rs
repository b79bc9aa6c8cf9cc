//! Fuzz target: any bytes, taken as what a peer sends.

#![no_main]

#[path = "../harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|input: &[u8]| harness::run(input));
