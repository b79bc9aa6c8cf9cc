//! Whether a run can be trusted: a pure function of its report.
//!
//! The level is that of the worst reason. A reason comes from a closed list, and each says its evidence, what it means for
//! the numbers, and the cure. All bounds stand in one table, [`crate::plan::thresholds::Thresholds`], which a plan may change.

use serde::{Deserialize, Serialize};

/// Whether a run can be trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The level of the worst reason; valid when there is none.
    pub level: Level,
    /// Why it isn't valid, the worst first.
    pub reasons: Vec<Reason>,
}

/// How far numbers can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing speaks against them.
    Valid,
    /// They may be off; the reasons say which and how.
    Suspect,
    /// They don't say what they seem to say.
    Invalid,
}

/// What a reason is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The load offered was not the load planned.
    RateMissed,
    /// The generator itself was late.
    GeneratorLate,
    /// A shard had no time left.
    CoreSaturated,
    /// Arrivals waited because no further connection was allowed.
    CapReached,
    /// The sends were not distributed as the schedule says.
    ScheduleNotAsPlanned,
    /// Requests were lost or counted twice.
    LittlesLaw,
    /// The run's end was not like its beginning.
    NotStationary,
    /// A percentile asked for has too few samples.
    TooFewSamples,
    /// This machine ran out of something.
    LocalResource,
    /// Others used the shards' cores.
    CpuStolen,
    /// The control group's quota held the generator back.
    CpuThrottled,
    /// Raw samples are missing.
    RawSamplesLost,
    /// The run was ended early.
    Interrupted,
    /// Many requests had no good answer.
    Errors,
}

/// One reason why a run isn't simply valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// What it is about.
    pub code: Code,
    /// How bad it is.
    pub level: Level,
    /// The figure and its bound, in words.
    pub evidence: String,
    /// The figure.
    pub figure: f64,
    /// The bound that it crossed.
    pub threshold: f64,
    /// What it means for the numbers.
    pub meaning: String,
    /// What to do about it.
    pub cure: String,
}
