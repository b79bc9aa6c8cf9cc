//! Statistics: latency histograms, confidence intervals of percentiles, stationarity, and the proof
//! that arrivals were as planned.
//!
//! Sends are bounded by effect size, since batching and late wake-ups shift them by known amounts.
//! The schedule is tested with p-values where a report is verified, since it must be exactly what
//! the plan says. All of it is pure: no clock, no I/O.

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
