//! Whether a run can be trusted: a pure function of its report.
//!
//! The level is that of the worst reason. A **reason** is a measured effect on a number of the
//! report, or something that may hide one. A mere cause of such effects is a **note**, listed below
//! the effect that it may explain: a generator may have waited for its core without any number
//! being wrong. On a virtual machine a pool grows, a core is shared and some requests are late in
//! nearly every run, most often with 0.0 % added at p99, and a warning that is always there stops
//! being read. What can hide an effect stays a reason: time that the hypervisor took, in which the
//! kernel's stamps are late too, a step of the wall clock, and the program's stamps.
//!
//! Both come from one closed list; each gives its evidence, its meaning for the numbers, and the
//! cure. The thresholds that a plan may change are in one table, [`plan::thresholds::Thresholds`];
//! the others are constants beside the rules that use them.

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
    /// The possible causes, worst first; without an effect, causes that show in no number.
    #[serde(default)]
    pub notes: Vec<Reason>,
}

impl Verdict {
    /// The verdict of a run without reasons.
    pub fn valid() -> Verdict {
        Verdict { level: Level::Valid, reasons: Vec::new(), notes: Vec::new() }
    }

    /// All findings: the reasons, then the notes.
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
    /// No reason was found.
    Valid,
    /// They may be off; the reasons name which and how.
    Suspect,
    /// The numbers don't mean what they seem to mean.
    Invalid,
}

/// The subject of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The load sent was not the load planned.
    RateMissed,
    /// No request was sent at all.
    NothingSent,
    /// The generator stalled.
    GeneratorLate,
    /// Latencies contain the time that responses waited for the generator.
    ReceiveLate,
    /// The generator's own part of the latencies is large at a percentile, or unknown.
    ClientShare,
    /// The wall clock, which the kernel's stamps follow, was set.
    ClockStepped,
    /// Responses were stamped before their requests were sent, or after they were handled.
    StampsClamped,
    /// A shard's core had no time to spare.
    CoreSaturated,
    /// The load came near the calibrated capacity of the generator on this machine.
    NearCeiling,
    /// The latency is no more than the generator's own with a target that costs nothing.
    BelowFloor,
    /// Users of a closed loop waited for the generator, which limited the throughput.
    GeneratorBound,
    /// Arrivals waited because every allowed connection was busy.
    CapReached,
    /// Users spent half of the window or more without result.
    Starved,
    /// A closed loop leaves out the requests that independent users would have sent.
    ClosedLoop,
    /// Setup ended before the pool of connections had settled.
    NotSettled,
    /// The pool of connections grew during the measurement.
    PoolGrew,
    /// Bytes came that no request asked for.
    Unsolicited,
    /// Pipelined answers may have been counted for other requests than their own.
    Mispaired,
    /// Many requests had to go to another stream, since the target hadn't processed them.
    Requeued,
    /// Receives found no free buffer.
    BuffersExhausted,
    /// Requests were not sent in the pattern of the schedule.
    ScheduleNotAsPlanned,
    /// The scenarios were not requested as they weigh.
    MixNotAsPlanned,
    /// Requests were lost or counted twice.
    LittlesLaw,
    /// Latency at the end of the run differed from the start.
    NotStationary,
    /// Too few samples for the percentile to report.
    TooFewSamples,
    /// This machine ran out of ports, files or memory.
    LocalResource,
    /// The hypervisor gave the shards' cores to other guests.
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
    /// The run was profiled, which costs CPU time.
    Profiled,
    /// The run was stopped early.
    Interrupted,
    /// An agent was lost, and its part of the load with it.
    AgentLost,
    /// The latencies of the agents differ.
    AgentsDiffer,
    /// The agents' loads were apart in time.
    StartSkew,
    /// Many requests had no good answer: errors and unexpected statuses.
    Errors,
}

/// Where the cause of a reason lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Others on the machine had CPU time that the generator needed: the hypervisor, other
    /// processes, a quota.
    Others,
    /// The generator had too little CPU time, whether others or its own load took it.
    ShortOfTime,
    /// Something else about the generator and its machine.
    Generator,
    /// The target's answers, or their absence: no lack of CPU time explains that.
    Answers,
    /// The plan, the target, the network, or the length of the run.
    Elsewhere,
}

impl fmt::Display for Code {
    /// As in the document.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What a reason casts doubt on; the rest of the report can be trusted as far as it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    /// Percentiles and all other latencies.
    Latency,
    /// Latencies from p99.9 up, which depend on few requests.
    Tail,
    /// Answers per second.
    Throughput,
    /// The number of requests offered, and their pattern.
    Arrivals,
    /// The file of raw samples.
    Samples,
}

impl Topic {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Topic; 5] =
        [Topic::Throughput, Topic::Latency, Topic::Tail, Topic::Arrivals, Topic::Samples];

    /// True if doubt about this is doubt about the other.
    pub fn is_of(self, other: Topic) -> bool {
        self == other || self == Topic::Tail && other == Topic::Latency
    }
}

/// The unit of a reason's figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A part of a whole: 0.01 for 1 %.
    Share,
    /// The ratio of two values.
    Ratio,
    /// A number of things.
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
    /// Its subject.
    pub code: Code,
    /// The agent that it concerns; `None` for the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How bad it is; for a note, how bad the cause would be if it showed in a number.
    pub level: Level,
    /// What it casts doubt on; for a note, what it could.
    pub touches: Vec<Topic>,
    /// The figure and its threshold, in words.
    pub evidence: String,
    /// The figure.
    pub figure: f64,
    /// The threshold that it exceeded.
    pub threshold: f64,
    /// The unit of both.
    pub unit: Unit,
    /// The consequence for the numbers.
    pub meaning: String,
    /// What to do about it.
    pub cure: String,
}
