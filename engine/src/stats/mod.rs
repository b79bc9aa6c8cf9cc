//! Distributions, how sure their percentiles are, and the proof that arrivals were those planned.
//!
//! The schedule is proven with p-values, since it must be exactly what the plan says. Sends are
//! bounded by effect sizes, since batching and late wake-ups shift them by known amounts. All of it
//! is pure: numbers in, numbers out; no clock, no I/O.

pub mod arrival_proof;
pub mod arrivals;
pub mod distribution;
pub mod interval;
pub mod milliseconds;
pub mod percentiles;
pub mod stationarity;
pub mod statistics;
