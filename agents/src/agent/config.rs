//! What an agent's operator decides, and why an agent doesn't start.

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

/// What an agent's operator decides.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The key that its controllers have.
    pub key: Option<Key>,
    /// What it may be made to do.
    pub admission: Admission,
    /// The cores of its shards; `None` for those that a run takes by default.
    pub cores: Option<CoreList>,
    /// Where its shards connect from; empty for the kernel's choice.
    pub source_addresses: Vec<IpAddr>,
    /// The folder of the reports that no controller collected. It is made if it isn't there.
    pub state_dir: PathBuf,
    /// Whether it ends after one run.
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
    /// Nothing can be kept in its folder.
    #[error("--state-dir {}: can't be written ({error}); name another folder", folder.display())]
    StateDir {
        /// The folder.
        folder: PathBuf,
        /// Why not.
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
    /// Checks what a later run would fail for.
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
