//! An agent's configuration, and the errors that keep it from starting.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use engine::host::check::Check;
use engine::plan::PlanError;
use engine::run;
use engine::sys::placement;
use engine::sys::units::CoreList;
use tempfile::NamedTempFile;

use crate::admission::Admission;
use crate::key::{Key, KeyError, require_key};
use crate::listener::ListenError;

/// The port that an agent listens on if its operator names none.
pub const PORT: u16 = 7070;

/// The configuration of an agent, set by its operator.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Its listening address.
    pub listen: SocketAddr,
    /// The key shared with its controllers.
    pub key: Option<Key>,
    /// The limits of its load.
    pub admission: Admission,
    /// The cores of its shards; `None` for a run's default.
    pub cores: Option<CoreList>,
    /// The addresses that its shards connect from; empty for the kernel's choice.
    pub source_addresses: Vec<IpAddr>,
    /// The folder for reports that no controller collected. Created if missing.
    pub state_dir: PathBuf,
    /// True if it ends after one run.
    pub once: bool,
}

/// Why an agent can't be started.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Others could reach it, and it has no key.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// Its cores or source addresses aren't this machine's.
    #[error("{0}")]
    Placement(PlanError),
    /// Its folder isn't writable.
    #[error("--state-dir {}: can't be written ({error}); name another folder", folder.display())]
    StateDir {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The machine lacks what every run needs.
    #[error("{0}")]
    Host(Check),
    /// It can't listen.
    #[error("{0}")]
    Listen(#[from] ListenError),
    /// A thread was refused.
    #[error("threads: refused ({0}); run `truetail doctor`")]
    Thread(io::Error),
}

impl AgentConfig {
    /// Checks everything that a later run would fail on.
    ///
    /// # Errors
    /// The first value that can't be used here.
    pub(super) fn check(&self) -> Result<(), AgentError> {
        require_key(self.listen, self.key.as_ref())?;
        let allowed = placement::allowed_cores();
        let cores = self.cores.as_ref().map_or(&[][..], CoreList::as_slice);
        if let Some(core) = cores.iter().find(|core| !allowed.contains(core)) {
            return Err(AgentError::Placement(PlanError::new(
                "--cores",
                CoreList::new(cores.to_vec()),
                format!("core {core} is not available to this process"),
                format!("choose from {}", CoreList::new(allowed)),
            )));
        }
        run::check_sources(&self.source_addresses).map_err(AgentError::Placement)?;
        let refused = |error| AgentError::StateDir { folder: self.state_dir.clone(), error };
        std::fs::create_dir_all(&self.state_dir).map_err(refused)?;
        NamedTempFile::new_in(&self.state_dir).map(drop).map_err(refused)
    }
}
