//! Statistics: latency histograms, confidence intervals of percentiles, stationarity, and the proof
//! that arrivals were as planned.
//!
//! The schedule is tested with p-values, since it must be exactly what the plan says. Sends are
//! bounded by effect size, since batching and late wake-ups shift them by known amounts. All of it
//! is pure: no clock, no I/O.

pub mod arrival_proof;
pub mod arrivals;
pub mod comparison;
pub mod distribution;
pub mod encoded;
#[cfg(test)]
mod goodness_of_fit;
pub mod interval;
mod milliseconds;
pub mod offer;
pub mod paired;
pub mod percentiles;
pub mod pieces;
#[cfg(test)]
mod proof_of_arrivals;
mod quantiles;
pub mod ratio;
pub mod stationarity;
mod statistics;
pub mod widened;

pub use statistics::{Dispersion, dispersion_deviation, index_of_dispersion};
