//! The report of a run: the shards' numbers merged, laid out as a document and judged.

pub mod calibration;
pub mod collected;
mod edge;
pub mod environment;
pub mod figures;
mod joint;
pub mod machine;
pub mod merge;
pub mod profile;
mod report;
mod rules;
pub mod slo;
pub mod spectrum;
pub mod steady;
pub mod steps;
mod tls;
mod together;
pub mod verdict;

pub use collected::NotOfPlan;
pub use report::*;
pub use rules::{Effect, Follows, More, Of, RULES, Rule, decided_by, judge, judge_agent};
pub use rules::{GENERATOR_BOUND_MAX, STOPPED_MAX};
pub use together::NotTogether;
