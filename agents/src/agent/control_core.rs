//! The core of the control plane: one that carries no shard, where there is one, and otherwise the
//! last of those that do.
//!
//! The report names it (`environment.control_core`). Threads inherit their cores, so the run's
//! thread isn't started from there.

use engine::host::check::Severity;
use engine::sys::placement;
use engine::sys::topology::{Attachment, Topology};

use crate::message::Finding;

/// The core for the control plane of an agent whose shards run on these cores, or by default on
/// those of a run: one without a shard, or else the last of theirs, with a finding that controllers
/// are shown.
pub(super) fn choose(shards: Option<&[usize]>) -> (usize, Option<Finding>) {
    let allowed = placement::allowed_cores();
    let default = Topology::here().default_cores(&allowed, &Attachment::default());
    let shards = shards.unwrap_or(&default);
    match placement::core_away_from(shards) {
        Some(free) => (free, None),
        None => {
            let last = *shards.last().expect("a run has a shard");
            (last, Some(shared(last)))
        }
    }
}

fn shared(core: usize) -> Finding {
    Finding {
        severity: Severity::Warning,
        text: format!(
            "control core: core {core} carries a shard too; what the agent says may delay its \
             requests; leave an allowed core out of --cores"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_without_a_shard_is_taken_or_else_the_last_one() {
        let allowed = placement::allowed_cores();
        let (first, last) = (allowed[0], allowed[allowed.len() - 1]);
        assert_eq!(choose(Some(&allowed)), (last, Some(shared(last))), "all carry a shard");
        let default = Topology::here().default_cores(&allowed, &Attachment::default());
        let (core, found) = choose(None);
        assert_eq!(default.contains(&core), found.is_some());
        if first != last {
            assert_eq!(choose(Some(&allowed[1..])), (first, None));
            assert_ne!(choose(Some(&[first])).0, first);
        }
    }
}
