//! Calibration: the checks of the generator's numbers.
//!
//! - [`truth`] predicts a latency distribution by arithmetic, and [`cases`] and [`observed`]
//!   compare runs at the sample target with it and with the target's ledger: `truetail calibrate
//!   --truth`.
//! - [`floor`] measures the latency that the generator itself adds and the load that it can offer
//!   on this machine, mostly at the [`null_target`]: `truetail calibrate`.
//! - [`experiments`] are questions with runs, figures and limits. [`lab`] performs them, and
//!   [`findings`] writes the page from their results: `truetail experiment`.
//!
//! How often the intervals of reports contain the true value is simulated in `examples/coverage`:
//! `make coverage`.
//!
//! Nothing here is part of a run. The command line passes a calibration's results to the engine,
//! which knows no calibration files.
#![forbid(unsafe_code)]

pub mod cases;
pub mod experiments;
pub mod findings;
pub mod floor;
pub mod judgement;
pub mod lab;
pub mod null_target;
pub mod observed;
mod others;
pub mod truth;
