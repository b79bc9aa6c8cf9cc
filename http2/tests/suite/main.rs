//! Conversations with servers as bytes, and header blocks.

#![forbid(unsafe_code)]

#[path = "../../fuzz/blocks.rs"]
mod blocks;
#[path = "../../fuzz/conversation.rs"]
mod conversation;
mod decoders;
mod floods;
mod frames;
mod properties;
#[path = "../../fuzz/random_blocks.rs"]
mod random_blocks;
mod recorded;
mod requests;
mod responses;
mod rules;
mod streams;
mod vectors;
mod windows;
