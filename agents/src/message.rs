//! The messages between controller and agent.
//!
//! ```text
//! controller                      agent
//!    Open ─────────────────────────►        with a key: the Noise handshake
//!    ◄──────────────────────── Accept
//!    Confirm ──────────────────────►        with a key alone; what follows is encrypted
//!    Hello ◄──────────────────► Hello       versions, machines
//!    Ping ─────────────────► ◄── Pong       16 and more, then one each second
//!    Prepare ──────────────► ◄─ Ready       the plan; connections, setup load
//!    ◄─ Wanted, Part ──────────────►        before that, files of the plan that the agent lacks
//!    Start ────────────────────────►        a moment on the agent's clock
//!    Heartbeat ────────────────────►        each second
//!    ◄────────────────────── Progress       every 250 ms
//!    Stop ─────────────────────────►        only to end it early
//!    Collect ──────► ◄── Shard, Report      once the run has ended
//!    Wanted ─────────────► ◄───── Part      its raw samples
//!    Bye ◄────────────────────────► Bye
//!
//!    Resume ─► ◄─ Kept, Shard, Report       of an earlier run, right after the hellos
//! ```
//!
//! A new message needs, besides its place here, its longest payload in `frame.rs`, its turn in
//! `agent/conversation.rs` and `controller/dialogue.rs`, an example in
//! `tests/suite/examples.rs`, and a new protocol in `versions.rs`.
//!
//! [`Message::Refused`] may replace any answer. Text and documents of the engine are JSON within
//! the payload: a format with names is readable across versions, and the engine's documents flatten
//! and omit fields, which bincode can't.

use engine::host::check::{Check, Severity};
use engine::load::replay::ReplayedLog;
use engine::load::share::Share;
use engine::plan::Plan;
use engine::record::shard_report::ShardReport;
use engine::report::collected::CollectedHead;
use engine::run::RunProgress;
use engine::sys::placement;
use rustix::system::uname;
use serde::{Deserialize, Serialize};

use crate::bytes::{Bytes, text};
use crate::codec;
use crate::json;
use crate::refusal::Refusal;
use crate::run_id::RunId;
use crate::versions::Versions;

/// A side of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that connects.
    Controller,
    /// The side that listens.
    Agent,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The controller's first frame, with its part of the handshake if it has a key.
    Open(Option<Bytes>),
    /// The agent's answer, with its part if it has a key.
    Accept(Option<Bytes>),
    /// The end of the handshake, which proves that the controller's part wasn't replayed.
    Confirm(Bytes),
    /// The reason for a refusal.
    Refused(#[serde(with = "json")] Refusal),
    /// The sender introduces itself; the controller first.
    Hello(#[serde(with = "json")] Hello),
    /// The controller asks for the agent's clock.
    Ping(Ping),
    /// The agent's clock.
    Pong(Pong),
    /// The controller is alive.
    Heartbeat,
    /// The plan and the agent's share of it.
    Prepare(Prepare),
    /// Asks for a part of a file: the agent of an attachment that it lacks, the controller of the
    /// agent's raw samples.
    Wanted(Wanted),
    /// That part.
    Part(Part),
    /// The agent has its connections and waits for the start.
    Ready(Ready),
    /// The moment of the start.
    Start(Start),
    /// The agent's work since its last frame of this type, and its present state.
    Progress(RunProgress),
    /// Send no more requests; responses are still awaited.
    Stop,
    /// Asks for the results.
    Collect,
    /// The agent's results.
    Report(Results),
    /// The results of one of its shards.
    Shard(ShardState),
    /// The end of the session.
    Bye,
    /// Asks for the results of an earlier run, which its controller didn't collect.
    Resume(RunId),
    /// What else is known of them, before they come as for [`Message::Collect`].
    Kept(KeptRun),
}

/// The identity of a side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its versions.
    pub versions: Versions,
    /// The build of the program.
    pub build: String,
    /// The name of this side for others, e.g. `ann@desk, process 4711`.
    pub name: String,
    /// The machine.
    pub host: HostFacts,
    /// The findings of `truetail doctor` there; empty from a controller.
    pub findings: Vec<Finding>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Its name.
    pub name: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Its architecture, e.g. `x86_64`.
    pub architecture: String,
    /// The number of cores that the program may use.
    pub cores: usize,
}

