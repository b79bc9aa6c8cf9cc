//! Why an agent can't be used, or no longer.

use std::io;

use engine::sys::units::Nanos;

use crate::channel::ChannelError;
use crate::clock::{ClockError, NoSuchMoment};
use crate::frame::Kind;
use crate::lease::SILENCE_MAX_NS;
use crate::refusal::Refusal;
use crate::session::SessionError;

/// Why an agent can't be used: cause and cure, for the user.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Its name has no address.
    #[error("its name doesn't resolve ({0}); check --agents and the name server")]
    Unresolved(io::Error),
    /// The connection is not accepted.
    #[error("can't be reached ({0}); check that `truetail agent` listens there")]
    Unreachable(io::Error),
    /// There is no session, or it has ended.
    #[error("the session ended ({0})")]
    Session(SessionError),
    /// It refuses, or this side refuses its version.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// This controller already holds it.
    #[error(
        "it is an agent of this run already, by another address; name each agent once, and its \
         addresses of one IP version alone behind --agents-dns"
    )]
    Twice,
    /// Nothing came from it.
    #[error(
        "nothing came from it for {}; check its machine and the network",
        Nanos(SILENCE_MAX_NS)
    )]
    Silent,
    /// It is alive, but doesn't progress.
    #[error("{what} took longer than {limit}")]
    Slow {
        /// The step that it was at.
        what: &'static str,
        /// How long it may take.
        limit: Nanos,
    },
    /// Its operator ended it.
    #[error("its operator ended it during the run; start it again")]
    Ended,
    /// It has ended the session.
    #[error("it closed the connection before the run was over; see what it printed")]
    Left,
    /// A message that isn't allowed, or not now.
    #[error("protocol: {0} is out of turn")]
    OutOfTurn(Kind),
    /// A file that it asks for can't be read.
    #[error("{0}")]
    File(String),
    /// Its clock can't be read.
    #[error("its clock can't be read: {0}")]
    Clock(#[from] ClockError),
    /// The start is before its clock began.
    #[error("its clock can't be read: {0}")]
    Start(#[from] NoSuchMoment),
    /// Its results are malformed, or not those of the run.
    #[error("its results can't be used: {0}")]
    Results(String),
}

impl From<SessionError> for Fault {
    fn from(error: SessionError) -> Fault {
        match error {
            SessionError::Channel(ChannelError::Refused(refusal)) => Fault::Refused(refusal),
            other => Fault::Session(other),
        }
    }
}
