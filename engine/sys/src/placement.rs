//! CPU placement: which cores this process may use, by its affinity mask and the cores online.

use std::{fs, io};

use rustix::thread::{CpuSet, sched_setaffinity};
use units::CoreList;

use crate::topology::Topology;

/// The cores that this process may use, in ascending order; never empty.
///
/// The mask already reflects a container's cpuset. The kernel lets a thread leave the mask that it
/// was started with, so it has to be checked here.
pub fn allowed_cores() -> Vec<usize> {
    let mask = core_affinity::get_core_ids().unwrap_or_default();
    let mut cores: Vec<usize> = mask.into_iter().map(|core| core.id).collect();
    if let Ok(online) = listed_online() {
        cores.retain(|core| online.contains(core));
    }
    let cores = CoreList::new(cores);
    assert!(!cores.is_empty(), "this thread is running on a core, so the mask has one");
    cores.as_slice().to_vec()
}

/// The online cores, as listed by the kernel's topology; without it, the allowed ones.
pub fn online_cores() -> Vec<usize> {
    listed_online().unwrap_or_else(|_| allowed_cores())
}

/// The online cores, as listed by the kernel's topology.
///
/// # Errors
/// It can't be read.
pub fn listed_online() -> io::Result<Vec<usize>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let cores = text.trim().parse::<CoreList>().map_err(io::Error::other)?;
    Ok(cores.as_slice().to_vec())
}

/// Moves this thread to any of these cores.
///
/// # Errors
/// The kernel refuses, and the thread stays where it is.
pub fn move_to(cores: impl IntoIterator<Item = usize>) -> io::Result<()> {
    let mut set = CpuSet::new();
    cores.into_iter().for_each(|core| set.set(core));
    Ok(sched_setaffinity(None, &set)?)
}

/// An allowed core on which a thread disturbs none of the shards on these cores; `None` if every
/// allowed core has a shard.
pub fn core_away_from(shards: &[usize]) -> Option<usize> {
    let cores = Topology::here().cores_away_from(shards, allowed_cores());
    cores.into_iter().find(|core| !shards.contains(core))
}

/// Moves this thread off the shards' cores, so that it never preempts a shard, and off their
/// siblings, so that it never slows one down. If no other core is allowed, they are shared.
pub fn leave_cores(busy_cores: &[usize]) {
    // A refusal costs accuracy at worst, and the report shows a disturbed shard.
    let _ = move_to(Topology::here().cores_away_from(busy_cores, allowed_cores()));
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_core_under_this_test_is_allowed() {
        let allowed = super::allowed_cores();
        let running_on = rustix::thread::sched_getcpu();
        assert!(allowed.contains(&running_on), "{running_on} is not in {allowed:?}");
    }
}
