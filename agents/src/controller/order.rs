//! The input of a run on agents.

use engine::load::share::Share;
use engine::plan::Plan;
use engine::plan::body::SharedBody;

use super::address::AgentAddress;
use super::sample_file::SampleSink;
use crate::key::Key;

/// The most agents of one run.
pub const AGENTS_MAX: usize = 1_000;

/// What to do when an agent is lost while the load runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// Stop the others, and report what was measured.
    #[default]
    Abort,
    /// Go on with the others.
    Continue,
}

/// A run on agents.
pub struct Order {
    /// The agents, their shares and where their raw samples go.
    pub agents: Vec<Placed>,
    /// The key that the agents have.
    pub key: Option<Key>,
    /// The plan of all of them together.
    pub plan: Plan,
    /// Its files, as read for an earlier run or on first use.
    pub files: SharedBody,
    /// What to do when one is lost.
    pub on_loss: OnLoss,
    /// The name by which agents know this controller.
    pub name: String,
}

/// One agent of a run.
pub struct Placed {
    /// Where it is.
    pub address: AgentAddress,
    /// Its share of the load.
    pub share: Share,
    /// The file for its raw samples; `None` if none are wanted.
    pub samples: Option<SampleSink>,
}
