//! The report of a run: the shards' numbers merged, laid out as a document and judged.
//!
//! Start at [`Report`], whose structure is the document's. [`merge`] makes it from the recordings
//! of shards and agents, `rules` judges it, and [`verdict`] defines what a judgement consists of.
//! Each reason of the verdict is one row of `rules/table.rs`.
//!
//! All of it is pure: the same numbers give the same report and the same verdict anywhere, so
//! `verify` can recompute both.
//!
//! **Agents are merged as shards are.** An agent returns its shards' recorders, and the report is
//! made where all of them are; a local run is a run on one agent named `local`. Each agent's part
//! is judged as a report of its own, without what only the whole run can show, such as whether
//! there are enough samples. The run's verdict is the worst of all.

pub mod calibration;
pub mod collected;
mod edge;
pub mod endpoints;
pub mod environment;
pub mod figures;
mod holders;
mod joint;
pub mod machine;
pub mod merge;
pub mod profile;
mod report;
mod rules;
pub mod scenarios;
pub mod slo;
pub mod slowest;
pub mod spectrum;
pub mod steady;
pub mod steps;
mod streams;
mod tls;
mod together;
pub mod verdict;

pub use collected::NotOfPlan;
pub use holders::Holders;
pub use report::*;
pub use rules::{Effect, Follows, More, Of, RULES, Rule, decided_by, judge, judge_agent};
pub use rules::{GENERATOR_BOUND_MAX, STOPPED_MAX, explains_added};
pub use together::NotTogether;
