//! Statistics: latency histograms, confidence intervals of percentiles, stationarity, and the proof
//! that arrivals were as planned.
//!
//! All of it is pure: no clock, no I/O. Each method's formula, source and rejected alternatives
//! stand in its file.
//!
//! **No request is taken as independent of its neighbours.** How uncertain a percentile, a mean or
//! a share is comes from the pieces of the window against each other ([`pieces`]). A window that is
//! below 5 s, or shorter than what its latencies depend on, states no interval, reports how long it
//! would have to be, and decides no objective and no comparison. `calibration/coverage.md` shows
//! how often intervals hold the truth, and `make coverage` computes it anew.
//!
//! **A run proves its sends, `verify` its schedule.** That arrivals were those that plan and seed
//! mean is shown by their digest, which is arithmetic. That these are Poisson, the generator's
//! tests show, and `verify` shows it for each report's own plan and seed, with p-values, since a
//! schedule must be exactly what the plan asks for ([`unit_process`]). Sends are held against the
//! intended times of the same requests, and bounded by effect size, since batching and late
//! wake-ups shift them by known amounts ([`arrival_proof`]).

pub mod arrival_proof;
pub mod arrivals;
pub mod comparison;
pub mod distribution;
pub mod encoded;
pub mod interval;
mod milliseconds;
pub mod paired;
pub mod percentiles;
pub mod pieces;
mod quantiles;
pub mod ratio;
pub mod stationarity;
mod statistics;
pub mod unit_process;
pub mod widened;

pub use statistics::{Dispersion, dispersion_deviation, index_of_dispersion};
