//! Does the instrument tell the truth: what its numbers are held against.
#![forbid(unsafe_code)]

pub mod experiment;
pub mod null_target;
pub mod truth;
