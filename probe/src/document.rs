//! The documents of a sweep, of a search and of a ceiling.

use engine::plan::Plan;
use engine::report::environment::Environment;
use engine::report::profile::Profile;
use engine::sys::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::blame::Side;
use crate::ceiling::{Answer, CeilingPlan};
use crate::knee::Knee;
use crate::search::{Bracket, SearchPlan};
use crate::step::Step;
use crate::sweep::SweepPlan;

/// Version of the documents.
pub const SCHEMA: u32 = 7;

/// What every series has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Version of the document, [`SCHEMA`].
    pub schema: u32,
    /// Whether it ended before it was done: by a signal, or because a run failed.
    pub interrupted: bool,
    /// Why a run failed, if one did.
    pub error: Option<String>,
    /// The plan of the first step, as its report shows it; `None` without a step.
    pub plan: Option<Plan>,
    /// Where it ran; `None` without a step.
    pub environment: Option<Environment>,
    /// Rest between two steps.
    pub cooldown: Nanos,
    /// Each step, in the order in which they were made.
    pub steps: Vec<Step>,
    /// The step that was interrupted, with what was recorded until then: no part of the answer.
    pub unfinished: Option<Step>,
}

/// What a sweep found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepDocument {
    /// Where the target stops keeping up.
    pub knee: Knee,
    /// Whether each rate was offered, and all was done that narrows the knee.
    pub complete: bool,
    /// What was asked for.
    pub sweep: SweepPlan,
    /// The steps.
    #[serde(flatten)]
    pub made: Made,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchDocument {
    /// The answer.
    #[serde(flatten)]
    pub bracket: Bracket,
    /// What ended it, by the step at `failed`; `None` if no step failed, or if it isn't known.
    pub ended_by: Option<Side>,
    /// The objectives, with what was implied.
    pub slo: String,
    /// What was asked for.
    pub search: SearchPlan,
    /// The steps.
    #[serde(flatten)]
    pub made: Made,
}

/// What the search for a ceiling found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CeilingDocument {
    /// The answer, with its bound and its proof.
    #[serde(flatten)]
    pub answer: Answer,
    /// What was asked for.
    pub ceiling: CeilingPlan,
    /// Where the processor time went at the rate that passed, in a run of its own; `None` without
    /// one.
    pub profile: Option<Profile>,
    /// The steps of the search.
    #[serde(flatten)]
    pub made: Made,
}
