//! Whether a run can be trusted: a pure function of its report.
//!
//! The level is that of the worst reason. A **reason** is an effect on a number of the report, as
//! it was measured, or what may hide one from being measured. What only causes such effects is a
//! **note**, listed below the effect that it may explain: a generator may have waited for its core
//! without any number being wrong. On a virtual machine a pool grows, a core is shared and some
//! requests are late in nearly every run, most often beside 0.0 % added at p99, and a warning that
//! is always there stops being read. What can hide an effect stays a reason: time that the
//! hypervisor took, in which the kernel's stamps come late too, a wall clock that was set, and the
//! program's stamps.
//!
//! Both come from one closed list; each gives its evidence, what it means for the numbers, and the
//! cure. The thresholds that a plan may change are in one table, [`plan::thresholds::Thresholds`];
//! what no plan may change is a constant beside the rule that uses it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a run can be trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The level of the worst reason; valid if there is none.
    pub level: Level,
    /// Why the run isn't valid, the worst reason first.
    pub reasons: Vec<Reason>,
    /// What may have caused that, the gravest first; without an effect, what shows in no number.
    #[serde(default)]
    pub notes: Vec<Reason>,
}

impl Verdict {
    /// That of a run against which nothing speaks.
    pub fn valid() -> Verdict {
        Verdict { level: Level::Valid, reasons: Vec::new(), notes: Vec::new() }
    }

    /// Whatever was found: the reasons, then the notes.
    pub fn found(&self) -> impl Iterator<Item = &Reason> {
        self.reasons.iter().chain(&self.notes)
    }
}

/// How far the numbers can be trusted.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing speaks against them.
    Valid,
    /// They may be off; the reasons say which and how.
    Suspect,
    /// The numbers don't mean what they seem to mean.
    Invalid,
}

/// What a reason is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The load sent was not the load planned.
    RateMissed,
    /// No request was sent at all.
    NothingSent,
    /// The generator stood still.
    GeneratorLate,
    /// Latencies contain the time that responses waited for the generator.
    ReceiveLate,
    /// The generator's own part of the latencies is large at a percentile, or unknown.
    ClientShare,
    /// The wall clock was set, which the kernel's stamps are of.
    ClockStepped,
    /// Responses were stamped before their requests were sent, or after they were handled.
    StampsClamped,
    /// A shard's core had no time to spare.
    CoreSaturated,
    /// The load came near the most that the generator can offer here, as it was calibrated.
    NearCeiling,
    /// The latency is what the generator shows here of a target that costs nothing.
    BelowFloor,
    /// Users of a closed loop waited for the generator, which held the throughput down.
    GeneratorBound,
    /// Arrivals waited because every allowed connection was busy.
    CapReached,
    /// Users spent half of the window or more on what brought no answer.
    Starved,
    /// A closed loop leaves out the requests that independent users would have sent.
    ClosedLoop,
    /// Setup ended before the pool of connections had settled.
    NotSettled,
    /// The pool of connections grew under measurement.
    PoolGrew,
    /// Bytes came that no request asked for.
    Unsolicited,
    /// Pipelined answers may have been counted for other requests than their own.
    Mispaired,
    /// Receives found no free buffer.
    BuffersExhausted,
    /// Requests were not sent in the pattern of the schedule.
    ScheduleNotAsPlanned,
    /// Requests were lost or counted twice.
    LittlesLaw,
    /// The end of the run was unlike its start.
    NotStationary,
    /// The percentile to be reported has too few samples.
    TooFewSamples,
    /// This machine ran out of ports, files or memory.
    LocalResource,
    /// The hypervisor gave the shards' cores to others.
    CpuStolen,
    /// Other processes used the shards' cores.
    CpuContended,
    /// A shard shared its physical core with a busy sibling, or its core with the interface's
    /// interrupts.
    CoreShared,
    /// A CPU quota throttled the generator.
    CpuThrottled,
    /// Raw samples are missing.
    RawSamplesLost,
    /// The run was profiled, which costs processor time.
    Profiled,
    /// The run was stopped early.
    Interrupted,
    /// An agent was lost, and its part of the load with it.
    AgentLost,
    /// The latencies of the agents differ.
    AgentsDiffer,
    /// The agents' loads lay apart in time.
    StartSkew,
    /// Many requests had no good answer: errors and unexpected statuses.
    Errors,
}

/// Whose doing a reason is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Others on the machine had processor time that the generator needed: the hypervisor, other
    /// processes, whoever set a quota.
    Others,
    /// The generator had too little processor time, whether others or its own load took it.
    ShortOfTime,
    /// Something else about the generator and its machine.
    Generator,
    /// What the target answered, or that it didn't: no lack of processor time explains that.
    Answers,
    /// The plan, the target or the network, or how long the run was.
    Elsewhere,
}

impl fmt::Display for Code {
    /// As the document spells it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What a reason speaks against; the rest of the report can be trusted as far as it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// Percentiles and all other latencies.
    Latency,
    /// Latencies from p99.9 up, which rest on few requests.
    Tail,
    /// Answers per second.
    Throughput,
    /// How many requests were offered, and in which pattern.
    Arrivals,
    /// The file of raw samples.
    Samples,
}

impl Topic {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Topic; 5] =
        [Topic::Throughput, Topic::Latency, Topic::Tail, Topic::Arrivals, Topic::Samples];

    /// Whether what speaks against this speaks against another.
    pub fn is_of(self, other: Topic) -> bool {
        self == other || self == Topic::Tail && other == Topic::Latency
    }
}

/// What the figure of a reason is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A part of a whole: 0.01 for 1 %.
    Share,
    /// How many times as much one is as the other.
    Ratio,
    /// How many.
    Count,
    /// The greatest difference between two distribution functions, 0 to 1.
    KsDistance,
    /// Microseconds.
    Us,
    /// Seconds.
    S,
}

/// One reason why a run isn't simply valid, or a note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// What it is about.
    pub code: Code,
    /// Which agent it is of; `None` of the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How bad it is; of a note, how grave the cause would be if it showed in a number.
    pub level: Level,
    /// What it speaks against; of a note, what it could.
    pub touches: Vec<Topic>,
    /// The figure and its threshold, in words.
    pub evidence: String,
    /// The figure.
    pub figure: f64,
    /// The threshold that it crossed.
    pub threshold: f64,
    /// What both are in.
    pub unit: Unit,
    /// What it means for the numbers.
    pub meaning: String,
    /// What to do about it.
    pub cure: String,
}
