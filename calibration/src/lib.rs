//! Calibration: what the generator's numbers are checked against.
#![forbid(unsafe_code)]

pub mod cases;
pub mod experiment;
pub mod floor;
pub mod judgement;
pub mod null_target;
mod others;
pub mod truth;
