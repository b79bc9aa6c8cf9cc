//! The outcome of holding a figure against its limits. There are three, since on a shared machine
//! others may have moved a measurement.
//!
//! Others excuse a figure only in the direction that they can have moved it, which the definition
//! gives; a count that must be exact has no excuse. A judgement names the runs that it rests on:
//! only disturbances of these excuse it, and their worst verdict is shown with it.

use serde::{Deserialize, Serialize};

/// The outcome; the worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// Within its limits.
    Passed,
    /// Beyond a limit, perhaps because of others on the machine.
    NotJudged,
    /// Beyond a limit, and not because of others.
    Failed,
}

impl Judgement {
    /// The judgement of a check, with or without an excuse.
    pub(crate) fn new(as_it_must: bool, excused: bool) -> Judgement {
        match (as_it_must, excused) {
            (true, _) => Judgement::Passed,
            (false, true) => Judgement::NotJudged,
            (false, false) => Judgement::Failed,
        }
    }
}
