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

/// The common part of all series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Version of the document, [`SCHEMA`].
    pub schema: u32,
    /// True if it ended early: by a signal, or because a run failed.
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
    /// The interrupted step, with its results until then: not part of the answer.
    pub unfinished: Option<Step>,
}

/// The result of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepDocument {
    /// Where the target stops keeping up.
    pub knee: Knee,
    /// True if each rate was offered, and everything was done to narrow the knee.
    pub complete: bool,
    /// The parameters.
    pub sweep: SweepPlan,
    /// The steps.
    #[serde(flatten)]
    pub made: Made,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchDocument {
    /// The answer.
    #[serde(flatten)]
    pub bracket: Bracket,
    /// The bound, from the step at `failed`; `None` if no step failed, or if it is unknown.
    pub ended_by: Option<Side>,
    /// The objectives, including the implied one.
    pub slo: String,
    /// The parameters.
    pub search: SearchPlan,
    /// The steps.
    #[serde(flatten)]
    pub made: Made,
}

/// The result of the search for a ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CeilingDocument {
    /// The answer, with its bound and its proof.
    #[serde(flatten)]
    pub answer: Answer,
    /// The parameters.
    pub ceiling: CeilingPlan,
    /// The profile at the rate that passed, from a run of its own; `None` without one.
    pub profile: Option<Profile>,
    /// The steps of the search.
    #[serde(flatten)]
    pub made: Made,
}
