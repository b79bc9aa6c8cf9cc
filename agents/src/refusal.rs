//! Why one side doesn't do what the other asks: what the peer is told, and what its user reads.

use engine::shard::DRAIN_INTERRUPTED_NS;
use engine::sys::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::key::KEY_VARIABLE;
use crate::lease::SILENCE_MAX_NS;
use crate::message::Versions;

/// Why something isn't done, in the words of the side that refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// What came isn't a frame that may come.
    #[error("protocol: {0}")]
    Frame(String),
    /// The sides aren't of the same version.
    #[error(
        "versions differ: {}; install the same version of truetail on both",
        differences(.here, .there)
    )]
    Versions {
        /// Of the side that refuses.
        here: Versions,
        /// Of the side that is refused.
        there: Versions,
    },
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
    /// The session's frames were repeated, reordered or altered.
    #[error("the session has ended: {0}")]
    Tampered(String),
    /// So many others are still unauthenticated and newer, or have a session.
    #[error("{0} other connections are served; try again")]
    Crowded(usize),
    /// The peer wasn't authenticated in time.
    #[error("not authenticated within {0}; check the network between the two machines")]
    TooSlow(Nanos),
    /// The agent works for another controller.
    #[error(
        "{holder} has held the agent for {length}; wait until that run has ended, {} at most if \
         its controller is gone",
        Nanos(SILENCE_MAX_NS + DRAIN_INTERRUPTED_NS)
    )]
    Held {
        /// The other controller's name.
        holder: String,
        /// For how long, in whole seconds.
        length: Nanos,
    },
    /// The plan isn't one that the agent runs: flag, value and cure.
    #[error("{0}")]
    Plan(String),
    /// This machine can't run the plan: cause and cure.
    #[error("{0}")]
    Run(String),
    /// The start's moment has passed, or is too far ahead: cause and cure.
    #[error("{0}")]
    Start(String),
    /// The agent heard no heartbeat and has stopped the run.
    #[error("the run was stopped: no heartbeat came for {0}")]
    LeaseLost(Nanos),
    /// The agent read no heartbeat since it read nothing at all, and has stopped the run.
    #[error(
        "the run was stopped: the agent stood still for {0}, so it read no heartbeat; give it a \
         core that nobody else uses"
    )]
    StoodStill(Nanos),
    /// The session said nothing at all.
    #[error("nothing was heard for {0}; connect again")]
    Idle(Nanos),
    /// The agent was told to end, or was to serve one run only.
    #[error("the agent is ending; start it again")]
    Ending,
    /// The message doesn't belong here.
    #[error("{0} is out of turn")]
    OutOfTurn(String),
    /// The target can't be reached from this machine: cause and cure.
    #[error("{0}")]
    Target(String),
}

/// The versions that differ, in one line.
fn differences(here: &Versions, there: &Versions) -> String {
    let pairs = [
        ("truetail", here.truetail.clone(), there.truetail.clone()),
        ("protocol", here.protocol.to_string(), there.protocol.to_string()),
        ("schedule", here.schedule.to_string(), there.schedule.to_string()),
        ("report", here.report.to_string(), there.report.to_string()),
    ];
    let differing = pairs.iter().filter(|(_, here, there)| here != there);
    let lines: Vec<String> =
        differing.map(|(what, here, there)| format!("{what} {here} here, {there} there")).collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_differ_are_named_and_others_are_not() {
        let here = Versions::here();
        assert_eq!(here.check(&here), Ok(()));
        let there =
            Versions { truetail: "9.9.9".to_owned(), schedule: here.schedule + 1, ..here.clone() };
        let refusal = here.check(&there).expect_err("they differ");
        let Versions { truetail, schedule, .. } = here;
        assert_eq!(
            refusal.to_string(),
            format!(
                "versions differ: truetail {truetail} here, 9.9.9 there; schedule {schedule} here, \
                 {} there; install the same version of truetail on both",
                schedule + 1
            )
        );
    }
}
