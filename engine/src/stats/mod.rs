//! Distributions, how sure their percentiles are, and the proof that arrivals were those planned.
//!
//! The schedule is proven with p-values, since it must be exactly what the plan says. Sends are
//! bounded by effect sizes, since batching and late wake-ups shift them by known amounts. All of it
//! is pure: numbers in, numbers out; no clock, no I/O.

pub mod arrival_proof;
pub(crate) mod arrivals;
pub mod distribution;
#[cfg(test)]
mod goodness_of_fit;
pub mod interval;
mod milliseconds;
pub mod percentiles;
#[cfg(test)]
mod proof_of_arrivals;
pub mod stationarity;
mod statistics;

pub use statistics::{Dispersion, dispersion_deviation, index_of_dispersion};
