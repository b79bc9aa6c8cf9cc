//! The report of a run: the shards' numbers merged, laid out as a document and judged.

pub mod calibration;
pub mod collected;
mod edge;
pub mod figures;
mod joint;
pub mod merge;
pub mod moves;
pub mod profile;
mod report;
mod rules;
pub mod slo;
pub mod spectrum;
mod tls;
mod together;
pub mod verdict;

pub use collected::NotOfPlan;
pub use report::*;
pub use rules::{judge, judge_agent};
pub use together::NotTogether;
