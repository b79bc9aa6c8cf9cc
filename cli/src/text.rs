//! Text for people: summaries, explanations, findings. No other module of this crate lays out text.
//!
//! Each function turns a report into text, so that tests cover every rendered word. `layout` has
//! the one layout of all text: lines, paragraphs, labels with their values, and tables in columns.
//! The other files decide the content, and none pads or wraps.

pub(crate) mod ab;
pub(crate) mod agents;
pub(crate) mod calibrate;
pub(crate) mod ceiling;
pub(crate) mod compare;
pub(crate) mod demo;
mod details;
pub(crate) mod doctor;
pub(crate) mod experiment;
mod explain;
pub(crate) mod extent;
pub(crate) mod figures;
pub(crate) mod flamediff;
pub(crate) mod import;
pub(crate) mod judge;
pub(crate) mod layout;
#[cfg(test)]
#[path = "../../engine/tests/suite/made_up.rs"]
pub(crate) mod made_up;
pub(crate) mod page;
pub(crate) mod parts;
mod per_agent;
pub(crate) mod progress;
#[cfg(test)]
pub(crate) mod reports;
mod scale;
pub(crate) mod series;
pub(crate) mod slo;
mod slowest;
pub(crate) mod summary;
mod table;
pub(crate) mod truth;
pub(crate) mod verdict;
pub(crate) mod verify;
