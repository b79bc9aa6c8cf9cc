//! Messages: what controller and agent send each other.
//!
//! ```text
//! controller                      agent
//!    Open ─────────────────────────►        with a key: the Noise handshake
//!    ◄──────────────────────── Accept
//!    Confirm ──────────────────────►        with a key alone; what follows is encrypted
//!    Hello ◄──────────────────► Hello       versions, machines
//!    Ping ─────────────────► ◄── Pong       16 and more, then one each second
//!    Prepare ──────────────► ◄─ Ready       the plan; connections, setup load
//!    Start ────────────────────────►        a moment on the agent's clock
//!    Heartbeat ────────────────────►        each second
//!    ◄────────────────────── Progress       every 250 ms
//!    Stop ─────────────────────────►        only to end it early
//!    Collect ─► ◄─ Samples, Shard, Report   once the run has ended
//!    Bye ◄────────────────────────► Bye
//! ```
//!
//! [`Message::Refused`] may stand in the place of any answer. What holds text or a document of the
//! engine is JSON within the payload: a format with names is readable across versions, and the
//! engine's documents flatten and omit fields, which bincode can't.

use engine::host::check::{Check, Severity};
use engine::load::share::Share;
use engine::plan::Plan;
use engine::record::shard_report::ShardReport;
use engine::report::collected::CollectedHead;
use engine::run::RunProgress;
use engine::sys::placement;
use rustix::system::uname;
use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::codec;
use crate::json;
use crate::refusal::Refusal;
use crate::versions::Versions;

/// Which side of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that connects.
    Controller,
    /// The one that listens.
    Agent,
}

/// What controller and agent say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The controller's first frame: its part of the handshake if it has a key.
    Open(Option<Bytes>),
    /// The agent's answer: its own part if it has one, too.
    Accept(Option<Bytes>),
    /// The end of the handshake, which shows that the controller's part was no recording.
    Confirm(Bytes),
    /// Why something isn't done.
    Refused(#[serde(with = "json")] Refusal),
    /// Who speaks; the controller first.
    Hello(#[serde(with = "json")] Hello),
    /// The controller asks for the agent's clock.
    Ping(Ping),
    /// The agent's clock.
    Pong(Pong),
    /// The controller is alive.
    Heartbeat,
    /// What to do.
    Prepare(Prepare),
    /// The agent has its connections and waits for the start.
    Ready(Ready),
    /// When to begin.
    Start(Start),
    /// What the agent has done since its last frame of this type, and how far it is now.
    Progress(RunProgress),
    /// Send nothing more; responses are still awaited.
    Stop,
    /// Report.
    Collect(Collect),
    /// What the agent measured.
    Report(Results),
    /// A part of the agent's raw samples.
    Samples(Samples),
    /// What one of its shards measured.
    Shard(ShardState),
    /// The end of the session.
    Bye,
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What must be the same on both sides.
    pub versions: Versions,
    /// Which build of the program.
    pub build: String,
    /// The name by which others are told of this side, e.g. `ann@desk, process 4711`.
    pub name: String,
    /// The machine.
    pub host: HostFacts,
    /// What `truetail doctor` finds there; empty from a controller.
    pub findings: Vec<Finding>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Its name.
    pub name: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Its kind of processor, e.g. `x86_64`.
    pub architecture: String,
    /// Cores that the program may use.
    pub cores: usize,
}

impl HostFacts {
    /// Those of this machine.
    pub fn here() -> HostFacts {
        let uname = uname();
        let (system, release) = (uname.sysname(), uname.release());
        HostFacts {
            name: uname.nodename().to_string_lossy().into_owned(),
            kernel: format!("{} {}", system.to_string_lossy(), release.to_string_lossy()),
            architecture: uname.machine().to_string_lossy().into_owned(),
            cores: placement::allowed_cores().len(),
        }
    }
}

/// A finding of `truetail doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How severe it is.
    pub severity: Severity,
    /// What was found, cause and cure, in one line.
    pub text: String,
}

impl Hello {
    /// This side's, by the name that others are told.
    pub fn here(name: String, findings: Vec<Finding>) -> Hello {
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let (versions, host) = (Versions::here(), HostFacts::here());
        Hello { versions, build: build.to_owned(), name, host, findings }
    }
}

impl From<&Check> for Finding {
    fn from(check: &Check) -> Finding {
        Finding { severity: check.severity, text: check.to_string() }
    }
}

/// Asks for the agent's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// When the controller sent it, ns of its CLOCK_MONOTONIC.
    pub sent_ns: u64,
}

/// The agent's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    /// When the controller sent the ping, ns of the controller's clock.
    pub sent_ns: u64,
    /// When the agent received it, ns of its CLOCK_MONOTONIC.
    pub received_ns: u64,
    /// When it answered, ns of its CLOCK_MONOTONIC.
    pub answered_ns: u64,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// The part of the schedule that the agent owns.
    pub share: Share,
    /// Whether it keeps raw samples.
    pub samples: bool,
    /// The plan of the whole run.
    #[serde(with = "json")]
    pub plan: Box<Plan>,
}

/// The agent has its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Whether their number had settled when setup load ended; `None` without setup load.
    pub settled: Option<bool>,
}

/// When to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The run's epoch, ns of the agent's CLOCK_MONOTONIC.
    pub at_ns: u64,
}

/// What the controller wants when the run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collect {
    /// Whether the raw samples come before the report.
    pub samples: bool,
}

/// What the agent measured, but for its shards, which come before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The run as the agent saw it.
    #[serde(with = "json")]
    pub head: Box<CollectedHead>,
    /// How many shards it has.
    pub shards: u32,
}

/// What one shard measured, from which the report of all agents is made. It is decoded apart from
/// its frame, since that takes a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardState(Bytes);

impl ShardState {
    /// That of a shard.
    pub fn new(report: &ShardReport) -> ShardState {
        ShardState(codec::encode(report).into())
    }

    /// What the shard measured.
    ///
    /// # Errors
    /// The bytes aren't a shard's.
    pub fn report(&self) -> Result<ShardReport, MalformedShard> {
        codec::decode(self.0.as_slice()).map_err(|error| MalformedShard(error.to_string()))
    }

    /// Bytes that aren't checked yet.
    pub fn of_bytes(bytes: Vec<u8>) -> ShardState {
        ShardState(bytes.into())
    }
}

/// Bytes that aren't the state of a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not what a shard measured ({0})")]
pub struct MalformedShard(String);

/// A part of the file with the agent's raw samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Where in the file it belongs, bytes.
    pub offset: u64,
    /// The part.
    pub bytes: Bytes,
    /// Whether the file ends with it.
    pub is_last: bool,
}