impl HostFacts {
    /// The facts of this machine.
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
    /// Its severity.
    pub severity: Severity,
    /// The finding, its cause and cure, in one line.
    pub text: String,
}

impl Hello {
    /// This side's introduction, by its name for others.
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

/// The plan and the agent's share of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// The part of the schedule that the agent owns.
    pub share: Share,
    /// True to keep raw samples.
    pub samples: bool,
    /// The files that the plan names.
    pub attachments: Vec<Attachment>,
    /// The run that this is part of.
    pub origin: Origin,
    /// The plan of the whole run.
    #[serde(with = "json")]
    pub plan: Box<Plan>,
}

/// What an agent keeps so that another controller can make the report of the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The run.
    pub run: RunId,
    /// All its agents.
    pub agents: Vec<AgentShare>,
}

/// An agent of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentShare {
    /// Its name, in the controller's words.
    #[serde(deserialize_with = "text")]
    pub name: String,
    /// Its share of the load.
    pub share: Share,
}

/// A run whose results an agent has kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptRun {
    /// The versions of the agent that kept them, which may have been replaced since.
    pub versions: Versions,
    /// The run.
    pub origin: Origin,
    /// The agent's share of it.
    pub share: Share,
    /// When its load began, ns since 1970.
    pub began_ns: u64,
    /// The log that it sent again.
    #[serde(with = "json")]
    pub replay: Option<ReplayedLog>,
}

/// A file that a plan names. The agent has it if it has one of this length and digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its name in the plan.
    #[serde(deserialize_with = "text")]
    pub name: String,
    /// Its length, bytes.
    pub length: u64,
    /// Its SHA-256.
    pub sha256: [u8; 32],
}

/// The largest attachment, bytes.
pub const ATTACHMENT_MAX: u64 = 64 << 20;
/// The length of every part of a file but the last, bytes.
pub const PART_BYTES: usize = 192 << 10;

/// Asks for a part of a file. Each is sent when it is asked for, so that heartbeats never wait
/// behind more than one, and no side sends what the other's disk has no time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The attachment's number in [`Prepare::attachments`]; 0 for the agent's raw samples.
    pub number: u32,
    /// The part's offset in the file, bytes.
    pub offset: u64,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The file's number, as in [`Wanted`].
    pub number: u32,
    /// Its offset in it, bytes.
    pub offset: u64,
    /// Its bytes.
    pub bytes: Bytes,
}

/// The agent has its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// True if their number had settled when setup load ended; `None` without setup load.
    pub settled: Option<bool>,
}

/// The moment of the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The run's epoch, ns of the agent's CLOCK_MONOTONIC.
    pub at_ns: u64,
}

/// The agent's results, except those of its shards, which come before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The run as the agent saw it.
    #[serde(with = "json")]
    pub head: Box<CollectedHead>,
    /// The number of its shards.
    pub shards: u32,
    /// The length of the file with its raw samples, bytes; 0 if it has none.
    pub samples_bytes: u64,
}

/// The results of one shard, from which the report of all agents is made. Decoding takes a while,
/// so it is separate from the frame's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardState(Bytes);

impl ShardState {
    /// Encodes a shard's results.
    pub fn new(report: &ShardReport) -> ShardState {
        ShardState(codec::encode(report).into())
    }

    /// Decodes the shard's results.
    ///
    /// # Errors
    /// The bytes aren't a shard's.
    pub fn report(&self) -> Result<ShardReport, MalformedShard> {
        codec::decode(self.0.as_slice()).map_err(|error| MalformedShard(error.to_string()))
    }

    /// Takes unchecked bytes.
    pub fn of_bytes(bytes: Vec<u8>) -> ShardState {
        ShardState(bytes.into())
    }
}

/// Bytes that aren't the state of a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not what a shard measured ({0})")]
pub struct MalformedShard(String);
