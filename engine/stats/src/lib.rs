//! Statistics: latency histograms, confidence intervals of percentiles, stationarity, and the proof
//! that arrivals were as planned.
//!
//! All of it is pure: no clock, no I/O. Each file documents its method's formula, source and
//! rejected alternatives.
//!
//! **No request is assumed to be independent of its neighbours.** The uncertainty of a percentile,
//! a mean or a share comes from comparing the pieces of the window ([`pieces`]). A window below 5
//! s, or shorter than the dependence of its latencies, gets no interval, reports how long it would
//! have to be, and decides no objective and no comparison. `calibration/coverage.md` shows how
//! often intervals contain the truth, and `make coverage` recomputes it.
//!
//! **A run proves its sends, `verify` its schedule.** The digest shows, by arithmetic alone, that
//! arrivals were those of the plan and seed. That these are Poisson is shown by the generator's
//! tests and, for each report's own plan and seed, by `verify`, with p-values, since a schedule
//! must be exactly what the plan asks for ([`unit_process`]). Sends are compared with the intended
//! times of the same requests, and bounded by effect size, since batching and late wake-ups shift
//! them by known amounts ([`arrival_proof`]).

pub mod arrival_proof;
pub mod arrivals;
pub mod buckets;
pub mod comparison;
pub mod distribution;
pub mod encoded;
pub mod interval;
mod milliseconds;
pub mod mix_proof;
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
