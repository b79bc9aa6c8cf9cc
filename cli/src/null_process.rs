//! The null target as a process beside this one, and the cores of both.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use calibration::lab::END_WITH_PARENT;
use engine::sys::placement;
use engine::sys::topology::{Attachment, Topology};
use engine::sys::units::CoreList;

use crate::failure::Failure;

/// The generator's cores, by default those of a run, and those of the targets: all others except
/// siblings, as far as there are any.
///
/// # Errors
/// This process may not use a core.
pub(crate) fn cores_apart(wanted: Option<&CoreList>) -> Result<(Vec<usize>, Vec<usize>), Failure> {
    let allowed = placement::allowed_cores();
    let topology = Topology::here();
    let cores = match wanted {
        Some(wanted) => wanted.as_slice().to_vec(),
        None => topology.default_cores(&allowed, &Attachment::default()),
    };
    if let Some(core) = cores.iter().find(|core| !allowed.contains(core)) {
        return Err(Failure::Usage(format!(
            "--cores {core}: this process may not use that core; choose from {}",
            CoreList::new(allowed)
        )));
    }
    let others: Vec<usize> = allowed.iter().copied().filter(|core| !cores.contains(core)).collect();
    let is_apart = |core: &usize| !cores.iter().any(|ours| topology.are_siblings(*ours, *core));
    let apart: Vec<usize> = others.iter().copied().filter(is_apart).collect();
    let targets = [apart, others, allowed[..1].to_vec()].into_iter().find(|some| !some.is_empty());
    Ok((cores, targets.expect("the last has one")))
}

/// The null target in a process of its own, which ends when this is dropped, and with this process
/// however that ends.
pub(crate) struct NullTarget {
    child: Child,
    /// Its listening address.
    pub(crate) address: SocketAddr,
}

impl NullTarget {
    /// Starts it on these cores.
    ///
    /// # Errors
    /// It doesn't start.
    pub(crate) fn start(cores: &[usize]) -> Result<NullTarget, Failure> {
        let refuse = |problem: String| {
            Failure::CouldNotRun(format!(
                "the null target: {problem}; `truetail null-target` shows the cause"
            ))
        };
        let program = env::current_exe().map_err(|error| refuse(error.to_string()))?;
        let mut child = Command::new(program)
            .args(["null-target", END_WITH_PARENT, "--listen", "127.0.0.1:0"])
            .args(["--cores", &CoreList::new(cores.to_vec()).to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // A terminal's interrupt is for the current run, which needs its target to end.
            .process_group(0)
            .spawn()
            .map_err(|error| refuse(error.to_string()))?;
        let mut said = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        let read = BufReader::new(stdout).read_line(&mut said);
        let address = said.split(['/', ' ', '\n']).find_map(|word| word.parse().ok());
        // Dropping it ends the process, even without an address.
        let target = |address| NullTarget { child, address };
        match (read, address) {
            (Ok(_), Some(address)) => Ok(target(address)),
            (read, _) => {
                drop(target(SocketAddr::from(([0, 0, 0, 0], 0))));
                Err(refuse(read.err().map_or("it didn't start".to_owned(), |e| e.to_string())))
            }
        }
    }
}

impl Drop for NullTarget {
    fn drop(&mut self) {
        // It has nothing to save; a process that has already ended can't be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
