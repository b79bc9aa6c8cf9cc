//! Events that an agent reports to its operator, a line each.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use engine::sys::units::CoreList;

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
    /// A run's load begins.
    Begun {
        /// The controller's name.
        holder: String,
        /// Host and port of its target, or of each.
        target: String,
        /// How much of the load this agent offers, in percent.
        percent: String,
        /// The cores of its shards.
        cores: CoreList,
    },
    /// A run is over, and its controller has the report.
    Collected {
        /// The controller's name.
        holder: String,
        /// Requests that were answered.
        answered: u64,
    },
    /// A run is over, and its report is in a file.
    Kept {
        /// The controller's name.
        holder: String,
        /// Why the controller doesn't have it.
        why: String,
        /// The report.
        file: PathBuf,
    },
    /// A run is over, and its report is lost.
    NotKept {
        /// The controller's name.
        holder: String,
        /// Why the controller doesn't have it.
        why: String,
        /// Why it couldn't be kept either.
        problem: String,
    },
    /// A run was called off before its load began.
    CalledOff {
        /// The controller's name.
        holder: String,
        /// Why.
        why: String,
    },
    /// A controller was refused.
    Refused {
        /// Its name, or its address.
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
            Event::Begun { holder, target, percent, cores } => {
                write!(f, "run begun for {holder}: {percent} % of the load, to {target}, from ")?;
                let noun = if cores.len() == 1 { "core" } else { "cores" };
                write!(f, "{noun} {cores}")
            }
            Event::Collected { holder, answered } => {
                write!(f, "run ended for {holder}: {answered} answered, report collected")
            }
            Event::Kept { holder, why, file } => {
                let file = file.display();
                write!(f, "run ended for {holder}: {why}; report kept in {file}")
            }
            Event::NotKept { holder, why, problem } => {
                write!(f, "run ended for {holder}: {why}; report lost ({problem})")
            }
            Event::CalledOff { holder, why } => write!(f, "run called off for {holder}: {why}"),
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
