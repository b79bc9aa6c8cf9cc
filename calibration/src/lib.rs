//! Calibration: what the generator's numbers are checked against.
#![forbid(unsafe_code)]

pub mod cases;
pub mod coverage;
pub mod experiments;
pub mod findings;
pub mod floor;
pub mod judgement;
pub mod lab;
pub mod null_target;
pub mod observed;
mod others;
pub mod truth;
