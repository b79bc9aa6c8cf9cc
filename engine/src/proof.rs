//! Proof that a run's arrivals were those planned, and how sure its percentiles are.
//!
//! The schedule is proven with p-values, for it must be exactly what the plan says; the sends are bounded by effect sizes,
//! for sending in batches and waking up late shift them by known amounts. All of it is pure: numbers in, numbers out; no
//! clock, no I/O. Reading order: [`arrivals`], [`milliseconds`], [`summary`], then [`interval`] and [`stationarity`], all on
//! [`statistics`].

pub mod arrivals;
pub mod interval;
pub mod milliseconds;
pub mod stationarity;
pub mod statistics;
pub mod summary;

pub use arrivals::Arrivals;
pub use summary::{ArrivalProof, Offer};
