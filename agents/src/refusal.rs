//! Why one side refuses a request of the other: text for the peer and its user.

use engine::sys::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::key::KEY_VARIABLE;
use crate::lease::HeldBy;
use crate::run_id::RunId;
use crate::versions::VersionsDiffer;

/// The reason for a refusal, in the words of the side that refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The bytes aren't a frame that is allowed.
    #[error("protocol: {0}")]
    Frame(String),
    /// The sides don't understand each other.
    #[error(transparent)]
    Versions(#[from] VersionsDiffer),
    /// The refused side has no key.
    #[error("--key-file: this side has a key and yours has none; give both the same")]
    KeyNeeded,
    /// The refusing side has no key.
    #[error(
        "--key-file: this side has no key and yours has one; give it the same, by --key-file or \
         the environment's {KEY_VARIABLE}"
    )]
    KeyUnknown,
    /// The refused side has another key.
    #[error("--key-file: the keys differ; give both sides the same")]
    WrongKey,
    /// The session's records were repeated, reordered or altered.
    #[error("the session has ended: {0}")]
    Tampered(String),
    /// This many others are still unauthenticated and newer, or have a session.
    #[error("{0} other connections are served; try again")]
    Crowded(usize),
    /// The peer wasn't authenticated in time.
    #[error("not authenticated within {0}; check the network between the two machines")]
    TooSlow(Nanos),
    /// The agent works for another controller.
    #[error(transparent)]
    Held(#[from] HeldBy),
    /// The agent doesn't run this plan: flag, value and cure.
    #[error("{0}")]
    Plan(String),
    /// This machine can't run the plan: cause and cure.
    #[error("{0}")]
    Run(String),
    /// A file of the plan is too large or arrives otherwise than announced: cause and cure.
    #[error("{0}")]
    Attachment(String),
    /// The start's moment has passed, or is too far ahead: cause and cure.
    #[error("{0}")]
    Start(String),
    /// The agent heard no heartbeat and has stopped the run.
    #[error("the run was stopped: no heartbeat came for {0}")]
    LeaseLost(Nanos),
    /// The agent stalled, read no heartbeat, and has stopped the run.
    #[error(
        "the run was stopped: the agent stood still for {0}, so it read no heartbeat; give it a \
         core that nothing else uses"
    )]
    StoodStill(Nanos),
    /// The session was silent.
    #[error("nothing was heard for {0}; connect again")]
    Idle(Nanos),
    /// The agent was asked to end, or was to serve one run only.
    #[error("the agent is ending; start it again")]
    Ending,
    /// The message isn't allowed at this point.
    #[error("{0} is out of turn")]
    OutOfTurn(String),
    /// No results of the run are here.
    #[error(
        "it keeps no results of run {0}: they were collected, were lost with the agent, are in \
         another --state-dir or of another port, or the run's name is another one"
    )]
    NotKept(RunId),
    /// The target can't be reached from this machine: cause and cure.
    #[error("{0}")]
    Target(String),
}
