//! Disturbances of a run by others on the machine, from its verdict.

use engine::report::Report;
use engine::report::verdict::Reason;
use serde::{Deserialize, Serialize};

use crate::others;

/// How the machine disturbed a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// The run.
    pub run: String,
    /// Its number among all runs, from 1: several have the same name, and one may be disturbed in
    /// several ways.
    pub number: usize,
    /// The evidence of its verdict.
    pub evidence: String,
    /// The figure in it, as a multiple of its limit.
    pub times_limit: f64,
}

/// The disturbances of a run.
pub(super) fn disturbances(run: &str, number: usize, report: &Report) -> Vec<Disturbance> {
    let disturbance = |reason: &Reason| Disturbance {
        run: run.to_owned(),
        number,
        evidence: reason.evidence.clone(),
        times_limit: reason.figure / reason.threshold,
    };
    others::reasons(report).map(disturbance).collect()
}
