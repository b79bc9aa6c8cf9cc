//! How a figure fared against its limits: there are three ways, since on a machine that others use
//! a measurement may be off by their doing.
//!
//! Others excuse a figure only in the direction that they can have moved it, which the definition
//! gives; a count that must be exact has no excuse. A judgement names the runs that it rests on, so
//! only what happened in those excuses it, and their worst verdict stands beside it.

use serde::{Deserialize, Serialize};

/// How it came out; the worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// As it must.
    Passed,
    /// Not as it must, which others who used the machine meanwhile may have caused.
    NotJudged,
    /// Not as it must, and nobody else can have caused that.
    Failed,
}

impl Judgement {
    /// Of what is as it must be or isn't, with an excuse or without.
    pub(crate) fn new(as_it_must: bool, excused: bool) -> Judgement {
        match (as_it_must, excused) {
            (true, _) => Judgement::Passed,
            (false, true) => Judgement::NotJudged,
            (false, false) => Judgement::Failed,
        }
    }
}
