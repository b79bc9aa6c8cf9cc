//! The words that a person reads: summaries, explanations, findings. No other module of this crate lays out text.
//!
//! Everything here is a function from a report to a text, so that each rendered word is under a test.

pub(crate) mod demo;
mod details;
pub(crate) mod doctor;
mod explain;
mod figures;
mod flow;
#[cfg(test)]
#[path = "../../engine/tests/suite/made_up.rs"]
mod made_up;
pub(crate) mod progress;
#[cfg(test)]
mod reports;
pub(crate) mod summary;
mod table;
mod verdict;
pub(crate) mod verify;
