//! Fuzz target: any bytes, received as what a server sends.

#![no_main]

#[path = "../conversation.rs"]
mod conversation;

libfuzzer_sys::fuzz_target!(|input: &[u8]| conversation::run(input));
