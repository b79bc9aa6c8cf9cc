//! Events that an agent reports to its operator, a line each.
//!
//! Those of runs, and refusals of controllers, are the record of what ran here: none is dropped,
//! however slow their reader is. An agent whose record can't be taken begins no further run.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use engine::sys::units::CoreList;

use crate::run_id::RunId;

/// An event of interest to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The agent serves controllers.
    Listening {
        /// Its address, with the real port.
        address: SocketAddr,
        /// Whether a key is needed.
        has_key: bool,
        /// The core of its control plane.
        core: usize,
    },
    /// The key was replaced.
    KeyReplaced,
    /// The key's file has none.
    KeyStays {
        /// Why.
        problem: String,
    },
    /// A plan is permitted. Nothing of it was sent yet, except for a connection to its target.
    Accepted {
        /// The controller's name.
        holder: String,
        /// Its address.
        address: String,
        /// The run's name.
        run: RunId,
        /// How much of the load this agent offers, in percent.
        percent: String,
        /// The most that this demands of the agent.
        demand: String,
        /// Host and port of its target, or of each.
        target: String,
        /// The cores of its shards.
        cores: CoreList,
    },
    /// A run's load begins.
    Begun {
        /// The controller's name.
        holder: String,
    },
    /// A run is over, and its controller has the report.
    Collected {
        /// The controller's name.
        holder: String,
        /// Requests that were sent, those of setup and warm-up included.
        sent: u64,
        /// Of these, those that were answered.
        answered: u64,
    },
    /// A run is over, and its report is in a file, or a controller can still collect it, or both.
    Kept {
        /// The controller's name.
        holder: String,
        /// Requests that were sent, those of setup and warm-up included.
        sent: u64,
        /// Why the controller doesn't have it.
        why: String,
        /// The report, or why it couldn't be written.
        file: Result<PathBuf, String>,
        /// The run's name, by which a controller can still collect it, or why none can.
        run: Result<RunId, String>,
    },
    /// A later controller was sent what was kept of a run.
    Resumed {
        /// The controller's name, and its address.
        peer: String,
        /// The run's name.
        run: RunId,
    },
    /// A run is over, and its report is lost.
    NotKept {
        /// The controller's name.
        holder: String,
        /// Requests that were sent, those of setup and warm-up included.
        sent: u64,
        /// Why the controller doesn't have it.
        why: String,
        /// Why it couldn't be kept either.
        problem: String,
    },
    /// A run was called off before its load began.
    CalledOff {
        /// The controller's name.
        holder: String,
        /// The requests of its setup that are known to have been sent.
        sent: u64,
        /// Why.
        why: String,
    },
    /// A controller was refused.
    Refused {
        /// Its name, if it gave one, and its address.
        peer: String,
        /// The reason it was sent.
        why: String,
    },
    /// Connections got no session.
    Strangers {
        /// Where the last of them came from; `None` if it was gone at once.
        peer: Option<SocketAddr>,
        /// Why it got none.
        why: String,
        /// How many others there were since the last such line.
        others: u64,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Listening { address, has_key, core } => {
                let key = if *has_key { "controllers need the key" } else { "no key" };
                write!(f, "listening on {address} ({key}), control plane on core {core}")
            }
            Event::KeyReplaced => {
                f.write_str("--key-file: the key was replaced, and new sessions need the new one")
            }
            Event::KeyStays { problem } => write!(f, "{problem}; the last key stays in use"),
            Event::Accepted { holder, address, run, percent, demand, target, cores } => {
                write!(f, "run accepted for {holder} at {address}: {percent} % of the load, ")?;
                let noun = if cores.len() == 1 { "core" } else { "cores" };
                write!(f, "{demand}, to {target}, from {noun} {cores}, run {run}")
            }
            Event::Begun { holder } => write!(f, "run begun for {holder}"),
            Event::Collected { holder, sent, answered } => {
                write!(
                    f,
                    "run ended for {holder}: {sent} sent, {answered} answered, report collected"
                )
            }
            Event::Kept { holder, sent, why, file, run } => {
                write!(f, "run ended for {holder}: {why}; {sent} sent, ")?;
                match file {
                    Ok(file) => write!(f, "report kept in {}, ", file.display())?,
                    Err(problem) => write!(f, "no report written here ({problem}), ")?,
                }
                match run {
                    Ok(run) => write!(
                        f,
                        "an agent with this --state-dir and port gives it to `truetail controller \
                         --agents … --resume {run}`"
                    ),
                    Err(problem) => write!(f, "no controller can resume it ({problem})"),
                }
            }
            Event::Resumed { peer, run } => write!(f, "kept results of run {run} sent to {peer}"),
            Event::NotKept { holder, sent, why, problem } => {
                write!(f, "run ended for {holder}: {why}; {sent} sent, report lost ({problem})")
            }
            Event::CalledOff { holder, sent, why } => {
                write!(f, "run called off for {holder}: {why}")?;
                match sent {
                    0 => Ok(()),
                    sent => write!(f, "; at least {sent} sent in setup"),
                }
            }
            Event::Refused { peer, why } => write!(f, "refused {peer}: {why}"),
            Event::Strangers { peer, why, others } => {
                match others {
                    0 => write!(f, "refused a connection")?,
                    others => write!(f, "refused {} connections, the last one", others + 1)?,
                }
                peer.iter().try_for_each(|peer| write!(f, " from {peer}"))?;
                write!(f, ": {why}")
            }
        }
    }
}
