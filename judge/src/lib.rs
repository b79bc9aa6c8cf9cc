//! The judge: runs any load generator against targets whose truth is known, and says case by case
//! whether it reported what happened.
//!
//! A [`Tool`] is a short TOML file: its command lines, what it claims, and how its output is read. A
//! [`Case`] is a target, a load, and what must hold of the figures that the tool prints. The truth is
//! only ever the target's ledger or a closed form, never another tool.
//!
//! Start reading at [`suite::judge`], then [`CASES`]. A new case is a constant in a file of `cases/`, a
//! line of [`CASES`], and a bug in `mutant/` that it convicts, which `tests/suite/mutants.rs` pairs.
//!
//! Benchmarks and an experiment, which compare other load generators with truetail, also read what
//! these print by their [`Tool`].
//!
//! Deliberately absent: the engine, which is judged like any other tool, from its output.
#![forbid(unsafe_code)]

pub mod suite;

mod cases;
mod children;
mod figures;
mod process;
mod quiet;
mod tool;
mod truth;

pub use cases::{CASES, Case, Finding, Judged};
pub use figures::{Figures, Percentile, ReadError};
pub use process::{Conditions, Ended, ProcessError, Ran, Stops, run};
pub use quiet::Noise;
pub use tool::{Arrivals, Asked, Load, Mode, SHIPPED, Tool, ToolError};
pub use truth::{Band, Hold};
