//! How something came out that was held against what it must be: there are three ways, since on a
//! machine that others use a measurement may be off by their doing.

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
