//! Header compression (RFC 7541).
//!
//! Two decoders read what the peer sends. [`skeleton`] is the one for every response: it finds
//! status and length, keeps the peer's table in step, and knows of the rest only its size. [`full`]
//! gives all fields, and allocates. A decoder has to see every block of its connection, since later
//! ones refer to fields of earlier ones; so fields are decoded in full on some connections, not in
//! some responses. Both give the same [`section::Section`] and the same errors, which tests hold
//! against each other on random blocks.

pub mod encoder;
pub mod full;
pub mod huffman;
pub mod section;
pub mod skeleton;

mod field;
mod known;
mod representation;
pub(crate) mod static_table;
mod table;
